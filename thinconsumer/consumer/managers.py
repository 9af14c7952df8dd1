"""Create and connect the managers of one consumer, and their shared state: assignment, metadata, buffer, metrics.

:class:`~thinconsumer.engine.Engine` steps the managers in the order of :meth:`ConsumerManagers._in_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ..config import ConsumerConfig
from ..config.rules import pushes_metrics
from ..engine import Engine, Manager, ManagerParts
from ..errors import IllegalStateError, KafkaError, NoBrokersAvailable
from ..failures import OutageLog
from ..fetch.answers import Answers
from ..fetch.buffer import Buffer
from ..fetch.chunks import Deserialize
from ..fetch.collector import Collector
from ..fetch.gatekeeper import Gatekeeper
from ..fetch.leader_queries import OffsetLookups
from ..fetch.planner import ASKER as FETCH
from ..fetch.planner import Planner
from ..fetch.resets import Resets
from ..fetch.validation import Validation
from ..metrics import ConsumerMetrics
from ..network.metadata import Metadata
from ..network.request import Request
from ..positions.partitions import Partitions
from ..support.agenda import Agenda
from ..support.imports import import_uninterrupted
from ..support.timers import Random
from ..types import TopicPartition
from ..wire.error_codes import Code, to_error

if TYPE_CHECKING:
    from ..group.group import Group
    from ..group.subscription import Subscriber
    from ..group.whole_topics import WholeTopics
    from ..ordered.gate_queries import GateQueries
    from ..telemetry.reporter import Telemetry
    from .health import Processing

#: The name of the manager that pushes metrics.
TELEMETRY = "telemetry"


class ConsumerManagers:
    """The engine, managers and shared state of one consumer, without clock or socket."""

    def __init__(
        self,
        config: ConsumerConfig,
        random: Random,
        wall_time: Callable[[], float],
        deserialize: Deserialize | None = None,
    ) -> None:
        self.config = config
        self._wall_time = wall_time
        self._random = random
        self.agenda = Agenda()
        self.partitions = Partitions(self.agenda)
        self.metrics = ConsumerMetrics()
        self.metadata = Metadata(config, random, self.agenda)
        self.buffer = Buffer()
        self.lookups = OffsetLookups(config, self.metadata, random, self.agenda)
        self.resets = Resets(config, self.partitions, self.metadata, self.lookups, wall_time)
        self.validation = Validation(config, self.partitions, self.metadata, random, self.agenda)
        self.planner = Planner(config, self.partitions, self.metadata, self.buffer, random, self.agenda)
        about = self.partitions, self.metadata, self.buffer, self.planner, random
        self.answers = Answers(config, *about, self.metrics.fetches.record)
        self.collector = Collector(config, self.partitions, self.buffer, deserialize)
        self.processing: Processing | None = None  #: Set by workers.
        self.group: Group | None = None
        if config.group_id is not None:
            # On demand: a client without a group starts in less time and memory if it imports no modules of groups.
            from ..assignors.registry import create
            from ..group.group import Group

            assignors = create(config.partition_assignment_strategy)
            self.group = Group(config, assignors, self.partitions, self.metadata, random, self.agenda)
            self.group.commits.on_answer = self.metrics.record_commit
        #: The subscription of a consumer without a group; None until :meth:`require_subscriber` is called.
        self.whole_topics: WholeTopics | None = None
        #: The managers that hold partitions; empty until one of them may have something to hold.
        self.gatekeepers: tuple[Gatekeeper, ...] = ()
        if config.ordered_delivery == "barrier" and self.group is not None:
            from ..ordered.barrier import Barrier  # on demand, as the group

            self.gatekeepers = (Barrier(config, self.partitions, self.metadata, random, self.group),)
        self.gates: GateQueries | None = None  #: None until :meth:`gate_queries` is called.
        self.pushes_metrics: bool = pushes_metrics(config.enable_metrics_push)
        self.telemetry: Telemetry | None = None  #: None until a broker is known, or if no metrics are pushed.
        self._counts_seen = -1  #: The metadata version that was last checked for changed topics with ordered delivery.
        self._wanted: tuple[object, ...] = ()
        self._generation = (-1, -1)
        #: The metadata version and assignment generation of the last check; and by assigned partition that does not
        #: exist, the partition count of its topic.
        self._missing: tuple[tuple[int, int], dict[TopicPartition, int]] = ((-1, -1), {})
        #: By id(): the errors that polls raise; None if all managers have stepped since the errors were collected.
        self._errors: dict[int, KafkaError] | None = None
        self._outage_end = self.agenda.alarm()  #: When an outage has lasted long enough for an error.
        self.engine = Engine(config, random, self.metadata, self._in_order(), wall_time, self.agenda)
        self.engine.record_exchange = self.metrics.exchanges.record
        if self.group is not None:
            self.group.member.drop_connection = self.engine.drop

    def _in_order(self) -> list[Manager]:
        """Return the managers in the order in which they step."""
        # ``topics`` and ``resets`` come first: they determine the topics and offsets that later managers request.
        topics = ManagerParts("topics", self._follow_assignment, restart=self._restart)
        group = () if self.group is None else self.group.managers()
        fetching = ManagerParts(FETCH, self.planner.step, self.answers.handle, restart=self.planner.restart)
        # Gatekeepers step before the planner, so that records of a changed topic are held before the next Fetch, and
        # after validation, which notices that a topic was created again.
        keeps_order = self.config.ordered_delivery != "off"
        ordered = (ManagerParts("ordered", self._watch_counts),) if keeps_order else ()
        waiting = self.lookups, self.validation
        last = (ManagerParts(TELEMETRY, self._begin_telemetry),) if self.pushes_metrics else ()
        return [topics, self.resets, self.metadata, *group, *waiting, *ordered, *self.gatekeepers, fetching, *last]

    def _begin_telemetry(self, now: float) -> list[Request]:
        """Put the manager that pushes metrics in place of this one once a broker is known."""
        return self._add_telemetry().step(now) if self.metadata.nodes else []

    def _add_telemetry(self) -> Telemetry:
        from .metrics_recorder import figures

        # On demand: a consumer starts in less time without these modules, and many need them never.
        reporter = import_uninterrupted("thinconsumer.telemetry.reporter")
        surroundings = reporter.Surroundings(
            nodes=lambda: self.metadata.nodes.values(),
            ranges_of=lambda node_id: self.engine.network.ranges_of(node_id),
            wall_time=self._wall_time,
            metrics=lambda now: figures(self, now),
            labels=self._telemetry_labels,
        )
        telemetry: Telemetry = reporter.Telemetry(self.config, surroundings, self._random, self.agenda)
        self.telemetry = telemetry
        self.engine.add(telemetry)
        return telemetry

    def _telemetry_labels(self) -> dict[str, str]:
        config, group = self.config, self.group
        labels = {
            "client_rack": config.client_rack,
            "group_id": config.group_id or "",
            "group_instance_id": config.group_instance_id or "",
            "group_member_id": "" if group is None else group.member.identity.member_id,
        }
        return {name: label for name, label in labels.items() if label}

    def outage_logs(self) -> Iterator[OutageLog]:
        """Yield the logs of failed requests, by which ``health()`` reports failures that recur between successes."""
        yield from (one.outages for one in (self.metadata, self.lookups, self.validation, self.answers))
        if self.group is not None:
            yield self.group.coordinator.outages
            yield self.group.committed.outages
        if self.telemetry is not None:
            yield self.telemetry.outages

    def gate_queries(self) -> GateQueries:
        """Return the manager that looks up the gates of whole topics, which steps from the first call on."""
        if self.gates is None:
            from ..ordered.gate_queries import GateQueries  # on demand: only Spark's driver asks for gates

            self.gates = GateQueries(self.config, self.metadata, self._random, self.agenda)
            self.engine.add(self.gates)
        return self.gates

    def _follow_assignment(self, now: float) -> list[Request]:
        """Assign the partitions of whole topics, drop buffered batches of unassigned partitions, and tell metadata
        which topics to refresh.
        """
        self._errors = None
        if self.whole_topics is not None:
            self.whole_topics.follow_metadata()
        subscriber, queries = self.subscriber, self.gates
        generation = self.partitions.generation, self.lookups.version + (0 if queries is None else queries.version)
        topics: frozenset[str] = frozenset() if subscriber is None else subscriber.topics()
        everything = subscriber is not None and subscriber.wants_all_topics
        if self._generation != generation:
            self._generation = generation
            self.buffer.sweep({p for p in self.buffer.queues if self.partitions.get(p.tp) is p})
            self._wanted = ()
        if self._wanted != (topics, everything):
            self._wanted = (topics, everything)
            asked = self.lookups.topics() if queries is None else self.lookups.topics() | queries.topics()
            self.metadata.want(self.partitions.topics() | asked | topics, everything=everything)
        return []

    def _restart(self, now: float) -> None:
        self._wanted = ()
        self.buffer.clear()
        self.collector.restart()
        for partition in self.partitions:
            partition.rewind()

    def _watch_counts(self, now: float) -> list[Request]:
        """Put the gatekeeper of topics with ordered delivery in place of this manager once such a topic has changed."""
        if self._counts_seen == self.metadata.version:
            return []
        self._counts_seen = self.metadata.version
        if not (self.metadata.counted() or self.partitions.counts):
            return []
        # On demand: most consumers read no such topic, and start in less time and memory without these modules.
        from ..ordered.topics import has_changed

        if not has_changed(self.metadata, self.partitions):
            return []
        from ..ordered.delivery import OrderedDelivery

        about = self.config, self.partitions, self.metadata, self.lookups, self._random, self.group
        gatekeeper = OrderedDelivery(*about)
        self.gatekeepers = (gatekeeper, *self.gatekeepers)
        self.engine.add(gatekeeper)
        return gatekeeper.step(now)

    def prepare(self, now: float) -> None:
        """Prepare for steps that import nothing and call no code of the program, see ``Consumer.keep_alive``."""
        if self.config.ordered_delivery != "off":
            import_uninterrupted("thinconsumer.ordered.delivery")
        if self.pushes_metrics:
            (self.telemetry or self._add_telemetry()).prepare()
        if self.engine.logins is not None:
            self.engine.logins.prepare(now)

    def require_group(self) -> Group:
        """Return the group; raise IllegalStateError if there is no ``group_id``."""
        if self.group is None:
            raise IllegalStateError("this consumer is in no group: pass group_id to Consumer()")
        return self.group

    @property
    def subscriber(self) -> Subscriber | None:
        """The group, or else :class:`.WholeTopics`; None if there is no group, and ``subscribe`` was never called."""
        return self.whole_topics if self.group is None else self.group

    @property
    def is_subscribed(self) -> bool:
        """Whether topics are subscribed to, with or without a group."""
        return (subscriber := self.subscriber) is not None and subscriber.subscription.is_subscribed

    def require_subscriber(self) -> Subscriber:
        """Return the group; without one, what assigns all partitions of the subscribed topics."""
        if self.group is None and self.whole_topics is None:
            from ..group.whole_topics import WholeTopics  # on demand, as the group

            self.whole_topics = WholeTopics(self.config, self.partitions, self.metadata, self._wall_time)
        subscriber = self.subscriber
        assert subscriber is not None
        return subscriber

    def errors(self) -> dict[int, KafkaError]:
        """Return the :meth:`persistent_errors` by their id().

        Errors are collected once after each step of all managers: otherwise each poll would call ten more functions.
        """
        if self._errors is None:
            self._errors = {id(error): error for error in self.persistent_errors()}
        return self._errors

    def persistent_errors(self) -> Iterable[KafkaError]:
        """Yield the errors for polls to raise; most last until the application or an operator acts.

        Errors of partitions that are paused or no longer subscribed are left out.
        """
        for partition in self.partitions.with_error():
            if partition.error is not None and not (partition.paused or partition.unsubscribed):
                yield partition.error
        login_error = self.engine.login_error()
        if login_error is not None:
            yield login_error
        # A group leader also refreshes the topics of the other members, but their errors are not yielded here: each
        # member raises the errors of its own topics.
        yield from self.metadata.final_errors(self._own_topics())
        if self.group is not None:
            group = self.group
            found = group.member.error, group.coordinator.error, group.committed.error
            yield from [error for error in found if error is not None]
        for gatekeeper in self.gatekeepers:
            yield from gatekeeper.errors()

    def missing(self) -> Iterator[KafkaError]:
        """Yield an error for each subscribed topic or assigned partition that does not exist, and for a pattern that
        matches no topic.
        """
        yield from self.metadata.missing_topics(self._own_topics())
        seen = self.metadata.version, self.partitions.generation
        if self._missing[0] != seen:
            self._missing = seen, self.metadata.missing_partitions(self.partitions.tps())
        for tp, count in sorted(self._missing[1].items()):
            detail = f"the topic has {count} partitions; check the number"
            yield to_error(Code.UNKNOWN_TOPIC_OR_PARTITION, api="Metadata", partition=tp, detail=detail)
        if (subscriber := self.subscriber) is not None and subscriber.matches_nothing:
            wanted = subscriber.subscription.pattern_text()
            detail = f"no topic matches the pattern {wanted}; check it, and ACL Describe"
            yield to_error(Code.UNKNOWN_TOPIC_OR_PARTITION, api="Metadata", detail=detail)

    def _own_topics(self) -> frozenset[str]:
        assigned = self.partitions.topics()
        return assigned if self.subscriber is None else assigned | self.subscriber.own_topics()

    def outage(self, now: float) -> NoBrokersAvailable | None:
        """Return an error if no broker was reachable for ``bootstrap_timeout_ms``; None otherwise.

        In a longer outage, each further error follows ``bootstrap_timeout_ms`` after the last one.
        """
        network = self.engine.network
        outage = network.outage(now)
        if outage is None:
            return None
        self._outage_end.set(outage.since + self.config.bootstrap_timeout_ms / 1000)
        if self._outage_end.is_ahead(now):
            return None
        network.acknowledge_outage(now)
        return NoBrokersAvailable(f"no broker could be reached for {now - outage.since:.1f} s: {outage}", outage.causes)
