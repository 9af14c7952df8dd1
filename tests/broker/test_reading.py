"""Reading partitions: isolation, aborted transactions, shared limits, the preferred read replica."""

from types import SimpleNamespace

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition
from thinconsumer_testing.broker import reading
from thinconsumer_testing.broker.fetch_sessions import NO_ID, CachedPartition
from thinconsumer_testing.broker.reading import (
    FetchIsolation,
    FetchParams,
    PartitionReadError,
    check_epoch,
    diverging_epoch_of,
    error_row,
    read_all,
    response_rows,
)


class Log:
    """Five batches of two records each; reads are cut off at the limit."""

    start_offset, end_offset = 0, 10

    def __init__(self, aborted=()):
        self.batches = [build_batch([NewRecord(b"v", timestamp=1)] * 2, base_offset=base) for base in range(0, 10, 2)]
        self._aborted = list(aborted)
        self.reads = []

    def read(self, offset, end, max_bytes, *, at_least_one):
        self.reads.append((offset, end, max_bytes, at_least_one))
        batches = self.batches[offset // 2 : end // 2]
        return b"".join(batches)[: max(max_bytes, len(batches[0]) if at_least_one and batches else 0)]

    def aborted(self, start, end):
        return [(producer_id, first) for producer_id, first in self._aborted if first < end]

    def end_of_epoch(self, epoch):
        return {2: (2, 6), 3: (3, 10)}.get(epoch, (-1, -1))


SIZE = len(Log().batches[0])


class Replica:
    def __init__(self, number=0, log=None, **more):
        self.tp = TopicPartition("t", number)
        self.topic_id = b"t" * 16
        self.log = log or Log()
        self.leader_epoch = 3
        self.is_leader = True
        self.high_watermark = 8
        self.last_stable_offset = 6
        self.image = SimpleNamespace(replicas=(1, 2), isr=(1, 2), undeleted_partition_count=-1)
        self.__dict__.update(more)


def node_of(*replicas):
    image = SimpleNamespace(partition=lambda topic, number: object() if topic == "t" else None)
    return SimpleNamespace(partitions={one.tp: one for one in replicas}, image=image)


def wanted(number=0, offset=0, max_bytes=1 << 20, topic="t", topic_id=NO_ID, **more):
    request = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes, **more)
    return CachedPartition((topic, number), topic, topic_id, request)


def params(isolation=FetchIsolation.HIGH_WATERMARK, max_bytes=1 << 20, leader_only=False, rack="", replica_id=-1):
    return FetchParams(isolation, 1, max_bytes, leader_only, rack, replica_id)


def read(replicas, asked_for, *, only_changed=False, **more):
    """Return the response rows, and the read result."""
    node = node_of(*replicas)
    result = read_all(node, asked_for, params(**more))
    return [row for _, row in response_rows(result, params(**more), only_changed=only_changed)], result


def read_one(replica, asked_for=None, **more):
    (row,), _ = read([replica], [asked_for or wanted()], **more)
    return row


@pytest.mark.parametrize(
    ("isolation", "end"),
    [(FetchIsolation.HIGH_WATERMARK, 8), (FetchIsolation.LAST_STABLE, 6), (FetchIsolation.LOG_END, 10)],
)
def test_isolation_determines_the_readable_end(isolation, end):
    replica = Replica()
    row = read_one(replica, isolation=isolation)
    assert replica.log.reads == [(0, end, 1 << 20, True)]
    assert len(row.records) == end // 2 * SIZE
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (8, 6, 0)


def test_aborted_transactions_only_for_read_committed():
    assert read_one(Replica(log=Log([(7, 0)]))).aborted_transactions is None
    row = read_one(Replica(log=Log([(7, 0), (8, 3)])), isolation=FetchIsolation.LAST_STABLE)
    assert [(one.producer_id, one.first_offset) for one in row.aborted_transactions] == [(7, 0), (8, 3)]
    assert read_one(Replica(), isolation=FetchIsolation.LAST_STABLE).aborted_transactions == []
    at_the_end = read_one(Replica(log=Log([(7, 0)])), wanted(offset=6), isolation=FetchIsolation.LAST_STABLE)
    assert at_the_end.aborted_transactions == []


@pytest.mark.parametrize(("limit", "aborted"), [(3 * SIZE + 5, None), (3 * SIZE, [])])
def test_aborted_transactions_without_records_are_null_or_empty(limit, aborted):
    """Null and an empty list, as in Kafka."""
    replicas = [Replica(0), Replica(1)]
    rows, _ = read(replicas, [wanted(0), wanted(1)], isolation=FetchIsolation.LAST_STABLE, max_bytes=limit)
    assert [len(row.records) for row in rows] == [3 * SIZE, 0]
    assert rows[1].aborted_transactions == aborted


def test_many_aborted_transactions_are_limited_to_the_returned_batches():
    """Otherwise every response from the start of a long log would contain all of them."""
    many = [(n, n // 100) for n in range(1000)]
    row = read_one(Replica(log=Log(many)), wanted(max_bytes=SIZE + 30), isolation=FetchIsolation.LAST_STABLE)
    told = [one.first_offset for one in row.aborted_transactions]
    assert (len(told), max(told)) == (400, 3), "the batch that is cut off counts, as its header is there"


def test_wrong_topic_id_is_inconsistent():
    assert read_one(Replica(), wanted(topic_id=b"x" * 16)).error_code == Code.INCONSISTENT_TOPIC_ID
    assert read_one(Replica(), wanted(topic_id=b"t" * 16)).error_code == 0


def test_missing_replica_error_depends_on_the_image():
    rows, result = read([], [wanted(), wanted(topic="u")])
    codes = [row.error_code for row in rows]
    assert codes == [Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert result.must_respond


@pytest.mark.parametrize(
    ("epoch", "is_leader", "leader_only", "code"),
    [
        (-1, True, True, None),
        (3, True, True, None),
        (2, True, True, Code.FENCED_LEADER_EPOCH),
        (-2, True, True, Code.FENCED_LEADER_EPOCH),
        (4, True, True, Code.UNKNOWN_LEADER_EPOCH),
        (-1, False, True, Code.NOT_LEADER_OR_FOLLOWER),
        (2, False, True, Code.FENCED_LEADER_EPOCH),  # the epoch is checked first
        (3, False, False, None),
    ],
)
def test_epochs_are_compared_before_roles(epoch, is_leader, leader_only, code):
    replica = Replica(is_leader=is_leader)
    if code is None:
        check_epoch(replica, epoch, leader_only)
    else:
        with pytest.raises(PartitionReadError) as raised:
            check_epoch(replica, epoch, leader_only)
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("epoch", "offset", "found"),
    [
        (-1, 9, None),
        (2, 6, None),
        (2, 7, (2, 6)),
        (3, 9, None),
        (4, 9, Code.OFFSET_OUT_OF_RANGE),
        (1, 5, Code.OFFSET_OUT_OF_RANGE),
        (3, -1, Code.OFFSET_OUT_OF_RANGE),
    ],
)
def test_diverging_epoch_is_found(epoch, offset, found):
    request = FetchPartition(fetch_offset=offset, last_fetched_epoch=epoch)
    if isinstance(found, Code):
        with pytest.raises(PartitionReadError, match=found.name):
            diverging_epoch_of(Replica(), request)
    else:
        parted = diverging_epoch_of(Replica(), request)
        assert (parted and (parted.epoch, parted.end_offset)) == found


def test_byte_limit_is_shared_in_order_and_the_first_batch_is_complete():
    replicas = [Replica(number) for number in range(3)]
    rows, result = read(replicas, [wanted(number) for number in range(3)], max_bytes=SIZE + 10)
    assert [len(row.records) for row in rows] == [SIZE + 10, 0, 0]
    assert [one.log.reads[0][2:] for one in replicas] == [(SIZE + 10, True), (0, False), (0, False)]
    assert (result.size, result.must_respond) == (SIZE + 10, True)


def test_empty_partition_passes_the_first_batch_exception_on():
    replicas = [Replica(0, high_watermark=0), Replica(1)]
    rows, result = read(replicas, [wanted(0), wanted(1)], max_bytes=1)
    assert [len(row.records) for row in rows] == [0, SIZE]
    assert not result.must_respond


@pytest.mark.parametrize("cut", [0, 5, 11, 12, 30])
def test_incomplete_first_batch_is_omitted(cut):
    replicas = [Replica(0), Replica(1)]
    rows, _ = read(replicas, [wanted(0), wanted(1)], max_bytes=4 * SIZE + cut)
    assert [len(row.records) for row in rows] == [4 * SIZE, 0]


def test_unchanged_partitions_get_no_row():
    """In a session of a thousand partitions usually only a few have changes."""
    replica, known, stale = Replica(), wanted(offset=8), wanted(offset=8)
    known.high_watermark, known.log_start_offset = 8, 0
    stale.high_watermark, stale.log_start_offset = 7, 0
    rows, result = read([replica], [known, stale], only_changed=True)
    assert [row for _, _, row in result.rows] == [None, None]
    assert [(row.high_watermark, bytes(row.records)) for row in rows] == [(8, b"")]
    assert len(read([replica], [known, stale])[0]) == 2


@pytest.mark.parametrize(
    ("racks", "ends", "offset", "nearer"),
    [
        ({2: "here"}, {2: 8}, 8, 2),
        ({2: "here"}, {2: 8}, 9, None),  # it does not have this offset yet
        ({2: "there"}, {2: 10}, 8, None),
        ({2: "here", 3: "here"}, {2: 9, 3: 10}, 8, 3),  # the one with the highest end offset
        ({2: "here", 3: "here"}, {2: 10, 3: 10}, 8, 3),
        ({2: "here", 4: "here"}, {2: 8, 4: 10}, 8, 2),  # 4 is not in the ISR
        ({}, {2: 10}, 8, None),  # 2 is fenced
    ],
)
def test_preferred_replica_is_in_the_isr_and_rack_and_has_the_offset(racks, ends, offset, nearer):
    brokers = {number: SimpleNamespace(rack=rack) for number, rack in racks.items()}
    node = SimpleNamespace(rack="elsewhere", image=SimpleNamespace(brokers=brokers))
    image = SimpleNamespace(replicas=(1, 2, 3, 4), isr=(1, 2, 3), undeleted_partition_count=-1)
    replica = Replica(node=node, image=image, follower_ends=ends, behind_since={})
    row = read_one(replica, wanted(offset=offset), rack="here")
    assert row.preferred_read_replica == (-1 if nearer is None else nearer)
    node.rack = "here"
    assert read_one(replica, wanted(offset=offset), rack="here").preferred_read_replica == -1
    node.rack, replica.is_leader = "elsewhere", False
    assert read_one(replica, wanted(offset=offset), rack="here").preferred_read_replica == -1


def test_error_rows_differ_for_unknown_partitions():
    """As real brokers do: see tests/golden."""
    assert error_row(1, 3, is_known=False).aborted_transactions == []
    assert error_row(1, 1).aborted_transactions is None
    assert reading.ABORTED_MAX > 10
