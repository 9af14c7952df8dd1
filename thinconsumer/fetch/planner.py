"""Plan the Fetch requests: which partitions to fetch from which node, and how many bytes.

Each node has one fetch session with at most one Fetch in flight. While the node holds that Fetch, it may get a second
Fetch, without a session (:mod:`.second_fetch`). After Java's ``AbstractFetch``; KIP-74, KIP-227, KIP-392, KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from ..config import ConsumerConfig
from ..config.rules import RESPONSES_IN_BUFFER
from ..network.metadata import Metadata
from ..network.request import Request, Target
from ..positions.partitions import Partition, Partitions, by_number
from ..support.agenda import Agenda, Alarm
from ..support.timers import LEAST_PAUSE, Backoff, Random, Retry
from ..types import TopicPartition
from ..wire import Message
from ..wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from .buffer import Buffer
from .second_fetch import CHANNEL as CHANNEL_2
from .second_fetch import LOOK_AFTER_S, SecondFetch, long_poll_since
from .sessions import FINAL_EPOCH, NO_SESSION, FetchSession, Plan, SessionPartitions, WantedPartition
from .targets import FetchTargets

T = TypeVar("T")

log = logging.getLogger(__name__)

ASKER = "fetch"
#: Fetches use a connection of their own. A broker answers a connection's requests in order, so a request behind a
#: waiting Fetch (Metadata, ListOffsets) would be delayed by up to fetch_max_wait_ms, several times per leader change.
CHANNEL = "fetch"

#: First Fetch version with isolation levels and batches of format 2; brokers support it since 0.11.
VERSION_MIN = 4
#: First Fetch version with sessions, and last one with topic names instead of ids.
SESSIONS_SINCE = 7
NAMES_UNTIL = 12
#: While the buffer is not empty, a Fetch that could return only fewer bytes than this, for lack of memory, is not sent:
#: many small responses cost more than a short wait.
LEAST_WORTH_ASKING = 64 * 1024
#: How many fetched bytes ``poll`` reads ahead by default (more with many brokers). With more, they would leave the
#: processor's caches before they are decoded, which takes a twentieth more CPU time.
READ_AHEAD_BYTES = 16 << 20


class Planner:
    """Sends the Fetch requests. ``answers.Answers`` takes the records of the responses."""

    def __init__(
        self,
        settings: ConsumerConfig,
        partitions: Partitions,
        metadata: Metadata,
        buffer: Buffer,
        random: Random,
        agenda: Agenda,
    ) -> None:
        self._settings = settings
        self._max_wait_ms = settings.fetch_max_wait_ms
        self._timeout = settings.request_timeout_ms / 1000
        self._isolation_level = 1 if settings.isolation_level == "read_committed" else 0
        self._max_buffered_bytes = settings.max_buffered_bytes
        self._node_bytes = settings.node_bytes
        self._partitions = partitions
        self._metadata = metadata
        self._buffer = buffer
        self._random = random
        self._agenda = agenda
        #: Makes the planner due at once (:meth:`.Alarm.touch`) when the buffer has room again; never set to a time.
        self._alarm = agenda.alarm(ASKER)
        self._backoff = Backoff.from_settings(settings)
        #: Seconds between Fetches to a broker that answers at once, without records: see ``FetchSession.pace``. By
        #: default 0.2 s: with five at once before the first pause, at most ten are sent in a second.
        self._pause_s = max(LEAST_PAUSE, min(2 * self._backoff.initial, settings.fetch_max_wait_ms / 1000))
        self.targets = FetchTargets(settings, partitions, metadata, buffer, self._alarm)
        self._sessions: dict[int, FetchSession] = {}
        self._seconds: dict[int, SecondFetch] = {}
        #: Metadata version, assignment's generation, and whether the ids of all topics were known then.
        self._has_topic_ids = (-1, -1, False)
        self._turn = 0  #: The number of requests so far, by which the next step begins with another node.
        #: Whether to fetch up to ``max_buffered_bytes``: if the default limit of what is read ahead does not apply, or
        #: if no buffered record can be returned (paused partitions, or records beyond what ``read_to_end`` reads).
        self._may_fill = True
        self._now = 0.0
        self.batches = False  #: Whether polls read columns or raw batches, which allows larger fetches.
        self.has_numpy = True  #: Whether records are decoded with numpy, many of one response at a time.
        self.replicas = Replicas(random, agenda)

    def step(self, now: float) -> list[Request]:
        """Return the Fetches that are due."""
        self._now = now
        nodes, sessions, partitions, targets = self._metadata.nodes, self._sessions, self._partitions, self.targets
        self._buffer.awaited_by = None
        has_more = targets.late or targets.left_out or partitions.changed or partitions.unplanned
        if len(sessions) >= len(nodes) > 0 and not has_more:
            # Every node of the cluster has a Fetch in flight in most steps, so that is checked first.
            for node in nodes:
                if node not in sessions or not sessions[node].retry.in_flight:
                    break
            else:
                return []
        requests = []
        targets.update(now)
        limit = self._max_buffered_bytes  # how many fetched bytes to hold while polls return records
        # Columns gain more by larger responses than they lose by leaving the processor's caches.
        if not self.batches:
            limit = min(limit, max(READ_AHEAD_BYTES, max(len(sessions), len(targets.by_node)) * self._node_bytes))
        if limit != targets.limit:
            targets.set_limit(limit, now)
        if targets.left_out:
            self._buffer.awaited_by = self._alarm
        by_node = targets.by_node
        # In a fixed order, the first node would get the memory each time that little is free.
        for node_id in _rotated(list(by_node), self._turn) if len(by_node) > 1 else by_node:
            session = sessions.get(node_id) or self._new_session(node_id)
            retry = session.retry
            if retry.in_flight:
                requests += self._second(node_id, session, limit, now)
            if retry.in_flight or retry.pause.is_ahead(now):
                continue
            session.reserved = self._allowance(len(by_node[node_id]), len(by_node), limit)
            if session.reserved <= 0:
                session.reserved = 0
                self._buffer.awaited_by = self._alarm
                continue
            session.written_at = None
            retry.in_flight = True
            self._turn += 1
            about = now + self._timeout, session, VERSION_MIN, self._highest, self._max_wait_ms / 1000
            requests.append(Request(ASKER, FetchRequest, session.target, partial(self._compose, session), *about))
        return requests

    def restart(self, now: float) -> None:
        """Drop the sessions, since all connections are new; brokers evict the old sessions by themselves."""
        for session in self._sessions.values():
            session.reset()
        self._sessions.clear()
        self._seconds.clear()
        self.targets.clear()
        self.replicas = Replicas(self._random, self._agenda)

    def make_room(self) -> None:
        """Let a Fetch be sent that lacks memory: a poll has found no record in the buffer to return.

        Otherwise the batches of paused partitions could hold all the memory for ever. First, the buffer may be filled
        up to ``max_buffered_bytes``; once it is, the batches of one partition are dropped.
        """
        if self._buffer.awaited_by is None or ASKER in self._agenda.touched:
            return  # the last step has left out nothing, or a Fetch may be sent with the next step
        for node_id in self.targets.by_node:
            session = self._sessions.get(node_id)
            if session is None:
                continue
            is_asking = session.retry.in_flight
            if self._due_second(node_id, session, self._now) if is_asking else session.retry.may_send(self._now):
                break  # the last step could not send this node's Fetch, for lack of memory
        else:
            return
        if self._may_fill:
            self._buffer.drop_one()
        else:
            self._may_fill = True
            self._alarm.touch()

    def close(self, now: float, is_ready: Callable[[int, str], bool]) -> list[Request]:
        """Return Fetches that close the sessions, so that they do not occupy the brokers' session caches.

        A closing Fetch would wait behind a Fetch in flight, which the broker may hold. The closing Fetch is then sent
        over the general channel, if ``is_ready(node_id, channel)`` says that this connection can be used.
        """
        requests = []
        for node_id, session in self._sessions.items():
            if session.session_id:
                is_behind = session.retry.in_flight and is_ready(node_id, "")
                target = Target(node_id, "") if is_behind else session.target
                message = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH, max_wait_ms=0)
                about = now + self._timeout, session, VERSION_MIN, self._highest
                requests.append(Request(ASKER, FetchRequest, target, partial(_built, message), *about))
        return requests

    def wanted(self, node_id: int, now: float) -> list[Partition]:
        self.targets.update(now)
        return self.targets.wanted(node_id)

    def is_asking(self, partition: Partition, now: float) -> bool:
        """Return :attr:`.FetchSession.is_asking` for the partition's node."""
        node_id = self.targets.node_for(partition, now)
        session = None if node_id is None else self._sessions.get(node_id)
        return session is not None and session.is_asking

    def sessions(self) -> Iterator[tuple[bool, SessionPartitions]]:
        """Yield each fetch session: :attr:`.FetchSession.is_asking`, and its partitions."""
        for session in self._sessions.values():
            yield session.is_asking, session.listed

    def paced_nodes(self, now: float) -> list[int]:
        """Return the nodes that answer Fetches at once and without records, so that fewer are sent."""
        return [node_id for node_id, session in self._sessions.items() if session.is_paced(now)]

    def _allowance(self, partitions: int, nodes: int, limit: int) -> int:
        """Return the maximum bytes of one response; 0 or less if no Fetch may be sent now.

        ``partitions`` is how many are fetched from the node, ``nodes`` from how many nodes partitions are fetched, and
        ``limit`` how many bytes to buffer at most.

        Once a response fits into ``limit`` again, ``_may_fill`` is unset, unless ``limit`` is ``max_buffered_bytes``.
        """
        size_max = self._max_buffered_bytes
        wish = min(self._settings.fetch_max_bytes, partitions * self._partition_bytes())
        # Each node gets a fair share; otherwise the first node's Fetch could reserve all memory and delay the others.
        fair = min(wish, max(1, limit // (nodes * RESPONSES_IN_BUFFER)))
        used = self._buffer.pinned
        for session in self._sessions.values():
            used += session.reserved
        for second in self._seconds.values():
            used += second.reserved
        if limit == size_max or used + fair <= limit:
            self._may_fill = limit == size_max
        free = min(fair, (size_max if self._may_fill else limit) - used)
        return free if free >= min(fair, LEAST_WORTH_ASKING) or not self._buffer.pinned else 0

    def _has_more(self, partition: Partition) -> bool | None:
        """Whether the broker has records of the partition that were not fetched yet; None if its log end is unknown.

        True for a position beyond the log end, too: the broker answers at once, with an error.
        """
        offset, high_watermark = partition.cursor.fetch_offset, partition.high_watermark
        end = partition.last_stable_offset if self._isolation_level else high_watermark
        if end is None or high_watermark is None:
            return None
        return offset < end or offset > high_watermark

    def _waiting(self, node_id: int, first: FetchSession) -> list[Partition]:
        """Return partitions that may have records, but were not ready to be fetched when ``first`` was written.

        Without partitions for which a second Fetch has got no records since then.
        """
        second, nodes = self._seconds.get(node_id), self.targets.nodes
        found: dict[Partition, None] = {}
        for partition in self.targets.late.pop(node_id, ()):
            position = partition.cursor, partition.cursor.fetch_offset
            is_tried = second is not None and second.tried.get(partition) == position
            if nodes.get(partition) != node_id or is_tried or first.listed.has_position_of(partition):
                continue
            if self._has_more(partition) is not False:
                found[partition] = None
        if found:
            self.targets.late[node_id] = found
        return list(found)

    def _due_second(self, node_id: int, first: FetchSession, now: float) -> list[Partition]:
        """Return the partitions for a second Fetch, if the broker holds the first Fetch and a second may be sent."""
        written_at = first.written_at
        if written_at is None or self._max_wait_ms <= LOOK_AFTER_S * 1000:
            return []  # the first Fetch will have them all, or is answered before another connection would be ready
        second = self._seconds.get(node_id)
        if second is not None and (second.held.is_ahead(now) or not second.retry.may_send(now)):
            return []
        waiting = self._waiting(node_id, first)
        if not waiting:
            return []
        if second is None:
            target, held = Target(node_id, CHANNEL_2), self._agenda.alarm(ASKER)
            second = self._seconds[node_id] = SecondFetch(target, first, self._new_retry(), held)
        held_from = long_poll_since(first.listed, written_at, self._has_more)
        if now < held_from:
            second.held.set(held_from)
            return []
        return waiting

    def _second(self, node_id: int, first: FetchSession, limit: int, now: float) -> list[Request]:
        waiting = self._due_second(node_id, first, now) if node_id in self.targets.late else []
        if not waiting:
            return []
        reserved = self._allowance(len(waiting), len(self.targets.by_node), limit)
        if reserved <= 0:
            self._buffer.awaited_by = self._alarm
            return []
        second = self._seconds[node_id]
        second.reserved = reserved
        second.retry.in_flight = True
        message, deadline = partial(self._compose_second, second), now + self._timeout
        return [Request(ASKER, FetchRequest, second.target, message, deadline, second, VERSION_MIN, self._highest)]

    def _new_session(self, node_id: int) -> FetchSession:
        is_incremental = self._settings.enable_incremental_fetch_sessions
        session = FetchSession(Target(node_id, CHANNEL), self._new_retry(), is_incremental, self._pause_s)
        self._sessions[node_id] = session
        return session

    def _new_retry(self) -> Retry:
        return Retry(self._backoff, self._random, self._agenda)

    def _highest(self) -> int:
        """Return the highest Fetch version to use: one with topic ids, in place of names, only if all ids are known."""
        seen = self._metadata.version, self._partitions.generation
        if self._has_topic_ids[:2] != seen:
            self._has_topic_ids = *seen, self._metadata.has_topic_ids(self._partitions.topics())
        return FetchRequest.VERSIONS[1] if self._has_topic_ids[2] else NAMES_UNTIL

    def _compose(self, session: FetchSession, version: int) -> Message:
        """Return the session's Fetch, now that it is written."""
        targets, node_id, listed = self.targets, session.target.node_id, session.listed.wanted
        targets.update(self._now)
        sessions, uses_ids = version >= SESSIONS_SINCE, version > NAMES_UNTIL
        partition_bytes = self._partition_bytes()
        changed = targets.changed.pop(node_id, {})
        partitions: list[Partition] = []
        unwanted: list[TopicPartition] | None = None
        if session.partition_bytes == partition_bytes and session.is_incremental(sessions=sessions, uses_ids=uses_ids):
            unwanted = []
            for partition in sorted(changed, key=by_number) if len(changed) > 1 else changed:
                current = partition if changed[partition] else self._partitions.get(partition.tp)
                if current is None or targets.nodes.get(current) != node_id:
                    unwanted.append(partition.tp)
                elif current is partition:
                    partitions.append(partition)
        else:
            partitions, changed = targets.wanted(node_id), {}
        wanted: dict[TopicPartition, WantedPartition] = {}
        for partition in _rotated(partitions, session.turn) if len(partitions) > 1 else partitions:
            if changed.get(partition):
                wanted[partition.tp] = WantedPartition(partition.cursor.fetch_offset, *listed[partition.tp][1:])
            else:
                wanted[partition.tp] = self._want(partition, partition_bytes)
        plan = session.plan(wanted, sessions=sessions, uses_ids=uses_ids, unwanted=unwanted)
        for partition in partitions:
            if not changed.get(partition):
                session.listed.expect(partition)
        session.partition_bytes, session.written_at = partition_bytes, self._now
        session.turn += 1
        second = self._seconds.get(node_id)
        if second is not None:
            second.tried.clear()
            second.held.clear()
        targets.late.pop(node_id, None)
        if self._partitions.changed:
            # Partitions that left the session have reported a change. Unless the planner steps again, a second Fetch
            # that this change makes due would wait for something else that makes it step.
            self._alarm.touch()
        return self._message(plan, session.reserved, self._max_wait_ms)

    def _compose_second(self, second: SecondFetch, version: int) -> Message:
        self.targets.update(self._now)
        partition_bytes, second.listed = self._partition_bytes(), SessionPartitions()
        # If the session's next Fetch was written before this request, it has the partitions, and this request has none.
        for one in _rotated(self._waiting(second.target.node_id, second.first), second.turn):
            second.listed.set(one.tp, self._want(one, partition_bytes))
            second.listed.cursors[one.tp] = one, one.cursor
        second.turn += 1
        second.uses_ids = version > NAMES_UNTIL
        return self._message(Plan(NO_SESSION, FINAL_EPOCH, second.listed.wanted, {}), second.reserved, 0)

    def _want(self, partition: Partition, max_bytes: int) -> WantedPartition:
        info = self._metadata.leader(partition.tp)
        # While no leader is known, a preferred replica is still fetched from, with the newest epoch seen.
        epoch = self._metadata.newest_epoch(partition.tp) if info is None else info.leader_epoch
        topic_id = self._metadata.topic_id(partition.tp.topic)
        # Not the count in metadata, for which a gatekeeper may not have decided yet what it holds, but the count for
        # which it has decided: if that count is outdated, the broker rejects the Fetch.
        count = self._partitions.counts.get(partition.tp.topic, -1)
        return WantedPartition(partition.cursor.fetch_offset, max_bytes, epoch, topic_id, count)

    def _partition_bytes(self) -> int:
        """Return ``partition_max_bytes``. When the value changes, the next Fetch has to list all partitions again."""
        settings = self._settings
        if self.batches:
            wish = settings.batches_fetch_bytes
        elif self.has_numpy:
            wish = settings.rows_fetch_bytes
        else:
            return settings.max_partition_fetch_bytes
        # At least 1: a queued request may be written only after all partitions were given up.
        among = max(len(self._partitions.assigned), 1)
        return max(settings.max_partition_fetch_bytes, wish // among)

    def _message(self, plan: Plan, max_bytes: int, max_wait_ms: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for tp, want in plan.send.items():
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = FetchTopic(topic=tp.topic, topic_id=want.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.fetch_offset,
                    partition_max_bytes=want.max_bytes,
                    undeleted_partition_count=want.partition_count,
                )
            )
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for tp, old in plan.forget.items():
            new = ForgottenTopic(topic=tp.topic, topic_id=old.topic_id)
            forgotten.setdefault((tp.topic, old.topic_id), new).partitions.append(tp.partition)
        avoids_follower = self.replicas.shunned and self.replicas.any_shunned(self._now)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._isolation_level,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id="" if avoids_follower else self._settings.client_rack,
        )


def _built(message: Message, version: int) -> Message:
    return message


def _rotated(some: list[T], turn: int) -> list[T]:
    """Return the items in another order for each turn.

    Brokers fill a response in the order of the request: in a fixed order, the last partitions would starve
    (KAFKA-3932).
    """
    start = turn % len(some) if len(some) > 1 else 0
    return some[start:] + some[:start]


#: How long to avoid a failed follower, in seconds. At first, longer than a cluster takes to notice a dead broker; then
#: up to five minutes: leaders keep naming a follower that only this client cannot reach, and each attempt may cost
#: ``request_timeout_ms``.
SHUNNED = Backoff(initial=12.0, maximum=300.0)


class Replicas:
    """The followers that failed as preferred read replicas (KIP-392), and until when to avoid each.

    A leader names a dead follower in the client's rack as the preferred read replica until the cluster notices the
    failure (9 s by default), and sends no records meanwhile. While any follower is avoided, Fetches carry an empty rack
    id, and leaders send the records themselves.
    """

    def __init__(self, random: Random, agenda: Agenda) -> None:
        self._random = random
        self._agenda = agenda
        self.failures: dict[int, int] = {}  #: By follower: consecutive failed Fetches.
        self.shunned: dict[int, Alarm] = {}  #: By follower: when to fetch from it again.

    def failed(self, node_id: int, now: float) -> None:
        """Avoid a follower after a failed Fetch, which counts once even if several partitions report the failure."""
        if not self.may_follow(node_id, now):
            return
        failures = self.failures[node_id] = self.failures.get(node_id, 0) + 1
        alarm = self.shunned[node_id] = self._agenda.alarm(ASKER)
        alarm.set(now + SHUNNED.delay(failures, self._random))

    def worked(self, node_id: int) -> None:
        """Reset the node's failure count after a successful response; the node stays avoided until its time is over."""
        self.failures.pop(node_id, None)

    def may_follow(self, node_id: int, now: float) -> bool:
        return node_id not in self.shunned or not self.shunned[node_id].is_ahead(now)

    def any_shunned(self, now: float) -> bool:
        """Return whether any follower is still avoided; forget those whose time is over."""
        self.shunned = {node_id: alarm for node_id, alarm in self.shunned.items() if alarm.is_ahead(now)}
        return bool(self.shunned)
