"""The interface of simulations for tests: a cluster, clients, virtual time, faults and checkers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition

from ..broker.controller import CONTROLLER
from ..broker.security import ListenerSecurity
from .actors.application import Behaviour
from .actors.consumer import ConsumerActor
from .actors.producer import ProducerActor
from .actors.user import UserActor
from .checkers import ALL
from .checkers.base import Checker, Jury, SimReader
from .cluster import SimCluster
from .driver import SimDriver
from .network import NetworkFaults, SimNetwork, Who
from .trace import Trace
from .world import Actor, Violation, World

#: A failure's message shows this many lines from the end of the trace; the whole trace is written to a file.
TAIL = 60

Assignment = Mapping[str, Iterable[int]] | Iterable[TopicPartition]
Party = int | str | Actor


class Simulation:
    """A Kafka cluster, its network and its clients in memory; equal seeds give equal runs. ::

        sim = Simulation(seed=1, brokers=3, topics={"orders": 6})
        consumer = sim.consumer(assign={"orders": [0, 1]}, auto_offset_reset="earliest")
        sim.produce("orders", 0, [b"a", b"b"])
        sim.run_until(lambda: len(consumer.records) == 2)
        sim.kill(1)
        sim.run_for(5)
        sim.check()

    Args:
        seed: Seed of all random decisions.
        brokers: Number of brokers; their ids are 1, 2, ...
        topics: Number of partitions by topic name.
        config: Broker settings under Kafka's names with ``_`` for ``.``.
        network_faults: The network's latencies, and the probabilities of its random faults.
        racks: The rack of each broker.
        traced: Whether to record a trace line per event.
        checkers: The checkers of consumers; by default ``thinconsumer_testing.simulation.checkers.ALL``.
        security: Logins of the brokers' listeners, with ``SASL_PLAINTEXT``; None: no login.
    """

    def __init__(
        self,
        seed: int | str = 0,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        network_faults: NetworkFaults | None = None,
        racks: Sequence[str | None] | None = None,
        traced: bool = True,
        checkers: Iterable[type[Checker]] = ALL,
        security: ListenerSecurity | None = None,
    ) -> None:
        self.seed = seed
        self.world: World = World(seed, traced=traced)
        self.network: SimNetwork = SimNetwork(self.world, network_faults)
        self.jury: Jury = Jury()
        self._cluster = cluster = SimCluster(
            self.world, self.network, self.jury, brokers, topics or {}, racks=racks, security=security, **(config or {})
        )
        for checker in checkers:
            self.jury.add(checker(self.world.accuse, cluster.truth, now=self.world.now))
        self.actors: list[Actor] = []
        self.how_to_repeat: str = f"Simulation(seed={seed!r}, ...)"
        self._names = 0

    def __repr__(self) -> str:
        return f"<Simulation seed={self.seed!r} at {self.now():.3f}, {len(self.actors)} actors>"

    def kill(self, node_id: int, *, silently: bool = False, noticed_after_s: float | None = None) -> None:
        """Stop a node as ``kill -9`` does; ``silently``: as if its host lost power, so that no connection is reset.

        The controller fences the node after ``noticed_after_s`` (inf: never; None: the session timeout).
        """
        self._cluster.kill(node_id, silently=silently, noticed_after_s=noticed_after_s)

    def start(self, node_id: int) -> None:
        """Start a killed node again."""
        self._cluster.start(node_id)

    def pause(self, node_id: int) -> None:
        """Stop a node's process as SIGSTOP does: connections stay and new ones are accepted, but get no answer."""
        self._cluster.pause(node_id)

    def resume(self, node_id: int) -> None:
        """Continue a paused node, as SIGCONT does."""
        self._cluster.resume(node_id)

    def expand(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic. Raises: ControllerError."""
        self._cluster.expand(topic, partitions)

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Delete the records of a partition below the offset ``before``."""
        self._cluster.delete_records(tp, before)

    @property
    def cluster(self) -> SimCluster:
        """The cluster.

        Reading this attribute first runs the cluster's due timers, so that they act before what the test changes next.
        """
        self._cluster.advance(self.now())
        return self._cluster

    @property
    def trace(self) -> Trace:
        """The trace of the run so far."""
        return self.world.trace

    @property
    def bootstrap_servers(self) -> list[str]:
        """The ``bootstrap_servers`` of a client of your own."""
        return self.cluster.bootstrap_servers

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.world.now()

    def driver(self, name: str = "") -> SimDriver:
        """Return a driver for your own client. While the client's calls wait, other actors and brokers run."""
        name = name or self._name("client")
        reader = SimReader(name)
        return SimDriver(self.world, self.network, name, lambda event, *what: self.jury.tell(event, reader, *what))

    def consumer(
        self, assign: Assignment = (), *, name: str = "", behaviour: Behaviour | None = None, **options: Any
    ) -> ConsumerActor:
        """Start an application with a consumer of assigned partitions; ``options`` are the Consumer's.

        Raises:
            IllegalArgumentError: an option is about a group: its rebalances and committed offsets would look to the
                checkers like skipped and repeated records.
        """
        if refused := {"group", "group_id", "topics"} & options.keys():
            raise IllegalArgumentError(
                f"consumer({sorted(refused)[0]}=...): the checkers judge assigned partitions only; for a group use "
                "Consumer(..., driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers)"
            )
        options.setdefault("bootstrap_servers", self.bootstrap_servers)
        actor = ConsumerActor(
            self.world,
            name or self._name("consumer"),
            self.jury,
            self.driver,
            assign=_partitions(assign),
            options=options,
            behaviour=behaviour,
        )
        self.actors.append(actor)
        return actor

    def producer(
        self,
        targets: Assignment,
        *,
        name: str = "",
        interval_s: float = 0.1,
        count: int = 10,
        size: int = 20,
        **options: Any,
    ) -> ProducerActor:
        """Start an application whose producer sends ``count`` records of ``size`` bytes to one of ``targets`` every
        ``interval_s`` seconds on average; ``options`` are the producer's.
        """
        options.setdefault("bootstrap_servers", self.bootstrap_servers)
        actor = ProducerActor(
            self.world,
            name or self._name("producer"),
            self.driver,
            _partitions(targets),
            interval_s=interval_s,
            count=count,
            size=size,
            options=options,
        )
        self.actors.append(actor)
        return actor

    def actor(self, function: Callable[[], float | None], name: str = "") -> UserActor:
        """Call your function again and again: it returns the seconds until its next call, or None for no next call."""
        actor = UserActor(self.world, name or self._name("actor"), function)
        self.actors.append(actor)
        actor.wake()
        return actor

    def produce(self, topic: str, partition: int, records: Iterable[bytes | NewRecord | None], **batch: Any) -> int:
        """Append one batch as if a producer had sent it with acks=1; return its first offset.

        ``batch`` are further arguments of :meth:`.MemoryCluster.produce`, such as a codec. Raises its errors.
        """
        return self.cluster.produce(topic, records, partition, **batch)

    def create_topic(self, name: str, partitions: int = 1, replication: int = -1, **configs: str) -> None:
        """Create a topic; ``configs`` are topic settings under Kafka's names with ``_`` for ``.``.

        Raises:
            ControllerError: The controller rejects the topic, for example because it exists.
        """
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.cluster.create_topic(name, partitions, replication, dotted)

    def move_leader(self, tp: TopicPartition, to: int | None = None) -> int:
        """Move a partition's leader to node ``to`` (None: any other); return the leader after the call.

        The old leader stays until the replica on node ``to`` has joined the ISR.
        """
        leader = self.cluster.move_leader(tp, to)
        self.trace.add("controller", "", "leader", "of %s-%d: node %d", *tp, leader)
        return leader

    def partition(self, one: Iterable[Party], other: Iterable[Party], *, one_way: bool = False) -> None:
        """Cut the network between two sides: brokers by id, clients by name or as actors, the controller as -1.

        Bytes are held back until :meth:`heal`. With ``one_way``, between clients and brokers only those from ``one`` to
        ``other`` are held back; brokers are always cut off from each other both ways.
        """
        # Sorted, so that each run is the same: the order of a set of strings differs between processes.
        these, those = (sorted(map(_who, parties), key=str) for parties in (one, other))
        self.network.cut(these, those)
        if not one_way:
            self.network.cut(those, these)
        for a in these:
            for b in those:
                if isinstance(a, int) and isinstance(b, int):
                    first, second = (b, a) if a == CONTROLLER else (a, b)
                    self.cluster.cut(first, second)
        self.trace.add("network", "", "cut", "%s from %s%s", _words(these), _words(those), ", one way" * one_way)

    def heal(self, but: Iterable[tuple[Iterable[Party], Iterable[Party]]] = ()) -> None:
        """End all cuts except those in ``but``, pairs of sources and targets."""
        kept = {(_who(one), _who(other)) for ones, others in but for one in ones for other in others}
        self.network.heal(kept)
        self.cluster.heal((one, other) for one, other in kept if isinstance(one, int) and isinstance(other, int))
        self.trace.add("network", "", "healed")

    def run_for(self, seconds: float) -> None:
        """Run this many virtual seconds."""
        self.watched(lambda: self.world.run_until(self.now() + seconds))

    def run_until(self, condition: Callable[[], object], timeout: float = 60.0, what: str = "") -> None:
        """Run until ``condition()`` is true.

        Raises:
            Violation: The condition was not true within ``timeout`` virtual seconds, or a checker found a violation.
        """

        def go() -> None:
            deadline = self.now() + timeout
            while not condition():
                if self.world.next_event_at() > deadline:
                    self.world.clock.advance_to(deadline)
                    raise Violation(f"the condition is not true after {timeout:g} virtual seconds: {what or condition}")
                self.world.step()

        self.watched(go)

    def check(self) -> None:
        """Run the checks that need the whole run. Raises: Violation, also for earlier ones and bugs of the broker."""

        def go() -> None:
            self.jury.tell("finish")
            if self.cluster.bugs:
                raise Violation(f"bugs of the embedded broker, not of the client: {self.cluster.bugs}")
            if self.world.violations:
                raise self.world.violations[0]

        self.watched(go)

    def watched(self, go: Callable[[], None]) -> None:
        """Call a function that runs events. Raises: Violation, with the trace's end and how to repeat the run."""
        try:
            go()
        except Violation as violation:
            raise Violation(self.report(violation)) from None

    def report(self, violation: BaseException) -> str:
        """Return the text of a failure; with tracing, write the whole trace into a file."""
        place = "nowhere: tracing was off"
        if self.trace.enabled:
            handle, place = tempfile.mkstemp(prefix=f"simulation-{self.seed}-", suffix=".trace")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.trace.text() + "\n")
        lines = [str(violation), "", f"repeat it with: {self.how_to_repeat}", f"all of the trace: {place}"]
        return "\n".join([*lines, self.trace.text(TAIL)] if self.trace.enabled else lines)

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"


def _partitions(assignment: Assignment) -> list[TopicPartition]:
    if isinstance(assignment, Mapping):
        return [TopicPartition(topic, number) for topic, numbers in assignment.items() for number in numbers]
    return [TopicPartition(*tp) for tp in assignment]


def _who(party: Party) -> Who:
    return party.name if isinstance(party, Actor) else party


def _words(parties: Iterable[Who]) -> str:
    return ", ".join(str(party) for party in parties)
