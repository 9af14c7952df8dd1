"""Read lz4 and zstd frames without decompressing them: the most bytes that they can hold, and lz4's header checksum.

cramjam decompresses into a buffer of the caller's. The sum of what a frame's blocks can hold at most is a size for that
buffer which a corrupt or malicious frame cannot raise above what its bytes could decompress to.

Sources: the frame formats of lz4 (version 1.6) and of zstd (RFC 8878), and the specification of xxHash.
"""

from __future__ import annotations

import struct

_UINT32_LITTLE = struct.Struct("<I")

LZ4_MAGIC = b"\x04\x22\x4d\x18"
#: The maximum ratio of an lz4 block.
LZ4_RATIO = 255
#: The flags in the fifth byte of an lz4 frame.
_DICTIONARY, _CONTENT_CHECKSUM, _CONTENT_SIZE, _BLOCK_CHECKSUM = 1, 4, 8, 16

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK_MAX = 128 * 1024

_PRIME1, _PRIME2, _PRIME3, _PRIME4, _PRIME5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def lz4_extent(data: memoryview) -> tuple[int, int]:
    """Return the end of the first lz4 frame in ``data``, and the most bytes that the frame can hold.

    Raises:
        ValueError: ``data`` begin with something else, or end before the frame's last block.
    """
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        raise ValueError("not an lz4 frame")
    flags, size_code = data[4], data[5] >> 4 & 7
    block_max = 1 << 8 + 2 * size_code  # codes 4 to 7: 64 kB to 4 MB; the decompressor rejects smaller ones
    pos = _lz4_header_size(flags)
    after = 4 if flags & _BLOCK_CHECKSUM else 0
    most, last = 0, len(data) - 4
    while pos <= last:
        (size,) = _UINT32_LITTLE.unpack_from(data, pos)
        pos += 4
        if not size:
            return pos + (4 if flags & _CONTENT_CHECKSUM else 0), most
        if size >> 31:  # not compressed
            size &= 0x7FFFFFFF
            most += size if size < block_max else block_max
        else:
            most += LZ4_RATIO * size if LZ4_RATIO * size < block_max else block_max
        pos += size + after
    raise ValueError("lz4 frame is cut off")


def _lz4_header_size(flags: int) -> int:
    return 7 + (8 if flags & _CONTENT_SIZE else 0) + (4 if flags & _DICTIONARY else 0)


def correct_lz4_checksum(frame: bytes) -> bytes:
    """Set the header checksum of an lz4 frame to the correct one, if it has a whole header.

    Kafka 0.8 and 0.9 included the magic number in the checksum. Readers of message format 0 must accept both checksums,
    the wrong and the correct one (KIP-57).
    """
    end = _lz4_header_size(frame[4]) if len(frame) > 4 else 0
    if not 0 < end <= len(frame):
        return frame
    return frame[: end - 1] + bytes((_xxh32(frame[4 : end - 1]) >> 8 & 0xFF,)) + frame[end:]


def _xxh32(data: bytes) -> int:
    """Return the xxHash of less than 16 bytes, with the seed 0: longer data are hashed in another way."""
    result = _PRIME5 + len(data)
    words = len(data) // 4
    for word in struct.unpack_from(f"<{words}I", data):
        result = _rotate(result + word * _PRIME3, 17) * _PRIME4
    for byte in data[4 * words :]:
        result = _rotate(result + byte * _PRIME5, 11) * _PRIME1
    result &= _MASK
    result = (result ^ result >> 15) * _PRIME2 & _MASK
    result = (result ^ result >> 13) * _PRIME3 & _MASK
    return result ^ result >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return value << bits & _MASK | value >> 32 - bits


def zstd_bound(data: memoryview) -> int:
    """Return the most bytes that the zstd frames in ``data`` can hold.

    Raises:
        ValueError: ``data`` have something else than frames, or end before the last frame does.
    """
    pos = most = 0
    while True:
        magic = bytes(data[pos : pos + 4])
        if magic == ZSTD_MAGIC:
            pos, held = _zstd_frame(data, pos)
            most += held
        elif magic[1:] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5:  # a skippable frame, without content
            pos += 8 + int.from_bytes(data[pos + 4 : pos + 8], "little")
        else:
            raise ValueError("not a zstd frame")
        if pos == len(data):
            return most
        if pos > len(data):
            raise ValueError("zstd frame is cut off")


def _zstd_frame(data: memoryview, pos: int) -> tuple[int, int]:
    """Return the end of the frame at ``pos``, and the most bytes that it can hold."""
    flags = int.from_bytes(data[pos + 4 : pos + 5], "little")
    single_segment = flags >> 5 & 1
    # Behind the flags: the window's size, the dictionary's id and the content's size.
    pos += 6 - single_segment + (0, 1, 2, 4)[flags & 3] + (single_segment, 2, 4, 8)[flags >> 6]
    most, last = 0, len(data) - 3
    while pos <= last:
        header = int.from_bytes(data[pos : pos + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        # Kind 0: not compressed; 1: one byte, repeated; 2: compressed, at most to a whole block.
        most += ZSTD_BLOCK_MAX if kind == 2 or size > ZSTD_BLOCK_MAX else size
        pos += 4 if kind == 1 else 3 + size
        if header & 1:  # the last block
            return pos + (flags & 4), most  # perhaps with a checksum of four bytes
    raise ValueError("zstd frame is cut off")
