"""What every request and response can do: be encoded in a version, and decoded from bytes nobody vouches for.

Knows declarations and the two compilers; knows no API. Follows Kafka's ``ApiMessage`` and KIP-482.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from ..errors import IllegalArgumentError, KafkaProtocolError
from .decoding import Decode, TrailingBytesError, compile_decoder
from .encoding import Encode, compile_encoder
from .primitives import Write
from .schema import NEVER, Struct

M = TypeVar("M", bound="Message")

#: Compiled on first use, by message and version: whoever speaks one version of an API pays for that one only.
_DECODERS: dict[tuple[type[Message], int], tuple[Decode, bool]] = {}
_ENCODERS: dict[tuple[type[Message], int], Encode] = {}


@dataclass(slots=True, kw_only=True)
class Message(Struct):
    """A top-level message. One object serves every version in ``VERSIONS``.

    Decoded messages are made to be read: tagged structs that were not sent are one shared instance of defaults.
    Building one to send starts from the constructor, where every field has Kafka's default.
    """

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]  #: Lowest and highest version spoken here.
    FLEXIBLE: ClassVar[int] = NEVER  #: First version with tagged fields and compact lengths (KIP-482).
    RESPONSE: ClassVar[type[Message]]  #: On requests: what answers them.

    @classmethod
    def decode(
        cls: type[M],
        buffer: bytes | bytearray | memoryview,
        version: int,
        start: int = 0,
        *,
        ignore_trailing: bool = False,
    ) -> M:
        """Read one message that fills ``buffer`` from ``start`` on; or begins there, with ``ignore_trailing``.

        Records stay memoryviews of ``buffer``; everything else is copied out of it.

        Raises:
            KafkaProtocolError: The bytes end early, go on too long, or contradict themselves.
            IllegalArgumentError: ``version`` is none of ``VERSIONS``.
        """
        compiled = _DECODERS.get((cls, version))
        if compiled is None:
            cls.check_version(version)
            compiled = _DECODERS[cls, version] = compile_decoder(cls, version, version >= cls.FLEXIBLE)
        decode, has_records = compiled
        data = memoryview(buffer) if has_records else buffer if isinstance(buffer, bytes) else bytes(buffer)
        try:
            message: M = decode(data, start)
        except TrailingBytesError as error:
            if ignore_trailing:
                return cls.decode(data[: error.end], version, start)
            raise KafkaProtocolError(f"{cls.__name__} version {version}: {error}") from None
        except KafkaProtocolError as error:
            raise KafkaProtocolError(f"{cls.__name__} version {version}: {error}") from None
        except (struct.error, IndexError):
            raise KafkaProtocolError(f"{cls.__name__} version {version} ends early: {len(buffer)} bytes") from None
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"{cls.__name__} version {version}: a string is not UTF-8: {error}") from None
        return message

    def encode(self, version: int) -> bytes:
        """Return the bytes of this message in ``version``, without any header.

        Raises:
            UnsupportedFieldError: A field is set that ``version`` does not have and that may not be dropped.
            IllegalArgumentError: ``version`` is none of ``VERSIONS``, or a value does not fit its field.
        """
        parts: list[bytes | bytearray | memoryview] = []
        self.encode_into(parts.append, version)
        return b"".join(parts)

    def encode_into(self, write: Write, version: int) -> None:
        """Hand the bytes of this message to ``write`` piece by piece; records go through uncopied."""
        cls = type(self)
        encode = _ENCODERS.get((cls, version))
        if encode is None:
            cls.check_version(version)
            encode = _ENCODERS[cls, version] = compile_encoder(cls, version, version >= cls.FLEXIBLE)
        try:
            encode(self, write)
        except (struct.error, UnicodeEncodeError) as error:
            raise IllegalArgumentError(f"{cls.__name__} version {version}: {error}") from error

    @classmethod
    def check_version(cls, version: int) -> None:
        """Refuse a version that is not spoken here."""
        first, last = cls.VERSIONS
        if not first <= version <= last:
            raise IllegalArgumentError(f"{cls.__name__} has versions {first} to {last}, not {version}")
