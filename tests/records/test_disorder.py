"""Which batches of a response are usable, and the fault of the first that is not."""

import pytest
from handmade import build_legacy

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.disorder import usable


def batches(*parts):
    """Return batches of (base offset, number of records)."""
    records = [NewRecord(b"value")] * 9
    data = b"".join(build_batch(records[:count], base_offset=base) for base, count in parts)
    return split(memoryview(data))[0]


def bases(found):
    return [batch.base_offset for batch in found]


def test_batches_in_order_are_all_usable():
    found, fault = usable(batches((8, 4), (12, 1), (20, 3)), 10, check_crcs=True)
    assert (bases(found), fault) == ([8, 12, 20], None)
    assert found.next_offset == 23


def test_only_the_first_batches_may_end_below_the_position():
    found, fault = usable(batches((3, 1), (0, 2), (10, 1)), 10, check_crcs=True)
    assert (bases(found), fault) == ([10], None)
    found, fault = usable(batches((3, 1), (10, 1), (0, 2), (13, 1)), 10, check_crcs=True)
    assert bases(found) == [10] and (fault.offset, fault.next_offset) == (11, 13)
    assert usable(batches((3, 1), (0, 2)), 10, check_crcs=True)[0].counts == batches().counts


@pytest.mark.parametrize("check_crcs", [True, False])
def test_an_inflated_offset_delta_is_the_fault_of_its_own_batch(check_crcs):
    data = bytearray(batches((0, 1), (1, 1), (2, 1), (3, 1)).source)
    data[2 * len(data) // 4 + 26] = 200
    found, fault = usable(split(memoryview(data))[0], 0, check_crcs)
    assert bases(found) == [0, 1] and (fault.offset, fault.next_offset) == (2, 3)


def test_messages_of_old_formats_are_compared_by_their_own_offsets():
    data = b"".join(build_legacy([NewRecord(b"v")], magic=1, base_offset=base) for base in (0, 1, 9, 3, 4))
    found, fault = usable(split(memoryview(data))[0], 0, check_crcs=True)
    assert bases(found) == [0, 1] and (fault.offset, fault.next_offset) == (2, 3)


@pytest.mark.parametrize("below", [(3, 1), (0, 9)])
def test_a_batch_below_the_position_before_a_hole_that_compaction_left_is_left_out(below):
    found, fault = usable(batches(below, (15, 1)), 10, check_crcs=True)
    assert (bases(found), fault) == ([15], None)


def test_a_batch_below_the_position_that_fits_exactly_before_the_next_one_is_a_fault():
    """Its base offset has been lowered; without an error its records would be lost."""
    found, fault = usable(batches((2, 5), (15, 1)), 10, check_crcs=True)
    assert bases(found) == [] and (fault.offset, fault.next_offset) == (10, 15)
