"""XXH32 against lz4's own checksums and published values."""

from __future__ import annotations

import lz4.frame
import pytest

from thinconsumer.records.xxh32 import xxh32


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_published_values(data, expected):
    assert xxh32(data) == expected


@pytest.mark.parametrize("size", [1, 3, 4, 15, 16, 17, 31, 32, 33, 100])
def test_agrees_with_the_content_checksum_of_lz4(size):
    """The last four bytes of such a frame are the XXH32 of its content."""
    data = bytes(range(size))
    frame = lz4.frame.compress(data, content_checksum=True)
    assert xxh32(data) == int.from_bytes(frame[-4:], "little")
