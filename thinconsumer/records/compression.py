"""Codecs: names and ids, which package serves each, and bounded compression and decompression.

Knows nothing of batches, partitions or offsets: :mod:`.batch` adds those to the errors raised here. Formats follow
Kafka's ``common/compress``: gzip members, snappy raw (librdkafka) or in xerial's framing (Java and the others), lz4
frames (KIP-57; with the wrong header checksum of Kafka 0.8 and 0.9 in message format 0), zstd frames (KIP-110).

What a frame says about its size is not believed. Everything stops at ``limit`` bytes, and where the format itself
bounds what n bytes can become (lz4 255 times, snappy 64), nothing is allocated for a claim beyond that.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import KafkaError
from .xxh32 import xxh32

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "Codec",
    "CodecError",
    "MissingCodecError",
    "available",
    "compress",
    "decompress",
]

#: One batch may become this large. Brokers bound only the compressed size (``max.message.bytes``, 1 MB by default),
#: and Java's consumer nothing, because it inflates piece by piece; we inflate a batch at once. librdkafka refuses zstd
#: that grows over ``receive.message.max.bytes``, 100 MB by default. Producers bound the *uncompressed* size of a batch
#: and of a record (``max.request.size``, 1 MB by default), so honest data stays far below.
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16
XERIAL_BLOCK = 32 * 1024
#: zstd frames seldom say how large they are: room enough for a 64 kB batch at the first attempt.
ZSTD_FIRST_TRY = 128 * 1024
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")


class Codec(enum.IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CodecError(KafkaError):
    """Compressed bytes are broken, or become more than is allowed."""


class MissingCodecError(CodecError):
    """``codec`` needs a package that is not installed; ``extra`` is what to give to pip. Or nobody knows the codec."""

    def __init__(self, message: str, codec: str, extra: str) -> None:
        super().__init__(message)
        self.codec = codec
        self.extra = extra


class _Functions(NamedTuple):
    decompress: Callable[[memoryview, int], bytes]
    compress: Callable[[bytes, int | None], bytes]
    errors: tuple[type[Exception], ...]  #: What the package raises for broken input.
    package: str


def _too_large(limit: int) -> CodecError:
    return CodecError(f"decompresses to more than {limit} bytes")


def _inflate(make: Callable[[], Any], data: memoryview, limit: int, ended: str) -> bytes:
    """Run a ``decompress(data, max_length)`` object of the standard library's kind over one or more frames."""
    parts: list[bytes] = []
    room = limit
    rest: Any = data
    while True:
        stream = make()
        part = stream.decompress(rest, room + 1)
        room -= len(part)
        if room < 0:
            raise _too_large(limit)
        parts.append(part)
        if not stream.eof:
            raise CodecError(ended)
        rest = stream.unused_data
        if not rest:
            return part if len(parts) == 1 else b"".join(parts)


def _load_gzip() -> _Functions:
    def decompress(data: memoryview, limit: int) -> bytes:
        return _inflate(lambda: zlib.decompressobj(31), data, limit, "gzip stream is cut off")

    def compress(data: bytes, level: int | None) -> bytes:
        stream = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, 31)
        return stream.compress(data) + stream.flush()

    return _Functions(decompress, compress, (zlib.error,), "zlib")


def _load_snappy() -> _Functions:
    cramjam = import_module("cramjam")
    raw_length, raw = cramjam.snappy.decompress_raw_len, cramjam.snappy.decompress_raw

    def block(data: memoryview, room: int, limit: int) -> bytes:
        length = raw_length(data)
        if length > room:
            raise _too_large(limit)
        if length > 64 * len(data):  # a copy of 64 bytes takes two at least: do not allocate for a lie
            raise CodecError(f"snappy block of {len(data)} bytes claims to hold {length}")
        return bytes(raw(data))

    def decompress(data: memoryview, limit: int) -> bytes:
        if data[:8] != XERIAL_MAGIC:
            return block(data, limit, limit)
        return b"".join(_xerial_blocks(data, block, limit))

    def compress(data: bytes, level: int | None) -> bytes:
        """Xerial framing, as Java: what every client can read."""
        out = [XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
        for start in range(0, len(data), XERIAL_BLOCK):
            packed = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
            out += (_INT32.pack(len(packed)), packed)
        return b"".join(out)

    return _Functions(decompress, compress, (cramjam.DecompressionError, cramjam.CompressionError), "cramjam")


def _xerial_blocks(data: memoryview, block: Callable[[memoryview, int, int], bytes], limit: int) -> list[bytes]:
    """The blocks of a xerial stream. Its version is not looked at: Redpanda writes it little-endian."""
    parts: list[bytes] = []
    room, pos, end = limit, XERIAL_HEADER, len(data)
    while pos < end:
        if data[pos : pos + 8] == XERIAL_MAGIC:  # streams may be concatenated
            pos += XERIAL_HEADER
            continue
        if end - pos < 4:
            raise CodecError("xerial stream is cut off")
        (length,) = _INT32.unpack_from(data, pos)
        pos += 4
        if not 0 < length <= end - pos:
            raise CodecError(f"xerial block of {length} bytes where {end - pos} are left")
        parts.append(block(data[pos : pos + length], room, limit))
        room -= len(parts[-1])
        pos += length
    if pos > end:
        raise CodecError("xerial stream is cut off")
    return parts


def _load_lz4() -> _Functions:
    frame = import_module("lz4.frame")

    def decompress(data: memoryview, limit: int) -> bytes:
        # A new one each time: used again, it fails the frame after one that lied about its size (and is no faster).
        stream = frame.LZ4FrameDecompressor()
        # Without a bound the package would allocate what the frame claims: so no more than lz4 can make of these bytes.
        plain: bytes = stream.decompress(data, max_length=min(limit + 1, 255 * len(data) + 1))
        if len(plain) > limit:
            raise _too_large(limit)
        if not stream.eof:
            raise CodecError("lz4 frame is cut off")
        return plain

    def compress(data: bytes, level: int | None) -> bytes:
        # Independent blocks: Java refuses dependent ones.
        packed: bytes = frame.compress(data, compression_level=level or 0, block_linked=False, store_size=False)
        return packed

    return _Functions(decompress, compress, (RuntimeError, ValueError), "lz4")


def _load_zstd() -> _Functions:
    try:
        return _load_stdlib_zstd()
    except ImportError:
        return _load_zstandard()


def _load_stdlib_zstd() -> _Functions:
    zstd: Any = import_module("compression.zstd")

    def decompress(data: memoryview, limit: int) -> bytes:
        return _inflate(zstd.ZstdDecompressor, data, limit, "zstd frame is cut off")

    def compress(data: bytes, level: int | None) -> bytes:
        packed: bytes = zstd.compress(data, 3 if level is None else level)
        return packed

    return _Functions(decompress, compress, (zstd.ZstdError, EOFError), "compression.zstd")


def _load_zstandard() -> _Functions:
    zstd: Any = import_module("zstandard")
    inflater = zstd.ZstdDecompressor()

    def decompress(data: memoryview, limit: int) -> bytes:
        claim = zstd.frame_content_size(data)  # -1: not said, which is how Java, librdkafka and the broker write
        if claim > limit:
            raise _too_large(limit)
        try:
            guess = min(limit, max(ZSTD_FIRST_TRY, 32 * len(data)))
            plain: bytes = inflater.decompress(data, max_output_size=guess, allow_extra_data=False)
        except zstd.ZstdError:  # does not fit, several frames, or broken
            return _unpack_zstd_stepwise(inflater, data, limit)
        return plain

    def compress(data: bytes, level: int | None) -> bytes:
        packed: bytes = zstd.ZstdCompressor(level=3 if level is None else level).compress(data)
        return packed

    return _Functions(decompress, compress, (zstd.ZstdError,), "zstandard")


def _unpack_zstd_stepwise(inflater: Any, data: memoryview, limit: int) -> bytes:
    """Any number of frames of any size: little goes in at a time, since four bytes can become a block of 128 kB."""
    parts: list[bytes] = []
    room, pos = limit, 0
    stream = inflater.decompressobj()
    while pos < len(data):
        if stream.eof:
            stream = inflater.decompressobj()
        step = data[pos : pos + 256]
        parts.append(stream.decompress(step))
        room -= len(parts[-1])
        if room < 0:
            raise _too_large(limit)
        pos += len(step) - len(stream.unused_data)
    if not stream.eof:
        raise CodecError("zstd frame is cut off")
    return b"".join(parts)


class _Row(NamedTuple):
    load: Callable[[], _Functions]
    extra: str  #: What ``pip install`` wants when the package is missing.


_CODECS: dict[int, _Row] = {
    Codec.GZIP: _Row(_load_gzip, ""),
    Codec.SNAPPY: _Row(_load_snappy, "thinconsumer[snappy]"),
    Codec.LZ4: _Row(_load_lz4, "lz4"),
    Codec.ZSTD: _Row(_load_zstd, "zstandard"),
}


@cache
def _functions(codec: int) -> _Functions:
    row = _CODECS.get(codec)
    if row is None:
        raise MissingCodecError(
            f"compression codec {codec} is not known to this version", f"codec {codec}", "thinconsumer"
        )
    try:
        functions = row.load()
        return functions._replace(errors=(*functions.errors, MemoryError, OverflowError))
    except ImportError as exc:  # not cached: the package may be installed while we run, as in a notebook
        name = Codec(codec).name.lower()
        raise MissingCodecError(
            f"{name} needs a package that is not installed ({exc}): pip install '{row.extra}'", name, row.extra
        ) from exc


def decompress(codec: int, data: memoryview, limit: int = DECOMPRESSED_BYTES_MAX, *, magic: int = 2) -> bytes:
    """What ``data`` holds, at most ``limit`` bytes; ``magic`` is the message format it stands in.

    Raises: CodecError, and nothing else.
    """
    functions = _functions(codec)
    try:
        if codec == Codec.LZ4 and magic == 0:
            data = memoryview(_patch_lz4_checksum(bytes(data), broken=False))
        return functions.decompress(data, limit)
    except functions.errors as exc:
        raise CodecError(f"{Codec(codec).name.lower()}: {exc or type(exc).__name__}") from exc


def compress(codec: int, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """``data`` as clients of message format ``magic`` expect it; snappy in xerial framing.

    Raises: CodecError, and nothing else.
    """
    functions = _functions(codec)
    try:
        packed = functions.compress(data, level)
    except functions.errors as exc:
        raise CodecError(f"{Codec(codec).name.lower()}: {exc or type(exc).__name__}") from exc
    return _patch_lz4_checksum(packed, broken=True) if codec == Codec.LZ4 and magic == 0 else packed


def _patch_lz4_checksum(frame: bytes, *, broken: bool) -> bytes:
    """Set the header checksum of an lz4 frame to the right one, or to the wrong one of Kafka 0.8 and 0.9.

    Those computed it over the magic number too, and message format 0 keeps their frames for ever; readers of that
    format must accept either (KIP-57).
    """
    if len(frame) < 7:
        return frame
    at = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    checksum = xxh32(frame[0 if broken else 4 : at]) >> 8 & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def available() -> dict[str, str]:
    """Codec names and the package that serves each, or ``"missing: pip install ..."``."""
    found = {"none": "built in"}
    for codec in _CODECS:
        try:
            found[Codec(codec).name.lower()] = _functions(codec).package
        except MissingCodecError as exc:
            found[exc.codec] = f"missing: pip install '{exc.extra}'"
    return found
