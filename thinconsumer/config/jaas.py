"""Credentials in ``sasl.jaas.config``: parses the entry of a JAAS file and turns it into options of this package.

The syntax is the one that Java's client reads with ``StreamTokenizer``: ``MODULE FLAG NAME=VALUE ... ;``, with values
bare or in quotes, Java's escapes and comments. Errors contain neither values nor names that the user wrote, since a
missing quote turns a part of a password into a name; most give a position instead, in characters from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..support.lazy_dataclass import dataclass, field

OPTIONS_MAX = 100
CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

#: White space and comments. The patterns of tokens also match the white space and comments behind the token.
_SKIP = r"(?:[\x00-\x20]+|//[^\r\n]*|/\*(?s:.*?)\*/)*"
_START, _EQUALS, _END = (re.compile(f"{sign}{_SKIP}") for sign in ("", "=", ";"))
_WORD = re.compile(rf"([A-Za-z0-9_.$\u00a0-\U0010ffff-]+){_SKIP}")
_QUOTED = re.compile(rf"""(?:"((?:[^"\\\r\n]|\\[^\r\n])*)"|'((?:[^'\\\r\n]|\\[^\r\n])*)'){_SKIP}""")
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module's class name and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """Return the entry in the text; raise ValueError, without a part of the text, if it is not one valid entry."""
    reader = _JaasReader(text)
    if reader.at_end():
        raise ValueError("has no login module")
    module = reader.word("the name of a login module")
    flag = reader.word(f"a control flag ({', '.join(CONTROL_FLAGS)})")
    if flag.lower() not in CONTROL_FLAGS:
        raise ValueError(f"the word after the login module must be one of {', '.join(CONTROL_FLAGS)}")
    options: dict[str, str] = {}
    while not reader.accept(_END):
        if reader.at_end():
            raise ValueError("must end with ';'")
        name = reader.word("the name of an option, or ';'")
        if not reader.accept(_EQUALS):
            raise reader.error("'=' after the name of an option")
        value = reader.value()
        if name in options:
            raise reader.error("each option only once; the repeated one ends")
        if len(options) == OPTIONS_MAX:
            raise ValueError(f"has more than {OPTIONS_MAX} options")
        options[name] = value
    if not reader.at_end():
        raise ValueError("has text after ';', but must have one login module only")
    return JaasEntry(module, options)


class _JaasReader:
    """A position in the text, after any white space and comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.accept(_START)

    def at_end(self) -> bool:
        return self._at == len(self._text)

    def accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip the text that matches the pattern, if it comes next; return the match, or None."""
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def error(self, expected: str) -> ValueError:
        return ValueError(f"expected {expected} at character {self._at + 1}")

    def word(self, expected: str) -> str:
        match = self.accept(_WORD)
        if match is None:
            raise self.error(expected)
        return match[1]

    def value(self) -> str:
        match = self.accept(_QUOTED)
        if match is not None:
            return _ESCAPE.sub(_unescaped, match[match.lastindex or 0])
        if self._text.startswith(("'", '"'), self._at):
            raise self.error("a value whose quote is closed on the same line; the value that begins")
        return self.word("a value, in quotes unless it has only letters and digits,")


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)


@dataclass(frozen=True, slots=True)
class _Module:
    """How the options of one of Java's login modules are read: as options of this package, ignored, or refused."""

    mechanisms: tuple[str, ...]
    options: Mapping[str, str]  #: The Python names of options, by the module's names for them.
    without_effect: tuple[str, ...] = ()  #: Others without effect: ignored without a warning.
    #: A pattern for the beginning of a ``NAME=VALUE`` that must not be ignored, and why it is refused.
    refused: tuple[str, str] | None = None


@dataclass(slots=True)
class JaasLogin:
    name: str  #: The class name of the login module, without its package.
    module: _Module
    values: dict[str, object] = field(repr=False)  #: Option values by Python name.
    ignored: int  #: How many options of the entry the module does not list; they have no effect.


_PASSWORD = {"username": "sasl_plain_username", "password": "sasl_plain_password"}
_EXTENSION = "extension_"
_KAFKA = "org.apache.kafka.common.security."
#: By class name. Some distributions of Spark rename the package of Kafka's client; see :func:`_find`.
MODULES: dict[str, _Module] = {
    f"{_KAFKA}plain.PlainLoginModule": _Module(("PLAIN",), _PASSWORD),
    f"{_KAFKA}scram.ScramLoginModule": _Module(
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        _PASSWORD,
        without_effect=("tokenauth",),
        refused=("tokenauth=(?i:true)$", "tokenauth=true is refused: delegation tokens are not supported"),
    ),
    f"{_KAFKA}oauthbearer.OAuthBearerLoginModule": _Module(
        ("OAUTHBEARER",),
        {
            "clientId": "sasl_oauthbearer_client_credentials_client_id",
            "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
            "scope": "sasl_oauthbearer_scope",
        },
        refused=(
            "unsecuredLogin",
            "unsecured tokens are not made here: pass sasl_oauth_token_provider, which returns them",
        ),
    ),
    "com.sun.security.auth.module.Krb5LoginModule": _Module(
        ("GSSAPI",),
        {
            "principal": "sasl_kerberos_principal",
            "keyTab": "sasl_kerberos_keytab",
            "serviceName": "sasl_kerberos_service_name",
        },
        without_effect=(
            "useKeyTab", "useTicketCache", "storeKey", "doNotPrompt", "refreshKrb5Config", "renewTGT", "isInitiator",
            "useFirstPass", "tryFirstPass", "storePass", "clearPass", "debug", "client",
        ),
        refused=("ticketCache=", "ticketCache is refused: set the environment variable KRB5CCNAME to its path instead"),
    ),
    "software.amazon.msk.auth.iam.IAMLoginModule": _Module(
        ("AWS_MSK_IAM",),
        {
            "awsProfileName": "sasl_aws_msk_iam_profile",
            "awsRoleArn": "sasl_aws_msk_iam_role_arn",
            "awsRoleSessionName": "sasl_aws_msk_iam_role_session_name",
            "awsRoleExternalId": "sasl_aws_msk_iam_role_external_id",
            "awsStsRegion": "sasl_aws_msk_iam_sts_region",
        },
        without_effect=("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"),
        refused=(
            "awsRole(Secret)?AccessKey(Id)?=",
            "access keys for the role are refused: put them into a profile, and name it as awsProfileName",
        ),
    ),
}  # fmt: skip


def login_of(entry: JaasEntry) -> JaasLogin:
    """Return the entry's content in this package's terms.

    Raises:
        ValueError: the module is unknown, lacks an option, or has one that must not be ignored. No message has a value.
    """
    name, module = _find(entry.module)
    short = name.rpartition(".")[2]
    missing = [needed for needed in _PASSWORD if needed in module.options and not entry.options.get(needed)]
    if missing:
        raise ValueError(f"{short} needs {' and '.join(missing)}")
    if module.refused is not None:
        pattern, reason = module.refused
        if any(re.match(pattern, f"{option}={value}") for option, value in entry.options.items()):
            raise ValueError(reason)
    given = dict(entry.options)
    if module.mechanisms == ("GSSAPI",) and given.get("useKeyTab", "").lower() != "true":
        given.pop("keyTab", None)  # As in Java, which uses the ticket cache in this case.
    values: dict[str, object] = {ours: given[theirs] for theirs, ours in module.options.items() if given.get(theirs)}
    ignored = given.keys() - module.options.keys() - set(module.without_effect)
    if module.mechanisms == ("OAUTHBEARER",):
        extensions = {key[len(_EXTENSION) :]: value for key, value in given.items() if key.startswith(_EXTENSION)}
        ignored -= {_EXTENSION + name for name in extensions}
        if extensions:
            values["sasl_oauthbearer_extensions"] = extensions
    return JaasLogin(short, module, values, len(ignored))


def _find(name: str) -> tuple[str, _Module]:
    """Return the known module and its class name. A prefix is accepted: Databricks' ``kafkashaded.`` for example."""
    for known, module in MODULES.items():
        if name == known or name.endswith(f".{known}"):
            return known, module
    raise ValueError(f"its login module is none of {', '.join(MODULES)}")
