"""The interface of SASL mechanisms, and what they share: errors and UTF-8."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, NoReturn

from ..errors import IllegalArgumentError, KafkaConfigurationError, SaslAuthenticationFailedError
from ..support.server_text import shown
from ..wire.error_codes import Code


class NotPickled:
    """The base of objects that hold a secret: a pickle would carry it to disks and other machines."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds a secret and cannot be pickled")


class Mechanism(NotPickled, ABC):
    """The client's side of one SASL exchange: :meth:`start` is called once, and then :meth:`respond` for each message
    of the server, until it returns None or raises.
    """

    name: str  #: The mechanism's registered name, such as ``"SCRAM-SHA-256"``.
    options: tuple[str, ...]  #: The client options to check if the broker rejects the login.
    credentials_expire_at: float | None = None  #: Seconds since the epoch; None if unknown, or if they do not expire.
    _secrets: tuple[str, ...] = ()  #: The secrets of this login, which a server could repeat in its texts.

    @abstractmethod
    def start(self) -> bytes:
        """Return the client's first message, which may be empty."""

    @abstractmethod
    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to the server's message; None once the exchange is complete.

        Raises:
            SaslAuthenticationFailedError: the server rejects the login, or has not proved what it has to prove.
            KafkaProtocolError: the message is malformed.
        """

    def shown(self, text: str) -> str:
        """Return a server's text for an error, as :func:`shown`, without the secrets of this login."""
        return shown(text, *self._secrets)


def import_extra(module: str, user: str, extra: str, more: str = "") -> Any:
    """Return a module that the extra installs.

    The error names ``user``, the option that needs the module, and with ``more`` (" and ...") what else is needed.

    Raises:
        KafkaConfigurationError: the module, or a library of the system that it needs, is missing.
    """
    try:
        return import_module(module)
    except (ImportError, OSError) as error:
        package = module.partition(".")[0]
        raise KafkaConfigurationError(
            f"{user} needs the package {package} (pip install 'thinconsumer[{extra}]'){more}: {error}"
        ) from error


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that a JSON text contains; None if the text is malformed, or contains no object.

    No error is raised or chained: an error of ``json`` contains the whole text, and with it a token.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def encode(text: str, option: str) -> bytes:
    """Return the text in UTF-8, as Java's client does for all mechanisms: without SASLprep (RFC 4013).

    Raises:
        IllegalArgumentError: the text contains NUL or a lone surrogate. The error names the option, not the text.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        # The codec's error contains the text, so it must not be chained.
        raise IllegalArgumentError(f"{option} contains a character that a login cannot transfer: NUL or a surrogate")
    return encoded


def authentication_failed(text: str) -> SaslAuthenticationFailedError:
    """Return the error of a login that this client ends although the broker has sent no error code."""
    code = Code.SASL_AUTHENTICATION_FAILED
    return SaslAuthenticationFailedError(text, code=int(code), name=code.name, api="SaslAuthenticate")
