"""The truth of a partition follows its logs: commits, transactions, elections, expiry and compaction."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.simulation.truth import ObservedLog, Truth

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


class Replica:
    """One replica's log, and short ways to write to it."""

    def __init__(self, truth, **config):
        self.log = ObservedLog(TP, TopicConfig(**config), truth)

    def write(self, *values, epoch=0, commit=True, **batch):
        records = [value if isinstance(value, NewRecord) else NewRecord(value, timestamp=NOW) for value in values]
        data = build_batch(records, **batch)
        self.log.append(data, leader_epoch=epoch, now_ms=NOW, from_client=False)
        if commit:
            self.commit()

    def transact(self, producer, *values, **more):
        self.write(*values, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True, **more)

    def end(self, producer, committed, epoch=0):
        self.log.append_control(
            producer_id=producer, producer_epoch=0, commit=committed, coordinator_epoch=0, leader_epoch=epoch,
            now_ms=NOW,
        )  # fmt: skip
        self.commit()

    def commit(self, to=None):
        self.log.high_watermark = self.log.end_offset if to is None else to

    def copy_to(self, other, end):
        for batch in self.log.batches_from(other.log.end_offset):
            if batch.base_offset < end:
                other.log.append_stored(batch)
        return other


class Partition:
    """A truth, the losses that it reported, and replicas."""

    def __init__(self):
        self.losses = []
        self.truth = Truth(TP, lambda truth, offset, epoch: self.losses.append((offset, epoch)))
        self.leader = self.replica()
        self.leader.log.begin_epoch(0)

    def replica(self, **config):
        return Replica(self.truth, **config)

    def copy(self, end):
        """Return a replica that has the leader's batches below an offset."""
        return self.leader.copy_to(self.replica(), end)

    def elect(self, end, epoch=1):
        """Return a new leader, of ``epoch``, that has the former leader's batches below an offset."""
        new = self.copy(end)
        new.log.begin_epoch(epoch)
        return new

    def counting(self, *, committed=False):
        """Return the offsets that an ideal reader gets, by repeated ``first_from``."""
        found, at = [], 0
        while (at := self.truth.first_from(at, 1 << 60, committed=committed)) is not None:
            found.append(at)
            at += 1
        return found


@pytest.fixture
def partition():
    """A partition with a leader of epoch 0."""
    return Partition()


# -- commits


def test_appended_records_count_once_committed(partition):
    partition.leader.write(b"a", b"b", commit=False)
    assert partition.counting() == []
    assert partition.truth.rows == {}
    partition.leader.commit()
    assert partition.counting() == [0, 1]
    truth = partition.truth
    assert (truth.end, truth.records) == (2, 2)
    assert [truth.rows[n, 0].value for n in (0, 1)] == [b"a", b"b"]
    assert truth.counts(1, 0)
    assert not truth.counts(1, 1)
    assert not truth.counts(2, 0)


def test_a_batch_is_committed_as_a_whole_or_not_at_all(partition):
    partition.leader.write(b"a", b"b", commit=False)
    partition.leader.write(b"c", commit=False)
    partition.leader.commit(1)
    assert partition.counting() == []
    partition.leader.commit(2)
    assert partition.counting() == [0, 1]
    partition.leader.commit(3)
    assert partition.counting() == [0, 1, 2]


# -- transactions


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_hidden_until_it_is_committed_and_for_ever_if_it_is_aborted(partition, committed):
    truth = partition.truth
    partition.leader.transact(4, b"a", b"b")
    partition.leader.write(b"plain")
    assert [truth.is_hidden(n, 0) for n in range(3)] == [True, True, False]
    assert (partition.counting(), partition.counting(committed=True)) == ([0, 1, 2], [2])
    partition.leader.end(4, committed)
    assert truth.is_hidden(0, 0) is not committed
    assert partition.counting(committed=True) == ([0, 1, 2] if committed else [2])
    assert partition.counting() == [0, 1, 2]  # the marker, at 3, is no record
    assert (truth.end, truth.records) == (4, 3)


def test_a_marker_ends_the_transaction_of_its_producer_only_and_only_what_came_before(partition):
    partition.leader.transact(4, b"a")
    partition.leader.transact(5, b"b")
    partition.leader.end(4, True)
    partition.leader.transact(4, b"c")
    assert partition.counting(committed=True) == [0]
    partition.leader.end(4, False)
    partition.leader.end(5, True)
    assert partition.counting(committed=True) == [0, 1]


# -- elections


def test_losing_uncommitted_records_is_no_loss(partition):
    partition.leader.write(b"a")
    partition.leader.write(b"b", commit=False)
    new = partition.elect(1)
    new.write(b"B", epoch=1)
    assert partition.losses == []
    assert partition.truth.counts(1, 1)
    assert (1, 0) not in partition.truth.rows


def test_unclean_election_loses_the_records_missing_on_the_new_leader(partition):
    for value in (b"a", b"b", b"c"):
        partition.leader.write(value)
    new = partition.elect(1)
    truth = partition.truth
    assert partition.losses == [(1, 1)]
    assert (partition.counting(), truth.end) == ([0], 1)
    new.write(b"B", epoch=1)
    assert partition.counting() == [0, 1]
    assert truth.counts(1, 1)
    assert not truth.counts(1, 0)
    assert truth.rows[1, 0].value == b"b"  # it had been committed, so a reader may have it
    assert truth.records == 4


def test_leader_that_missed_an_epoch_loses_all_of_its_records(partition):
    """Equal log ends do not suffice: the old leader has as many records of another history."""
    old = partition.leader
    old.write(b"a")
    old.write(b"zombie's", commit=False)
    new = partition.elect(1)
    new.write(b"b", epoch=1)
    assert partition.losses == []
    old.log.begin_epoch(2)
    assert partition.losses == [(1, 2)]
    assert partition.counting() == [0]
    old.commit()
    assert partition.counting() == [0, 1]
    assert partition.truth.counts(1, 0)


def test_late_leader_of_an_older_epoch_reports_a_loss_and_loses_nothing(partition):
    """It has not noticed yet that it is deposed, and answers its readers by its own shorter log."""
    partition.leader.write(b"a")
    partition.leader.write(b"b")
    partition.leader.log.begin_epoch(2)
    epochs = list(partition.truth.epochs)
    late = partition.copy(1)
    for _ in range(2):
        late.log.begin_epoch(1)
    truth = partition.truth
    assert (partition.losses, truth.epochs, partition.counting()) == ([(1, 1)], epochs, [0, 1])
    assert [truth.rival(offset, 0) for offset in (0, 1, 2)] == [None, 1, 1]
    assert truth.rival(1, 1) is None and truth.rival(2, 2) is None


def test_successor_is_the_epoch_that_replaced_a_lost_record(partition):
    partition.leader.write(b"a", b"b")
    new = partition.elect(2, 3)
    new.write(b"c", epoch=3)
    truth = partition.truth
    assert [truth.successor(offset, 0) for offset in (1, 2, 3)] == [None, 3, 3]
    assert truth.successor(9, 3) is None
    assert [truth.successor(1, epoch) for epoch in (1, 2)] == [3, 3]  # epochs 1 and 2 had no leader


def brought_back(partition):
    """Epoch 0 commits a, b, c; epoch 1 loses b and c, and commits B; then the leader of epoch 0 leads again."""
    old = partition.leader
    for value in (b"a", b"b", b"c"):
        old.write(value)
    new = partition.elect(1)
    new.write(b"B", epoch=1)
    old.log.begin_epoch(2)
    return old


def test_a_rivals_log_may_differ_before_its_epoch(partition):
    old = partition.leader
    for value in (b"a", b"b", b"c"):
        old.write(value)
    new = partition.elect(1)
    for value in (b"B", b"C"):
        new.write(value, epoch=1)
    old.log.begin_epoch(2)
    old.write(b"d", epoch=2)
    new.log.begin_epoch(3)
    truth = partition.truth
    assert [truth.counts(offset, 1) for offset in (1, 2)] == [True, True]
    assert [truth.rival(offset, 1) for offset in (0, 1, 2)] == [None, 2, 2]  # its leader has b and c there


def test_reelected_older_leader_restores_its_committed_records(partition):
    """A reader that starts now gets the records, so CoverageChecker must expect them."""
    brought_back(partition)
    truth = partition.truth
    assert partition.losses == [(1, 1), (1, 2)]
    assert (partition.counting(), truth.end, truth.epochs) == ([0, 1, 2], 3, [(0, 0), (2, 3)])
    assert truth.counts(1, 0) and not truth.counts(1, 1)
    assert (truth.records, truth.rows[1, 1].value) == (4, b"B")
    # The leader without them, of epoch 1, is a rival.
    assert [truth.rival(offset, 0) for offset in (0, 1, 2)] == [None, 1, 1]
    assert truth.rival(2, 1) is None and truth.rival(3, 2) is None


def test_a_transaction_whose_marker_was_lost_is_open_again(partition):
    partition.leader.transact(4, b"a")
    partition.leader.end(4, True)
    assert partition.counting(committed=True) == [0]
    new = partition.elect(1)
    assert partition.losses == [(1, 1)]
    assert partition.counting(committed=True) == []
    assert partition.counting() == [0]
    new.end(4, True, epoch=1)
    assert partition.counting(committed=True) == [0]


# -- expiry and compaction


def test_records_below_the_log_start_do_not_count(partition):
    partition.leader.write(b"a", b"b")
    partition.leader.write(b"c")
    partition.leader.log.delete_before(1)
    truth = partition.truth
    assert (truth.start, partition.counting()) == (1, [1, 2])
    assert not truth.counts(0, 0)
    assert truth.rows[0, 0].value == b"a"
    partition.copy(3).log.delete_before(0)
    assert truth.start == 1  # a replica with an older start changes nothing
    truth.move_start(9)
    assert (truth.start, truth.end, partition.counting()) == (9, 9, [])


def test_compaction_leaves_the_newest_of_each_key_and_what_is_not_committed(partition):
    leader = partition.leader = partition.replica(compact=True, delete=False)
    for key in (b"k", b"l", b"k"):
        leader.write(NewRecord(b"v", key, timestamp=NOW))
    leader.write(NewRecord(b"v", b"l", timestamp=NOW), commit=False)
    leader.log.compact(NOW, leader.log.high_watermark)
    assert partition.counting() == [1, 2]
    assert not partition.truth.counts(0, 0)
    assert (0, 0) in partition.truth.rows
    leader.commit()
    assert partition.counting() == [1, 2, 3]
    assert partition.truth.end == 4


def test_first_from_can_exclude_given_records(partition):
    partition.leader.write(b"a", b"b")
    first = partition.truth.first_from
    assert first(0, 9, committed=False, but={0: 0}) == 1
    assert first(0, 9, committed=False, but={0: 3}) == 0
    assert first(0, 9, committed=False, but={0: 0, 1: 0}) is None
