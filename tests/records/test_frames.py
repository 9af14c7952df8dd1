"""What lz4 and zstd frames can hold at most, and lz4's header checksum."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.records.compression import Codec, compress
from thinconsumer.records.frames import _xxh32, correct_lz4_checksum, lz4_extent, zstd_bound

cramjam = pytest.importorskip("cramjam")
REPEATED = st.builds(lambda part, times: part * times, st.binary(max_size=60), st.integers(0, 9000))
BLOCK = {"lz4": 64 * 1024, "zstd": 128 * 1024}


def zstd_extent(data: memoryview) -> tuple[int, int]:
    return len(data), zstd_bound(data)


EXTENT = {"lz4": lz4_extent, "zstd": zstd_extent}
WRITERS = {
    "lz4": [lambda data: compress(Codec.LZ4, data), lambda data: bytes(cramjam.lz4.compress(data))],
    "zstd": [lambda data: compress(Codec.ZSTD, data), lambda data: bytes(cramjam.zstd.compress(data))],
}


@given(st.sampled_from(["lz4", "zstd"]), st.integers(0, 1), REPEATED)
@settings(max_examples=60)
def test_the_bound_is_at_most_one_block_above_the_size(codec, writer, data):
    packed = WRITERS[codec][writer](data)
    end, most = EXTENT[codec](memoryview(packed))
    assert end == len(packed)
    assert len(data) <= most <= len(data) + BLOCK[codec]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("writer", [0, 1])
def test_a_frame_that_is_cut_off_has_no_end_in_the_data(codec, writer):
    packed = WRITERS[codec][writer](b"some text that repeats itself, some text that repeats itself" * 5)
    for size in range(len(packed)):
        try:
            assert EXTENT[codec](memoryview(packed)[:size])[0] > size
        except ValueError:
            continue


def test_data_behind_an_lz4_frame_are_not_part_of_it():
    packed = compress(Codec.LZ4, b"text")
    assert lz4_extent(memoryview(packed + packed)) == lz4_extent(memoryview(packed))


def test_frames_of_zstd_are_added_up_and_skippable_ones_are_empty():
    one, skippable = compress(Codec.ZSTD, bytes(1000)), b"\x5f\x2a\x4d\x18\3\0\0\0abc"
    most = zstd_bound(memoryview(one))
    assert zstd_bound(memoryview(skippable + one + skippable + one)) == 2 * most
    with pytest.raises(ValueError, match="cut off"):
        zstd_bound(memoryview(one + skippable[:-1]))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@given(st.booleans(), st.binary(max_size=60))
@settings(max_examples=200)
def test_anything_else_is_a_value_error(codec, is_frame, data):
    if is_frame:
        data = compress(Codec[codec.upper()], b"text")[:4] + data
    try:
        end, most = EXTENT[codec](memoryview(data))
    except ValueError:
        return
    assert end > 0
    assert 0 <= most <= BLOCK["zstd"] * len(data)


@pytest.mark.parametrize(
    ("data", "result"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)]
)
def test_xxhash(data, result):
    assert _xxh32(data) == result


@pytest.mark.parametrize("size", range(20))
def test_a_header_that_is_cut_off_stays_as_it_is(size):
    frame = bytes(cramjam.lz4.compress(b"text"))
    assert correct_lz4_checksum(frame[:size]) == frame[:size]
