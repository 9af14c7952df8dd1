"""The place where logging in goes: a conversation held on a connection between ApiVersions and the first real request.

SASL is not written yet (``security_protocol`` is PLAINTEXT or TLS); this seam is what :class:`~.link.Link` calls, so
that adding it touches no state machine. Java's counterpart is ``SaslClientAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..wire import Message


class Login(Protocol):
    """One login on one connection."""

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        """Return what to send next, or None when logged in.

        ``answer`` is the decoded response to the request before; None at the start. The link frames, versions and
        times the requests.

        Raises:
            KafkaError: refused, or given up. An ``AuthorizationError`` is not tried again before it was told.
        """
        ...


#: Makes the login of one connection to ``host``.
NewLogin = Callable[[str], Login]
