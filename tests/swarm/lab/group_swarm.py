"""Swarm runs of consumer groups with members that join and leave; each group has to process every record.

After safety and liveness (see :mod:`.swarm`) there are two more phases. **Order**: a member of each group closes and
restarts while records are written, and no record may be processed twice. **Quiet**: for :data:`QUIET_S` virtual seconds
no fault or change occurs, so no member may rejoin.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.group.group import ClassicGroup
from thinconsumer_testing.broker.group.rebalance import SYNC
from thinconsumer_testing.broker.group.states import GroupState
from thinconsumer_testing.simulation.checkers.base import Checker
from thinconsumer_testing.simulation.truth import Truth

from .actors.member import MemberActor
from .actors.worker import SHARD, WorkerActor
from .checkers.callbacks import CallbackChecker
from .checkers.commits import CommitChecker, Plans
from .checkers.delivery import DeliveryChecker
from .checkers.identity import IdentityChecker
from .checkers.rebalances import LogVolumeChecker, RebalanceChecker
from .checkers.single_owner import SingleOwnerChecker
from .checkers.views import Views
from .group_event_adapter import GroupEventAdapter
from .knobs import ClientKnobs, Knobs
from .ledger import Ledger, SimulatedGroup
from .swarm import Swarm

QUIET_S = 6.0
LOGGER = "thinconsumer.group"
_AT_REST = (GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD)


class GroupSwarm(Swarm):
    """A swarm run of groups. Each partition needs exactly one owner per group, and each record must be processed."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --groups --seed {seed}"
    of_groups = True
    member_kind = MemberActor

    def __init__(self, seed: int, *, traced: bool = False, knobs: Knobs | None = None) -> None:
        super().__init__(seed, traced=traced, knobs=knobs)
        random = self.sim.world.streams("swarm/starts")
        for member in self.actors:
            self.chaos.later(random.uniform(0, 4), member.start)

    def build_actors(self) -> None:
        """Create groups, checkers, and members, which start later."""
        self.groups: list[SimulatedGroup] = [
            SimulatedGroup(f"group{n}", knobs, Ledger(self.truth, knobs.isolation_level == "read_committed"))
            for n, knobs in enumerate(self.knobs.group_knobs, start=1)
        ]
        for group in self.groups:
            group.shards = frozenset(TopicPartition(SHARD, number) for number in range(group.knobs.shards))
        self._add_checkers()
        for group in self.groups:
            group.members += [self._member(group, n, client) for n, client in enumerate(group.knobs.clients, start=1)]
        self.actors: list[MemberActor] = [member for group in self.groups for member in group.members]

    def phases(self) -> Sequence[Callable[[], None]]:
        """Return the phases in order: those of every swarm, then order and quiet."""
        return self.safety, self.liveness, *self.rests(), self.order, self.quiet

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Return the context of a run: log lines about groups are counted per member, and all others dropped."""
        logger, above = logging.getLogger(LOGGER), logging.getLogger("thinconsumer")
        before = [(one, one.level, one.propagate) for one in (logger, above)]
        disabled = logging.root.manager.disable
        logging.disable(logging.DEBUG)
        logger.propagate = False
        logger.setLevel(logging.INFO)
        logger.addHandler(self.log_volume)
        above.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.removeHandler(self.log_volume)
            logging.disable(disabled)
            for one, level, propagate in before:
                one.setLevel(level)
                one.propagate = propagate

    def end_faults(self) -> None:
        """End every fault and every member's extra calls. From now on, checkers limit the rebalances of each group."""
        super().end_faults()
        for member in self.actors:
            member.calm()
        for group in self.groups:
            self.rebalances.expect(group.name, len(group.members))
        self.sim.jury.tell("faults_ended")

    def order(self) -> None:
        """Restart a member of each group during writes; no record may be skipped or processed twice."""
        sim = self.sim
        sim.trace.add("swarm", "", "order")
        random = sim.world.streams("swarm/order")
        # A member may notice only by a request timeout that a connection was lost. If its session times out meanwhile,
        # the next owner of its partitions processes uncommitted records again. Wait until this can no longer happen:
        # repeated records count as violations in this phase. Over a connection for commits that was idle since, the
        # last commit of the member that closes would be lost.
        sim.network.reset_swallowed()
        sim.run_for(max(group.knobs.patience_s for group in self.groups))
        self.settle("after lost connections were noticed")
        # Members that sought back before this phase process records again. Wait until all of them have reached the end,
        # for the same reason.
        sim.run_until(lambda: all(map(self.is_at_end, self.groups)), self.PEACE_S, "every member is at the end")
        for group in self.groups:
            group.ledger.strict_since = sim.now()
        gone = []
        for group in self.groups:
            member = random.choice(group.members)
            gone.append(member)
            sim.watched(partial(_close, member))
            self.write_to_all()
        sim.run_for(2.0)
        self.settle("after one member closed")
        for member in gone:
            member.start()
            self.write_to_all()
        sim.run_for(2.0)
        self.settle("after one member came back")

    def quiet(self) -> None:
        """Let :data:`QUIET_S` virtual seconds pass without a fault or a change, during which no member may rejoin.

        A static member (KIP-345) that restarts between its JoinGroup and its SyncGroup leaves the coordinator waiting
        for the SyncGroup, as in Kafka. When that wait times out, the group rebalances. Such a wait must be over first.
        """
        if any(SYNC in group.timers for group in self.coordinated()):
            self.sim.run_until(
                lambda: all(group.state in _AT_REST and SYNC not in group.timers for group in self.coordinated()),
                self.PEACE_S,
                "no coordinator waits for a SyncGroup",
            )
            self.settle("when no coordinator waited for a SyncGroup any more")
        self.rebalances.is_quiet = True
        self.sim.trace.add("swarm", "", "quiet")
        self.sim.run_for(QUIET_S)
        self.settle("when nothing happened")
        self.rebalances.is_quiet = False

    def counts(self) -> Counter[str]:
        """Return the counts of the base class, and those of processed records, rebalances, callbacks and log lines."""
        counts = super().counts()
        counts["processed"] = sum(group.ledger.count for group in self.groups)
        counts["doubles"] = sum(group.ledger.doubles for group in self.groups)
        counts["rebalances"] = sum(self.plans.counts.values())
        counts["lines"] = sum(map(len, self.log_volume.lines.values()))
        return counts + self.callbacks.counts

    def truth(self, tp: TopicPartition) -> Truth | None:
        """Return the committed contents of a partition, even if it was deleted: topic names are never reused."""
        return next((truth for (other, _), truth in self.sim.cluster.truths.items() if other == tp), None)

    def name_of(self, topic_id: bytes) -> str:
        """Return a topic's name, even if it was deleted; empty if there was none."""
        return self.names_by_id.get(topic_id, "")

    def coordinated(self) -> Iterator[ClassicGroup]:
        """Yield the groups that the brokers' coordinators have loaded."""
        for node in self.sim.cluster.nodes.values():
            for shard in node.group_coordinator.shards.values():
                yield from (group for group in shard.latest.groups.values() if isinstance(group, ClassicGroup))

    def _add_checkers(self) -> None:
        sim = self.sim
        sources = sim.world.accuse, self.truth
        views = self.views = self._new_views()
        self.plans = self._new_plans()
        self.callbacks = CallbackChecker(*sources, views=views)
        self.rebalances = RebalanceChecker(*sources, plans=self.plans, now=sim.now)
        self.log_volume = LogVolumeChecker(*sources)
        ledgers = {group.name: group.ledger for group in self.groups}
        checkers: list[Checker] = [
            views,
            self.plans,
            IdentityChecker(*sources, views=views),
            GroupEventAdapter(*sources, jury=sim.jury, name_of=self.name_of),
            SingleOwnerChecker(*sources, views=views, plans=self.plans, callbacks=self.callbacks),
            DeliveryChecker(*sources, views=views),
            self.callbacks,
            CommitChecker(*sources, plans=self.plans, ledgers=ledgers, name_of=self.name_of),
            self.rebalances,
            self.log_volume,
        ]
        for checker in checkers:
            sim.jury.add(checker)

    def _new_plans(self) -> Plans:
        return Plans(self.sim.world.accuse, self.truth)

    def _new_views(self) -> Views:
        return Views(self.sim.world.accuse, self.truth, now=self.sim.now)

    def _member(self, group: SimulatedGroup, number: int, client: ClientKnobs) -> MemberActor:
        knobs, sim = group.knobs, self.sim
        name = f"{group.name}-member{number}"
        random = sim.world.streams(f"swarm/{name}")
        topics = list(self.names)
        if knobs.mixed_topics:
            topics = [topic for topic in topics if random.random() < 0.6] or [random.choice(topics)]
        options = {
            **client.options(),
            **knobs.options(),
            "bootstrap_servers": sim.bootstrap_servers,
            "group_instance_id": name if random.random() < knobs.static_share else None,
            "enable_auto_commit": client.commits == "auto",
            "fetch_max_wait_ms": self.knobs.fetch_max_wait_ms,
            **self.consumer_options(name),
        }
        kind = WorkerActor if group.shards else self.member_kind
        actor = kind(
            sim.world,
            sim.network,
            name,
            sim.jury,
            self.log_volume,
            group=group.name,
            topics=topics,
            pattern=r"topic\d+" if knobs.pattern or group.shards else None,
            options=options,
            behaviour=client.behaviour(),
        )
        if isinstance(actor, WorkerActor):
            actor.shards, actor.cooperative = len(group.shards), knobs.style == "cooperative"
        return actor

    @staticmethod
    def is_at_end(group: SimulatedGroup) -> bool:
        """Return whether the positions of all running members are beyond the last record of each partition."""
        positions = [at for member in group.running() for at in member.positions().items()]
        return all(offset is not None and group.ledger.next_from(tp, offset) is None for tp, offset in positions)

    def what_is_wrong(self) -> str:
        """Return the reason why a group has not settled, for the first such group; an empty string if all have."""
        return next((words for words in map(self._what_is_wrong_with, self.groups) if words), "")

    def _what_is_wrong_with(self, group: SimulatedGroup) -> str:
        running = group.running()
        subscribed = {topic for m in running for topic in (self.names if m.pattern is not None else m.topics)}
        wanted = group.shards or {tp for tp in self.tps if tp.topic in subscribed}
        owners: dict[TopicPartition, list[str]] = {}
        for member in running:
            for tp in member.assignment():
                owners.setdefault(tp, []).append(member.name)
                if member.pattern is None and tp.topic not in member.topics:
                    return f"{member.name} owns {tp.topic}-{tp.partition}, but subscribes to {', '.join(member.topics)}"
            view = self.views.of[member.member]
            if view.rebalancing or view.shared_in < self.plans.newest(group.name):
                return f"{member.name} is not in generation {self.plans.newest(group.name)} of {group.name} yet"
            owned = self.callbacks.owned(member.member)
            if owned != view.share:
                return f"{member.name}'s callbacks have not covered its whole assignment"
            if owned != member.assignment():
                return f"{member.name}'s callbacks add up to {sorted(map(tuple, owned))}, which is not its assignment"
        for tp in sorted(wanted | set(owners)):
            mine = owners.get(tp, [])
            if len(mine) != (tp in wanted):
                return f"{tp.topic}-{tp.partition} of {group.name} is owned by {' and '.join(mine) or 'no member'}"
        for tp in sorted(wanted):
            missing = group.ledger.first_missing(tp)
            if missing is not None:
                return f"{tp.topic}-{tp.partition} offset {missing} was not processed by {group.name} ({owners[tp][0]})"
        return ""


def _close(member: MemberActor) -> None:
    with member.busy():
        member.close()
