"""Offset maps: what is encoded is decoded, and any other text is refused."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.records import checksum
from thinconsumer.workers.offset_map import (
    BITMAP,
    GAPS,
    PREFIX,
    OffsetMap,
    OffsetMapError,
    bitmap_size,
    decode,
    encode,
    gap_size,
    room_for,
)  # fmt: skip

TOPIC_ID = bytes(range(16))


@st.composite
def maps(draw: st.DrawFn) -> OffsetMap:
    offset = draw(st.integers(0, 1 << 60))
    unfinished = offset
    gaps = draw(st.lists(st.integers(1, draw(st.sampled_from([3, 300, 1 << 20]))), max_size=200))
    offsets = [unfinished := unfinished + gap for gap in gaps]
    end = unfinished + draw(st.integers(2, 100))
    starts = sorted({offset, *draw(st.lists(st.integers(offset, end - 1), max_size=3))})
    return OffsetMap(offset, end, offsets, [(at, draw(st.integers(-1, 1 << 30))) for at in starts], TOPIC_ID)


def signed(data: bytes) -> str:
    return PREFIX + b64encode(data + checksum.crc32c(data).to_bytes(4, "big")).decode()


def payload(text: str) -> bytes:
    return b64decode(text[len(PREFIX) :])[:-4]


@given(maps())
def test_a_map_is_read_back(progress: OffsetMap):
    assert decode(encode(progress), progress.offset, TOPIC_ID) == progress


@pytest.mark.parametrize(("unfinished", "form"), [(range(11, 900, 2), BITMAP), ([500], GAPS)], ids=["dense", "sparse"])
def test_the_smaller_form_is_written(unfinished, form):
    text = encode(OffsetMap(10, 1_000, list(unfinished), [(10, 0)], TOPIC_ID))
    assert payload(text)[0] == form
    assert list(decode(text, 10, TOPIC_ID).unfinished) == list(unfinished)


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_finishing_a_record_never_makes_a_map_larger(before, first, second):
    offset, after = before + first, before + first + second
    assert gap_size(before, after) <= gap_size(before, offset) + gap_size(offset, after)
    assert bitmap_size(offset, after + 1) <= bitmap_size(before, after + 1)


@given(maps(), st.data())
def test_a_map_that_was_damaged_is_refused(progress: OffsetMap, data):
    text = encode(progress)
    at = data.draw(st.integers(len(PREFIX), len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != text[at]))
    damaged = text[:at] + other + text[at + 1 :]
    try:
        assert decode(damaged, progress.offset, TOPIC_ID) == progress  # bits of padding have no meaning
    except OffsetMapError:
        pass


@given(st.binary(max_size=60), st.sampled_from([GAPS, BITMAP, 2]))
def test_any_bytes_with_a_valid_checksum_are_read_or_refused(data, form):
    try:
        found = decode(signed(bytes([form]) + TOPIC_ID + data), 5, TOPIC_ID)
    except OffsetMapError:
        return
    assert found.offset == 5
    assert list(found.unfinished) == sorted(set(found.unfinished))
    assert all(5 < offset < found.end - 1 for offset in found.unfinished)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "another program"),
        ("bjAAAA==", "another program"),
        (PREFIX + "A" * 70_000, "70004 characters"),
        (PREFIX + "é", "not base64"),
        (PREFIX, "checksum"),
        (signed(b""), "ends early"),
        (signed(b"\0" + TOPIC_ID + b"\5\x85"), "ends early"),
        (signed(b"\0" + TOPIC_ID + b"\xff" * 11), "64 bits"),
        (signed(b"\0" + TOPIC_ID + b"\5\1\0"), "covers the offsets from 5 to 6"),
        (signed(b"\0" + TOPIC_ID + b"\5" + b"\xff" * 9 + b"\1\0"), "covers the offsets"),
        (signed(b"\0" + TOPIC_ID + b"\5\3\0\0\0"), "offset 7 is not finished"),
        (signed(b"\1" + TOPIC_ID + b"\5\3\0\0"), "offset 7 is not finished"),
        (signed(b"\1" + TOPIC_ID + b"\5\3\0"), "0 bytes instead of 1"),
        (signed(b"\2" + TOPIC_ID + b"\5\3\0"), "form 2"),
        (encode(OffsetMap(6, 8, [], [(6, 0)], TOPIC_ID)), "belongs to offset 6"),
        (encode(OffsetMap(5, 8, [], [(5, 0)])), "another id"),
    ],
    ids=lambda value: None,
)
def test_other_texts_are_refused_with_a_reason(text, reason):
    with pytest.raises(OffsetMapError, match=reason):
        decode(text, 5, TOPIC_ID)


def test_the_room_of_a_text_is_that_of_its_base64():
    data = bytes(room_for(4096))
    assert len(PREFIX + b64encode(data).decode()) <= 4096 < len(PREFIX + b64encode(data + b"\0").decode())
