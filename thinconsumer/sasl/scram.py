"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): client and server prove that they have keys of the user.

The keys are made from the password, which is not sent. As in Kafka, user names and passwords are UTF-8 without
SASLprep, and there is no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from ..errors import IllegalArgumentError, KafkaProtocolError
from ..support.server_text import shown
from .mechanism import Mechanism, authentication_failed, encode

#: hashlib's name of each mechanism's hash.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Brokers do not accept fewer (``ScramMechanism``). With few iterations, an attacker that has recorded a login, or has
#: taken the broker's place, could guess the password fast.
ITERATIONS_MIN = 4096
#: A million iterations take about a second. Without a limit, a hostile server could stop the client for an hour.
ITERATIONS_MAX = 1_000_000
SALT_BYTES_MAX = 1024  #: Kafka's have about 26.
MESSAGE_BYTES_MAX = 8192  #: For messages of a server; Kafka's have about 150.

_GS2_HEADER = b"n,,"  #: No channel binding (RFC 5802, section 7).
_CHANNEL_BINDING = b"c=biws"  #: ``_GS2_HEADER`` in base64.
#: Printable ASCII without the comma, which separates attributes.
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_SERVER_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]+)(?:,[A-Za-z]=[^,\0]+)*")
_NO_PROOF = "the server ended the SCRAM login without proving that it knows the password"
_SERVER_FINAL = re.compile(r"([ve])=([^,\0]+)(?:,[A-Za-z]=[^,\0]+)*")


def parse_server_first(message: bytes, client_nonce: str) -> tuple[str, bytes, int]:
    """Return both nonces as one text, the salt and the iterations in the server's first message, all checked.

    Raises:
        KafkaProtocolError: the message is malformed or outside the limits, or its nonce does not continue
            ``client_nonce``: the message may be recorded from another login.
        SaslAuthenticationFailedError: the message is an error of the server (``e=``).
    """
    text = _decode(message, "first")
    if (match := _SERVER_FINAL.fullmatch(text)) and match[1] == "e":
        raise authentication_failed(f"the server rejected the SCRAM login: {shown(match[2])}")
    if text.startswith("m="):
        raise KafkaProtocolError("SCRAM: the server requires an extension that this client does not know")
    match = _SERVER_FIRST.fullmatch(text)
    if match is None:
        raise KafkaProtocolError("SCRAM: the server's first message is malformed")
    nonce, salt_text, iterations_text = match.groups()
    if not nonce.startswith(client_nonce) or nonce == client_nonce:
        raise KafkaProtocolError("SCRAM: the server's nonce does not continue the client's")
    salt = _decode_base64(salt_text, "salt")
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise KafkaProtocolError(f"SCRAM: the server's salt has {len(salt)} bytes, allowed are 1 to {SALT_BYTES_MAX}")
    # The length is checked first, because int() of a text of thousands of digits raises ValueError or is slow.
    iterations = int(iterations_text) if len(iterations_text) <= 10 else ITERATIONS_MAX + 1
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise KafkaProtocolError(
            f"SCRAM: the server asks for {iterations_text[:20]} iterations, "
            f"allowed are {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    return nonce, salt, iterations


def parse_server_final(message: bytes) -> bytes:
    """Return the server's signature from its last message.

    Raises:
        KafkaProtocolError: the message is malformed.
        SaslAuthenticationFailedError: the message is an error of the server (``e=``), or empty.
    """
    if not message:
        raise authentication_failed(_NO_PROOF)
    match = _SERVER_FINAL.fullmatch(_decode(message, "last"))
    if match is None:
        raise KafkaProtocolError("SCRAM: the server's last message is malformed")
    if match[1] == "e":
        raise authentication_failed(f"the server rejected the SCRAM login: {shown(match[2])}")
    return _decode_base64(match[2], "signature")


def salt_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return SaltedPassword of RFC 5802."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def _decode(message: bytes, which: str) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise KafkaProtocolError(f"SCRAM: the server's {which} message has {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise KafkaProtocolError(f"SCRAM: the server's {which} message is not UTF-8") from None


def _decode_base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise KafkaProtocolError(f"SCRAM: the server's {what} is not base64") from None


class Scram(Mechanism):
    options = ("sasl_plain_username", "sasl_plain_password")

    def __init__(self, name: str, username: str, password: str, nonce: str) -> None:
        """``nonce`` must be unpredictable and new for each login: printable ASCII without a comma.

        Raises:
            IllegalArgumentError: the mechanism is unknown, or another argument is unusable.
        """
        if name not in HASHES:
            raise IllegalArgumentError(f"unknown SCRAM mechanism {name!r}, known are {', '.join(HASHES)}")
        if not username:
            raise IllegalArgumentError("sasl_plain_username is empty")
        if not _NONCE.fullmatch(nonce):
            raise IllegalArgumentError("a SCRAM nonce consists of printable ASCII without commas")
        self.name = name
        self._username = username
        self._password = encode(password, "sasl_plain_password")
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first = b"n=%b,r=%b" % (encode(escaped, "sasl_plain_username"), nonce.encode())
        self._secrets = (password,)
        self._server_signature = b""  #: The signature to expect of the server; empty until the client sends its proof.

    def __repr__(self) -> str:
        return f"<Scram {self.name} {self._username!r}>"

    def start(self) -> bytes:
        return _GS2_HEADER + self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the client's proof for the server's first message; None for the second, if its signature is right."""
        if not self._server_signature:
            return self._prove(challenge)
        if not hmac.compare_digest(parse_server_final(challenge), self._server_signature):
            raise authentication_failed(
                "the server's SCRAM signature is wrong: it does not know the password of this user, "
                "so it may not be the broker it claims to be"
            )
        return None

    def _prove(self, challenge: bytes) -> bytes:
        if not challenge:
            raise authentication_failed(_NO_PROOF)
        nonce, salt, iterations = parse_server_first(challenge, self._nonce)
        without_proof = b"%b,r=%b" % (_CHANNEL_BINDING, nonce.encode())
        # RFC 5802, section 3.
        algorithm, signed = HASHES[self.name], b",".join((self._first, challenge, without_proof))
        salted = salt_password(self.name, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        client_signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
        proof = bytes(left ^ right for left, right in zip(client_key, client_signature, strict=True))
        return b"%b,p=%b" % (without_proof, base64.b64encode(proof))
