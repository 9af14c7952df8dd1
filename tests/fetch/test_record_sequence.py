"""Polls of many records return a sequence that can be used like a list."""

import copy
import pickle
from itertools import chain

import pytest

from thinconsumer import ConsumerRecord
from thinconsumer.fetch.record_sequence import LIST_MAX, RecordSequence, as_list_or_sequence


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


def test_few_records_are_a_list():
    many = [record(n) for n in range(LIST_MAX + 1)]
    assert type(as_list_or_sequence([Late(many[1:])])) is list
    assert type(as_list_or_sequence([many[:1], many[1:]])) is list
    assert as_list_or_sequence([many]) is many
    assert type(as_list_or_sequence([Late(many)])) is RecordSequence
    parts = [Late(many[:200]), many[200:300], Late(many[300:])]
    assert as_list_or_sequence(parts) == many == list(chain.from_iterable(parts))
