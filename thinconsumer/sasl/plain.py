"""PLAIN (RFC 4616): the user name and the password in one message. Use it only over TLS."""

from __future__ import annotations

from .mechanism import Mechanism, encode


class Plain(Mechanism):
    name = "PLAIN"
    options = ("sasl_plain_username", "sasl_plain_password")

    def __init__(self, username: str, password: str) -> None:
        """Raises IllegalArgumentError if a text has a surrogate or NUL. NUL separates the fields of the message."""
        self._username = username
        self._secrets = (password,)
        #: Three fields: an empty authorization identity, the user name, and the password.
        self._message = b"\0%b\0%b" % (encode(username, self.options[0]), encode(password, self.options[1]))

    def __repr__(self) -> str:
        return f"<Plain {self._username!r}>"

    def start(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> None:
        """Return None: the broker's error code decides, and Java's client ignores the bytes beside it, too."""
