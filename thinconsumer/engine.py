"""Wires the rooms: inputs, deadlines, outputs. It decides nothing itself.

Everything flows through :meth:`Engine.step`: answers go to who asked, managers say what they want next, the links are
told. It reads no clock and does no I/O: a driver carries out :meth:`take_commands` and feeds bytes to the links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .assignors import PartitionAssignor
from .calls import Call
from .connection.request import Answer, Request
from .driver import Address, Command
from .errors import KafkaError, KafkaTimeoutError, NoBrokersAvailable
from .fetch import lookups, planner, validation
from .fetch.answers import Answers
from .fetch.buffer import Buffer
from .fetch.collector import Collector, Deserialize
from .fetch.lookups import ListedOffset, OffsetLookup, OffsetLookups
from .fetch.planner import Planner
from .fetch.resets import Resets
from .fetch.validation import Validation
from .group.group import Group
from .metadata import ASKER as METADATA
from .metadata import Metadata
from .metrics import ConsumerMetrics
from .network_client import NetworkClient
from .partitions import Partitions
from .timers import NEVER, Random
from .types import TopicPartition
from .wire.error_codes import Code, to_error

if TYPE_CHECKING:
    from .config import ConsumerConfig

#: Steps of managers within one step of the engine; each may only be caused by an answer of the one before.
ROUNDS_MAX = 100


class Engine:
    """One consumer's machinery, without a clock and without a socket."""

    def __init__(
        self,
        config: ConsumerConfig,
        random: Random,
        deserialize: Deserialize | None = None,
        *,
        assignors: Sequence[PartitionAssignor] = (),
        predecessor: Engine | None = None,
    ) -> None:
        self.config = config
        self.network = NetworkClient(config, random)
        # A successor takes over what cannot be asked of a broker again: where the user is, and which partitions, ids
        # and epochs were there before.
        self.partitions: Partitions = predecessor.partitions if predecessor is not None else Partitions()
        self.metrics: ConsumerMetrics = predecessor.metrics if predecessor is not None else ConsumerMetrics()
        self.metadata: Metadata = predecessor.metadata if predecessor is not None else Metadata(config, random)
        self.buffer = Buffer()
        self.lookups = OffsetLookups(config, self.metadata, random)
        self.resets = Resets(
            config.auto_offset_reset, config.new_partition_offset_reset, self.partitions, self.metadata, self.lookups
        )
        self.validation = Validation(config, config.auto_offset_reset, self.partitions, self.metadata, random)
        self.planner = Planner(config, self.partitions, self.metadata, self.buffer, random)
        self.answers = Answers(config, self.partitions, self.metadata, self.buffer, self.planner, random)
        self.collector = Collector(config, self.partitions, self.buffer, deserialize)
        self._handlers: dict[str, Callable[[Answer, float], None]] = {
            METADATA: self.metadata.handle,
            lookups.ASKER: self.lookups.handle,
            validation.ASKER: self.validation.handle,
            planner.ASKER: self.answers.handle,
        }
        self.group: Group | None = None
        if predecessor is not None:
            self.group = predecessor.group
        elif config.group_id is not None:
            self.group = Group(config, assignors, self.partitions, self.metadata, random)
        if self.group is not None:
            self._handlers.update(self.group.handlers())
            self.group.commits.on_answer = self.metrics.record_commit
        self._now = 0.0
        self._wanted: tuple[object, ...] = ()
        self._generation = (-1, -1)
        self._goodbyes = 0
        self._closing = False
        self._metadata_seen = -1
        if predecessor is not None:
            self.metadata.restart()
            if self.group is not None:
                self.group.restart(predecessor._now)
            self.answers.completed = predecessor.answers.completed
            for partition in self.partitions:
                partition.rewind()

    # -- stepping

    def step(self, now: float, wall_time: float) -> bool:
        """Let everything that can happen now, happen. Returns whether the driver has something to do at once."""
        self._now = now
        self.network.step(now)
        for why in self.network.take_refresh_reasons(now):
            self.metadata.request_update(why)
        for _ in range(ROUNDS_MAX):
            for answer in self.network.take_answers():
                records = self.answers.records
                self._handlers[answer.request.asker](answer, now)
                self._measure(answer, self.answers.records - records, now)
            if not self._step_managers(now, wall_time):
                break
        return self.network.wants_driver()

    def _measure(self, answer: Answer, records: int, now: float) -> None:
        if answer.response is None:
            return
        seconds = now - answer.sent_at
        self.metrics.record_request(answer.sent_size, now)
        self.metrics.record_response(answer.size, seconds, now)
        if answer.request.asker == planner.ASKER:
            self.metrics.record_fetch(seconds, answer.size, records, answer.response.throttle_time_ms, now)

    def wake_at(self) -> float:
        """Return when to step the driver and this again even if nothing arrives."""
        if self._closing:
            return self.network.wake_at()  # the managers want nothing any more, and nobody would give it to them
        now = self._now
        return min(
            self.network.wake_at(),
            self.metadata.wake_at(now),
            self.resets.wake_at(now),
            self.lookups.wake_at(now),
            self.validation.wake_at(now),
            self.planner.wake_at(now),
            self._outage_due(now),
            NEVER if self.group is None else self.group.wake_at(now),
        )

    def _outage_due(self, now: float) -> float:
        """Return when :meth:`outage` has something to say; never once it has, lest a caller that only drives spins."""
        since = self.network.outage_since
        due = NEVER if since is None else since + self.config.bootstrap_timeout_ms / 1000
        return due if due > now else NEVER

    def take_commands(self) -> list[Command]:
        """Return what the driver shall do."""
        return self.network.take_commands()

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the resolver's answer."""
        self.network.resolved(host, port, addresses, error, now)

    def _step_managers(self, now: float, wall_time: float) -> bool:
        self._note_changes()
        self.resets.step(now, wall_time)
        requests = self.metadata.step(now)
        if self.group is not None:
            requests += self._step_group(self.group, now)
        requests += self.lookups.step(now)
        requests += self.validation.step(now)
        requests += self.planner.step(now)
        for request in requests:
            self.network.send(request, now)
        if requests:
            self.network.step(now)
        return bool(requests)

    def _step_group(self, group: Group, now: float) -> list[Request]:
        requests = group.step(now)
        for target in group.take_drops():
            self.network.drop(target, "what it waits for is not wanted any more")
        return requests

    def _note_changes(self) -> None:
        generation = self.partitions.generation, self.lookups.version
        topics: frozenset[str] = frozenset() if self.group is None else self.group.topics()
        everything = self.group is not None and self.group.wants_all_topics
        if self._generation != generation:
            self._generation = generation
            self.buffer.sweep(set(self.partitions))
            self._wanted = ()
        if self._wanted != (topics, everything):
            self._wanted = (topics, everything)
            self.metadata.want(self.partitions.topics() | self.lookups.topics() | topics, everything=everything)
        if self.metadata.rebootstrap_reason is not None:
            self.metadata.rebootstrap_reason = None
            self.network.rebootstrap(self._now)
        if self._metadata_seen != self.metadata.version:
            self._metadata_seen = self.metadata.version
            self.network.update_nodes(self.metadata.nodes.values())

    # -- what the consumer asks

    def look_up(self, timestamps: dict[TopicPartition, int], what: str) -> Call[dict[TopicPartition, ListedOffset]]:
        """Ask leaders for offsets (ms since the epoch, -1 end, -2 start); settles when all have answered."""
        call: Call[dict[TopicPartition, ListedOffset]] = Call(what)
        results: dict[TopicPartition, ListedOffset] = {}
        if not timestamps:
            call.succeed(results)

        def failed(error: KafkaError, final: bool) -> None:
            call.last_error = error
            if final:
                call.fail(error)

        for tp, timestamp in timestamps.items():

            def found(answer: ListedOffset, now: float, tp: TopicPartition = tp) -> None:
                results[tp] = answer
                if len(results) == len(timestamps):
                    call.succeed(results)

            self.lookups.add(OffsetLookup(tp, timestamp, lambda: not call.over, found, failed))
        return call

    def persistent_errors(self) -> Iterable[KafkaError]:
        """Return what the latest answers say that the application has to act on; nothing about paused partitions."""
        for partition in self.partitions:
            if partition.error is not None and not partition.paused:
                yield partition.error
        # A leader looks up topics of other members, too, and those members raise their errors.
        own = frozenset() if self.group is None else self.group.own_topics()
        yield from self.metadata.final_errors(own | self.partitions.topics())
        if self.group is not None:
            yield from self.group.errors()

    def missing(self) -> Iterator[KafkaError]:
        """Return one error for each topic or partition that the application asked for and no broker knows of."""
        own = frozenset() if self.group is None else self.group.own_topics()
        yield from self.metadata.missing(own | self.partitions.topics(), self.partitions.tps())
        if self.group is not None and self.group.matches_nothing:
            detail = f"no topic matches the pattern {self.group.subscription.pattern!r}; check it, and ACL Describe"
            yield to_error(Code.UNKNOWN_TOPIC_OR_PARTITION, api="Metadata", detail=detail)

    def outage(self, now: float) -> NoBrokersAvailable | None:
        """Return the error to raise when nothing could be reached for ``bootstrap_timeout_ms``."""
        outage = self.network.outage(now)
        if outage is None or now - outage.since < self.config.bootstrap_timeout_ms / 1000:
            return None
        self.network.acknowledge_outage(now)
        return NoBrokersAvailable(f"no broker could be reached for {now - outage.since:.1f} s: {outage}", outage.causes)

    def close(self, now: float) -> bool:
        """Ask brokers to forget the fetch sessions; returns whether :meth:`closing` has anything to wait for."""
        self._closing = True
        self._goodbyes = 0
        for request in self.planner.close(now):
            # Never worth dialling for: brokers forget by themselves, only later.
            if self.network.is_ready(*request.target):
                self.network.send(request, now)
                self._goodbyes += 1
        self.network.step(now)
        return self._goodbyes > 0

    def closing(self, now: float) -> bool:
        """Go on closing: returns whether a goodbye is still unanswered. Nothing else is asked any more."""
        self.network.step(now)
        self._goodbyes -= sum(planner.is_goodbye(answer.request) for answer in self.network.take_answers())
        return self._goodbyes > 0

    def timeout_error(self, call: Call[Any], seconds: float) -> KafkaTimeoutError:
        """Return the error of a call whose time has passed, with what kept it waiting."""
        outage = self.network.outage(self._now)
        known = call.last_error or next(iter(self.metadata.final_errors()), None)
        cause = known or (f"no broker reachable: {outage}" if outage else "no answer yet")
        return KafkaTimeoutError(f"{call.what}: no result within {seconds:.3f} s; last: {cause}")
