"""Swarm runs: a simulation drawn from a seed, with a minute of faults, after which every client has to catch up.

The phases follow TigerBeetle's simulator, the VOPR. **Safety**: for :data:`FAULTS_S` virtual seconds :mod:`.chaos`
injects faults, with all checkers on. **Liveness**: all faults end, a last record is written to every partition, and
within ``PEACE_S`` virtual seconds every client has to *settle*: a reader has read to the end, a group has processed
every record. :class:`~.reader_swarm.ReaderSwarm` and :class:`~.group_swarm.GroupSwarm` create the actors and define
when they have settled. A failure shows the seed, the knobs, and a command that repeats it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from thinconsumer.config.rules import TELEMETRY_PACKAGE
from thinconsumer.support.garbage_collection import garbage_collection_paused
from thinconsumer.support.imports import has_package
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.client_metrics import TELEMETRY_RECEIVER
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.simulation.actors.application import Application
from thinconsumer_testing.simulation.checkers import ALL
from thinconsumer_testing.simulation.network import NetworkFaults
from thinconsumer_testing.simulation.simulation import Simulation
from thinconsumer_testing.simulation.truth import Truth
from thinconsumer_testing.simulation.world import Violation

from .actors.log_writer import LogWriter
from .chaos import Chaos
from .checkers.logins import LoginChecker
from .knobs import Knobs, same_named
from .ledger import SimulatedGroup
from .logins import SimLogins
from .request_faults import GROUP_ERRORS
from .tally import Tally

FAULTS_S = 60.0
#: The interval in which clients push metrics, in the runs in which they do.
METRICS_INTERVAL_MS = 2000


@contextmanager
def log_lines_dropped() -> Iterator[None]:
    """Drop all log lines for as long as the block runs: simulated clients would warn of thousands of faults."""
    disabled = logging.root.manager.disable
    # Setting the manager's attribute would not do: each logger remembers which levels were enabled when it logged last.
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


class Swarm:
    """One swarm run, with its simulation ``sim``. :meth:`run` runs all phases and returns counts of events."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --seed {seed}"
    PEACE_S = 120.0
    of_groups = False
    #: The errors that brokers return to correct requests of groups, by API key.
    group_errors = GROUP_ERRORS

    actors: Sequence[Application] = ()
    groups: Sequence[SimulatedGroup] = ()

    def __init__(self, seed: int, *, traced: bool = False, knobs: Knobs | None = None) -> None:
        self.seed = seed
        self.knobs = knobs = knobs or self.draw(seed)
        config, faults = self.broker_config(knobs), NetworkFaults(**same_named(NetworkFaults, knobs))
        racks = [f"rack{n % knobs.racks}" for n in range(knobs.brokers)]
        self.sim = sim = Simulation(
            seed,
            knobs.brokers,
            config=config,
            network_faults=faults,
            racks=racks,
            traced=traced,
            checkers=(),
            security=None if knobs.logins is None else SimLogins.security(knobs.logins),
        )
        self._tally = Tally(sim.world.accuse, self.truth)
        for checker in (*(kind(sim.world.accuse, self.truth, now=sim.now) for kind in ALL), self._tally):
            sim.jury.add(checker)
        self.logins: SimLogins | None = None  #: None if clients do not log in.
        if knobs.logins is not None:
            self.logins = SimLogins(sim, knobs.logins)
            self.login_checker = LoginChecker(sim.world.accuse, self.truth, self.logins, now=sim.now)
            sim.jury.add(self.login_checker)
        sim.how_to_repeat = self.COMMAND.format(seed=seed)
        #: All topic names of this run; ``used`` has those created so far, ``topics`` those that exist now.
        self.names = [f"topic{number}" for number in range(knobs.topics + 2 * bool(knobs.appearances))]
        self.used: list[str] = []
        self.names_by_id: dict[bytes, str] = {}  #: The names of all topics of this run, also of deleted ones.
        self.topics: list[str] = []
        self.tps: list[TopicPartition] = []
        random = sim.world.streams("swarm/topics")
        for name in self.names[: knobs.topics]:
            count = random.randint(1, knobs.partitions)
            configs = {"cleanup_policy": "compact"} if knobs.compacted and random.random() < 0.6 else {}
            self.create_topic(name, count, **configs)
        sim.cluster.set_client_metrics("all", ["*"], interval_ms=METRICS_INTERVAL_MS)
        self.log_writer = LogWriter(sim.world, lambda: sim.cluster, lambda: self.tps, knobs, FAULTS_S)
        self.build_actors()
        self.chaos = Chaos(self)

    @classmethod
    def draw(cls, seed: int | str) -> Knobs:
        """Draw the knobs of a run from its seed."""
        return Knobs.draw(seed, groups=cls.of_groups)

    @classmethod
    def broker_config(cls, knobs: Knobs) -> dict[str, Any]:
        """Return the brokers' configuration."""
        return _broker_config(knobs)

    @garbage_collection_paused  # nearly everything lives until the end of the run, and would be visited again and again
    def run(self) -> Counter[str]:
        """Run all phases. Raises: Violation, with knobs, seed and trace."""
        with self.logging():
            try:
                for phase in self.phases():
                    phase()
                self.sim.check()
            except Violation as violation:
                raise Violation(f"seed {self.seed}\n{self.knobs}\n\n{violation}") from None
        return self.counts()

    def build_actors(self) -> None:
        """Create the simulated processes, which start now or later, and set ``actors`` to the consuming ones."""
        raise NotImplementedError

    def phases(self) -> Sequence[Callable[[], None]]:
        """Return the methods that run the phases of a run, in order."""
        return self.safety, self.liveness, *self.rests()

    def login_options(self, client: str) -> dict[str, Any]:
        """Return the options with which a client logs in, if any."""
        return {} if self.logins is None else self.logins.options(client)

    def consumer_options(self, client: str) -> dict[str, Any]:
        """Return the options with which a consumer logs in, and pushes metrics, if the consumers of this run do."""
        pushes = self.knobs.pushes_metrics and has_package(TELEMETRY_PACKAGE)
        return {**self.login_options(client), **({"enable_metrics_push": True} if pushes else {})}

    def calm(self) -> None:
        """Stop the actors' own faults and extra calls. :meth:`liveness` calls it when every transaction has ended."""

    def what_is_wrong(self) -> str:
        """Return the reason why a client has not settled; an empty string if all clients have."""
        raise NotImplementedError

    def patience_s(self) -> float:
        """Return within how many virtual seconds the clients have to settle."""
        return self.PEACE_S

    def logging(self) -> AbstractContextManager[None]:
        """Return the context of a run, which may handle the clients' log lines. By default they are dropped."""
        return log_lines_dropped()

    def safety(self) -> None:
        """Run :data:`FAULTS_S` virtual seconds with faults."""
        self.sim.run_for(FAULTS_S)

    def end_faults(self) -> None:
        """End every fault."""
        self.sim.trace.add("swarm", "", "peace")
        self.chaos.over()

    def liveness(self) -> None:
        """End the faults and transactions, write a last record to each partition, and wait until clients have it."""
        self.end_faults()
        self.sim.run_until(self.log_writer.finish, self.PEACE_S, "every transaction is ended")
        self.calm()
        self.write_to_all()
        self.settle("after the faults")

    def rests(self) -> Sequence[Callable[[], None]]:
        """Return the phase that follows liveness if clients log in."""
        return () if self.logins is None else (self.rest,)

    def rest(self) -> None:
        """Let time pass in which clients authenticate again, and in which no session may expire on a broker.

        A session that began during the faults may expire: its client may have read the login's response late, and then
        its time for the next login, too, is late.
        """
        assert self.logins is not None
        self.sim.trace.add("swarm", "", "rest")
        left = self.logins.calm_since + self.logins.knobs.session_s - self.sim.now()
        self.sim.run_for(max(0.0, left))
        self.login_checker.is_calm = True
        self.sim.run_for(self.logins.knobs.session_s)

    def write_to_all(self) -> None:
        """Write one more record to each partition."""
        left = list(self.tps)

        def is_written() -> bool:
            left[:] = [tp for tp in left if not self.log_writer.write(tp, count=1)]
            return not left

        self.sim.run_until(is_written, self.PEACE_S, "every partition has a leader")

    def settle(self, when: str) -> None:
        """Wait until every client has caught up (settled). Raises: Violation, after :meth:`patience_s`."""
        if wrong := self.wait_until_settled():
            report = Violation(f"{self.patience_s():g} virtual seconds {when}: {wrong}")
            raise Violation(self.sim.report(report))

    def wait_until_settled(self) -> str:
        """Wait up to :meth:`patience_s` until every client has settled; return what is wrong then, if anything."""
        deadline = self.sim.now() + self.patience_s()
        while (wrong := self.what_is_wrong()) and self.sim.now() < deadline:
            self.sim.run_for(1.0)
        return wrong

    def counts(self) -> Counter[str]:
        """Return counts of events, so that a test notices if runs no longer have faults, rebalances or records."""
        sim = self.sim
        counts = self.chaos.counts + self._tally.counts + sim.network.mishaps
        counts["written"] = self.log_writer.written
        counts["committed"], counts["aborted"] = self.log_writer.committed, self.log_writer.aborted
        counts["leader_changes"] = sum(len(truth.epochs) - 1 for truth in sim.cluster.truths.values() if truth.epochs)
        counts["corrupted"] = self.chaos.corruption.count
        counts["mishandled"] = self.chaos.request_faults.count
        counts["refusals"] = self.chaos.group_errors.count
        counts["errors"] = sum(len(actor.errors) for actor in self.actors)
        counts["lives"] = sum(actor.lives for actor in self.actors)
        counts["events"] = sim.world.happened
        counts["pushes"] = len(sim.cluster.pushed_metrics())
        if self.logins is not None:
            counts += self.login_checker.counts + self.logins.counts
        return counts

    def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic, to which the log writer will append. Raises: ControllerError, if it is rejected."""
        self.sim.create_topic(name, partitions, self.knobs.replication, **configs)
        self.names_by_id[self.sim.cluster.controller.image.topics[name].topic_id] = name
        self.used.append(name)
        self.topics.append(name)
        self.tps += [TopicPartition(name, number) for number in range(partitions)]

    def truth(self, tp: TopicPartition) -> Truth | None:
        """Return the committed contents of a partition, None if there is no such partition."""
        return self.sim.cluster.truth(tp)


def _broker_config(knobs: Knobs) -> dict[str, Any]:
    return {
        **same_named(BrokerConfig, knobs),
        "metric_reporters": TELEMETRY_RECEIVER if knobs.pushes_metrics else "",
        "default_replication_factor": knobs.replication,
        "unclean_leader_election_enable": knobs.unclean,
        "auto_create_topics_enable": not knobs.groups,
        "max_incremental_fetch_session_cache_slots": knobs.session_slots,
        "group_initial_rebalance_delay_ms": knobs.initial_delay_ms,
    }
