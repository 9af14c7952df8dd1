"""XXH32 for the header checksum of lz4 frames, a few bytes of input.

Message format 0 needs the checksum corrected, and the lz4 package has no function that computes it. Follows the XXH32
specification (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
"""

from __future__ import annotations

__all__ = ["xxh32"]

_MASK = 0xFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 13) * _P1 & _MASK


def xxh32(data: bytes) -> int:
    """Return the hash of ``data`` with seed 0."""
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - len(data) % 4, 4)]
    stripes = len(words) // 4 * 4
    if stripes:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        for at, word in enumerate(words[:stripes]):
            lanes[at % 4] = _round(lanes[at % 4], word)
        acc = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18)))
    else:
        acc = _P5
    acc = (acc + len(data)) & _MASK
    for word in words[stripes:]:
        acc = _rotate((acc + word * _P3) & _MASK, 17) * _P4 & _MASK
    for byte in data[len(words) * 4 :]:
        acc = _rotate((acc + byte * _P5) & _MASK, 11) * _P1 & _MASK
    acc = (acc ^ acc >> 15) * _P2 & _MASK
    acc = (acc ^ acc >> 13) * _P3 & _MASK
    return acc ^ acc >> 16
