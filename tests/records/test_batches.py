"""Finding batches by a few fields of their headers."""

import struct

import pytest
from handmade import build_legacy
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import CorruptRecordError
from thinconsumer.records.batch import HEADER_SIZE
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition

TP = TopicPartition("orders", 3)
RECORDS = [NewRecord(b"value %d" % n, b"key", [("h", b"1")], 1000 + n) for n in range(5)]
PLAIN = build_batch(RECORDS, base_offset=100, leader_epoch=7, producer_id=9, producer_epoch=1, base_sequence=0)
OLD = build_legacy([record._replace(headers=()) for record in RECORDS], magic=1, base_offset=105)


def walk(data: bytes):
    return split(memoryview(data), TP)


def test_batches_of_all_formats_in_one_response():
    """A log that began long ago."""
    batches, error = walk(OLD + PLAIN + OLD)
    assert error is None
    assert [b.magic for b in batches] == [1] * 5 + [2] + [1] * 5
    assert b"".join(b.view for b in batches) == OLD + PLAIN + OLD


@pytest.mark.parametrize("last", [PLAIN, OLD[: len(OLD) // 5]], ids=["format 2", "format 1"])
def test_an_incomplete_batch_at_the_end_is_ignored(last):
    for size in range(len(last)):
        batches, error = walk(PLAIN + last[:size])
        assert error is None, size
        assert len(batches) == 1, size


@pytest.mark.parametrize("size", [13, 40, 61, 100])
def test_padding_of_a_down_converting_broker_is_ignored(size):
    """The broker pads with a batch header at offset -1 and a length that exceeds the remaining bytes."""
    filler = (struct.pack(">qi", -1, size) + bytes(size))[:size]
    batches, error = walk(OLD + filler)
    assert (len(batches), error) == (5, None)


def broken(place: int, value: bytes) -> bytes:
    return PLAIN[:place] + value + PLAIN[place + len(value) :]


BAD_HEADERS = {
    "length 0": broken(8, struct.pack(">i", 0)),
    "negative length": broken(8, struct.pack(">i", -1)),
    "least negative length": broken(8, struct.pack(">i", -(2**31))),
    "length below its own header": broken(8, struct.pack(">i", 48)),
    "magic 3": broken(16, b"\3"),
    "magic -1": broken(16, b"\xff"),
    "negative last offset delta": broken(23, struct.pack(">i", -1)),
    "negative base offset": broken(0, struct.pack(">q", -2)),
    "base offset that overflows": broken(0, struct.pack(">q", 2**63 - 1)),
    "old format too short for a timestamp": struct.pack(">qiIbb", 100, 21, 0, 1, 0) + bytes(40),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_error_of_a_corrupt_header_has_the_offset_and_keeps_earlier_batches(name):
    first = build_batch(RECORDS, base_offset=90)
    batches, error = walk(first + BAD_HEADERS[name] + PLAIN)
    assert [b.base_offset for b in batches] == [90]
    assert isinstance(error, CorruptRecordError)
    assert error.partition == TP
    assert error.offset in (95, 100)
    assert error.next_offset > error.offset
    assert f"byte {len(first)} of" in str(error)


def test_next_offset_after_an_unknown_magic_is_the_next_batchs():
    """All formats have the length at the same position, so the next batch can be found."""
    _, error = walk(BAD_HEADERS["magic 3"] + build_batch(RECORDS, base_offset=120))
    assert (error.offset, error.next_offset) == (100, 120)


def test_a_corrupt_length_is_not_used_to_find_the_next_batch():
    """Bytes found by a wrong length could make ``skip`` jump over many records: the batch's own offsets count."""
    lie = PLAIN[:8] + struct.pack(">i", 30) + PLAIN[12:]
    _, error = walk(lie + bytes(range(100)))
    assert (error.offset, error.next_offset) == (100, 105)


def test_offsets_of_a_corrupt_header_stay_within_the_log():
    """The fetch offset and the log end limit how far ``skip`` can jump."""
    lie = struct.pack(">q", 2**50) + PLAIN[8:16] + b"\3" + PLAIN[17:]
    _, error = split(memoryview(lie + build_batch(RECORDS, base_offset=2**51)), TP, 95, 200)
    assert (error.offset, error.next_offset) == (95, 96)


def test_splitting_reads_headers_only():
    """Corrupt records are found later, so that the next Fetch can be sent first."""
    batches, error = walk(PLAIN[:HEADER_SIZE] + bytes(len(PLAIN) - HEADER_SIZE))
    assert error is None
    with pytest.raises(CorruptRecordError):
        batches[0].decode(*TP)


def some(*parts):
    """Return batches: for each part, a base offset and a number of records, or a magic and a base offset."""
    return walk(
        b"".join(
            build_legacy(RECORDS[:1], magic=number, base_offset=base)
            if kind == "old"
            else build_batch(RECORDS[:number], base_offset=base, leader_epoch=base // 100, last_offset_delta=number)
            for kind, base, number in parts
        )
    )[0]


@given(st.lists(st.tuples(st.sampled_from(["new", "new", "old"]), st.integers(0, 300), st.integers(0, 1)), max_size=8))
def test_what_is_known_of_all_batches_is_what_their_headers_say(parts):
    batches = some(*parts)
    each = [*batches]
    assert len(batches) == len(each) == len(parts) and [batch.count for batch in each] == [*batches.counts]
    assert [batch.base_offset for batch in each] == [base for _, base, _ in parts]
    assert batches.is_mixed == any(batch.magic < 2 for batch in each)
    ends = [batch.next_offset for batch in each]
    assert batches.is_ascending == all(end <= after.base_offset for end, after in zip(ends, each[1:]))
    assert (batches.first_end, batches.next_offset) == ((ends[0], ends[-1]) if ends else (0, 0))
    assert batches.leader_epoch == (each[-1].leader_epoch if each else -1)
    assert [after - start for start, after in zip(batches.starts, batches.starts[1:])] == [b.size for b in each]
    assert not each or batches[-1].view == each[-1].view
    with pytest.raises(IndexError):
        batches[len(each)]


@pytest.mark.parametrize("old", [(), ("old", 200, 1)])
def test_the_first_batch_from_an_offset_on(old):
    """Batches of old formats are passed over: a compressed one does not tell its first offset."""
    batches = some(("new", 100, 2), *([old] if old else []), ("new", 300, 3), ("new", 400, 0))
    for offset in (0, 99, 100, 101, 200, 299, 300, 301, 399, 400, 401, 402, 999):
        for end in range(len(batches) + 1):
            for begin in range(end + 2):
                each = [i for i in range(begin, end) if batches[i].magic == 2 and batches[i].base_offset >= offset]
                assert batches.first_from(offset, begin, end) == (each[0] if each else end)


def test_no_batches():
    batches, error = walk(b"")
    assert not batches and error is None and [*batches] == [] and batches.first_from(5, 0, 0) == 0
    assert (batches.first_end, batches.next_offset, batches.is_ascending) == (0, 0, True)


def test_released_batches_keep_no_bytes():
    batches = some(("new", 100, 2), ("new", 200, 2))
    batches.release()
    assert not batches.source and [*batches.counts] == [2, 2] and batches.starts[2] > batches.starts[1] > 0


def test_the_end_of_a_corrupt_batch_is_what_its_undamaged_fields_say():
    """The record count shows a damaged offset delta, and the other way round; in doubt the lower end counts."""
    broken_value = broken(len(PLAIN) - 3, b"?")
    for damaged, end in [
        (broken(23, struct.pack(">i", 900)), 105),
        (broken(23, struct.pack(">i", 1)), 105),
        (broken(57, struct.pack(">i", 900)), 105),
        (broken(57, struct.pack(">i", 1)), 105),
        (broken_value, 105),
        (broken_value[:57] + struct.pack(">i", 3) + broken_value[61:], 103),
    ]:
        (batch,) = walk(damaged)[0]
        assert not batch.is_whole() and batch.probable_end(100) == end
