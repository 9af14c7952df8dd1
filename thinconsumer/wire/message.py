"""The base class of requests and responses: encoding in a version, and decoding of untrusted bytes.

Follows Kafka's ``ApiMessage`` and KIP-482.
"""

from __future__ import annotations

import struct
from typing import ClassVar, TypeVar

from ..errors import IllegalArgumentError, KafkaProtocolError
from .decoding import Decode, TrailingBytesError, compile_decoder
from .encoding import Encode, compile_encoder
from .primitives import Write
from .schema import OPEN_END, Struct

M = TypeVar("M", bound="Message")

#: Decoders and encoders by message class and version, each compiled when it is first used: a client uses one version of
#: most messages, and compiling all versions would delay its start.
_DECODERS: dict[tuple[type[Message], int], tuple[Decode, bool]] = {}
_ENCODERS: dict[tuple[type[Message], int], Encode] = {}


class Message(Struct):
    """A request or response, in all versions in ``VERSIONS``; fields have Kafka's defaults.

    Treat decoded messages as read-only: messages share nested structs and arrays that their bytes do not contain, and
    the empty dict of unknown tags, so a change in one message would show in others.
    """

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]  #: Lowest and highest supported version.
    FLEXIBLE: ClassVar[int]  #: The first version with tagged fields and compact lengths (KIP-482), if any.
    RESPONSE: ClassVar[type[Message]]  #: The class of the response; request classes only.

    def __init_subclass__(
        cls,
        *,
        key: int = -1,
        versions: tuple[int, int] | None = None,
        flexible: int = OPEN_END,
        response: type[Message] | None = None,
    ) -> None:
        """Declare a request by the class of its ``response``, and any other message by the other arguments."""
        if response is not None:
            cls.RESPONSE = response
            key, versions, flexible = response.API_KEY, response.VERSIONS, response.FLEXIBLE
        if versions is not None:
            cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE = key, versions, flexible

    @classmethod
    def decode(
        cls: type[M],
        buffer: bytes | bytearray | memoryview,
        version: int,
        start: int = 0,
        *,
        ignore_trailing: bool = False,
    ) -> M:
        """Decode the message that begins at ``start`` and must end at the end of ``buffer``.

        With ``ignore_trailing`` further bytes may follow the message. Records become memoryviews of ``buffer``, without
        a copy; all other fields are copied.

        Raises:
            KafkaProtocolError: The bytes are truncated, too long or malformed.
            IllegalArgumentError: ``version`` is outside ``VERSIONS``.
        """
        compiled = _DECODERS.get((cls, version))
        if compiled is None:
            cls.check_version(version)
            compiled = _DECODERS[cls, version] = compile_decoder(cls, version, version >= cls.FLEXIBLE)
        decode, has_records = compiled
        data = memoryview(buffer) if has_records else buffer if isinstance(buffer, bytes) else bytes(buffer)
        try:
            message: M = decode(data, start)
        except KafkaProtocolError as error:
            if ignore_trailing and isinstance(error, TrailingBytesError):
                return cls.decode(data[: error.end], version, start)
            raise KafkaProtocolError(f"cannot decode {cls.__name__} version {version}: {error}") from None
        except (struct.error, IndexError):
            raise KafkaProtocolError(f"{cls.__name__} version {version} is truncated at byte {len(buffer)}") from None
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"{cls.__name__} version {version}: a string is not UTF-8: {error}") from None
        return message

    def encode(self, version: int) -> bytes:
        """Return the bytes of this message in ``version``, without any header.

        Raises:
            UnsupportedFieldError: A field is set that ``version`` does not have and that is not ignorable, or a field
                is None that is not nullable in ``version``.
            IllegalArgumentError: ``version`` is outside ``VERSIONS``, or a value does not fit its field.
        """
        parts: list[bytes | bytearray | memoryview] = []
        self.encode_into(parts.append, version)
        return b"".join(parts)

    def encode_into(self, write: Write, version: int) -> None:
        """Pass the bytes of this message to ``write`` piece by piece, records uncopied. Raises as :meth:`encode`."""
        cls = type(self)
        encode = _ENCODERS.get((cls, version))
        if encode is None:
            cls.check_version(version)
            encode = _ENCODERS[cls, version] = compile_encoder(cls, version, version >= cls.FLEXIBLE)
        try:
            encode(self, write)
        except (struct.error, UnicodeEncodeError) as error:
            raise IllegalArgumentError(f"cannot encode {cls.__name__} version {version}: {error}") from error

    @classmethod
    def check_version(cls, version: int) -> None:
        """Raise IllegalArgumentError if the version is outside ``VERSIONS``."""
        first, last = cls.VERSIONS
        if not first <= version <= last:
            raise IllegalArgumentError(f"{cls.__name__} supports versions {first} to {last}, not {version}")
