"""The producer's options under Kafka's names: those of every client, and those of producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..config import ClientOptions
from ..config.declare import section
from ..config.kinds import INT64, POSITIVE_INT32, POSITIVE_INT64, Choice, Integer
from ..config.values import INT32_MAX
from ..errors import KafkaConfigurationError
from ..records import compression
from ..records.compression import Codec, CodecError
from ..support.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.typed import ProducerKeywords

S = TypeVar("S", bound="ProducerSettings")

_write = section("Writing")
_CODECS = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ProducerSettings(ClientOptions):
    """The options of a :class:`Producer`. Build them with :meth:`from_options` or :meth:`from_config`.

    ``acks`` is always ``all`` and idempotence always on, so neither is an option.
    """

    delivery_timeout_ms: int = _write(
        POSITIVE_INT64,
        "A record is acknowledged or fails at most this long after its batch was created, retries included;"
        " up to 1 s later if the application polls late.",
        120000,
    )
    max_block_ms: int = _write(
        INT64,
        "How long `send` may wait for room in the buffer. With 0 it never waits, and raises `BufferFullError` at once.",
        60000,
    )
    buffer_memory: int = _write(
        POSITIVE_INT64,
        "How many bytes of unacknowledged records to hold. Encoded batches in flight take as much again.",
        33554432,
    )
    batch_size: int = _write(
        POSITIVE_INT32,
        "The largest uncompressed size of a batch, in bytes; a larger record gets its own batch. Larger than Java's "
        "default, since one batch per partition is in flight at a time. No batch waits to be filled.",
        131072,
    )
    max_request_size: int = _write(
        Integer(at_least=1024, at_most=INT32_MAX),
        "How many bytes of uncompressed records one request may carry. `send` rejects a larger record.",
        1048576,
    )
    compression_type: str = _write(Choice(tuple(_CODECS)), "The compression of batches.", "none")

    if TYPE_CHECKING:

        @classmethod
        def from_options(cls: type[S], /, **options: Unpack[ProducerKeywords]) -> S: ...

    @property
    def codec(self) -> Codec:
        """The codec that ``compression_type`` names."""
        return _CODECS[self.compression_type]

    def __post_init__(self) -> None:
        try:
            if self.codec:
                # If the codec's package is missing, this raises now and not when the first batch is encoded.
                compression.compress(self.codec, b"")
        except CodecError as error:
            raise KafkaConfigurationError(f"compression_type={self.compression_type!r}: {error}") from error
