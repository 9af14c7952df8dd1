"""OAuth bearer tokens, and the token providers of users: how they are called, and what they return.

The claims of a JWT are read, but its signature is not verified: the broker does that. The client needs only the expiry,
to fetch the next token in time; other claims are for log lines.
"""

import base64
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ..config.security_kinds import Extensions
from ..errors import IllegalArgumentError, KafkaConfigurationError
from .mechanism import NotPickled, json_object

#: Maximum length of a token. By default, brokers accept messages of at most 512 KiB before a login
#: (``sasl.server.max.receive.size``).
TOKEN_CHARACTERS_MAX = 256 * 1024
#: A token as a bearer token is written (RFC 6750, section 2.1). Another character, such as the separator 0x01, would
#: change the meaning of the OAUTHBEARER message.
B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
#: An expiry from here on is in milliseconds: in seconds, it would be in the year 5138. The tuples of
#: ``aws-msk-iam-sasl-signer-python`` have milliseconds.
_MILLISECONDS_FROM = 1e11


@dataclass(frozen=True, slots=True, repr=False)
class Token(NotPickled):
    """A bearer token, and when it expires."""

    value: str
    expires_at: float | None = None  #: Seconds since the epoch; None if unknown.
    principal: str = ""  #: For log lines only; brokers take it from the token.
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  #: KIP-342.

    def __repr__(self) -> str:
        return f"<Token of {self.principal!r}, expires_at={self.expires_at}, extensions={sorted(self.extensions)}>"


def as_token(returned: object, wall: float, sub_claim: str = "sub") -> Token:
    """Return the token that a token provider has returned.

    Accepts a :class:`Token`, a str or bytes, confluent-kafka's tuple (token, expiry, principal, extensions), of which
    the last two may be missing, and objects with the attributes ``token`` and ``expires_on``, as of ``azure-identity``.
    If the token is a JWT, a missing expiry and principal are taken from its claims ``exp`` and ``sub_claim``.

    Raises:
        IllegalArgumentError: the value is none of these, or malformed, or has expired at ``wall`` (epoch seconds).
    """
    token = _shaped(returned)
    claims = claims_of(token.value)
    expires_at = as_seconds(claims.get("exp")) if token.expires_at is None else token.expires_at
    if expires_at is not None and expires_at <= wall:
        raise IllegalArgumentError(
            f"the token has expired {wall - expires_at:.0f} s ago by this machine's clock: the token is an old "
            "one, or the clocks of this machine and of the token's issuer differ"
        )
    subject = claims.get(sub_claim)
    principal = token.principal or (subject if isinstance(subject, str) else "")
    return replace(token, expires_at=expires_at, principal=principal)


def claims_of(value: str) -> dict[str, Any]:
    """Return the claims of a JWT without verifying them; empty if the token is not a JWT, or is encrypted."""
    try:
        _, payload, _ = value.split(".")
        text = base64.b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return {}
    return json_object(text) or {}


def as_seconds(number: object) -> float | None:
    """Return ``number`` as a float; None if it is not a number, not finite, or not positive."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    try:
        seconds = float(number)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def checked_value(value: object) -> str:
    """Return a token's text without the white space around it.

    Raises:
        IllegalArgumentError: the value is no text, empty, too long or has characters that a bearer token cannot have.
    """
    if isinstance(value, (bytes, bytearray)):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        raise IllegalArgumentError(f"a token is a str, not {type(value).__name__}")
    if len(value) > TOKEN_CHARACTERS_MAX:
        raise IllegalArgumentError(f"the token has {len(value)} characters, at most {TOKEN_CHARACTERS_MAX} are sent")
    value = value.strip()
    if not B64TOKEN.fullmatch(value):
        reason = "has characters that a bearer token cannot have (RFC 6750)" if value else "is empty"
        raise IllegalArgumentError(f"the token {reason}")
    return value


def checked_extensions(extensions: object) -> Mapping[str, str]:
    """Return SASL extensions (KIP-342) as a read-only mapping of text.

    Raises:
        IllegalArgumentError: a name or value violates the grammar of KIP-342. Values are not shown, as they may be
            secrets.
    """
    try:
        return MappingProxyType(Extensions().parse(extensions or {}))
    except ValueError as found:
        error = IllegalArgumentError(f"SASL extensions: {found}")
    raise error  # here, so that no traceback leads to values, which may be secrets


def _refuse_coroutine(returned: object) -> None:
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # otherwise Python warns later that it was never awaited
        raise IllegalArgumentError(
            "sasl_oauth_token_provider returned an awaitable instead of a token: it must be a normal function, as this "
            "client has no event loop; a function that calls asyncio.run() works"
        )


def _shaped(returned: object) -> Token:
    """Return a provider's result as a :class:`Token`, with the fields that it has; no claims are read yet."""
    _refuse_coroutine(returned)
    if isinstance(returned, Token):
        return _shaped((returned.value, returned.expires_at, returned.principal, returned.extensions))
    if isinstance(returned, (str, bytes, bytearray)):
        return Token(checked_value(returned))
    # Before the sequences: azure's AccessToken is a named tuple, which may have more fields than two.
    if hasattr(returned, "token") and hasattr(returned, "expires_on"):
        return Token(checked_value(returned.token), _expiry(returned.expires_on))
    if isinstance(returned, Sequence) and 2 <= len(returned) <= 4:
        value, expiry, principal, extensions = (*returned, None, None)[:4]
        if principal is not None and not isinstance(principal, str):
            raise IllegalArgumentError(f"the principal of a token is a str, not {type(principal).__name__}")
        return Token(checked_value(value), _expiry(expiry), principal or "", checked_extensions(extensions))
    raise IllegalArgumentError(
        f"sasl_oauth_token_provider returned {type(returned).__name__}, which is no token: it must return a str, or a "
        "tuple of a str and the expiry in seconds since the epoch"
    )


def _expiry(given: object) -> float | None:
    if given is None:
        return None
    seconds = as_seconds(given)
    if seconds is None:
        shown = repr(given) if isinstance(given, (int, float)) else type(given).__name__
        raise IllegalArgumentError(f"the expiry of a token is a number of seconds since the epoch, not {shown}")
    return seconds / 1000 if seconds >= _MILLISECONDS_FROM else seconds


class ProviderAnswer(NamedTuple):
    """The result of a provider with a method ``token()``. Without a method ``extensions()``, ``extensions`` is None."""

    token: object
    extensions: object

    def __repr__(self) -> str:
        return "<ProviderAnswer>"


def provider_call(provider: object) -> Callable[[], object]:
    """Return a function without arguments that calls the provider. It runs user code, and may block.

    A provider is an object with ``token()`` and optionally ``extensions()``, as kafka-python's
    ``AbstractTokenProvider``; or a function without arguments, or with one, as confluent-kafka's ``oauth_cb``.

    Raises:
        KafkaConfigurationError: the provider is a callable that needs more than one argument.
    """
    if callable(getattr(provider, "token", None)):
        return partial(_ask, provider)
    function = cast("Callable[..., object]", provider)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function  # a function written in C may have no signature
    # confluent-kafka passes the option sasl.oauthbearer.config, which is empty by default.
    for call, arguments in (function, ()), (partial(function, ""), ("",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return call
    raise KafkaConfigurationError(
        f"sasl_oauth_token_provider must be callable with no or one argument, but takes {signature}"
    )


def token_of(answer: object, extensions: Mapping[str, str] | None, wall: float, sub_claim: str) -> Token:
    """Return the token that a provider or token endpoint has returned, with the ``extensions`` of the client's options.

    An extension of the provider replaces one of the options with the same name.

    Raises:
        IllegalArgumentError: the answer is no token that can be sent.
    """
    own: Mapping[str, str] = {}
    if isinstance(answer, ProviderAnswer):
        own, answer = checked_extensions(answer.extensions), answer.token
    token = as_token(answer, wall, sub_claim)
    return replace(token, extensions=checked_extensions({**(extensions or {}), **own, **token.extensions}))


def _ask(provider: object) -> ProviderAnswer:
    token = provider.token()  # type: ignore[attr-defined]
    _refuse_coroutine(token)  # in aiokafka's AbstractTokenProvider, token() is a coroutine function
    extensions = getattr(provider, "extensions", None)
    return ProviderAnswer(token, extensions() if callable(extensions) else None)
