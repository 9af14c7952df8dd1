"""The list of batches: search by offset and timestamp, and reads like slices of a file."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer_testing.broker.log.batches import BatchList
from thinconsumer_testing.broker.log.stored import StoredBatch


def batch(base, count=1, timestamp=0, last=None):
    records = [NewRecord(b"v", timestamp=timestamp)] * count
    return StoredBatch.of(build_batch(records, base_offset=base, last_offset_delta=last))


@pytest.fixture
def three():
    """Offsets 0-1, 2-4 (only 2 remains), and 10."""
    made = BatchList()
    for one in (batch(0, 2, 5), batch(2, 1, 3, last=2), batch(10, 1, 7)):
        made.append(one)
    return made


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (9, 2), (10, 2), (11, 3), (99, 3)]
)
def test_index_of_an_offset_in_a_batch_or_a_gap(three, offset, index):
    assert three.index_of(offset) == index
    assert list(three.from_offset(offset)) == three.items[index:]


def test_read_ends_at_the_end_offset(three):
    first, second, third = (one.data for one in three.items)
    assert three.read(0, 11, 9999, False) == first + second + third
    assert three.read(0, 10, 9999, False) == first + second
    assert three.read(0, 4, 9999, False) == first  # a batch that ends above the end offset is not read
    assert three.read(3, 11, 9999, False) == second + third
    assert three.read(5, 10, 9999, False) == b""
    assert three.read(11, 11, 9999, True) == b""
    assert three.read(4, 0, 9999, True) == b""


def test_reads_of_every_size(three):
    whole = b"".join(one.data for one in three.items)
    first = len(three.items[0].data)
    for max_bytes in range(-1, len(whole) + 2):
        assert three.read(0, 11, max_bytes, False) == whole[: max(0, max_bytes)]
        assert three.read(0, 11, max_bytes, True) == whole[: max(first, max_bytes)]


def test_single_batch_is_not_copied(three):
    assert three.read(10, 11, 9999, False) is three.items[2].data


def test_positions_continue_after_drop_front(three):
    size = three.size
    first = len(three.items[0].data)
    three.drop_front(0)
    assert three.start_position == 0
    three.drop_front(1)
    assert (three.start_position, three.end_position, three.size) == (first, size, size - first)
    assert three.read(0, 5, 9999, True) == three.items[0].data
    three.drop_back(0)
    assert (three.start_position, three.end_position, three.size, len(three)) == (first, first, 0, 0)
    three.append(batch(20))
    assert (three.end_position, len(three)) == (first + len(three.items[0].data), 1)


def test_replace_restarts_positions(three):
    three.drop_front(1)
    three.replace(three.items[1:])
    assert (three.start_position, len(three), three.index_of(0)) == (0, 1, 0)


def test_no_batch_before_the_index_has_the_timestamp(three):
    assert [three.first_index_since(timestamp) for timestamp in (0, 5, 6, 7, 8)] == [0, 0, 2, 2, 3]
    three.drop_front(1)
    # dropped batches may have had later timestamps; the search then starts too early
    assert three.first_index_since(5) == 0
