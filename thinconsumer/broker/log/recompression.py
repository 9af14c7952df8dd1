"""Compressing batches anew, for topics that have a codec of their own.

Follows Kafka's ``BrokerCompressionType``: whatever codec a producer chose, the log has the topic's.
The records themselves stay as they are; levels of compression are not kept to.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

import crc32c as _crc32c

from ...records import compression
from ...records.batch import CODEC_MASK, CRC_COVERS_FROM, HEADER_SIZE, LOG_OVERHEAD
from ...records.compression import Codec

#: What ``compression.type`` can be besides "producer", which leaves batches alone.
CODECS: Mapping[str, Codec] = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip

_LENGTH_AT, _CRC_AT, _ATTRIBUTES_LOW_BYTE_AT = 8, 17, 22
_INT32 = Struct(">i")
_UINT32 = Struct(">I")


def recompress(data: bytes, compression_type: str) -> bytes:
    """Return a batch of format 2 in the topic's codec; as it is where it has that codec, or the package is missing."""
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
