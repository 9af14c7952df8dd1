"""Handle Fetch responses: act on error codes, add batches to the buffer and advance each partition's fetch offset.

The session's next request can then be sent. Batches are decoded later, when polls return their records.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from ..config import ConsumerConfig
from ..errors import BrokerResponseError, CorruptRecordError, KafkaError, TopicAuthorizationFailedError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..network.metadata import Metadata
from ..network.request import Answer
from ..positions.partitions import Partition, Partitions
from ..positions.states import PositionEvent, PositionState
from ..records.aborted import AbortedTransactions
from ..records.batch import OFFSET_MAX
from ..records.batches import Batches, claimed_end, split
from ..records.disorder import usable
from ..support.timers import Backoff, Random, SharedJitter
from ..types import Node, TopicPartition
from ..wire import ZERO_UUID
from ..wire.error_codes import Code, to_error
from ..wire.fetch import FetchResponse, NodeEndpoint, PartitionData
from .buffer import Buffer, Fetched, Frame
from .planner import Planner
from .second_fetch import SecondFetch
from .sessions import FIRST_INCREMENTAL_EPOCH, FetchSession, SessionPartitions

log = logging.getLogger(__name__)

#: After so many failures in a row, polls raise an error for a response with nothing but batches below the fetch offset.
USELESS_MAX = 3


AnyFetch: TypeAlias = "FetchSession | SecondFetch"


class Answers:
    def __init__(
        self,
        settings: ConsumerConfig,
        partitions: Partitions,
        metadata: Metadata,
        buffer: Buffer,
        planner: Planner,
        random: Random,
        record: Callable[[tuple[float, ...]], object] = lambda event: None,
    ) -> None:
        """``record`` is called for each response: with the time, latency (ms), bytes, records, throttle time (ms)."""
        self._settings = settings
        self._partitions = partitions
        self._metadata = metadata
        self._buffer = buffer
        self._planner = planner
        self._record = record
        self._refused: dict[str, KafkaError] = {}  #: By topic: the authorization error in the response being handled.
        self._shared_jitter = SharedJitter(random)
        self._backoff = Backoff.from_settings(settings)
        self._read_committed = settings.isolation_level == "read_committed"
        self.outages = OutageLog(log)
        #: The assignment's version (``Partitions.generation``) when outages of unassigned partitions were last dropped.
        self._generation = -1
        #: Number of successful Fetch responses so far; ``consumer_timeout_ms`` counts from the first one at the latest.
        self.completed = 0
        self.records = 0  #: Number of records put into the buffer so far, according to the batch headers.

    def handle(self, answer: Answer, now: float) -> bool:
        """Handle one response: buffer records of partitions that no seek or reset has moved.

        Returns True if only the planner needs a step next, since the response has no error and all its partitions are
        still FETCHING.
        """
        fetch: AnyFetch = answer.request.context
        response: FetchResponse | None = answer.response
        self._refused.clear()
        if self._generation != self._partitions.generation:
            self._generation = self._partitions.generation
            self.outages.keep(self._partitions)
        before, is_smooth = self.records, False
        if response is None:
            self._got_no_response(fetch, answer.error, now)
        elif response.error_code:
            self._session_error(fetch, response.error_code, now)
        else:
            is_smooth = self._take_response(fetch, response, Frame(answer.size), now)
        if response is not None:
            latency_ms, records = (now - answer.sent_at) * 1000, self.records - before
            self._record((now, latency_ms, answer.size, records, response.throttle_time_ms))
        if not is_smooth:
            self._shared_jitter.redraw()
        return is_smooth

    def _take_response(self, fetch: AnyFetch, response: FetchResponse, frame: Frame, now: float) -> bool:
        """Take a response without a top-level error; return as :meth:`handle`."""
        node_id, listed = fetch.target.node_id, fetch.listed
        if self._planner.replicas.failures:
            self._planner.replicas.worked(node_id)
        self.completed += 1
        if self.outages.under_way:
            self.outages.recovered(node_id, now, f"broker {node_id} answers Fetch requests again")
        rejected: dict[TopicPartition, Partition] = {}
        is_smooth, has_records, has_dropped = True, False, False
        for topic in response.responses:
            name = topic.topic or listed.names.get(topic.topic_id) or ""
            for data in topic.partitions:
                key: Any = name, data.partition_index  # equal to the TopicPartition, which takes longer to make
                known = listed.cursors.get(key)
                has_records = has_records or bool(data.records)
                if known is None:
                    log.debug("ignoring data of node %s for %s-%s: it was not in the request", node_id, *key)
                    continue
                partition, cursor = known
                tp = partition.tp
                if self._partitions.assigned.get(tp) is not partition or partition.cursor is not cursor:
                    log.debug("dropping data fetched for %s-%s: it was unassigned, or its position changed", *tp)
                    has_dropped = has_dropped or bool(data.records)
                elif data.error_code:
                    rejected[tp] = partition
                    self._partition_error(fetch, partition, data, response.node_endpoints, now)
                elif listed.wanted[tp].fetch_offset != cursor.fetch_offset:
                    # The response to another Fetch has advanced the fetch offset. If another node has sent it, either
                    # node may be a deposed leader with a diverged log: never append records of one to the other's.
                    log.debug("dropping data of node %s for %s-%s: data of another node came first", node_id, *tp)
                else:
                    self._take(fetch, partition, data, frame, now)
                is_smooth = is_smooth and partition.state is PositionState.FETCHING and partition.last_error is None
        fetch.answered(response.session_id)
        if isinstance(fetch, SecondFetch):
            if not has_records:  # records that are dropped count, too: they may have filled the response
                fetch.got_nothing()
            return is_smooth and not rejected
        if rejected or listed.unconfirmed:
            self._confirm(listed, rejected)
        listed.confirmation.at = now  # rejected partitions keep the time of an earlier response
        if not frame.users and not has_dropped:
            # Do not pace after dropped records (of a seek, say): a program that reads at random offsets would be slow.
            fetch.pace(now)
        return is_smooth and not rejected

    def _confirm(self, listed: SessionPartitions, rejected: dict[TopicPartition, Partition]) -> None:
        """Confirm the log ends of all partitions of the session, except those rejected.

        An incremental response confirms the partitions that it leaves out, too: they have no new data (KIP-227).
        """
        for tp, partition in rejected.items():
            listed.end_confirmation(partition)
            listed.unconfirmed[tp] = partition
        if listed.unconfirmed:
            confirmed = [partition for tp, partition in listed.unconfirmed.items() if tp not in rejected]
            self._partitions.confirm(confirmed, listed.confirmation)
            listed.unconfirmed = rejected

    def _got_no_response(self, fetch: AnyFetch, error: KafkaError | None, now: float) -> None:
        node_id = fetch.target.node_id
        log.debug("fetch from node %s failed: %s", node_id, error)
        fetch.failed(now)
        if isinstance(fetch, SecondFetch):
            return
        self._metadata.request_update(f"fetch from node {node_id} failed: {error}")
        # a rejected API version or login: the broker would reject the next request, too
        is_raised = isinstance(error, BrokerResponseError) and not error.retriable
        for partition in self._planner.wanted(node_id, now):
            partition.failed(error or KafkaError("the Fetch got no response"), is_raised=is_raised)
        # not only partitions in ``listed``: a request that was never written lists none
        for partition in self._partitions:
            self._leave_replica(partition, node_id, now)
        fetch.pace(now)

    def _session_error(self, fetch: AnyFetch, code: int, now: float) -> None:
        node_id = fetch.target.node_id
        error = to_error(code, api="Fetch", node_id=node_id)
        action = rule("Fetch", code, Scope.CONSUMER).action
        if isinstance(fetch, SecondFetch):
            log.debug("the second Fetch from node %s failed: %s", node_id, error)
            fetch.failed(now)
            return
        cursors = fetch.listed.cursors
        if action is Action.NEW_SESSION:
            log.info("fetch session %s of node %s ended: %s", fetch.session_id, node_id, error)
            keep_id = code != Code.FETCH_SESSION_ID_NOT_FOUND
            if code == Code.FETCH_SESSION_TOPIC_ID_ERROR or fetch.epoch <= FIRST_INCREMENTAL_EPOCH:
                fetch.failed(now, keep_id=keep_id)  # a further session would be rejected, too: back off
                self._metadata.request_update(str(error))
            else:
                fetch.renew(keep_id=keep_id)
        else:
            fetch.failed(now)
            is_raised = action is Action.RAISE
            self.outages.failed(
                (code, None), now, f"Fetch fails: {error}", subject=node_id, grace=0.0 if is_raised else GRACE
            )
            for partition, cursor in cursors.values():
                if partition.cursor is cursor:
                    partition.failed(error, is_raised=is_raised)
            if not is_raised:
                self._metadata.request_update(str(error))
        fetch.pace(now)

    def _leave_replica(self, partition: Partition, node_id: int, now: float) -> None:
        """Fetch from the leader again, and avoid ``node_id`` for a while, if it is the preferred replica."""
        if partition.preferred_replica == node_id:
            partition.preferred_replica = -1
            self._planner.replicas.failed(node_id, now)

    def _partition_error(
        self, fetch: AnyFetch, partition: Partition, data: PartitionData, endpoints: list[NodeEndpoint], now: float
    ) -> None:
        tp = partition.tp
        action = rule("Fetch", data.error_code, Scope.PARTITION).action
        if action is Action.RESET_POSITION:
            self._out_of_range(fetch, partition, now)
            return
        error: KafkaError = to_error(data.error_code, api="Fetch", node_id=fetch.target.node_id, partition=tp)
        log.debug("fetch of %s-%s from node %s failed: %s", *tp, fetch.target.node_id, error)
        self._leave_replica(partition, fetch.target.node_id, now)
        hint = data.current_leader
        node = next((Node(n.node_id, n.host, n.port, n.rack) for n in endpoints if n.node_id == hint.leader_id), None)
        if self._metadata.hint_leader(tp, node, hint.leader_id, hint.leader_epoch) and not partition.failures:
            # The response names the new leader (KIP-951): no backoff. The second such response in a row is a failure:
            # otherwise, brokers that name each other with ever higher epochs would cause Fetches without a pause.
            partition.failures += 1
            return
        self._metadata.leader_refused(tp, fetch.target.node_id, data.error_code, now)
        if action is Action.REFRESH_METADATA:
            self._metadata.request_update(f"fetching {tp.topic}-{tp.partition}: {error}")
        if partition.state is not PositionState.FETCHING:
            return  # a late response: the partition is being reset or validated, with a backoff of its own
        if isinstance(error, TopicAuthorizationFailedError):
            # all partitions of the topic share one error object, so that polls raise the error once
            error = self._refused.setdefault(tp.topic, error)
        elif data.error_code == Code.CORRUPT_MESSAGE:
            error = _corrupt(tp, partition.cursor.fetch_offset, f"{error}")
        self._failed(partition, data.error_code, error, now, is_raised=action is Action.RAISE)

    def _note(self, partition: Partition, code: int, error: KafkaError, now: float, *, is_raised: bool) -> None:
        """Record the partition's error, and log a warning: at once if polls raise the error, else if it persists."""
        partition.failed(error, is_raised=is_raised)
        tp, grace = partition.tp, 0.0 if is_raised else GRACE
        text = f"{tp.topic}-{tp.partition} cannot be read at offset {partition.cursor.offset}: {error}"
        # The count makes each change of the partition count an outage of its own. After a change, Fetches are rejected;
        # a partition that is then held is not fetched, so its outage does not end, and would seem to last until the
        # next change.
        kind = code, tp.topic, self._partitions.counts.get(tp.topic)
        self.outages.failed(kind, now, text, subject=tp, grace=grace)

    def _failed(self, partition: Partition, code: int, error: KafkaError, now: float, *, is_raised: bool) -> None:
        self._pause(partition, now)  # first: in the other order, Ctrl-C between the two calls would prevent the backoff
        self._note(partition, code, error, now, is_raised=is_raised)

    def _pause(self, partition: Partition, now: float) -> None:
        partition.failures += 1
        partition.back_off(now + self._backoff.delay(partition.failures, self._shared_jitter))

    def _out_of_range(self, fetch: AnyFetch, partition: Partition, now: float) -> None:
        if partition.state is not PositionState.FETCHING:
            return  # a late response: the position is already being reset or validated
        info = self._metadata.leader(partition.tp)
        if info is not None and fetch.target.node_id != info.leader:
            # A follower may lag behind, or have deleted old segments earlier: only the leader can decide.
            text = "%s-%s: follower %s reports offset %s as out of range; fetching from the leader"
            log.info(text, *partition.tp, fetch.target.node_id, partition.cursor.fetch_offset)
            self._leave_replica(partition, fetch.target.node_id, now)
            return
        if partition.cursor.offset != partition.cursor.fetch_offset:
            # A reset now would drop the buffered records, which are valid: retry until polls have returned them.
            self._pause(partition, now)
            return
        partition.ask_reset(None, out_of_range=partition.cursor.fetch_offset)
        if not fetch.uses_ids and self._metadata.topic_id(partition.tp.topic) != ZERO_UUID:
            # The Fetch had no topic ids, so the position may belong to a deleted topic of the same name. Without newer
            # metadata, the position would be moved to the end of the new topic, as if records of the deleted topic were
            # truncated.
            partition.least_refresh = self._metadata.refresh_from_now(f"a position of {partition.tp} is out of range")
        # A broker may reject offsets that its own ListOffsets response reports. Without a backoff, the client would
        # fetch, reset and log in a tight loop.
        partition.back_off(now + self._backoff.delay(partition.fruitless_ranges, self._shared_jitter))
        partition.fruitless_ranges += 1
        code = int(Code.OFFSET_OUT_OF_RANGE)
        error = to_error(code, api="Fetch", node_id=fetch.target.node_id, partition=partition.tp)
        self._note(partition, code, error, now, is_raised=False)

    def _take(self, fetch: AnyFetch, partition: Partition, data: PartitionData, frame: Frame, now: float) -> None:
        is_worse = (
            partition.last_error is not None
            or partition.failures
            or partition.fruitless_ranges
            or partition.error is not None
        )
        if is_worse and not data.records:
            self._recovered(fetch, partition, now)
        if data.high_watermark >= 0:
            partition.high_watermark = data.high_watermark
        partition.last_stable_offset = data.last_stable_offset if data.last_stable_offset >= 0 else None
        if data.log_start_offset >= 0:
            partition.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0 and data.preferred_read_replica != fetch.target.node_id:
            self._prefer(fetch, partition, data.preferred_read_replica, now)
        if data.records:
            users = frame.users
            self._take_records(fetch, partition, data, frame, now)
            if is_worse and frame.users > users:
                self._recovered(fetch, partition, now, has_records=True)

    def _recovered(self, fetch: AnyFetch, partition: Partition, now: float, *, has_records: bool = False) -> None:
        """Note a response without an error after failures; ``has_records``: its records were put into the buffer."""
        if partition.last_error is not None or partition.fruitless_ranges:
            text = f"{partition.tp.topic}-{partition.tp.partition} can be read again"
            self.outages.recovered(partition.tp, now, text)
            self._metadata.epoch_accepted(partition.tp)
        partition.fruitless_ranges = 0
        # While VALIDATING, the partition's error may be a LogTruncationError that polls have yet to raise: keep it.
        if partition.state is PositionState.FETCHING:
            failures = partition.failures
            partition.worked()
            if not has_records and (fetch.written_at is None or now - fetch.written_at < self._backoff.initial):
                # Keep the number of failures: otherwise the backoff would not grow if a broker rejects every second
                # Fetch, and answers all others at once.
                partition.failures = failures

    def _prefer(self, fetch: AnyFetch, partition: Partition, node_id: int, now: float) -> None:
        if not self._planner.replicas.may_follow(node_id, now):
            return  # a late response: the replica has failed since this Fetch
        info = self._metadata.leader(partition.tp)
        if info is not None and fetch.target.node_id != info.leader:
            return  # only the leader chooses: followers that name each other would cause Fetches without a pause
        if node_id in self._metadata.nodes:
            # A Fetch may be in flight to that replica. If the preference expired before its response, the next Fetch
            # would go to the leader, which only names the replica again.
            least = self._settings.fetch_max_wait_ms + self._settings.request_timeout_ms
            partition.prefer(node_id, now + max(self._settings.metadata_max_age_ms, least) / 1000)
        else:
            # Until metadata contains the replica, the leader answers at once and without records: back off.
            words = f"node {node_id} is the preferred replica, but not in metadata"
            self._failed(partition, Code.REPLICA_NOT_AVAILABLE, KafkaError(words), now, is_raised=False)
            self._metadata.request_update(f"{partition.tp}: {words}")

    def _take_records(
        self, fetch: AnyFetch, partition: Partition, data: PartitionData, frame: Frame, now: float
    ) -> None:
        records, offset = memoryview(data.records or b""), partition.cursor.fetch_offset
        end = data.high_watermark if data.high_watermark > offset else OFFSET_MAX
        batches, broken = split(records, partition.tp, offset, end)
        if not batches.counts and broken is None:
            # A broker sends at least one whole batch (KIP-74). As in Java, polls raise an error; the Fetch is retried.
            behind = min(claimed_end(records, offset), end)
            self._no_batch(partition, f"its {len(records)} bytes hold no complete batch", now, behind)
            return
        if batches.counts and (batches.first_end <= offset or not batches.is_ascending):
            batches, fault = usable(batches, offset, self._settings.check_crcs)
            if fault is not None:
                words = f"corrupt batch in {partition.tp.topic}-{partition.tp.partition}: {fault.problem}"
                behind = min(fault.next_offset, max(end, fault.offset + 1))
                broken = CorruptRecordError(words, partition.tp, fault.offset, behind)
        if batches.counts or broken is not None:
            self._keep(fetch, partition, data, batches, broken, frame)
        else:
            # A broker may err once, so the Fetch is first only retried. But if a base offset was changed on the way to
            # the broker's disk, each response is like this, and polls raise an error in the end.
            words = "the broker returns only batches that end below this offset"
            self._no_batch(partition, words, now, is_raised=partition.failures >= USELESS_MAX)

    def _no_batch(
        self, partition: Partition, words: str, now: float, behind: int = -1, *, is_raised: bool = True
    ) -> None:
        """Back off after a response that has bytes, but no usable batch; with ``is_raised``, polls raise an error.

        ``behind`` is the offset after the first batch, as its header claims; from there the application may go on. -1:
        unknown.
        """
        error = _corrupt(partition.tp, partition.cursor.fetch_offset, words, behind)
        self._failed(partition, Code.CORRUPT_MESSAGE, error, now, is_raised=is_raised)

    def _keep(
        self,
        fetch: AnyFetch,
        partition: Partition,
        data: PartitionData,
        batches: Batches,
        broken: CorruptRecordError | None,
        frame: Frame,
    ) -> None:
        """Add batches to the buffer, and the error for what follows them; move the fetch offset past the batches."""
        aborted = None
        if self._read_committed and data.aborted_transactions:
            pairs = ((a.producer_id, a.first_offset) for a in data.aborted_transactions)
            aborted = AbortedTransactions(pairs, *partition.tp)
        cursor = partition.cursor
        count, records = len(batches.counts), sum(batches.counts)
        size, start = batches.starts[-1] - batches.starts[0], cursor.fetch_offset
        fetched = Fetched(partition, batches, frame, count, size, records, cursor, start, broken, aborted)
        size = self._buffer.add(fetched)
        if broken is not None:
            partition.report_change()
        if count:
            self.records += records
            self._planner.targets.fetched(partition, size, fetch.target.node_id)
            cursor.fetch_offset = batches.next_offset
            cursor.fetch_epoch = batches.leader_epoch
            is_late = 0 <= fetch.listed.wanted[partition.tp].leader_epoch < partition.leader_epoch
            if not is_late and cursor.fetch_epoch < partition.leader_epoch:
                is_late = fetch.target.node_id not in (partition.leader, partition.preferred_replica)
            if is_late and partition.state is PositionState.FETCHING:
                # The request was sent before a leader change, or to a former leader that has yet to truncate its log.
                # The new leader may have validated the position before these records came: validate again.
                partition.move(PositionEvent.LEADER_CHANGED)


def _corrupt(tp: TopicPartition, offset: int, words: str, next_offset: int = -1) -> CorruptRecordError:
    text = f"{tp.topic}-{tp.partition} at offset {offset}: {words}; check the broker's log"
    return CorruptRecordError(text, tp, offset, max(next_offset, offset + 1))
