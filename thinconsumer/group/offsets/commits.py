"""Send OffsetCommit, one request at a time: commits made meanwhile wait, and are merged into the next request.

The member id and generation are filled in when the request is written, since a rebalance may change them while the
request is queued. Offsets that the rebalance has invalidated are then left out. If they were sent without a member id,
the coordinator could accept them as a commit under manual assignment, and they would replace later offsets of the
partition's new owner. Follows Java's ``ConsumerCoordinator``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial

from ...errors import AuthorizationError, BrokerResponseError, KafkaError
from ...failures import Action, Scope, rule
from ...network.metadata import Metadata
from ...network.request import Answer, Request
from ...support.agenda import Alarm
from ...support.calls import Call
from ...support.lazy_dataclass import dataclass, field
from ...support.timers import NEVER, Random, Retry
from ...types import OffsetAndMetadata, TopicPartition
from ...wire import ZERO_UUID, Message
from ...wire.error_codes import Code, to_error
from ...wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..coordinator import GENERAL, Coordinator, GroupSettings, judge
from ..coordinator_requests import CoordinatorRequests
from ..identity import NO_GENERATION, Identity
from .commit_errors import API, Failure, final_error, reason_of
from .commit_identity import CommitIdentity
from .commit_queue import Callback, CommitQueue, Entries, Entry, Pending

log = logging.getLogger(__name__)

#: Kafka 4.0 removed versions 0 and 1; version 10 names topics by id.
VERSION_MIN, NAMES_UNTIL, IDS_SINCE = 2, 9, 10
#: The first version that members of consumer groups (KIP-848) may use.
EPOCHS_SINCE = 9
STATIC_MEMBERS_SINCE = 7


@dataclass(slots=True, eq=False)
class OffsetCommitInFlight:
    """Describe the OffsetCommit request that is in flight, or about to be written."""

    entries: Entries
    stamp: Identity | None = None  #: The identity in the written request.
    names: dict[bytes, str] = field(default_factory=dict)  #: The topics of the written request by id.


class Commits:
    asker = "commits"

    def __init__(
        self,
        settings: GroupSettings,
        coordinator: Coordinator,
        assigned: Container[TopicPartition],
        metadata: Metadata,
        random: Random,
        *,
        read_identity: Callable[[], CommitIdentity],
        seconds_since_poll: Callable[[float], float | None] = lambda now: None,
        allows_foreign: bool = False,
    ) -> None:
        self._settings = settings
        self._coordinator = coordinator
        self._assigned = assigned
        self._metadata = metadata
        self._group_id = coordinator.group_id
        self._read_identity = read_identity
        self._settled: Identity | None = None
        self._refused: Identity | None = None
        self._seconds_since_poll = seconds_since_poll
        self._allows_foreign = allows_foreign  #: Whether offsets of partitions of other members are sent, too.
        #: Partitions that were revoked under the identity ``_released_as``.
        self._released: frozenset[TopicPartition] = frozenset()
        self._released_as: Identity | None = None
        self._requests = CoordinatorRequests(self.asker, settings, coordinator, random)
        #: Backoff after retriable errors of single partitions.
        self._stragglers = Retry(self._requests.retry.backoff, random, coordinator.agenda)
        self.queue = CommitQueue(self._explain, coordinator.agenda.alarm())
        #: The identity and the version of metadata for which :meth:`_judge` has checked all waiting offsets; None if it
        #: must check them again.
        self._judged: tuple[Identity, int] | None = None
        self._stale_error: KafkaError | None = None
        self._now = 0.0  #: The time of the last step, response or call.
        #: Called if the error of a commit may concern the current membership: with the error, the identity in the
        #: request, and the time.
        self.on_membership_error: Callable[[KafkaError, Identity, float], None] = lambda error, identity, now: None
        #: Returns the member epoch since which this consumer owns a partition. An offset of an earlier epoch
        #: is not committed: another member may have owned the partition since, and committed a later offset.
        self.owned_since: Callable[[TopicPartition], int] = lambda tp: NO_GENERATION
        #: Returns whether the coordinator has assigned the partition, and this member has not taken it over yet.
        self.is_coming: Callable[[TopicPartition], bool] = lambda tp: False
        #: Called with every offset that was written, unless its topic is known to be deleted.
        self.on_written: Callable[[TopicPartition, OffsetAndMetadata], None] = lambda tp, value: None
        #: Called for each commit that has succeeded, before its callback and as that, with its offsets; None: no call.
        self.on_commit: Callable[[dict[TopicPartition, OffsetAndMetadata]], None] | None = None
        #: Called for every response, with its latency in seconds and the current time.
        self.on_answer: Callable[[float, float], None] = lambda seconds, now: None
        #: The latest error of a commit that other commits may get, too (a missing ACL, say); None after a success.
        self.last_error: KafkaError | None = None
        self.failed_at = -NEVER

    @property
    def may_commit(self) -> bool:
        """Whether commits can be made: the consumer is a member of a generation, or the assignment is manual."""
        return self._commit_identity().who is not None

    def add(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        callback: Callback | None = None,
        what: str = "commit",
        called_at: float | None = None,
    ) -> Call[None]:
        """Commit these offsets, after those of earlier calls. Retriable errors are retried until ``deadline``.

        The call is settled when each of its offsets, or that of a later call for the same partition, is written or has
        failed: with a CommitFailedError that names the partitions not written, or an AuthorizationError. Its callback
        is then due in :attr:`CommitQueue.finished`; after an error, no sooner than a backoff after ``called_at``, the
        time of a call that was made inside a callback.
        """
        if not self.queue.calls:
            self._stale_error = self._coordinator.error
        if self.on_commit is not None:
            callback = partial(_call_both, self.on_commit, callback)
        current = self._commit_identity()
        topic_ids = {name: self._metadata.topic_id(name) for name in {tp.topic for tp in offsets}}
        who = current.consumed_as or Identity(self._group_id)
        pending = self.queue.add(offsets, who, deadline, callback, what, topic_ids, self._pause(called_at))
        self._coordinator.agenda.touch()
        if current.who is None and offsets:
            # If the call stayed queued, an unsubscribe() before the next step would let it be sent without a member id.
            self.queue.fail_call(pending, current.outside())
        return pending.call

    def _pause(self, called_at: float | None) -> Alarm | None:
        """Return an alarm for the end of a backoff after a call inside a callback; None for other calls."""
        if called_at is None:
            return None
        pause = self._coordinator.agenda.alarm()
        pause.set(called_at + self._requests.retry.backoff.initial)
        return pause

    def release(self, tps: Iterable[TopicPartition]) -> None:
        """Note revoked partitions. Their offsets may be committed until the generation, or member epoch, has ended."""
        identity = self._read_identity().identity
        before = self._released if identity == self._released_as else frozenset()
        self._released, self._released_as = before.union(tps), identity

    def timeout_error(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], now: float) -> KafkaError:
        """Return the timeout error for a ``commit()`` that stops waiting for these offsets, which may still be sent."""
        self._now = now
        waiting = [pending for pending in self.queue.calls.values() if pending.offsets == offsets]
        failures = {tp: self._timeout(waiting[-1]) for tp in waiting[-1].outstanding} if waiting else {}
        return self._explain(failures, "commit")

    def give_up_all(self, now: float) -> None:
        """Fail every call that is not settled, because the consumer closes or unsubscribes."""
        if not self.queue.calls:
            return
        self._now = now
        self.restart(now)  # Ctrl-C may have interrupted a step: rebuild the queue first
        for pending in list(self.queue.calls.values()):
            self.queue.fail_call(pending, self._timeout(pending))

    def step(self, now: float) -> list[Request]:
        self._now = now
        current = self._read_identity()
        if not current.is_rebalancing:
            self._settled, self._refused = current.who, None
        for pending in self.queue.expired(now):
            self.queue.fail_call(pending, self._timeout(pending))
        if self._coordinator.error is not None:
            self._fail_without_coordinator(self._coordinator.error)
        if not self.queue.calls:
            self.queue.ready, self.queue.delayed = {}, {}
            self._coordinator.unwant(self.asker)
            return []
        self._coordinator.want(self.asker)
        abandoned = self._requests.abandon_if_moved()
        if abandoned is not None:  # the former coordinator writes no more commits
            self._judged = None
            for tp, entry in abandoned.context.entries.items():
                self.queue.put_back(tp, entry)
        self._judge()
        if not self._requests.may_send(now) or self._commit_identity().awaits_sync:
            return []
        if self.queue.delayed and self._stragglers.may_send(now):
            self.queue.release()
        return self._send(now) if self.queue.ready else []

    def handle(self, answer: Answer, now: float) -> None:
        if not self._requests.take(answer):
            return
        self._now = now
        self._judged = None  # check again: offsets in flight may be of an older generation
        flight: OffsetCommitInFlight = answer.request.context
        if answer.error is None:
            self.on_answer(now - self._requests.sent_at, now)
            self._take_response(flight, answer)
            return
        action, error = judge(answer, self._group_id, scope=Scope.PARTITION)
        self._coordinator.report(action, error, answer, now)
        if action is Action.FAIL and isinstance(error, BrokerResponseError):  # a failed login, an unsupported version
            self._fail(flight.entries, error)
        else:
            self._again(flight.entries, answer.error)

    def restart(self, now: float) -> None:
        request = self._requests.in_flight
        self.queue.rebuild({} if request is None else request.context.entries)
        self._judged = None
        self._requests.restart()
        self._stragglers.succeeded()

    def _commit_identity(self) -> CommitIdentity:
        return self._read_identity()._replace(settled=self._settled, refused=self._refused)

    def _explain(self, failures: Mapping[TopicPartition, Failure], what: str) -> KafkaError:
        seconds, has_epochs = self._seconds_since_poll(self._now), self._read_identity().has_epochs
        return final_error(self._settings, self._group_id, failures, what, seconds, has_epochs=has_epochs)

    def _judge(self) -> None:
        """Fail waiting offsets that the member may not commit now, and give all others its current identity."""
        current = self._commit_identity()
        who, version = current.who, self._metadata.version
        if who is not None and ((who, version) == self._judged or current.awaits_sync):
            return  # checked already, or a rebalance may still change the assignment
        for tp, entry in self.queue.waiting():
            objection = self._objection(tp, entry, current)
            if objection is not None:
                self.queue.drop(tp, objection)
            elif who is not None:
                entry.identity = who
        self._judged = None if who is None else (who, version)

    def _objection(self, tp: TopicPartition, entry: Entry, current: CommitIdentity) -> Failure | None:
        if self._is_of_deleted_topic(tp, entry):
            return Failure("refused", "the topic was deleted, and the topic that has its name now is another one")
        before = entry.identity
        if before == current.who:
            return None
        # Whether the partition has been assigned without interruption since that identity applied.
        is_kept = tp in self._assigned and before.generation_id >= self.owned_since(tp)
        return current.objection(before, is_assigned=is_kept)

    def _is_of_deleted_topic(self, tp: TopicPartition, entry: Entry) -> bool:
        """Return whether a topic of the same name was created since the offset was queued (KIP-516).

        OffsetCommit names topics by id since version 10. With an older version, the offset would be written to the new
        topic, unless this client has seen the new topic in metadata.
        """
        before, current = entry.latest.topic_ids.get(tp.topic, ZERO_UUID), self._metadata.topic_id(tp.topic)
        return ZERO_UUID not in (before, current) and before != current

    def _foreign(self, tp: TopicPartition) -> Failure | None:
        """Return why the offset of a partition cannot be committed now if this member does not own it; else None.

        This is checked when offsets are sent: the partition may have been assigned meanwhile. The partition counts as
        owned from the coordinator's assignment on, even before ``on_partitions_assigned``; and still after its
        revocation until the generation ends, since no other member owns it before that.
        """
        if self._allows_foreign or tp in self._assigned:
            return None
        current = self._read_identity()
        is_released = tp in self._released and current.identity == self._released_as
        return None if is_released or self.is_coming(tp) else current.foreign()

    def _timeout(self, pending: Pending) -> Failure:
        last, why = pending.call.last_error, "the call timed out"
        if self._commit_identity().awaits_sync:
            return Failure("rebalance_in_progress", "the group was still rebalancing at the timeout", last)
        reason = "rebalance_in_progress" if getattr(last, "code", None) == Code.REBALANCE_IN_PROGRESS else "timeout"
        if self._coordinator.target(GENERAL) is None:
            last = self._coordinator.last_error or last
            reason, why = "coordinator", "no coordinator was found before the timeout"
        return Failure(reason, why if last is None else f"{why}; the last error was: {last}", last)

    def _fail_without_coordinator(self, error: KafkaError) -> None:
        """Fail all waiting offsets after an error of FindCoordinator that lasts until the application acts.

        An error that arrived before the oldest of these offsets was added is ignored: its cause may be gone.
        """
        is_served = self._requests.in_flight is not None or self._coordinator.target(GENERAL) is not None
        if is_served or error is self._stale_error:
            return
        # reason_of() maps the error codes of OffsetCommit, but this error is from FindCoordinator.
        reason = "authorization" if isinstance(error, AuthorizationError) else "coordinator"
        failure = Failure(reason, str(error), error)
        for tp, _ in self.queue.waiting():
            self.queue.drop(tp, failure)

    def _send(self, now: float) -> list[Request]:
        entries: Entries = {}
        for tp, entry in self.queue.take(self._group_id).items():
            objection = self._foreign(tp)
            if objection is None:
                entries[tp] = entry
            else:
                self.queue.resolve(tp, entry, objection)
        if not entries:
            return []
        flight = OffsetCommitInFlight(entries)
        topics, metadata = {tp.topic for tp in entries}, self._metadata
        return [
            self._requests.send(
                OffsetCommitRequest,
                partial(self._build, flight),
                now,
                context=flight,
                min_version=EPOCHS_SINCE if self._commit_identity().has_epochs else VERSION_MIN,
                max_version=lambda: IDS_SINCE if metadata.has_topic_ids(topics) else NAMES_UNTIL,
            )
        ]

    def _build(self, flight: OffsetCommitInFlight, version: int) -> Message:
        current = self._commit_identity()
        who = flight.stamp = current.who
        topics: dict[str, OffsetCommitRequestTopic] = {}
        waits = who is None or current.awaits_sync
        for tp, entry in list(flight.entries.items()):
            if waits or self._objection(tp, entry, current) is not None or self._foreign(tp) is not None:
                self._judged = None
                self.queue.put_back(tp, flight.entries.pop(tp))
                continue
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = OffsetCommitRequestTopic(name=tp.topic)
                if version >= IDS_SINCE:
                    topic.topic_id = self._metadata.topic_id(tp.topic)
                    flight.names[topic.topic_id] = tp.topic
            value = entry.latest.offsets[tp]
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    committed_metadata=value.metadata,
                )
            )
        stamp = who or Identity(self._group_id)  # without ``who``, no offset is sent, so the identity does not matter
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=stamp.generation_id,
            member_id=stamp.member_id,
            topics=list(topics.values()),
        )
        if version >= STATIC_MEMBERS_SINCE:
            request.group_instance_id = stamp.group_instance_id
        return request

    def _take_response(self, flight: OffsetCommitInFlight, answer: Answer) -> None:
        response: OffsetCommitResponse = answer.response
        unanswered = dict(flight.entries)
        refused: dict[int, Entries] = {}
        for topic in response.topics:
            name = flight.names.get(topic.topic_id) if answer.version >= IDS_SINCE else topic.name
            for row in topic.partitions:
                tp = TopicPartition(name or "", row.partition_index)
                entry = unanswered.pop(tp, None)
                if entry is None:
                    continue
                if row.error_code == Code.NONE:
                    self.queue.resolve(tp, entry, None)
                    if not self._is_of_deleted_topic(tp, entry):
                        self.on_written(tp, entry.latest.offsets[tp])
                else:
                    refused.setdefault(row.error_code, {})[tp] = entry
        actions = {code: rule(API, code, Scope.PARTITION).action for code in refused}
        if _OF_COORDINATOR.isdisjoint(actions.values()):
            self._requests.retry.succeeded()
            self._coordinator.answered(answer.node_id)
        if not refused:
            self.last_error = None
        for code, entries in refused.items():
            partition = next(iter(entries))
            error = to_error(code, api=API, node_id=answer.node_id, partition=partition, group_id=self._group_id)
            self._take_code(answer, actions[code], error, entries)
        if unanswered:
            missing = KafkaError(f"broker {answer.node_id} left partitions out of its answer to {API}")
            self._again(unanswered, missing, delayed=True)
        if not self.queue.delayed:
            self._stragglers.succeeded()

    def _take_code(self, answer: Answer, action: Action, error: BrokerResponseError, entries: Entries) -> None:
        log.debug("group %s: %d offsets not committed: %s", self._group_id, len(entries), error)
        if action is Action.CHECK_MEMBERSHIP:
            self._handle_membership_error(answer.request.context.stamp, error, entries)
        elif action is Action.RETRY_PARTITION:
            entries = self._without_removed(entries)
            counted = self._metadata.counted()
            if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION or any(tp.topic in counted for tp in entries):
                self._metadata.request_update(f"committing: {error}")
            self._again(entries, error, delayed=True)
        elif action is Action.FAIL:
            self._fail(entries, error)
        else:
            if action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR):
                self._coordinator.report(action, error, answer, self._now)
            self._again(entries, error)

    def _without_removed(self, entries: Entries) -> Entries:
        """Return the entries except those of assigned partitions that were deleted from a counted topic.

        The offsets of removed partitions count as written: otherwise the commit would block until its deadline, and the
        rebalance with it.
        """
        found: Entries = {}
        for tp, entry in entries.items():
            topic = self._metadata.topics.get(tp.topic)
            partitions = topic.partitions if topic is not None and topic.counts is not None else {}
            if partitions and tp.partition not in partitions and tp in self._assigned:
                self.queue.resolve(tp, entry, None)
            else:
                found[tp] = entry
        return found

    def _handle_membership_error(self, stamp: Identity | None, error: BrokerResponseError, entries: Entries) -> None:
        """Handle UNKNOWN_MEMBER_ID and the like; ``stamp`` is the identity in the written request."""
        current = self._commit_identity()
        who = current.who
        if stamp is None or not stamp.is_member:
            # The commit was made under manual assignment, without a member id, and the coordinator rejects it because
            # the group has members. The error says nothing about the membership that this consumer may have now.
            if error.code == Code.REBALANCE_IN_PROGRESS:
                self._again(entries, error)
            else:
                self._fail(entries, error)
        elif error.code == Code.REBALANCE_IN_PROGRESS:
            # Kafka returns REBALANCE_IN_PROGRESS only between JoinGroup and SyncGroup, when this client sends no
            # commits; brokers that are not Kafka may return it at any time of a rebalance.
            self._refused = stamp
            self._again(entries, error)
            self.on_membership_error(error, stamp, self._now)
        elif who is not None and who != stamp and who.member_id == stamp.member_id:
            # The member has a newer generation than the request. Queue the offsets again: those of partitions that are
            # still assigned are committed under the newer generation.
            self._again(entries, error)
        elif who == stamp and error.code == Code.STALE_MEMBER_EPOCH:
            # The coordinator has raised the epoch, and the heartbeat response with the new epoch is on its way, or is
            # lost. Offsets of partitions that are still owned are committed under the new epoch.
            self._again(entries, error)
            self.on_membership_error(error, stamp, self._now)
        elif who == stamp and error.code == Code.ILLEGAL_GENERATION and current.awaits_rebalance_response:
            # All members have joined, so the generation of the request is over, and the JoinGroup response with the
            # next generation is on its way. Queue the offsets again, to commit them under the next generation.
            self._refused = stamp
            self._again(entries, error)
        else:
            self._fail(entries, error)
            if error.code == Code.GROUP_ID_NOT_FOUND:
                # Without a group, this consumer is not a member. The member expects UNKNOWN_MEMBER_ID for that.
                error = to_error(
                    Code.UNKNOWN_MEMBER_ID, api=API, node_id=error.node_id, detail="there is no such group"
                )
            self.on_membership_error(error, stamp, self._now)

    def _again(self, entries: Entries, error: KafkaError, *, delayed: bool = False) -> None:
        """Queue the entries again, to be sent after a backoff: of all commits, or with ``delayed`` of these entries."""
        if delayed:
            self._stragglers.failed(self._now)
        else:
            self._requests.retry.failed(self._now)
            self.last_error, self.failed_at = error, self._now
        for tp, entry in entries.items():
            for pending in entry.calls:
                pending.call.last_error = error
            self.queue.put_back(tp, entry, delayed=delayed)

    def _fail(self, entries: Entries, error: BrokerResponseError) -> None:
        reason = reason_of(error)
        # Metadata that is too large concerns a single commit; later commits need not fail.
        if reason != "metadata_too_large" and rule(API, error.code, Scope.PARTITION).action is Action.FAIL:
            self.last_error, self.failed_at = error, self._now
        failure = Failure(reason, str(error), error)
        for tp, entry in entries.items():
            self.queue.resolve(tp, entry, failure)


def _call_both(
    on_commit: Callable[[dict[TopicPartition, OffsetAndMetadata]], None],
    callback: Callback | None,
    offsets: dict[TopicPartition, OffsetAndMetadata],
    error: KafkaError | None,
) -> None:
    if error is None:
        on_commit(offsets)
    if callback is not None:
        callback(offsets, error)


#: Actions about the coordinator or the member, not about single partitions.
_OF_COORDINATOR = frozenset(
    {Action.RETRY, Action.WAIT_FOR_COORDINATOR, Action.FIND_COORDINATOR, Action.CHECK_MEMBERSHIP}
)
