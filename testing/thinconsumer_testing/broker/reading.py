"""Reading the partitions of a fetch request from the replicas of one broker.

Owns the checks of each partition in Kafka's order, the offset limit by isolation level, the preferred read replica
(KIP-392), the search for a diverging epoch (KIP-595), and the byte limits of a request. Never waits for records.
Follows ``ReplicaManager.readFromLog`` and ``Partition.fetchRecords``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.records.batch import LOG_OVERHEAD
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import AbortedTransaction, FetchEpochEndOffset, FetchPartition, PartitionData

from .fetch_sessions import NO_ID, CachedPartition

if TYPE_CHECKING:
    from .node import BrokerNode
    from .partition import PartitionReplica

UNKNOWN = -1
#: The transaction index may list aborted transactions that lie after the returned batches. They are left out of the
#: response only if the index lists more than this number.
ABORTED_MAX = 100


class FetchIsolation(enum.Enum):
    """The offset up to which a reader may read."""

    LOG_END = enum.auto()  #: Up to the log end offset, for followers.
    HIGH_WATERMARK = enum.auto()
    LAST_STABLE = enum.auto()  #: Up to the last stable offset, for consumers with read_committed.


class FetchParams(NamedTuple):
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    #: Whether only the leader may serve the request: the request comes from a follower, or from a client with a version
    #: that does not support fetching from followers (KIP-392).
    leader_only: bool
    rack: str  #: The client's rack, "" if unknown.
    replica_id: int


class FetchReadResult(NamedTuple):
    """The result of reading all partitions of a fetch request once."""

    #: Each partition, with the replica that was read (None after an error) and the response entry. The entry is None if
    #: there are no records and no event such as an error: :func:`response_rows` builds it when the response is sent.
    rows: list[tuple[CachedPartition, PartitionReplica | None, PartitionData | None]]
    size: int  #: The size of the records of all partitions in bytes.
    #: Whether to respond without waiting for ``min_bytes``: a partition has an error, a diverging epoch, a preferred
    #: read replica, a fetch offset beyond the readable end, or a first batch that exceeds the limits.
    must_respond: bool


class PartitionReadError(Exception):
    """A partition of a fetch request cannot be read; the response has the error code ``code`` for it."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = int(code)


def error_row(partition: int, code: int, *, is_known: bool = True) -> PartitionData:
    """Return the response entry with an error code for a partition that cannot be read. ``is_known`` is False if the
    request was rejected for the partition before reading it was tried (access denied, for example): as in Kafka
    ``aborted_transactions`` is then an empty list, otherwise null.
    """
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=UNKNOWN,
        aborted_transactions=None if is_known else [],
        records=b"",
    )


def read_all(node: BrokerNode, cached: Iterable[CachedPartition], params: FetchParams) -> FetchReadResult:
    """Read all partitions in order; once the byte limit of the request is used up, the others return no records.

    The first partition with records returns at least one batch even if that batch exceeds all limits; otherwise a
    client could never read a batch larger than its limits.
    """
    rows: list[tuple[CachedPartition, PartitionReplica | None, PartitionData | None]] = []
    remaining_bytes = params.max_bytes
    size = 0
    must_respond = False
    for one in cached:
        row: PartitionData | None
        partition: PartitionReplica | None
        try:
            partition = replica_for(node, one)
            row, row_must_respond = _read(partition, one.request, params, remaining_bytes, size == 0)
        except PartitionReadError as error:
            partition, row, row_must_respond = None, error_row(one.partition, error.code), True
        rows.append((one, partition, row))
        must_respond = must_respond or row_must_respond
        if row is not None and row.records:
            size += len(row.records)
            remaining_bytes = max(0, remaining_bytes - len(row.records))
    return FetchReadResult(rows, size, must_respond)


def response_rows(
    result: FetchReadResult, params: FetchParams, *, only_changed: bool
) -> list[tuple[CachedPartition, PartitionData]]:
    """Return the partitions of the response to a fetch request, each with its entry.

    Entries without records are built only here, when the response is sent. ``only_changed`` is for a session's
    incremental response: it omits partitions without records if the client has their current high watermark and log
    start offset. Building these entries would cost time: of a session's thousand partitions, few have changed since the
    last response.
    """
    rows: list[tuple[CachedPartition, PartitionData]] = []
    for one, partition, row in result.rows:
        if row is None:
            assert partition is not None
            if only_changed and one.has_sent(partition.high_watermark, partition.log.start_offset):
                continue
            row = _empty_row(partition, one.request, params)
        rows.append((one, row))
    return rows


def replica_for(node: BrokerNode, cached: CachedPartition) -> PartitionReplica:
    """Return this broker's replica; raise PartitionReadError if there is none, or if the topic has another id."""
    assert cached.topic is not None
    tp = TopicPartition(cached.topic, cached.partition)
    partition = node.partitions.get(tp)
    if partition is None:
        known = node.image.partition(tp.topic, tp.partition) is not None
        raise PartitionReadError(Code.NOT_LEADER_OR_FOLLOWER if known else Code.UNKNOWN_TOPIC_OR_PARTITION)
    if cached.topic_id != NO_ID and cached.topic_id != partition.topic_id:
        raise PartitionReadError(Code.INCONSISTENT_TOPIC_ID)
    return partition


def check_epoch(partition: PartitionReplica, epoch: int, leader_only: bool) -> None:
    """Raise PartitionReadError if ``epoch`` is outdated or too new, or if a follower gets a ``leader_only`` request."""
    if epoch not in (UNKNOWN, partition.leader_epoch):
        raise PartitionReadError(
            Code.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else Code.UNKNOWN_LEADER_EPOCH
        )
    if leader_only and not partition.is_leader:
        raise PartitionReadError(Code.NOT_LEADER_OR_FOLLOWER)


def check_count(partition: PartitionReplica, count: int) -> None:
    """Raise PartitionReadError if a consumer has another partition count than this replica (KIP-253).

    The replica gets the topic's partition count and its leader epoch in one update, so a consumer whose count is the
    same gets no record that was written under a later count.
    """
    if count not in (UNKNOWN, partition.image.undeleted_partition_count):
        raise PartitionReadError(Code.INVALID_PARTITION_METADATA)


def readable_end(partition: PartitionReplica, isolation: FetchIsolation) -> int:
    if isolation is FetchIsolation.HIGH_WATERMARK:
        return partition.high_watermark
    if isolation is FetchIsolation.LAST_STABLE:
        return partition.last_stable_offset
    return partition.log.end_offset


def diverging_epoch_of(partition: PartitionReplica, request: FetchPartition) -> FetchEpochEndOffset | None:
    """Return where the reader's log has diverged from this replica's log (KIP-595); None if it has not, or if the
    request does not tell the epoch of the last fetched record.

    The result is the last leader epoch that both logs can share, and its end offset in the replica's log.

    Raises:
        PartitionReadError: The replica's log no longer has the epoch of the last record that the reader fetched, or
            begins after the fetch offset.
    """
    if request.last_fetched_epoch == UNKNOWN:
        return None
    epoch, end = partition.log.end_of_epoch(request.last_fetched_epoch)
    if epoch < 0 or end < 0 or request.fetch_offset < partition.log.start_offset:
        raise PartitionReadError(Code.OFFSET_OUT_OF_RANGE)
    if epoch < request.last_fetched_epoch or end < request.fetch_offset:
        return FetchEpochEndOffset(epoch=epoch, end_offset=end)
    return None


def _read(
    partition: PartitionReplica, request: FetchPartition, params: FetchParams, remaining_bytes: int, at_least_one: bool
) -> tuple[PartitionData | None, bool]:
    """Return a pair: the partition's response entry, or None if it has no records and no event to report; and True if
    the response must be sent without waiting for ``min_bytes``.
    """
    check_count(partition, request.undeleted_partition_count)
    preferred = _preferred_read_replica(partition, request.fetch_offset, params) if params.rack else None
    check_epoch(partition, request.current_leader_epoch, params.leader_only and preferred is None)
    if params.replica_id >= 0 and not _is_follower(partition, params.replica_id):
        is_newer = request.current_leader_epoch != UNKNOWN
        raise PartitionReadError(Code.UNKNOWN_LEADER_EPOCH if is_newer else Code.NOT_LEADER_OR_FOLLOWER)
    diverged = diverging_epoch_of(partition, request) if preferred is None else None
    if preferred is not None or diverged is not None:
        row = _empty_row(partition, request, params)
        row.preferred_read_replica = -1 if preferred is None else preferred
        row.diverging_epoch = diverged or row.diverging_epoch
        row.aborted_transactions = None
        return row, True
    offset, log = request.fetch_offset, partition.log
    if not log.start_offset <= offset <= log.end_offset:
        raise PartitionReadError(Code.OFFSET_OUT_OF_RANGE)
    end = readable_end(partition, params.isolation)
    if offset >= end:
        # As in Kafka, a fetch beyond the readable end is answered immediately: the log may have been truncated, and the
        # high watermark in the response shows that to the reader. A fetch at the readable end waits for records.
        return None, offset > end
    size = min(request.partition_max_bytes, remaining_bytes)
    if size < 0:
        raise PartitionReadError(Code.UNKNOWN_SERVER_ERROR)
    records = log.read(offset, end, size, at_least_one=at_least_one)
    row = _empty_row(partition, request, params)
    if not at_least_one and _first_is_cut(records):
        # The first batch exceeds the limits. As in Kafka ``aborted_transactions`` is then null. If the size limit left
        # no bytes for this partition, Kafka does not read at all, and read_committed clients get an empty list.
        if size:
            row.aborted_transactions = None
        # Records are available, so the response is sent without waiting: waiting cannot make the batch smaller.
        return row, True
    row.records = records
    if params.isolation is FetchIsolation.LAST_STABLE:
        row.aborted_transactions = _aborted(partition, offset, records)
    return row, False


def _is_follower(partition: PartitionReplica, node_id: int) -> bool:
    return node_id in partition.image.replicas and node_id != partition.node.node_id


def _empty_row(partition: PartitionReplica, request: FetchPartition, params: FetchParams) -> PartitionData:
    return PartitionData(
        partition_index=request.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        aborted_transactions=[] if params.isolation is FetchIsolation.LAST_STABLE else None,
        records=b"",
    )


def _first_is_cut(records: bytes) -> bool:
    """Return whether the first batch is cut off by the size limit; Kafka then returns no records."""
    return len(records) < LOG_OVERHEAD or len(records) < LOG_OVERHEAD + int.from_bytes(records[8:12], "big")


def _aborted(partition: PartitionReplica, offset: int, records: bytes) -> list[AbortedTransaction]:
    """Return the aborted transactions for the returned records, which begin at ``offset``.

    As with Kafka's transaction index, the result may include transactions that begin after the returned records, but
    only if the index lists at most ABORTED_MAX.
    """
    found = partition.log.aborted(offset, partition.log.end_offset)
    if len(found) > ABORTED_MAX:
        found = partition.log.aborted(offset, _end_of(records))
    return [AbortedTransaction(producer_id=producer_id, first_offset=first) for producer_id, first in found]


def _end_of(records: bytes) -> int:
    """Return the offset after the last batch in ``records``, which may be cut off."""
    position, end = 0, 0
    while position + 27 <= len(records):
        base = int.from_bytes(records[position : position + 8], "big")
        end = base + int.from_bytes(records[position + 23 : position + 27], "big") + 1
        position += LOG_OVERHEAD + int.from_bytes(records[position + 8 : position + 12], "big")
    return end


def _preferred_read_replica(partition: PartitionReplica, offset: int, params: FetchParams) -> int | None:
    """Return the follower to read from: of those in the ISR and in the client's rack that have the offset, the one with
    the highest log end offset. None if this replica is to serve the read.
    """
    if not partition.is_leader or params.replica_id >= 0 or partition.node.rack == params.rack:
        return None
    brokers = partition.node.image.brokers
    best: tuple[int, float, int] | None = None
    for node_id, end in partition.follower_ends.items():
        broker = brokers.get(node_id)
        if broker is None or broker.rack != params.rack or end < offset or node_id not in partition.image.isr:
            continue
        rank = (end, partition.behind_since.get(node_id, float("inf")), node_id)
        best = rank if best is None or rank > best else best
    return None if best is None else best[2]
