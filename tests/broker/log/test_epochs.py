"""Leader epochs: start and end offsets, as followers and consumers request them (KIP-101, KIP-279, KIP-320)."""

import pytest

from thinconsumer_testing.broker.log.log import LeaderEpochs


@pytest.fixture
def epochs():
    """Epoch 1 starts at 0, 3 at 10, 4 at 25; the log ends at 30."""
    made = LeaderEpochs()
    for epoch, start in ((1, 0), (3, 10), (4, 25)):
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),  # older than all known epochs
        (1, (1, 10)),
        (2, (1, 10)),  # no leader had this epoch, or its records were deleted
        (3, (3, 25)),
        (4, (4, 30)),
        (5, (-1, -1)),  # later than all known epochs
    ],
)
def test_end_offset_of_an_epoch(epochs, asked, answer):
    assert epochs.end_of(asked, 30) == answer


def test_end_offset_is_unknown_without_epochs():
    assert LeaderEpochs().end_of(0, 5) == (-1, -1)
    assert LeaderEpochs().latest == -1


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (4, 28, [(1, 0), (3, 10), (4, 25)]),  # known
        (4, 20, [(1, 0), (3, 10), (4, 20)]),  # it started earlier than known
        (5, 30, [(1, 0), (3, 10), (4, 25), (5, 30)]),
        (5, 25, [(1, 0), (3, 10), (5, 25)]),  # epoch 4 has no records
        (5, 5, [(1, 0), (5, 5)]),
        (2, 12, [(1, 0), (2, 12)]),  # the latest assignment counts
        (0, 0, [(0, 0)]),
        (-1, 40, [(1, 0), (3, 10), (4, 25)]),
    ],
)
def test_contradicting_entries_are_removed(epochs, epoch, start, entries):
    epochs.assign(epoch, start)
    assert epochs == entries


@pytest.mark.parametrize(("end", "entries"), [(30, 3), (26, 3), (25, 2), (11, 2), (10, 1), (1, 1), (0, 0)])
def test_truncation(epochs, end, entries):
    epochs.truncate_to(end)
    assert len(epochs) == entries


@pytest.mark.parametrize(
    ("start", "entries"),
    [(0, [(1, 0), (3, 10), (4, 25)]), (5, [(1, 5), (3, 10), (4, 25)]), (10, [(3, 10), (4, 25)]), (30, [(4, 30)])],
)
def test_deletion_from_the_front(epochs, start, entries):
    epochs.start_at(start)
    assert epochs == entries
