"""The interfaces of a client's logins: the requests that authenticate a connection, after ApiVersions and later again.

:class:`thinconsumer.sasl.login.SaslLogin` and :class:`thinconsumer.sasl.login_manager.LoginManager` implement them.
Java's counterpart is ``SaslClientAuthenticator``.
"""

from collections.abc import Callable
from functools import cache
from typing import Protocol

from ..errors import KafkaError
from ..wire import Message
from ..wire.error_codes import Code
from ..wire.schema import Primitive, Struct, wire_fields


class Login(Protocol):
    """The authentication of one connection, or one re-authentication of it (KIP-368)."""

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        """Return the next request, or None when logged in.

        ``answer`` is the decoded response to the login's previous request; None for the first call.

        Raises:
            KafkaError: the login failed. After an ``AuthorizationError`` no other address of the host is tried.
        """

    @property
    def reauthenticate_after(self) -> float | None:
        """Seconds from this login's last request after which the connection logs in again; None: never."""


#: A function that takes the host name of a connection and returns a new login for it.
NewLogin = Callable[[str], Login]


class Logins(Protocol):
    """The source of one client's logins."""

    @property
    def new_login(self) -> NewLogin | None:
        """Makes the login of a connection; None if connections need none."""

    def may_dial(self) -> bool:
        """Return whether there are credentials to log in with. While there are none, no broker is dialled."""

    def waits_for(self) -> str:
        """Return why :meth:`may_dial` is false, for the error of an outage; an empty text if it is true."""

    def take_error(self) -> KafkaError | None:
        """Return, once, the error because of which there are no credentials; None if there is no new one."""


class NoLogins:
    """The :class:`Logins` of a client with a ``security_protocol`` without SASL."""

    new_login = None

    def may_dial(self) -> bool:
        return True

    def waits_for(self) -> str:
        return ""

    def take_error(self) -> None:
        return None


def is_logged_out(response: Message, version: int) -> bool:
    """Return whether the response has the error code ILLEGAL_SASL_STATE: the broker counts the login as ended.

    Brokers that reject a request as a whole put the code into the response or, if it has no error code, into each of
    its topics, partitions or groups. Only the first of these is looked at: comparing all would make responses of
    thousands of partitions slower.
    """
    found: object = response
    for name in _path_to_code(type(response), version):
        found = getattr(found, name)
        if isinstance(found, list):
            if not found:
                return False
            found = found[0]
    return found == Code.ILLEGAL_SASL_STATE


@cache
def _path_to_code(cls: type[Struct], version: int) -> tuple[str, ...]:
    """Return the names of the fields from a struct to its first error code; empty if it has none in this version."""
    known = [(name, wire) for name, wire in wire_fields(cls) if version in wire.versions]
    for name, _ in known:
        if name == "error_code":
            return (name,)
    for name, wire in known:
        if wire.array and not isinstance(wire.of, Primitive):
            rest = _path_to_code(wire.of, version)
            if rest:
                return (name, *rest)
    return ()
