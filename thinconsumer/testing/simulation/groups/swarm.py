"""Swarm mode for groups: a minute of faults in which nothing wrong may happen, then peace, then a change in good order.

**Safety**: at least :data:`FAULTS_S` virtual seconds of what :mod:`.chaos` orders, with all checkers on. **Liveness**:
all faults end, and within :data:`PEACE_S` virtual seconds every partition of every group has exactly one owner and all
that was written is processed. **Order**: a member of each group closes and comes back while others write, and nothing
is processed twice. Then, for :data:`QUIET_S`, nobody may have a reason to join again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial

from ....broker.config import BrokerConfig
from ....broker.group.group import ClassicGroup
from ....broker.group.rebalance import SYNC
from ....broker.group.states import GroupState
from ....types import TopicPartition
from ..checkers import ALL
from ..log_writer import LogWriter
from ..simulation import Simulation
from ..swarm import network_faults_of
from ..tally import Tally
from ..truth import Truth
from ..world import Violation
from .chaos import GroupChaos
from .checkers import (
    CallbackChecker,
    CommitChecker,
    DeliveryChecker,
    GroupChecker,
    IdentityChecker,
    LinesChecker,
    OwnersChecker,
    Panel,
    Plans,
    RoundsChecker,
    Views,
)
from .group_event_adapter import GroupEventAdapter
from .knobs import STYLES, GroupKnobs, GroupWorldKnobs, MemberKnobs
from .ledger import Ledger
from .member import Manners, MemberActor
from .mishandling import GroupMishandling

FAULTS_S = 60.0
PEACE_S = 120.0
QUIET_S = 6.0
COMMAND = "python -m thinconsumer.testing.simulation --groups --seed {seed}"
LOGGER = "thinconsumer.group"
_AT_REST = (GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD)


class Team:
    """One group: its members and what they have processed together."""

    def __init__(self, name: str, knobs: GroupKnobs, ledger: Ledger) -> None:
        self.name = name
        self.knobs = knobs
        self.ledger = ledger
        self.members: list[MemberActor] = []

    def running(self) -> list[MemberActor]:
        """Return those that are there."""
        return [member for member in self.members if member.is_running]


class GroupSwarm:
    """One run. ``sim`` is its world; :meth:`run` does all phases and returns what has happened, counted."""

    def __init__(self, seed: int, *, traced: bool = False, knobs: GroupWorldKnobs | None = None) -> None:
        self.seed = seed
        self.knobs = knobs = knobs or GroupWorldKnobs.draw(seed)
        self.sim = sim = Simulation(seed, knobs.brokers, config=self._config(), network_faults=network_faults_of(knobs),
                                    racks=[f"rack{n % knobs.racks}" for n in range(knobs.brokers)],
                                    traced=traced, checkers=())  # fmt: skip
        for checker in ALL:
            sim.jury.add(checker(sim.world.accuse, self.truth))
        sim.how_to_repeat = COMMAND.format(seed=seed)
        self._tally = Tally(sim.world.accuse, sim.brokers.truth)
        sim.jury.add(self._tally)
        #: All that topics may be called, and those that are, or were. What is missing is asked for all the time.
        self.names = [f"topic{number}" for number in range(knobs.topics + 2 * bool(knobs.appearances))]
        self.used: list[str] = []
        self.topics: list[str] = []
        self.tps: list[TopicPartition] = []
        for name in self.names[: knobs.topics]:
            self.create_topic(name, sim.world.streams("swarm/topics").randint(1, knobs.partitions))
        self.log_writer = LogWriter(sim.world, lambda: sim.cluster, sim.touched, lambda: self.tps, knobs, FAULTS_S)
        self.teams = [
            Team(f"group{n}", team, Ledger(self.truth, read_committed=team.isolation_level == "read_committed"))
            for n, team in enumerate(knobs.teams, start=1)
        ]
        self.panel = Panel()
        self._add_checkers()
        for team in self.teams:
            team.members += [self._member(team, number, mate) for number, mate in enumerate(team.knobs.mates, start=1)]
        self.members = [member for team in self.teams for member in team.members]
        self.mishandling = GroupMishandling(sim.world, knobs.group_error_rate)
        self.chaos = GroupChaos(self)
        if knobs.group_error_rate:
            sim.cluster.on(None, self.mishandling)
        random = sim.world.streams("swarm/starts")
        for member in self.members:
            self.chaos.later(random.uniform(0, 4), member.start)

    def run(self) -> Counter[str]:
        """Run all phases. Raises: Violation, with knobs, seed and trace."""
        logger = logging.getLogger(LOGGER)
        root = logging.root.manager
        before = root.disable, logger.level, logger.propagate
        root.disable, logger.propagate = logging.DEBUG, False
        logger.setLevel(logging.INFO)
        logger.addHandler(self.lines)
        above = logging.getLogger("thinconsumer")
        level, above_propagates = above.level, above.propagate
        above.setLevel(logging.CRITICAL)
        try:
            self.safety()
            self.liveness()
            self.order()
            self.quiet()
            self.sim.check()
        except Violation as violation:
            raise Violation(f"seed {self.seed}\n{self.knobs}\n\n{violation}") from None
        finally:
            logger.removeHandler(self.lines)
            root.disable, logger.propagate = before[0], before[2]
            logger.setLevel(before[1])
            above.setLevel(level)
            above.propagate = above_propagates
        return self.counts()

    # -- phases

    def safety(self) -> None:
        """A minute of faults."""
        self.sim.run_for(FAULTS_S)

    def liveness(self) -> None:
        """Peace: everything has an owner and is processed."""
        sim = self.sim
        sim.trace.add("swarm", "", "peace")
        self.chaos.over()
        for team in self.teams:
            self.rounds.expect(team.name, len(team.members))
        self.panel.tell("calmed")
        sim.run_until(self.log_writer.finish, PEACE_S, "every transaction is ended")
        self._sign_all()
        self._settle("after the faults")

    def order(self) -> None:
        """A member of each group goes and comes back while others write: nothing is lost, nothing comes twice."""
        sim = self.sim
        sim.trace.add("swarm", "", "order")
        random = sim.world.streams("swarm/order")
        # Whoever has a connection that is no more learns it by its own patience only, once it has said something there.
        # By then the coordinator's may be over, and what could not be committed is read again.
        sim.run_for(max(team.knobs.patience_s for team in self.teams))
        self._settle("after connections that are no more were noticed")
        # Who went back before that, and was held up since, has yet to read it again.
        sim.run_until(lambda: all(map(self._is_at_end, self.teams)), PEACE_S, "everybody is at the end")
        for team in self.teams:
            team.ledger.strict_since = sim.now()
        gone = []
        for team in self.teams:
            member = random.choice(team.members)
            gone.append(member)
            sim.watched(partial(_close, member))
            self._sign_all()
        sim.run_for(2.0)
        self._settle("after one member closed")
        for member in gone:
            member.start()
            self._sign_all()
        sim.run_for(2.0)
        self._settle("after one member came back")

    def quiet(self) -> None:
        """Nothing happens, so nobody joins.

        Except, as with Kafka's coordinators, when a static member has come back (KIP-345) instead of sending the
        SyncGroup that is waited for under its old id: in the end its group rebalances for that, which comes first.
        """
        if any(SYNC in group.timers for group in self._groups()):
            self.sim.run_until(
                lambda: all(group.state in _AT_REST and SYNC not in group.timers for group in self._groups()),
                PEACE_S,
                "no coordinator waits for a SyncGroup",
            )
            self._settle("when no coordinator waited for a SyncGroup any more")
        self.rounds.is_quiet = True
        self.sim.trace.add("swarm", "", "quiet")
        self.sim.run_for(QUIET_S)
        self._settle("when nothing happened")
        self.rounds.is_quiet = False

    def counts(self) -> Counter[str]:
        """Return what has happened, counted."""
        sim, mishaps = self.sim, self.sim.network.mishaps
        counts = Counter(self.chaos.counts) + self._tally.counts
        counts["processed"] = sum(team.ledger.count for team in self.teams)
        counts["doubles"] = sum(team.ledger.doubles for team in self.teams)
        counts["written"] = self.log_writer.written
        counts["rebalances"] = sum(self.plans.counts.values())
        counts["refusals"] = self.mishandling.count
        counts["errors"] = sum(len(member.errors) for member in self.members)
        counts["lives"] = sum(member.lives for member in self.members)
        counts["drops"], counts["half_open"] = mishaps.resets, mishaps.half_open
        counts["lines"] = sum(map(len, self.lines.lines.values()))
        counts["events"] = sim.world.happened
        counts += self.callbacks.counts
        return counts

    # -- the world

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, and have it written to. Raises: ControllerError."""
        self.sim.create_topic(name, partitions, self.knobs.replication)
        self.used.append(name)
        self.topics.append(name)
        self.tps += [TopicPartition(name, number) for number in range(partitions)]

    def truth(self, tp: TopicPartition) -> Truth | None:
        """Return what is, or was, true of a partition; names of topics are used once only."""
        return next((truth for (other, _), truth in self.sim.brokers.truths.items() if other == tp), None)

    def name_of(self, topic_id: bytes) -> str:
        """Return what a topic is, or was, called."""
        return next((tp.topic for tp, other in self.sim.brokers.truths if other == topic_id), "")

    # -- inside

    def _groups(self) -> Iterator[ClassicGroup]:
        """Return all groups, as their coordinators have them."""
        for node in self.sim.cluster.nodes.values():
            for shard in node.group_coordinator.shards.values():
                yield from shard.latest.groups.values()

    def _add_checkers(self) -> None:
        sim = self.sim
        truths = sim.world.accuse, self.truth
        views = self.views = Views(*truths, now=sim.now)
        self.plans = Plans(*truths)
        self.callbacks = CallbackChecker(*truths, views=views)
        self.rounds = RoundsChecker(*truths, plans=self.plans)
        self.lines = LinesChecker(*truths)
        ledgers = {team.name: team.ledger for team in self.teams}
        checkers: list[GroupChecker] = [
            views,
            self.plans,
            IdentityChecker(*truths, views=views),
            GroupEventAdapter(*truths, jury=sim.jury, name_of=self.name_of),
            OwnersChecker(*truths, views=views, plans=self.plans, callbacks=self.callbacks),
            DeliveryChecker(*truths, views=views),
            self.callbacks,
            CommitChecker(*truths, plans=self.plans, ledgers=ledgers, name_of=self.name_of),
            self.rounds,
            self.lines,
        ]
        for checker in checkers:
            sim.jury.add(checker)
            self.panel.add(checker)

    def _member(self, team: Team, number: int, mate: MemberKnobs) -> MemberActor:
        knobs, sim = team.knobs, self.sim
        name = f"{team.name}-member{number}"
        random = sim.world.streams(f"swarm/{name}")
        topics = list(self.names)
        if knobs.mixed_topics:
            topics = [topic for topic in topics if random.random() < 0.6] or [random.choice(topics)]
        options = {
            **mate.options(),
            "bootstrap_servers": sim.bootstrap_servers,
            "group_instance_id": name if random.random() < knobs.static_share else None,
            "enable_auto_commit": mate.commits == "auto",
            "session_timeout_ms": knobs.session_timeout_ms,
            "heartbeat_interval_ms": knobs.heartbeat_interval_ms,
            "max_poll_interval_ms": knobs.max_poll_interval_ms,
            "partition_assignment_strategy": list(STYLES[knobs.style][0]),
            "isolation_level": knobs.isolation_level,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": self.knobs.fetch_max_wait_ms,
            "default_api_timeout_ms": 5000,
        }
        manners = Manners(
            poll_timeout_ms=mate.poll_timeout_ms,
            blocks=mate.blocks,
            think_s=mate.think_s,
            drives=mate.drives,
            commits=mate.commits,
            odd_rate=mate.odd_rate,
            raise_rate=mate.raise_rate,
            asks=mate.asks,
            rewinds=mate.rewinds,
        )
        return MemberActor(
            sim.world,
            sim.network,
            name,
            sim.jury,
            self.panel,
            self.lines,
            group=team.name,
            topics=topics,
            pattern=r"topic\d+" if knobs.pattern else None,
            options=options,
            manners=manners,
        )

    def _config(self) -> BrokerConfig:
        knobs = self.knobs
        return BrokerConfig(
            default_replication_factor=knobs.replication,
            min_insync_replicas=1,
            auto_create_topics_enable=False,
            metadata_lag_s=knobs.metadata_lag_s,
            replication_s=knobs.replication_s,
            broker_session_timeout_ms=knobs.broker_session_timeout_ms,
            replica_lag_time_max_ms=knobs.replica_lag_time_max_ms,
            max_incremental_fetch_session_cache_slots=knobs.session_slots,
            coordinator_load_s=knobs.coordinator_load_s,
            group_initial_rebalance_delay_ms=knobs.initial_delay_ms,
        )

    def _sign_all(self) -> None:
        """Write one more record to each partition."""
        unsigned = list(self.tps)

        def signed() -> bool:
            unsigned[:] = [tp for tp in unsigned if not self.log_writer.sign(tp)]
            return not unsigned

        self.sim.run_until(signed, PEACE_S, "every partition has a leader")

    def _settle(self, when: str) -> None:
        """Wait until everything is owned and processed. Raises: Violation."""
        sim = self.sim
        deadline = sim.now() + PEACE_S
        while True:
            wrong = next((words for words in map(self._what_is_wrong, self.teams) if words), "")
            if not wrong:
                return
            if sim.now() >= deadline:
                raise Violation(sim.report(Violation(f"{PEACE_S:g} virtual seconds {when}: {wrong}")))
            sim.run_for(1.0)

    @staticmethod
    def _is_at_end(team: Team) -> bool:
        """Return whether no member of a group has anything left to read."""
        positions = [at for member in team.running() for at in member.positions().items()]
        return all(offset is not None and team.ledger.next_from(tp, offset) is None for tp, offset in positions)

    def _what_is_wrong(self, team: Team) -> str:
        """Return why a group is not where it should be; empty: it is."""
        running = team.running()
        subscribed = {topic for m in running for topic in (self.names if m.pattern is not None else m.topics)}
        wanted = {tp for tp in self.tps if tp.topic in subscribed}
        owners: dict[TopicPartition, list[str]] = {}
        for member in running:
            for tp in member.assignment():
                owners.setdefault(tp, []).append(member.name)
            view = self.views.of[member.member]
            if view.rebalancing or view.shared_in < self.plans.newest(team.name):
                return f"{member.name} is not in generation {self.plans.newest(team.name)} of {team.name} yet"
            heard = self.callbacks.owned(member.member)
            if heard != view.share:
                return f"{member.name} has not taken or given up all that it shall"
            if heard != member.assignment():
                return f"{member.name}'s listener believes to have {sorted(map(tuple, heard))}, which is not so"
        for tp in sorted(wanted | set(owners)):
            mine = owners.get(tp, [])
            if len(mine) != (tp in wanted):
                return f"{tp.topic}-{tp.partition} of {team.name} is owned by {' and '.join(mine) or 'nobody'}"
        for tp in sorted(wanted):
            missing = team.ledger.first_missing(tp)
            if missing is not None:
                return f"{tp.topic}-{tp.partition} offset {missing} was not processed by {team.name} ({owners[tp][0]})"
        return ""


def _close(member: MemberActor) -> None:
    with member.busy():
        member.close()
