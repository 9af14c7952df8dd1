"""Compression codecs: ids, the package used for each, compression, and decompression with a size limit.

lz4 and zstd are those of the packages lz4 and zstandard; from Python 3.14 on, which those packages have no wheels for
without a GIL, of cramjam and of the standard library, or of cramjam where Python was built without zstd.

Errors raised here name no partition; :mod:`.batch` adds it. Formats follow Kafka's ``common/compress``: gzip members,
snappy raw (librdkafka) or in xerial framing (Java and other clients), lz4 frames (KIP-57; in message format 0 with the
wrong header checksum of Kafka 0.8 and 0.9), zstd frames (KIP-110).

The size that a frame claims is not trusted: decompression stops at ``DECOMPRESSED_BYTES_MAX``, and allocates no memory
for a claim with a ratio that the format cannot reach (lz4: over 255; snappy: over 64).
"""

from __future__ import annotations

import enum
import struct
import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..support.imports import import_uninterrupted
from .frames import correct_lz4_checksum, lz4_extent, zstd_bound

#: The maximum decompressed size of a batch, which is decompressed at once (in Java, piece by piece). Brokers limit only
#: the compressed size, but producers the *uncompressed* one (``max.request.size``, 1 MB by default), so that valid data
#: stays far below. librdkafka rejects zstd data above ``receive.message.max.bytes``, 100 MB by default.
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16
XERIAL_BLOCK = 32 * 1024
#: The minimum size of the first buffer for a zstd frame, since frames rarely declare their decompressed size. If the
#: buffer is too small, the frame is decompressed again in small steps.
ZSTD_FIRST_TRY = 128 * 1024
#: How much compressed data a decompressor gets at once behind the first of several concatenated frames: it copies what
#: is behind the end of a frame, so that with all data at once, 100,000 empty frames would take minutes.
NEXT_FRAMES = 4096
#: The size of the buffers that cramjam decompresses to, and the maximum size of those that are kept for later frames.
BUFFER, BUFFER_KEPT = 64 * 1024, 1024 * 1024
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")


class Codec(enum.IntEnum):
    """Compression codecs, as in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CodecError(KafkaError):
    """The compressed data are corrupt, or exceed the size limit when decompressed."""


class MissingCodecError(CodecError):
    """The codec is unknown, or its package is not installed; ``pip install`` with ``extra`` installs the package."""

    def __init__(self, message: str, codec: str, extra: str) -> None:
        super().__init__(message)
        self.codec = codec
        self.extra = extra


class _CodecFunctions(NamedTuple):
    decompress: Callable[[memoryview], bytes]
    compress: Callable[[bytes, int | None], bytes]
    errors: tuple[type[Exception], ...]  #: The exceptions that these two functions raise, mostly for corrupt data.
    package: str


def _too_large() -> CodecError:
    return CodecError(f"the data decompress to more than {DECOMPRESSED_BYTES_MAX} bytes, the maximum")


def _inflate(make: Callable[[], Any], data: memoryview, ended: str) -> bytes:
    """Decompress one or more concatenated frames; if the last one is cut off, raise CodecError with the text ``ended``.

    ``make`` returns a new decompressor with the interface of ``zlib.decompressobj``.
    """
    parts: list[bytes] = []
    room, pos, piece, stream = DECOMPRESSED_BYTES_MAX, 0, data, make()
    while True:
        part = stream.decompress(piece, room + 1)
        room -= len(part)
        if room < 0:
            raise _too_large()
        parts.append(part)
        pos += len(piece)
        if stream.eof:
            pos -= len(stream.unused_data)
            if pos == len(data):
                return part if len(parts) == 1 else b"".join(parts)
            stream = make()
        elif pos == len(data):
            raise CodecError(ended)
        piece = data[pos : pos + NEXT_FRAMES]


def _load_gzip() -> _CodecFunctions:
    def decompress(data: memoryview) -> bytes:
        return _inflate(lambda: zlib.decompressobj(31), data, "gzip stream is cut off")

    def compress(data: bytes, level: int | None) -> bytes:
        stream = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, 31)
        return stream.compress(data) + stream.flush()

    return _CodecFunctions(decompress, compress, (zlib.error,), "zlib")


def _load_snappy() -> _CodecFunctions:
    cramjam, errors = _cramjam()
    raw_length, raw = cramjam.snappy.decompress_raw_len, cramjam.snappy.decompress_raw

    def block(data: memoryview, room: int) -> bytes:
        length = raw_length(data)
        if length > room:
            raise _too_large()
        if length > 64 * len(data):  # impossible: 3 bytes yield 64 at most
            raise CodecError(f"snappy block of {len(data)} bytes claims to hold {length}, more than its size permits")
        return bytes(raw(data))

    def decompress(data: memoryview) -> bytes:
        if data[:8] != XERIAL_MAGIC:
            return block(data, DECOMPRESSED_BYTES_MAX)
        # The version in the stream's header is not checked: Redpanda writes it in little-endian order.
        parts: list[bytes] = []
        room, pos, end = DECOMPRESSED_BYTES_MAX, XERIAL_HEADER, len(data)
        while pos < end:
            if data[pos : pos + 8] == XERIAL_MAGIC:  # the header of a further stream: streams may be concatenated
                pos += XERIAL_HEADER
                continue
            if end - pos < 4:
                raise CodecError("snappy stream is cut off")
            (length,) = _INT32.unpack_from(data, pos)
            pos += 4
            if not 0 < length <= end - pos:
                raise CodecError(f"xerial block claims {length} bytes, but {end - pos} are left")
            parts.append(block(data[pos : pos + length], room))
            room -= len(parts[-1])
            pos += length
        if pos > end:
            raise CodecError("snappy stream is cut off")
        return b"".join(parts)

    def compress(data: bytes, level: int | None) -> bytes:
        """Compress to xerial framing, as Java does, because every client can read this form of snappy."""
        out = [XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
        for start in range(0, len(data), XERIAL_BLOCK):
            packed = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
            out += (_INT32.pack(len(packed)), packed)
        return b"".join(out)

    return _CodecFunctions(decompress, compress, errors, "cramjam")


def _cramjam() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the package and the exceptions that its functions raise."""
    cramjam = import_uninterrupted("cramjam")
    return cramjam, (cramjam.DecompressionError, cramjam.CompressionError)


def _decompress_into(
    decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, most: int, spare: list[bytearray]
) -> bytes:
    """Decompress by a function of cramjam's that fails when the buffer is full.

    Args:
        most: the most bytes that ``data`` can hold. Without a buffer of at least this size, the size limit would not
            hold: cramjam's other functions return whatever the data decompress to.
        spare: buffers that no thread is using.
    """
    size = min(most, DECOMPRESSED_BYTES_MAX + 1)
    try:
        buffer = spare.pop()
    except IndexError:
        buffer = bytearray(max(size, BUFFER))
    if len(buffer) < size:
        buffer = bytearray(size)
    try:
        length = decompress_into(data, buffer)
    except Exception as exc:
        if size < most and "whole buffer" in str(exc):
            raise _too_large() from None
        raise
    if length > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    plain = bytes(memoryview(buffer)[:length])
    if len(buffer) <= BUFFER_KEPT:
        spare.append(buffer)
    return plain


def _load_cramjam_lz4() -> _CodecFunctions:
    cramjam, errors = _cramjam()
    lz4, spare = cramjam.lz4, list[bytearray]()

    def decompress(data: memoryview) -> bytes:
        end, most = lz4_extent(data)
        # Without what is behind the frame, which is ignored as by Java's client: cramjam would read it, too.
        return _decompress_into(lz4.decompress_into, data[:end], most, spare)

    def compress(data: bytes, level: int | None) -> bytes:
        # Each block is independent (``block_linked=False``): Java rejects frames with blocks that depend on others.
        stream = lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
        stream.compress(data)
        return bytes(stream.finish())

    return _CodecFunctions(decompress, compress, (*errors, ValueError), "cramjam")


def _load_lz4() -> _CodecFunctions:
    frame = import_uninterrupted("lz4.frame")
    #: Contexts that no thread is using. To make one takes as long as to decompress a batch of six records.
    contexts: list[Any] = []

    def decompress(data: memoryview) -> bytes:
        try:
            context = contexts.pop()
        except IndexError:
            context = frame.create_decompression_context()
        # Without max_length the package would allocate the size that the frame claims; 255 is lz4's maximum ratio.
        most = 255 * len(data) + 1
        if most > DECOMPRESSED_BYTES_MAX:
            most = DECOMPRESSED_BYTES_MAX + 1
        plain: bytes
        plain, _, ended = frame.decompress_chunk(context, data, max_length=most)
        if len(plain) > DECOMPRESSED_BYTES_MAX:
            raise _too_large()
        if not ended:
            raise CodecError("lz4 frame is cut off")
        # Kept only after success: after a frame with a wrong content size, a context would fail on the next frame, too.
        contexts.append(context)
        return plain

    def compress(data: bytes, level: int | None) -> bytes:
        # Each block is independent (``block_linked=False``): Java rejects frames with blocks that depend on others.
        packed: bytes = frame.compress(data, compression_level=level or 0, block_linked=False, store_size=False)
        return packed

    return _CodecFunctions(decompress, compress, (RuntimeError, ValueError), "lz4")


def _load_zstd() -> _CodecFunctions:
    try:
        zstd: Any = import_uninterrupted("compression.zstd")  # since Python 3.14
    except ImportError:
        return _load_cramjam_zstd() if _FROM_3_14 else _load_zstandard()

    def decompress(data: memoryview) -> bytes:
        return _inflate(zstd.ZstdDecompressor, data, "zstd frame is cut off")

    def compress(data: bytes, level: int | None) -> bytes:
        packed: bytes = zstd.compress(data, 3 if level is None else level)
        return packed

    return _CodecFunctions(decompress, compress, (zstd.ZstdError, EOFError), "compression.zstd")


def _load_cramjam_zstd() -> _CodecFunctions:
    cramjam, errors = _cramjam()
    zstd, spare = cramjam.zstd, list[bytearray]()

    def decompress(data: memoryview) -> bytes:
        return _decompress_into(zstd.decompress_into, data, zstd_bound(data), spare)

    def compress(data: bytes, level: int | None) -> bytes:
        return bytes(zstd.compress(data, 3 if level is None else level))

    return _CodecFunctions(decompress, compress, (*errors, ValueError), "cramjam")


def _load_zstandard() -> _CodecFunctions:
    zstd: Any = import_uninterrupted("zstandard")
    #: Decompressors that no thread is using: one of them must not be used by two threads at the same time.
    inflaters: list[Any] = []

    def decompress(data: memoryview) -> bytes:
        # -1: no size declared, as in frames of Java, librdkafka and brokers
        claim = zstd.frame_content_size(data)
        if claim > DECOMPRESSED_BYTES_MAX:
            raise _too_large()
        try:
            inflater = inflaters.pop()
        except IndexError:
            inflater = zstd.ZstdDecompressor()
        try:
            guess = min(DECOMPRESSED_BYTES_MAX, max(ZSTD_FIRST_TRY, 32 * len(data)))
            plain: bytes = inflater.decompress(data, max_output_size=guess, allow_extra_data=False)
        except zstd.ZstdError:  # the data exceed the buffer, or are several frames, or are corrupt
            plain = _unpack_zstd_stepwise(inflater, data)
        inflaters.append(inflater)
        return plain

    def compress(data: bytes, level: int | None) -> bytes:
        packed: bytes = zstd.ZstdCompressor(level=3 if level is None else level).compress(data)
        return packed

    return _CodecFunctions(decompress, compress, (zstd.ZstdError,), "zstandard")


def _unpack_zstd_stepwise(inflater: Any, data: memoryview) -> bytes:
    """Decompress any number of frames of any size.

    Each step takes 256 bytes, so that the last one exceeds the size limit by a few MB only: 4 bytes can expand to a
    block of 128 kB.
    """
    parts: list[bytes] = []
    room, pos = DECOMPRESSED_BYTES_MAX, 0
    stream = inflater.decompressobj()
    while pos < len(data):
        if stream.eof:
            stream = inflater.decompressobj()
        step = data[pos : pos + 256]
        parts.append(stream.decompress(step))
        room -= len(parts[-1])
        if room < 0:
            raise _too_large()
        pos += len(step) - len(stream.unused_data)
    if not stream.eof:
        raise CodecError("zstd frame is cut off")
    return b"".join(parts)


_FROM_3_14 = sys.version_info >= (3, 14)
#: By codec: the function that loads its package, and the argument of ``pip install`` that installs that package.
_CODECS: dict[int, tuple[Callable[[], _CodecFunctions], str]] = {
    Codec.GZIP: (_load_gzip, ""),
    Codec.SNAPPY: (_load_snappy, "thinconsumer[snappy]"),
    Codec.LZ4: (_load_cramjam_lz4, "cramjam") if _FROM_3_14 else (_load_lz4, "lz4"),
    Codec.ZSTD: (_load_zstd, "cramjam" if _FROM_3_14 else "zstandard"),
}


@cache
def _functions(codec: int) -> _CodecFunctions:
    if codec not in _CODECS:
        raise MissingCodecError(
            f"compression codec {codec} is unknown: upgrade thinconsumer", f"codec {codec}", "thinconsumer"
        )
    load, extra = _CODECS[codec]
    try:
        functions = load()
        return functions._replace(errors=(*functions.errors, MemoryError, OverflowError))
    except ImportError as exc:  # do not cache: the package may be installed while the program runs, as in a notebook
        name = Codec(codec).name.lower()
        raise MissingCodecError(
            f"{name} needs a package that is not installed ({exc}): pip install '{extra}'", name, extra
        ) from exc


def decompress(codec: int, data: memoryview, *, magic: int = 2) -> bytes:
    """Decompress ``data`` from a batch of format ``magic``. Raises only CodecError, also for too large a result."""
    functions = _functions(codec)
    try:
        if magic == 0 and codec == Codec.LZ4:
            data = memoryview(correct_lz4_checksum(bytes(data)))
        return functions.decompress(data)
    except functions.errors as exc:
        raise CodecError(f"{Codec(codec).name.lower()} decompression failed: {exc or type(exc).__name__}") from exc


def compress(codec: int, data: bytes, *, level: int | None = None) -> bytes:
    """Compress ``data``, snappy in xerial framing. ``level``: None for the codec's default. Raises CodecError only."""
    functions = _functions(codec)
    try:
        return functions.compress(data, level)
    except functions.errors as exc:
        raise CodecError(f"{Codec(codec).name.lower()} compression failed: {exc or type(exc).__name__}") from exc


def available() -> dict[str, str]:
    """Return, by codec name, the package that decompresses it, or ``"missing: pip install ..."``."""
    found = {"none": "built in"}
    for codec in _CODECS:
        try:
            found[Codec(codec).name.lower()] = _functions(codec).package
        except MissingCodecError as exc:
            found[exc.codec] = f"missing: pip install '{exc.extra}'"
    return found
