"""The distinguished name of a client's certificate, as Kafka's principals contain it: ``CN=alice,O=Example``.

Follows Java's ``X500Principal.getName`` (RFC 2253): the last part of the subject comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

#: The keywords of RFC 2253 by the names that Python's ``ssl`` uses. Other attributes keep their names; in Java they
#: would be object identifiers with encoded values.
_KEYWORDS = {
    "commonName": "CN", "countryName": "C", "organizationName": "O", "organizationalUnitName": "OU",
    "localityName": "L", "stateOrProvinceName": "ST", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
_SPECIAL = frozenset(',+"\\<>;')
_EMAIL_ADDRESS = "1.2.840.113549.1.9.1"
_IA5_STRING = 0x16
_SHORT_LENGTH_MAX = 127


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the name of a subject, in the form of ``SSLSocket.getpeercert()["subject"]``."""
    parts = ["+".join(_attribute(name, value) for name, value in part) for part in subject]
    return ",".join(reversed(parts))


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress" and value.isascii() and len(value) <= _SHORT_LENGTH_MAX:
        return f"{_EMAIL_ADDRESS}=#{bytes((_IA5_STRING, len(value))).hex()}{value.encode().hex()}"
    return f"{_KEYWORDS.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    if len(value) > 1 and value.endswith(" "):
        text = f"{text[:-1]}\\ "
    return text
