"""PLAIN (RFC 4616): the user name and the password in one message. Use it only over TLS."""

from __future__ import annotations

from .mechanism import Mechanism, encode


def plain_message(username: str, password: str, authzid: str = "") -> bytes:
    """Return the message: authorization identity, user name and password in UTF-8, separated by NUL.

    Raises:
        IllegalArgumentError: a field contains NUL, which would shift the fields after it.
    """
    fields = (authzid, "authzid"), (username, "sasl_plain_username"), (password, "sasl_plain_password")
    return b"\0".join(encode(text, option) for text, option in fields)


class Plain(Mechanism):
    """The client's side of PLAIN."""

    name = "PLAIN"
    options = ("sasl_plain_username", "sasl_plain_password")

    def __init__(self, username: str, password: str, authzid: str = "") -> None:
        """``authzid`` is the identity to act as; Kafka accepts only the user name or nothing."""
        self._username = username
        self._secrets = (password,)
        self._message = plain_message(username, password, authzid)

    def __repr__(self) -> str:
        return f"<Plain {self._username!r}>"

    def start(self) -> bytes:
        """Return the only message."""
        return self._message

    def respond(self, challenge: bytes) -> None:
        """Return None: the broker's error code decides, and Java's client ignores the bytes beside it, too."""
