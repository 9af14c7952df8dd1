"""Recompression of batches for topics with their own ``compression.type``.

Follows Kafka's ``BrokerCompressionType``: a batch in the log has the topic's codec, whichever codec the producer has
used. Records stay unchanged; compression levels are ignored.
"""

from collections.abc import Mapping
from struct import Struct

import crc32c as _crc32c

from thinconsumer.records import compression
from thinconsumer.records.batch import CODEC_MASK, CRC_COVERS_FROM, HEADER_SIZE, LOG_OVERHEAD
from thinconsumer.records.compression import Codec

#: Values of ``compression.type`` other than "producer", which keeps batches as they are.
CODECS: Mapping[str, Codec] = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip

_LENGTH_AT, _CRC_AT, _ATTRIBUTES_LOW_BYTE_AT = 8, 17, 22
_INT32 = Struct(">i")
_UINT32 = Struct(">I")


def recompress(data: bytes, compression_type: str) -> bytes:
    """Return a magic 2 batch in the topic's codec, or ``data`` itself if the codec's Python package is missing."""
    target = CODECS.get(compression_type)
    codec = data[_ATTRIBUTES_LOW_BYTE_AT] & CODEC_MASK
    if target is None or target == codec:
        return data
    body = memoryview(data)[HEADER_SIZE:]
    try:
        plain = compression.decompress(codec, body) if codec else bytes(body)
        packed = compression.compress(target, plain) if target else plain
    except compression.MissingCodecError:
        return data
    out = bytearray(data[:HEADER_SIZE]) + packed
    _INT32.pack_into(out, _LENGTH_AT, len(out) - LOG_OVERHEAD)
    out[_ATTRIBUTES_LOW_BYTE_AT] = out[_ATTRIBUTES_LOW_BYTE_AT] & ~CODEC_MASK | target
    _UINT32.pack_into(out, _CRC_AT, _crc32c.crc32c(memoryview(out)[CRC_COVERS_FROM:]))
    return bytes(out)
