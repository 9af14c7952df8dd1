"""An application that reads as a member of a group: it subscribes with a listener, processes records and commits.

After a crash it resumes from the group's committed offsets. Its driver reports the client's requests and responses to
the checkers.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    SaslAuthenticationFailedError,
    UnreleasedInstanceIdError,
)
from thinconsumer.types import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer_testing.simulation.actors.application import Application, Behaviour, CallbackFailure
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, LOST, REVOKED, Jury, Member, names
from thinconsumer_testing.simulation.client_tap import GROUP_APIS
from thinconsumer_testing.simulation.driver import Crashed, SimDriver
from thinconsumer_testing.simulation.network import SimNetwork
from thinconsumer_testing.simulation.world import World

from ..checkers.rebalances import LogVolumeChecker

#: The longest processing time of a poll's records after :meth:`MemberActor.calm`, in seconds.
CALM_THOUGHT_S = 0.3
#: Timeout in ms of a blocking call on top of other actors' calls on the stack, which it delays (see :mod:`..world`).
BRIEF_MS = 300
#: A member makes blocking calls only on top of the blocking calls of at most this many other actors.
DEPTH_MAX = 2
#: Errors of calls that wait for a response. A login may be rejected only if the simulation has such faults; see
#: :class:`..checkers.logins.LoginChecker`.
UNAVAILABLE = (KafkaTimeoutError, SaslAuthenticationFailedError)


class MemberActor(Application):
    """A simulated group member, as the module describes; :meth:`start` starts it."""

    member: Member

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        name: str,
        jury: Jury,
        log_volume: LogVolumeChecker,
        *,
        group: str,
        topics: Collection[str],
        pattern: str | None,
        options: Mapping[str, Any],
        behaviour: Behaviour,
    ) -> None:
        super().__init__(world, name, jury, {"group_id": group, **options}, behaviour)
        self.group = group
        self.topics = sorted(topics)
        self.pattern = pattern
        #: Whether ``topics`` are subscribed by a regular expression that the broker evaluates.
        self.uses_broker_pattern = False
        self.is_calm = False
        #: The brokers' session timeout if the member uses the consumer group protocol; None: it is the client's option.
        self.session_timeout_s: float | None = None
        self.pending_callbacks = 0  #: Number of commit_async() calls for which the callback was not called yet.
        self._log_volume = log_volume
        self._network = network
        self.driver = self._new_driver()  # start() replaces it; a clock jump before start() needs a driver
        #: For each owned partition, the offset to commit: the one after the last processed record.
        self._next: dict[TopicPartition, OffsetAndMetadata] = {}
        self._owned: set[TopicPartition] = set()  #: Partitions that callbacks have assigned, and not revoked since.
        self._paused: set[TopicPartition] = set()
        #: Whether a call of the consumer is under way. Calls that callbacks make inside it are not reported separately.
        self._is_inside = False

    def _new_driver(self) -> SimDriver:
        return SimDriver(self.world, self._network, self.name, self._report)

    def _new_reader(self, config: ConsumerConfig, known: Mapping[str, Any]) -> Member:
        self.member = Member(
            **known,
            group=self.group,
            instance_id=config.group_instance_id,
            cooperative=self.session_timeout_s is not None
            or list(self.options["partition_assignment_strategy"]) == ["cooperative-sticky"],
            uses_broker_pattern=self.uses_broker_pattern,
            session_timeout_s=self.session_timeout_s or config.session_timeout_ms / 1000,
            max_poll_interval_s=config.max_poll_interval_ms / 1000,
        )
        return self.member

    def _subscribe(self) -> None:
        self.pending_callbacks = 0
        self._next, self._owned, self._paused, self._is_inside = {}, set(), set(), False
        self.subscribe(self.topics)

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics, or to the pattern if there is one."""
        self.topics = sorted(topics)
        pattern = SubscriptionPattern("|".join(self.topics)) if self.uses_broker_pattern else self.pattern
        with self._calling():
            if pattern is not None:
                self.consumer.raw.subscribe(pattern=pattern, listener=self)
            else:
                self.consumer.raw.subscribe(self.topics, listener=self)
        self.jury.tell("subscribed", self.member, None if self.pattern is not None else self.topics)

    def close(self, *, commit: bool = True) -> None:
        """Process the records of the last poll, and close the consumer."""
        if not self.is_running:
            return
        self._process()
        self.note("closes")
        self.jury.tell("closing", self.member)
        timeout_ms = self._timeout(3000)
        until = self.world.now() + timeout_ms / 1000
        try:
            with self._calling():
                self._close_client(timeout_ms, commit)
        except (CallbackFailure, KafkaError) as error:
            self._note_error("close", error)
        except Crashed:
            return
        self.is_running = False
        if self.pending_callbacks and self.world.now() < until:
            self.world.accuse(f"{self.member} was closed before {self.pending_callbacks} commit callbacks were called")
        self.jury.tell("ended", self.reader)

    def _close_client(self, timeout_ms: int, commit: bool) -> None:
        self.consumer.raw.close(autocommit=commit, timeout_ms=timeout_ms, leave_group=self.behaviour.leaves)

    def calm(self) -> None:
        """Recover from a stall or crash. From now on, make no extra calls, and raise no errors in callbacks."""
        self.is_calm = True
        self._to_do.clear()  # a fault may have queued close(), which would end the member for good
        self._thinks_until = 0.0
        self.recover()
        self.soon(self._resume_all)

    def assignment(self) -> set[TopicPartition]:
        """Return the consumer's assignment."""
        return self.consumer.raw.assignment() if self.is_running else set()

    def positions(self) -> dict[TopicPartition, int | None]:
        """Return the position of each assigned partition, None for a partition without one yet."""
        if not self.is_running:
            return {}
        return {p.tp: p.cursor.offset if p.has_position else None for p in self.consumer.raw._reader.partitions}

    def _is_odd_turn(self) -> bool:
        return not self.is_calm and self.random.random() < self.behaviour.odd_rate

    def _drive(self) -> float:
        if not self.behaviour.drives:
            return self._thinks_until
        with self._calling():
            self.client.drive()
        return min(self._thinks_until, self.world.now() + self.member.session_timeout_s / 6)

    def _think(self, now: float) -> float:
        limit = self.behaviour.think_s[1]
        if not limit:
            return now
        self._thinks_until = now + self.random.uniform(0, min(limit, CALM_THOUGHT_S) if self.is_calm else limit)
        return self._drive()

    def _process(self) -> None:
        done, self._unprocessed = self._unprocessed, []
        if not done:
            return
        self.jury.tell("processed", self.member, done)
        for record in done:
            tp = TopicPartition(record.topic, record.partition)
            self._next[tp] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
        commits = self.behaviour.commits
        if commits == "async" or (commits == "sync" and not self._may_block(DEPTH_MAX - 1)):
            self._commit_async(None)
        elif commits == "offsets":
            self._commit_async({tp: at for tp, at in self._next.items() if tp in self._owned})
        elif commits == "sync" and self.random.random() < 0.5:
            self._commit()

    def _commit(self) -> bool:
        """Commit and wait for the response; return whether the commit succeeded."""
        try:
            with self._calling():
                self.consumer.raw.commit(timeout_ms=self._timeout(2000))
        except (CommitFailedError, *UNAVAILABLE) as error:
            self._note_error("commit", error)
            return False
        return True

    def _commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata] | None) -> None:
        self.pending_callbacks += 1
        member = self.member

        def committed(offsets: Any, error: Exception | None) -> None:
            if member is self.member:
                self.pending_callbacks -= 1
                if self.pending_callbacks < 0:
                    self.world.accuse(f"{member}: the callback of a commit was called twice")

        self.consumer.raw.commit_async(offsets, committed)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Make random calls inside the callback (position(), committed(), seek(), pause()), and perhaps raise."""
        with self._in_callback(ASSIGNED, assigned):
            for tp in sorted(assigned):
                if self.behaviour.asks and self.random.random() < 0.3:
                    self._ask(tp)
                if self.behaviour.rewinds and not self.is_calm and self.random.random() < 0.2:
                    self._rewind(tp)
                if not self.is_calm and self.random.random() < self.behaviour.odd_rate:
                    self._pause(tp)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit the processed records."""
        with self._in_callback(REVOKED, revoked):
            if self.behaviour.commits != "auto" and revoked:
                if self._may_block(DEPTH_MAX):
                    self._commit()
                else:
                    self._commit_async(None)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Drop the state of these partitions."""
        with self._in_callback(LOST, lost):
            pass

    @contextmanager
    def _in_callback(self, what: str, tps: Collection[TopicPartition]) -> Iterator[None]:
        self.note(what, "%s", names(tps))
        self.jury.tell("callback_started", self.member, what, tps)
        error: BaseException | None = None
        try:
            yield
        except (KafkaError, KeyboardInterrupt) as raised:
            error = raised
        if not self.is_calm and self.random.random() < self.behaviour.raise_rate:
            error = CallbackFailure(f"the listener of {what} fails on purpose")
        if what == ASSIGNED:
            self._owned |= set(tps)
        else:
            self._owned -= set(tps)
            self._paused -= set(tps)
            for tp in tps:
                self._next.pop(tp, None)
        self.jury.tell("callback_finished", self.member, what, tps, error)
        if error is not None:
            raise error

    def enforce_rebalance(self, reason: str) -> None:
        """Join the group again, which makes it rebalance if this member is its leader."""
        self.note("enforces")
        with self._log_volume.enforcing(self.member):
            self.consumer.raw.enforce_rebalance(reason)

    def _do_something_odd(self) -> None:
        owned = sorted(self._owned)
        choice = self.random.randrange(6)
        if choice == 0:
            self.enforce_rebalance("random call")
        elif owned and choice == 1:
            self._ask(self.random.choice(owned))
        elif owned and choice == 2:
            self._pause(self.random.choice(owned))
        elif owned and choice == 3 and self.behaviour.rewinds:
            self._rewind(self.random.choice(owned))
        else:
            self._resume_all()

    def _ask(self, tp: TopicPartition) -> None:
        try:
            with self._calling():
                if self.random.random() < 0.5:
                    self.consumer.position(tp, self._timeout(500))
                else:
                    self.consumer.raw.committed([tp], timeout_ms=self._timeout(500))
        except UNAVAILABLE as error:
            self._note_error("ask", error)

    def _rewind(self, tp: TopicPartition) -> None:
        """Seek back by some records from the next offset to commit, or, without one, from the committed offset."""
        at = self._next.get(tp)
        if at is None:
            try:
                with self._calling():
                    at = self.consumer.raw.committed([tp], metadata=True, timeout_ms=self._timeout(500))[tp]
            except UNAVAILABLE as error:
                self._note_error("rewind", error)
        if at is not None:
            self.consumer.seek(tp, max(0, at.offset - self.random.randrange(10)))
            self._next.pop(tp, None)

    def _pause(self, tp: TopicPartition) -> None:
        if tp not in self._paused:
            self.consumer.pause(tp)
            self._paused.add(tp)

    def _resume_all(self) -> None:
        if self._paused:
            self.consumer.resume(*sorted(self._paused))
        self._paused = set()

    def _timeout(self, timeout_ms: int) -> int:
        if self.world.depth == 0:
            return timeout_ms
        return BRIEF_MS if self.world.depth <= DEPTH_MAX else 0

    def _cope_with(self, error: KafkaError) -> None:
        if isinstance(error, (FencedInstanceIdError, UnreleasedInstanceIdError)):
            # Restart the fenced process after a second, as an operator would. With UNRELEASED_INSTANCE_ID, the session
            # of the former process has to time out first. GROUP_ID_NOT_FOUND is no error that polls may raise here: a
            # member that was removed joins again, and brokers convert every group (group.consumer.migration.policy).
            self.crash()
            self.world.call_later(1.0, lambda: None if self.is_running else self.start())
        elif not isinstance(error, (*UNAVAILABLE, NoBrokersAvailable, InconsistentGroupProtocolError)):
            self.world.accuse(f"{self.name}: an unexpected error: {error!r}")

    def _calling(self, *, polls: bool = False) -> "_MemberCall":
        """Return a context for a call of the consumer: reports the call, and counts log lines as this member's."""
        return _MemberCall(self, polls)

    def _report(self, event: str, line: int, *what: Any) -> None:
        """Report an event of the client's connections to checkers, and trace group requests and responses."""
        is_traced = self.world.trace.enabled and event in ("request_written", "response_read")
        if is_traced and what[0].api_key in GROUP_APIS:
            verb, message = ("writes", what[0].message) if event == "request_written" else ("reads", what[1])
            self.note(verb, "%s on %d: %s", type(message).__name__, line, _brief(message))
        self.jury.tell(event, self.member, line, *what)


class _MemberCall:
    """The context of :meth:`MemberActor._calling`: a class, since every poll enters it, and generators take longer."""

    def __init__(self, actor: MemberActor, polls: bool) -> None:
        self._actor = actor
        self._member = actor.member
        self._polls = polls
        self._was_inside = False

    def __enter__(self) -> None:
        actor = self._actor
        self._was_inside = actor._is_inside
        if not self._was_inside:
            actor.jury.tell("call_began", self._member, self._polls)
        actor._is_inside = True
        actor._log_volume.calling.append(self._member)

    def __exit__(self, *_: object) -> None:
        actor = self._actor
        actor._log_volume.calling.pop()
        actor._is_inside = self._was_inside
        if not self._was_inside:
            actor.jury.tell("call_ended", self._member)


#: Names of the fields of requests and responses that the trace shows.
_FIELDS = ("error_code", "generation_id", "generation_id_or_member_epoch", "member_id", "leader", "reason")
#: Those of a ConsumerGroupHeartbeat.
_BEAT_FIELDS = ("error_code", "member_id", "member_epoch", "topic_partitions", "assignment")


def _brief(message: Message) -> str:
    """Return those fields of a message that the trace shows, in one line."""
    fields = _BEAT_FIELDS if message.API_KEY == ConsumerGroupHeartbeatRequest.API_KEY else _FIELDS
    words = [f"{name}={getattr(message, name)!r}" for name in fields if getattr(message, name, None) not in (None, "")]
    return " ".join(words)
