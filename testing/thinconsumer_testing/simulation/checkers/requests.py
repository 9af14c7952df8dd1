"""Checks the leader epochs in Fetch requests, the first Fetch after a seek, and that truncations are raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from thinconsumer.errors import LogTruncationError
from thinconsumer.types import TopicPartition
from thinconsumer.wire import ZERO_UUID, Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchResponse
from thinconsumer.wire.list_offsets import ListOffsetsResponse
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from ..client_tap import SentRequest
from .base import Checker, Member, Records, SimReader
from .epochs import looked_up, validated
from .lower_epochs import LowerEpochs, PartitionKey

LATEST, EARLIEST = -1, -2  #: The timestamps that stand for the end and the start of the log in ListOffsets requests.
#: How many polls may return after a response has shown a truncation, before one must raise LogTruncationError: records
#: in the buffer may come first. Polls that raise another error do not count.
POLLS_MAX = 3


@dataclass(slots=True)
class _Reading:
    """The state of one partition of a reader, with which its requests and errors are compared."""

    #: The offsets at which the first Fetch after a seek may begin. None: any offset, for example because that Fetch was
    #: sent already, or the position may have moved.
    starts: set[int] | None = None
    timestamp: int | None = None  #: LATEST or EARLIEST: ListOffsets responses for it add their offset to ``starts``.
    last: tuple[int, int] = -2, -1  #: Offset and leader epoch of the last record returned since a seek; -2: none.
    asked: SentRequest | None = None  #: The last OffsetForLeaderEpoch request for this partition.
    #: Offset of the last record when ``asked`` was written, if its response can show that this record is truncated; -2:
    #: it cannot.
    judged: int = -2
    #: Number of polls that returned since the response to ``asked`` showed that the record at ``judged`` is truncated;
    #: None without such a response.
    polls: int | None = None


@dataclass(eq=False)
class RequestChecker(Checker):
    """Checks that Fetch requests have the newest leader epoch that the client has read or sent (KIP-320).

    A lower epoch is allowed once brokers have proven that the cluster has gone back: see :class:`.LowerEpochs`.

    The first Fetch after ``seek()`` must begin at the offset of the seek. After ``seek_to_beginning()`` or
    ``seek_to_end()``, it must begin at an offset that a leader has returned since for the log's start or end. If
    ``auto_offset_reset`` is "none", a poll must raise LogTruncationError after an OffsetForLeaderEpoch response has
    shown that delivered records were truncated.
    """

    _names: dict[bytes, str] = field(default_factory=dict, init=False)  #: Names of topics by topic id.
    #: By client, topic id and partition: the least leader epoch that a Fetch request may have, and the newest that the
    #: client has read or sent. The least one is the newest before the last Metadata response, since the Fetch may have
    #: been built just before the client read that response.
    _epochs: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict, init=False)
    #: By client, topic id, partition and connection: the newest leader epoch of the Fetch requests on this connection.
    _sent: dict[tuple[SimReader, bytes, int, int], int] = field(default_factory=dict, init=False)
    #: Partitions without a leader: a Fetch from a preferred replica (KIP-392) may then be sent without a leader epoch.
    _leaderless: set[PartitionKey] = field(default_factory=set, init=False)
    _lower: LowerEpochs = field(default_factory=LowerEpochs, init=False)
    #: By client, topic id and partition: the epoch that a lower one has replaced. A Fetch with the replaced epoch may
    #: still be written, on a connection that was not ready before; this does not make it the newest epoch again.
    _replaced: dict[PartitionKey, int] = field(default_factory=dict, init=False)
    #: By client, topic id and partition: the newest leader epoch that a Fetch error has named (KIP-951). The client may
    #: have taken over this epoch before a Fetch request shows it.
    _hinted: dict[PartitionKey, int] = field(default_factory=dict, init=False)
    _ids: dict[tuple[SimReader, str], bytes] = field(default_factory=dict, init=False)  #: Topic ids by client and name.
    _nodes: dict[tuple[str, int], int] = field(default_factory=dict, init=False)  #: Node ids by host and port.
    #: By client and connection: the connection's host and port.
    _addresses: dict[tuple[SimReader, int], tuple[str, int]] = field(default_factory=dict, init=False)
    #: By reader's name and partition: the state of each partition that the reader has sought or fetched.
    _reading: dict[str, dict[TopicPartition, _Reading]] = field(default_factory=dict, init=False)
    _paused: set[tuple[str, TopicPartition]] = field(default_factory=set, init=False)

    def started(self, reader: SimReader) -> None:
        self._reading[reader.name] = {}
        self._paused = {(name, tp) for name, tp in self._paused if name != reader.name}

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        self._paused = {(name, tp) for name, tp in self._paused if name != reader.name or tp in tps}
        before = self._reading[reader.name]
        self._reading[reader.name] = {tp: before[tp] for tp in before if tp in tps}

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        # For a group member, tests report the position from an OffsetFetch response as a seek, after the member has
        # read the response. The member may have sent a Fetch before the report, so any offset is allowed (None).
        self._reading[reader.name][tp] = _Reading(None if isinstance(reader, Member) else {offset})

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        self._reading[reader.name][tp] = _Reading(set(), LATEST if to_end else EARLIEST)

    def paused(self, reader: SimReader, tps: Iterable[TopicPartition], on: bool) -> None:
        changed = {(reader.name, tp) for tp in tps}
        self._paused = self._paused | changed if on else self._paused - changed

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp, found in records.items():
            if found:
                self._of(reader, tp).last = found[-1].offset, found[-1].leader_epoch

    def raised(self, reader: SimReader, error: Exception) -> None:
        if isinstance(error, LogTruncationError):
            self._of(reader, error.partition).polls = None

    def polled(self, reader: SimReader, buffered: int) -> None:
        for tp, reading in self._reading[reader.name].items():
            if reading.polls is not None and (reader.name, tp) not in self._paused:
                reading.polls += 1
                if reading.polls > POLLS_MAX and reader.policy == "none":
                    words = f"although delivered records of {tp.topic}-{tp.partition} were truncated"
                    self.accuse(f"{reader} has not raised LogTruncationError within {reading.polls} polls, {words}")
                    return

    def connection_opened(self, member: SimReader, line: int, host: str, port: int) -> None:
        self._addresses[member, line] = host, port

    def response_read(self, member: SimReader, line: int, sent: SentRequest, response: Message) -> None:
        if isinstance(response, MetadataResponse):
            self._read_metadata(member, sent, response)
        requested = dict(self._requested_epochs(member, sent.message))
        for key, code in self._codes(member, response):
            self._read_code(key, line, code, requested.get(key, self._sent.get((*key, line), -1)))
        for tp, asked, data in validated(sent.message, response):
            reading, truth = self._of(member, tp), self.truth(tp)
            # The client ignores an OffsetForLeaderEpoch response if it has sent another such request since, or has read
            # of a newer leader epoch, which may not have begun: the new leader may learn of its election later.
            newest = self._newest((member, self._ids.get((member, tp.topic), ZERO_UUID), tp.partition))
            is_newest = truth is not None and asked.current_leader_epoch == max(truth.latest_epoch, newest)
            if reading.asked is sent and is_newest and data.end_offset <= reading.judged:
                reading.polls = 0

    def request_written(self, member: SimReader, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        if isinstance(sent.message, MetadataRequest):
            self._lower.metadata_requested(member, sent)
        elif isinstance(sent.message, OffsetForLeaderEpochRequest):
            for question in sent.message.topics:
                for asked in question.partitions:
                    reading = self._of(member, TopicPartition(question.topic, asked.partition))
                    reading.asked, reading.polls = sent, None
                    # A request for an older epoch may belong to a position before a seek: it waited for its connection.
                    # The client ignores its response, and the end of that epoch is no truncation of newer records.
                    offset, epoch = reading.last
                    reading.judged = offset if asked.leader_epoch >= epoch else -2
        elif isinstance(sent.message, FetchRequest):
            for topic in sent.message.topics:
                for row in topic.partitions if topic.topic_id in self._names else ():
                    self._check(member, line, topic.topic_id, row)

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """Update the offsets from which the first Fetch after a seek may begin.

        A ListOffsets response adds its offset. A Fetch response with records or an error, or an OffsetForLeaderEpoch
        response, allows any offset, since the position may move.
        """
        of_client = self._reading.get(client, {})
        for tp, asked, data in looked_up(request, response):
            reading = of_client.get(tp)
            if reading is not None and reading.starts is not None and reading.timestamp == asked.timestamp:
                reading.starts.add(data.offset)
        for tp in self._moved(request, response):
            if tp in of_client:
                of_client[tp].starts = None

    def _of(self, reader: SimReader, tp: TopicPartition) -> _Reading:
        return self._reading.setdefault(reader.name, {}).setdefault(tp, _Reading())

    def _newest(self, key: PartitionKey) -> int:
        """Return the newest leader epoch that the client has read or sent, or may have read; -1: none."""
        return max(self._epochs.get(key, (-1, -1))[1], self._hinted.get(key, -1))

    def _read_metadata(self, member: SimReader, sent: SentRequest, response: MetadataResponse) -> None:
        brokers = {broker.node_id for broker in response.brokers}
        self._nodes.update({(broker.host, broker.port): broker.node_id for broker in response.brokers})
        for topic in response.topics:
            if topic.topic_id == ZERO_UUID:
                continue  # an unknown topic, or a broker without topic ids (KIP-516), whose Fetches are not checked
            self._names[topic.topic_id] = topic.name or ""
            self._ids[member, topic.name or ""] = topic.topic_id
            for row in topic.partitions:
                key = member, topic.topic_id, row.partition_index
                _, newest = self._epochs.get(key, (-1, -1))
                self._lower.named(key, sent, row.leader_id, row.leader_epoch, self._newest(key))
                self._epochs[key] = newest, max(newest, row.leader_epoch)
                (self._leaderless.discard if row.leader_id in brokers else self._leaderless.add)(key)

    def _requested_epochs(self, member: SimReader, request: Message | None) -> Iterator[tuple[PartitionKey, int]]:
        """Yield the partitions of a Fetch or OffsetForLeaderEpoch request, and the leader epochs that it gives them."""
        if isinstance(request, FetchRequest):
            for topic in request.topics:
                for row in topic.partitions:
                    yield (member, topic.topic_id, row.partition), row.current_leader_epoch
        elif isinstance(request, OffsetForLeaderEpochRequest):
            for question in request.topics:
                for asked in question.partitions:
                    topic_id = self._ids.get((member, question.topic), ZERO_UUID)
                    yield (member, topic_id, asked.partition), asked.current_leader_epoch

    def _codes(self, member: SimReader, response: Message) -> Iterator[tuple[PartitionKey, int]]:
        """Yield partitions and error codes of a Fetch, OffsetForLeaderEpoch or ListOffsets response.

        Note the leader epochs that a Fetch response names.
        """
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for row in topic.partitions:
                    key = member, topic.topic_id, row.partition_index
                    self._hinted[key] = max(self._hinted.get(key, -1), row.current_leader.leader_epoch)
                    yield key, row.error_code
        elif isinstance(response, OffsetForLeaderEpochResponse):
            for result in response.topics:
                for end in result.partitions:
                    yield (member, self._ids.get((member, result.topic), ZERO_UUID), end.partition), end.error_code
        elif isinstance(response, ListOffsetsResponse):
            for found in response.topics:
                for offset in found.partitions:
                    key = member, self._ids.get((member, found.name), ZERO_UUID), offset.partition_index
                    yield key, offset.error_code

    def _read_code(self, key: PartitionKey, line: int, code: int, requested: int) -> None:
        """Note whether a node accepts the newest leader epoch; if it is proven wrong, begin again with a lower one.

        A late response to a request with an older epoch says nothing about the newest one.
        """
        node = self._nodes.get(self._addresses.get((key[0], line), ("", -1)), -1)
        if code == Code.NONE and requested >= self._epochs.get(key, (-1, -1))[1]:
            self._lower.accepted(key, node)
        if code != Code.UNKNOWN_LEADER_EPOCH:
            return
        lower = self._lower.rejected(key, node, self.now())
        if lower is not None:
            self._replaced[key] = self._epochs.get(key, (-1, -1))[1]
            self._epochs[key] = lower, lower
            self._hinted.pop(key, None)
            self._sent = {sent: epoch for sent, epoch in self._sent.items() if sent[:3] != key}

    def _check(self, member: SimReader, line: int, topic_id: bytes, row: FetchPartition) -> None:
        tp = TopicPartition(self._names[topic_id], row.partition)
        key, epoch, offset = (member, topic_id, row.partition), row.current_leader_epoch, row.fetch_offset
        least, newest = self._epochs.get(key, (-1, -1))
        # Only Fetches on the same connection are compared: one that was built before the client read of a newer epoch
        # may be written after a Fetch with the newer epoch, on a connection that was not ready before.
        on_connection = (*key, line)
        least = max(least, self._sent.get(on_connection, -1))
        what = f"{member} fetches {tp.topic}-{tp.partition}"
        if epoch < least and (epoch >= 0 or key not in self._leaderless):
            self.accuse(f"{what} with leader epoch {epoch} after it has read or sent {least}")
        if not newest < epoch <= self._replaced.get(key, -1):
            self._sent[on_connection] = max(epoch, least)
            self._epochs[key] = self._epochs.get(key, (-1, -1))[0], max(epoch, newest)
        reading = self._of(member, tp)
        if reading.starts is not None and offset not in reading.starts:
            position = " or ".join(map(str, sorted(reading.starts))) or "an offset that no leader has returned yet"
            self.accuse(f"{what} from offset {offset}, but the last seek has set the position to {position}")
        reading.starts = None

    def _moved(self, request: Message, response: Message) -> Iterator[TopicPartition]:
        """Yield the partitions in which a response may move the client's position."""
        yield from (tp for tp, _, _ in validated(request, response))
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for row in topic.partitions:
                    if row.records or row.error_code:
                        yield TopicPartition(self._names.get(topic.topic_id, topic.topic), row.partition_index)
