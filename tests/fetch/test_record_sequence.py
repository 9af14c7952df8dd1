"""Polls return a sequence that can be used like a list."""

import copy
import gc
import importlib
import json
import pickle
from collections.abc import Sequence
from types import ModuleType

import pytest

from thinconsumer import Consumer, ConsumerRecord, TopicPartition
from thinconsumer.fetch import chunks
from thinconsumer.fetch.record_sequence import RecordSequence
from thinconsumer.testing import MemoryCluster


def record(offset):
    return ConsumerRecord("topic", 3, 1, offset, 1000 + offset, 0, None, b"%d" % offset)


class Late:
    """A sequence of records that is no list, and counts how many records were read of it."""

    def __init__(self, records):
        self.records = records
        self.read = 0

    def __len__(self):
        return len(self.records)

    def __iter__(self):
        return iter(self.records)

    def __getitem__(self, index):
        self.read += len(self.records[index]) if isinstance(index, slice) else 1
        return self.records[index]


RECORDS = [record(n) for n in range(10)]
PARTS = ([], [10], [3, 7], [0, 4, 0, 6], [1] * 10)


def sequence(sizes):
    rest = iter(RECORDS)
    return RecordSequence([Late([next(rest) for _ in range(size)]) for size in sizes])


@pytest.mark.parametrize("sizes", PARTS)
def test_it_is_used_like_a_list(sizes):
    found, expected = sequence(sizes), RECORDS[: sum(sizes)]
    assert len(found) == len(expected) and bool(found) is bool(expected)
    assert list(found) == list(found) == expected and list(reversed(found)) == expected[::-1]
    assert found == expected and expected == found and found == sequence(sizes)
    others = [[other] * len(expected) for other in (5, None, "x", ())] if expected else []
    assert all(found != other and other != found for other in others)
    assert found != [*expected, record(99)] and found != [record(99), *expected[1:]] and found != tuple(expected)
    assert found + RECORDS == expected + RECORDS and RECORDS + found == RECORDS + expected
    for index in (slice(None), slice(2, 5), slice(-3, None), slice(None, None, -2), slice(50, 60), slice(5, 2)):
        assert found[index] == expected[index] and isinstance(found[index], list)
    for begin in range(len(expected)):
        assert all(found[begin:end] == expected[begin:end] for end in range(begin, len(expected) + 1))
    for index in range(-len(expected), len(expected)):
        assert found[index] == expected[index]
    for index in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError):
            found[index]
    collected = [record(50)]
    collected += found
    collected.extend(found)
    assert collected == [record(50), *expected, *expected]
    assert all(row in found and found.index(row) == row.offset for row in expected)
    assert isinstance(found, Sequence) and sorted(found, key=lambda row: -row.offset) == expected[::-1]
    readable = [row._replace(value=row.value.decode()) for row in expected]
    assert json.dumps(RecordSequence([readable]), default=list) == json.dumps(readable)


def test_a_slice_reads_its_records_only():
    """Programs write the records of a poll to a database a hundred at a time: each slice must not build all of them."""
    parts = [Late(RECORDS[:4]), Late(RECORDS[4:7]), Late(RECORDS[7:])]
    found = RecordSequence(parts)
    assert [found[at : at + 2] for at in range(0, 10, 2)] == [RECORDS[at : at + 2] for at in range(0, 10, 2)]
    assert [part.read for part in parts] == [4, 3, 3]


@pytest.mark.parametrize("sizes", PARTS)
def test_copies(sizes):
    found = sequence(sizes)
    assert copy.copy(found) == copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found


def test_it_has_no_hash_as_lists_have_none():
    with pytest.raises(TypeError):
        hash(sequence([3]))


def test_its_repr_names_partition_and_offsets():
    assert repr(sequence([3, 7])) == "<RecordSequence: 10 records of topic-3, offsets 0 to 9>"
    assert repr(sequence([])) == "<RecordSequence: no records>"


def reachable(kept):
    """Return all objects that ``kept`` keeps alive, without classes and modules."""
    found, new = {}, [kept]
    while new:
        found.update((id(one), one) for one in new)
        held = (one for one in gc.get_referents(*new) if not isinstance(one, (type, ModuleType)))
        new = list({id(one): one for one in held if id(one) not in found}.values())
    return found.values()


@pytest.mark.parametrize("is_numpy", [False, True])
def test_a_poll_of_any_size_returns_sequences_whose_records_keep_nothing_else(is_numpy, monkeypatch):
    """One kept record of a million must not keep a response in memory, nor the records of another partition."""
    if is_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setattr(chunks, "import_with_numpy", lambda name: importlib.import_module("no_numpy"))
    cluster, other = MemoryCluster(1, {"t": 2}), bytes(5000)
    cluster.produce("t", [b"%d" % n for n in range(3000)], 0)
    cluster.produce("t", [other] * 3, 1)
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver(), auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        polls = [consumer.poll(1000, max_records=size) for size in (1, 600, 5000, 5000)]
    found = [records for polled in polls for records in polled.values()]
    assert {type(records) for records in found} == {RecordSequence} and sum(map(len, found)) == 3003
    for records in found:
        kept = records[len(records) // 2]
        sizes = [len(one) for one in reachable(kept) if isinstance(one, (bytes, bytearray, memoryview))]
        assert sum(sizes) == len(kept.value)
