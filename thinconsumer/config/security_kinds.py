"""The kinds of option values for TLS and SASL: secrets, files, PEM text, URLs, protocol names and token providers.

No message of these kinds contains a secret. This module does not import ``ssl``, which takes 10 ms.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..support.lazy_dataclass import dataclass
from .kinds import HIDDEN, Choice, Kind, Text, did_you_mean, safe_repr, type_error
from .values import ASYNC_DEF, is_async

if TYPE_CHECKING:
    from urllib.parse import SplitResult

#: Maximum length of a PEM text: a bundle of all public certificate authorities takes a quarter of it.
PEM_CHARS_MAX = 2**20
URL_CHARS_MAX = 2048

KEYTOOL = (
    "convert it with: keytool -importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12, "
    "and name the new file"
)
_JKS = f"this format is Java's own; {KEYTOOL}"
#: The first bytes of key stores of the types JKS and JCEKS.
JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
STORE_TYPE = Choice(("PEM", "PKCS12"), dict.fromkeys(("JKS", "JCEKS", "BCFKS"), _JKS))

_OLD_TLS = "it is broken or deprecated (RFC 8996); brokers support TLSv1.2 since Kafka 0.9"
TLS_REFUSED = dict.fromkeys(("TLSv1.1", "TLSv1", "SSLv3", "SSLv2", "SSLv2Hello", "SSL"), _OLD_TLS)


class Secret(str):
    """A str that ``repr`` does not show, so that a logged list or a traceback with locals does not contain it.

    Everything else, such as ``encode`` or formatting, uses the text itself.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class SecretText(Text):
    """A password or another secret; becomes a :class:`Secret`. ``what`` names it in the docs."""

    may_be_empty: bool = False
    what: str = "password"

    is_secret = True

    def parse(self, value: object) -> Secret:
        text = Text.parse(self, value)
        if text[-1] in "\r\n":
            # A secret read from a file often ends with a line break: the login would fail without a visible reason.
            raise ValueError("ends with a line break: remove it, for example with .strip()")
        if "\0" in text:
            raise ValueError("must not contain NUL characters")
        return Secret(text)

    def from_text(self, text: str) -> object:
        return text.strip()  # As Java's client does.

    @property
    def description(self) -> str:
        return f"str, {self.what}; never shown"


@dataclass(frozen=True, slots=True)
class JaasText(SecretText):
    """One entry of a JAAS file, see :mod:`.jaas`; becomes a :class:`Secret`."""

    what: str = "entry of a JAAS file"

    def parse(self, value: object) -> Secret:
        from .jaas import login_of, parse_jaas  # on demand, since the import takes milliseconds

        text = SecretText.parse(self, value.rstrip("\r\n") if isinstance(value, str) else value)
        login_of(parse_jaas(text))
        return text


# Patterns are compiled by their first use, not by the import: most programs use none of them.
# The body of a block has no ``-----``: otherwise the search in a text of many BEGIN lines without END takes minutes.
_PEM_BLOCK = r"(?s)-----BEGIN ([A-Z0-9 ]{1,40})-----((?:(?!-----).)*)-----END \1-----"


@dataclass(frozen=True, slots=True)
class PemText(Kind):
    """PEM blocks as text; becomes a :class:`Secret`. One block's label must end with ``label``, such as PRIVATE KEY.

    Blocks that are written in a single line, as in a properties file, get the line breaks that OpenSSL needs.
    """

    label: str

    is_secret = True

    def parse(self, value: object) -> Secret:
        if not isinstance(value, str):
            raise type_error("a str", value)
        if len(value) > PEM_CHARS_MAX:
            raise ValueError(f"must be at most {PEM_CHARS_MAX} characters long")
        if "\n" not in value and "\\n" in value:
            raise ValueError("has the two characters \\ and n where line breaks belong: replace them by line breaks")
        text = re.sub(_PEM_BLOCK, _with_line_breaks, value)
        blocks = [match[1] for match in re.finditer(_PEM_BLOCK, text)]
        if not any(block.endswith(self.label) for block in blocks):
            path = "; for the path of a file, see the options that end in _location or file"
            raise ValueError(
                f"must have PEM text with -----BEGIN {self.label}----- and its end{'' if '-----' in value else path}"
            )
        return Secret(text)

    def from_text(self, text: str) -> object:
        return text

    @property
    def description(self) -> str:
        return f"str, PEM text with {self.label}; never shown"


def _with_line_breaks(block: re.Match[str]) -> str:
    label, body = block[1], block[2]
    if "\n" in body:
        return block[0]
    packed = "".join(body.split())
    if not re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", packed):
        raise ValueError(f"its {label} is not base64")
    lines = [packed[start : start + 64] for start in range(0, len(packed), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


class ExistingFile(Kind):
    """The path of a file that can be read now, as str or path object; becomes a str."""

    description = "path of a file"

    def parse(self, value: object) -> str:
        from pathlib import Path  # on demand, since only clients with TLS or Kerberos need it

        fspath = getattr(value, "__fspath__", None)
        path = value if isinstance(value, str) else fspath() if fspath is not None else None
        if not isinstance(path, str):
            raise type_error("the path of a file", value)
        if "-----BEGIN" in path:
            raise ValueError("must be the path of a file, not PEM text")
        if not path or "\0" in path:
            raise ValueError("must be the path of a file")
        try:
            if Path(path).is_dir():
                raise ValueError("is a directory: name a file")
            if Path(path).exists() and not Path(path).is_file():  # reading a pipe would also block here
                raise ValueError("is no regular file, so that it could not be read again when it changes")
            with open(path, "rb") as file:
                start = file.read(4)
        except OSError as error:
            raise ValueError(f"the file cannot be read: {error.strerror or type(error).__name__}") from None
        if start in JAVA_MAGIC:
            raise ValueError(f"refused: {_JKS}")
        return path


#: A host name, or an IPv6 address without a zone; ``urlsplit`` has checked the brackets.
HOST = r"[a-z0-9._-]{1,253}|[0-9a-f.]*:[0-9a-f:.]*"


def split_url(value: object) -> tuple[SplitResult, str, int | None]:
    """Return the parts of a URL, its host (perhaps empty), and its port if it has one.

    Raises:
        ValueError: the value is not a URL. The message does not contain it.
    """
    from urllib.parse import urlsplit  # on demand, since only proxies and the OIDC exchange need it

    if not isinstance(value, str):
        raise type_error("a str", value)
    if len(value) > URL_CHARS_MAX or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"must be at most {URL_CHARS_MAX} printable ASCII characters without spaces")
    try:
        parts = urlsplit(value)
        return parts, parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is not a URL, or has a port that is not a number from 1 to 65535") from None


class HttpUrl(Kind):
    """An http or https URL with a host, and without user info. Its query is never shown."""

    description = "str, an http or https URL"

    def parse(self, value: object) -> str:
        parts, host, port = split_url(value)
        if parts.scheme == "file":
            raise ValueError("file URLs are not supported: pass sasl_oauth_token_provider, a function that reads it")
        if parts.scheme not in ("http", "https") or port == 0 or not re.fullmatch(HOST, host):
            raise ValueError("must begin with https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not contain a user or password: use the options for the client id and secret")
        if parts.fragment:
            raise ValueError("must not have a fragment (#...), which is never sent")
        return str(value)

    def show(self, value: object) -> str:
        if not isinstance(value, str):
            return safe_repr(value)
        shown, question_mark, _ = value.partition("?")
        return safe_repr(shown + ("?..." if question_mark else ""))


CLIENT_CREDENTIALS, JWT_BEARER = "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: The beginning of the names of options for assertions, and the options that an assertion comes from.
ASSERTION = "sasl_oauthbearer_assertion_"
ASSERTION_SOURCES = (f"{ASSERTION}file", f"{ASSERTION}private_key_file", f"{ASSERTION}private_key_pem")
#: Where the classes of Java's client for OAUTHBEARER are.
JAVA_OAUTH = "org.apache.kafka.common.security.oauthbearer."
#: The grants that the values of Java's option ``sasl.oauthbearer.jwt.retriever.class`` stand for, in lower case.
_RETRIEVERS = {
    f"{JAVA_OAUTH}{name}".lower(): grant
    for name, grant in (
        ("DefaultJwtRetriever", CLIENT_CREDENTIALS),
        ("ClientCredentialsJwtRetriever", CLIENT_CREDENTIALS),
        ("JwtBearerJwtRetriever", JWT_BEARER),
    )
}


class GrantType(Choice):
    """A grant of OAuth, by its own name or by that of the class of Java's client that requests it."""

    def __init__(self) -> None:
        super().__init__((CLIENT_CREDENTIALS, JWT_BEARER))

    def parse(self, value: object) -> str:
        if isinstance(value, str) and "." in value and value.lower() not in _RETRIEVERS:
            raise ValueError("Java classes cannot be loaded: pass sasl_oauth_token_provider")
        return Choice.parse(self, _RETRIEVERS.get(value.lower(), value) if isinstance(value, str) else value)


def imds_query(config: str) -> str:
    """Return the query in librdkafka's ``sasl.oauthbearer.config``: ``name=value,name=value``; empty without one."""
    pairs = dict(entry.strip().partition("=")[::2] for entry in config.split(","))
    return pairs.get("query") or pairs.get("params", "")  # "params" is in an example of librdkafka's documentation


@dataclass(frozen=True, slots=True)
class ImdsConfig(SecretText):
    """librdkafka's ``sasl.oauthbearer.config``, of which only the query for Azure's metadata service is used."""

    may_be_empty: bool = True
    what: str = "`query=...`"

    def parse(self, value: object) -> Secret:
        text = SecretText.parse(self, value) if value != "" else Secret()
        query = imds_query(text)
        if text and not query:
            raise ValueError(
                "must be query=NAME=VALUE&..., for azure_imds: unsecured tokens are not made here, pass "
                "sasl_oauth_token_provider, which returns them"
            )
        if len(query) > URL_CHARS_MAX or not re.fullmatch(r"[!-~]*", query) or "#" in query:
            raise ValueError(
                f"its query must be at most {URL_CHARS_MAX} printable ASCII characters without space and #"
            )
        return text


class SslContext(Kind):
    description = "`ssl.SSLContext`"
    instead_of_text = "an ssl.SSLContext"

    def parse(self, value: object) -> Any:
        ssl = sys.modules.get("ssl")  # Imported already if a context exists.
        if ssl is None or not isinstance(value, ssl.SSLContext):
            if type(value).__name__ == "SSLContext":  # cannot wrap sockets of gevent or eventlet
                raise ValueError("was made before gevent or eventlet has replaced ssl.SSLContext: make it afterwards")
            raise type_error("an ssl.SSLContext", value)
        if value.protocol == ssl.PROTOCOL_TLS_SERVER:
            raise ValueError("is for servers: make it with ssl.create_default_context() or ssl.PROTOCOL_TLS_CLIENT")
        return value


class TlsProtocols(Kind):
    """Versions of TLS in a list, or separated by commas; becomes a tuple."""

    description = "list of `'TLSv1.2'`, `'TLSv1.3'`"

    def parse(self, value: object) -> tuple[str, ...]:
        names = _names(value, ",")
        for name in names:
            if name in TLS_REFUSED:
                raise ValueError(f"has {name!r}, which is refused: {_OLD_TLS}")
            if name not in ("TLSv1.2", "TLSv1.3"):
                raise ValueError(f"has {safe_repr(name)}, which is none of TLSv1.2, TLSv1.3")
        return names


class CipherSuites(Kind):
    """Names of cipher suites in a list, or separated by commas or colons; becomes a tuple."""

    description = "list of str, names of cipher suites"

    def parse(self, value: object) -> tuple[str, ...]:
        names = _names(value, ",:")
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_@=!+-]{1,100}", name):
                raise ValueError(f"has {safe_repr(name)}, which is not the name of a cipher suite")
        return names


def _names(value: object, separators: str) -> tuple[str, ...]:
    entries = re.split(f"[{separators}]", value) if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        raise type_error("a list of str", value)
    names = [entry.strip() for entry in entries if entry.strip()]
    if not 1 <= len(names) <= 100:
        raise ValueError("must have at least one name, and at most 100")
    return tuple(dict.fromkeys(names))


class HostNameCheck(Kind):
    """The algorithm that checks the host name: https, or an empty text (librdkafka: none), which switches it off."""

    description = "`'https'` or `''`"

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise type_error("'https' or ''", value)
        word = value.strip().lower()
        if word not in ("https", "", "none"):
            raise ValueError(f"must be 'https', or '' for no check of host names{did_you_mean(word, ['https'])}")
        return "" if word == "none" else word


@dataclass(frozen=True, slots=True)
class Fraction(Kind):
    at_least: float
    at_most: float

    def parse(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise type_error("a number", value)
        if not self.at_least <= value <= self.at_most:  # NaN fails this comparison, as required.
            raise ValueError(f"must be from {self.at_least} to {self.at_most}")
        return float(value)

    def from_text(self, text: str) -> object:
        if not re.fullmatch(r"[0-9]{0,10}\.?[0-9]{0,20}", text.strip()) or text.strip() in ("", "."):
            raise ValueError("must be a number")
        return float(text)

    @property
    def description(self) -> str:
        return f"number, from {self.at_least} to {self.at_most}"


class TokenProvider(Kind):
    """An object with a method ``token()``, or a callable that takes nothing or one argument."""

    description = "object with `token()` and optionally `extensions()`, or callable `()` or `(config)`"
    instead_of_text = "a callable, or an object with a method token()"

    def parse(self, value: object) -> Any:
        method = getattr(value, "token", None)
        if isinstance(value, type) and method is not None:
            raise ValueError(f"the class {value.__name__} must be instantiated: pass an instance")
        function = method if method is not None else value
        if not callable(function):
            raise type_error(self.instead_of_text, value)
        if is_async(function):
            raise ValueError(f"is {ASYNC_DEF}")
        return value

    def show(self, value: object) -> str:
        return HIDDEN if isinstance(value, str) else safe_repr(value)


class KerberosName(Kind):
    """A ``gssapi.Name``, or the text of a host-based service name."""

    description = "str `service@host`, or `gssapi.Name`"

    def parse(self, value: object) -> Any:
        if isinstance(value, str):
            if not re.fullmatch(r"[^\s@\0]{1,255}(@[^\s@\0]{1,255})?", value):
                raise ValueError("must be service@host")
            return value
        if not type(value).__module__.startswith("gssapi"):
            raise type_error("a gssapi.Name or a str", value)
        return value


#: RFC 7628, section 3.1. The name ``auth`` is reserved (KIP-342), since it carries the token.
_EXTENSION_NAME = r"[A-Za-z]{1,100}"
_EXTENSION_VALUE = r"[\x20-\x7e\t\r\n]{1,4000}"


class Extensions(Kind):
    """SASL extensions of OAUTHBEARER (KIP-342): a mapping, or text as ``name=value,name=value``; becomes a dict.

    Values are not shown: some providers use them for credentials.
    """

    description = "dict of str, or in `from_config` also `name=value,name=value`"
    is_secret = True

    def parse(self, value: object) -> dict[str, str]:
        if not isinstance(value, Mapping) or len(value) > 100:
            raise type_error("a mapping of at most 100 names to str", value)
        for name, text in value.items():
            if not isinstance(name, str) or not re.fullmatch(_EXTENSION_NAME, name) or name.lower() == "auth":
                raise ValueError("has a name that is not only letters, or the reserved name auth")
            if not isinstance(text, str) or not re.fullmatch(_EXTENSION_VALUE, text):
                raise ValueError(f"the value of {name!r} is not a str of printable ASCII characters, or is empty")
        return {name: Secret(text) for name, text in value.items()}

    def from_text(self, text: str) -> object:
        pairs = [entry.partition("=") for entry in text.split(",") if entry.strip()]
        found = {name.strip(): value.strip() for name, _, value in pairs}
        if not all(equals for _, equals, _ in pairs) or len(found) < len(pairs):
            raise ValueError("must be name=value,name=value, each name once")
        return found
