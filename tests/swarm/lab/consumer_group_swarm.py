"""Swarm runs of groups whose members use the consumer group protocol (KIP-848), with the faults of other groups."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from thinconsumer_testing.broker.group.consumer.regex_refresh import REFRESH_MIN_MS

from .actors.member import MemberActor
from .checkers.commits import ClassicPlans
from .checkers.consumer_views import ConsumerViews
from .checkers.group_log import GroupLogChecker
from .checkers.heartbeats import HeartbeatChecker
from .checkers.reconciliation import ReconciliationChecker
from .group_faults import restart
from .group_swarm import GroupSwarm
from .knobs import ClientKnobs, Knobs
from .ledger import SimulatedGroup
from .request_faults import CONSUMER_GROUP_ERRORS


class ConsumerGroupSwarm(GroupSwarm):
    """A swarm run of groups whose coordinator assigns the partitions. The phases are those of :class:`GroupSwarm`."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --consumer-groups --seed {seed}"
    group_errors = CONSUMER_GROUP_ERRORS

    def __init__(self, seed: int, *, traced: bool = False, knobs: Knobs | None = None) -> None:
        super().__init__(seed, traced=traced, knobs=knobs)
        for group in self.groups:
            if group.knobs.protocol == "mixed":
                self._migrate_rolling(group)

    @classmethod
    def draw(cls, seed: int | str) -> Knobs:
        """Draw the knobs of a run from its seed."""
        return Knobs.draw_consumer_groups(seed)

    @classmethod
    def broker_config(cls, knobs: Knobs) -> dict[str, Any]:
        """Return the brokers' configuration, with the session timeout of the members."""
        return {
            **super().broker_config(knobs),
            "group_consumer_session_timeout_ms": knobs.session_timeout_ms,
            "group_consumer_heartbeat_interval_ms": knobs.heartbeat_interval_ms,
        }

    def wait_until_settled(self) -> str:
        """Wait until every client has settled, also after rebalances that Kafka's coordinators do not begin."""
        wrong = super().wait_until_settled()
        return super().wait_until_settled() if wrong and self._enforce_rebalances() else wrong

    def _enforce_rebalances(self) -> bool:
        """Do what docs/groups.md advises if no member knows that it leads its group; return whether there is one."""
        leaderless = self.group_log.without_leader()
        members = [member for group in self.groups if group.name in leaderless for member in group.running()]
        for member in members:
            member.soon(partial(member.enforce_rebalance, "no member knows that it leads the group"))
        return bool(members)

    def quiet(self) -> None:
        """Let time pass without a fault or a change, in which no member may join, leave, or get a new epoch.

        A regular expression that only the member of the phase before has is matched anew when that member is back, up
        to :data:`REFRESH_MIN_MS` later and at the next heartbeat. That begins an epoch, and must be over first.
        """
        if any(group.knobs.broker_pattern for group in self.groups):
            self.sim.run_for((REFRESH_MIN_MS + 3 * self.knobs.heartbeat_interval_ms) / 1000)
            self.settle("after regular expressions were matched")
        self.heartbeats.is_quiet = True
        super().quiet()
        self.heartbeats.is_quiet = False
        self.group_log.check_rest()

    def counts(self) -> Counter[str]:
        """Return the counts of the base class, and those of epochs and fencings."""
        return super().counts() + self.reconciliation.counts

    def _add_checkers(self) -> None:
        super()._add_checkers()
        sources = self.sim.world.accuse, self.truth
        self.heartbeats = HeartbeatChecker(
            *sources, views=self.views, callbacks=self.callbacks, name_of=self.name_of, now=self.sim.now
        )
        self.reconciliation = ReconciliationChecker(
            *sources, session_timeout_s=self.knobs.session_timeout_ms / 1000, name_of=self.name_of
        )
        self.group_log = GroupLogChecker(*sources, truths=self.sim.cluster.truths)
        for checker in (self.heartbeats, self.reconciliation, self.group_log):
            self.sim.jury.add(checker)

    def _what_is_wrong_with(self, group: SimulatedGroup) -> str:
        wrong = super()._what_is_wrong_with(group)
        if wrong:
            return wrong
        epochs = {self.views.of[member.member].generation for member in group.running()}
        return f"the members of {group.name} are in the epochs {sorted(epochs)}" if len(epochs) > 1 else ""

    def _new_plans(self) -> ClassicPlans:
        return ClassicPlans(self.sim.world.accuse, self.truth)

    def _new_views(self) -> ConsumerViews:
        return ConsumerViews(self.sim.world.accuse, self.truth, now=self.sim.now, name_of=self.name_of)

    def _member(self, group: SimulatedGroup, number: int, client: ClientKnobs) -> MemberActor:
        actor = super()._member(group, number, client)
        if group.knobs.broker_pattern:
            actor.pattern, actor.uses_broker_pattern = None, True
        is_mixed = group.knobs.protocol == "mixed"
        is_classic = is_mixed and self.sim.world.streams(f"swarm/{actor.name}/protocol").random() < 0.5
        self._use(group, actor, is_classic=is_classic)
        return actor

    def _use(self, group: SimulatedGroup, actor: MemberActor, *, is_classic: bool) -> None:
        """Set the protocol that a member uses when it is started next."""
        old, new = group.knobs.consumer_options(), group.knobs.classic_options()
        if not is_classic:
            old, new = new, old
        kept = {name: value for name, value in actor.options.items() if name not in old}
        actor.options = {**kept, **new}
        actor.session_timeout_s = None if is_classic else self.knobs.session_timeout_ms / 1000

    def _migrate_rolling(self, group: SimulatedGroup) -> None:
        """Restart the members one by one with the other protocol, first all with one and then all with the other."""
        random = self.sim.world.streams(f"chaos/migration/{group.name}")
        is_classic = random.random() < 0.5
        plan = [(member, way) for way in (is_classic, not is_classic) for member in group.members]
        pause = 40.0 / len(plan)

        def bounce() -> None:
            if self.chaos.is_over or not plan:
                return
            member, way = plan.pop(0)
            self._use(group, member, is_classic=way)
            self.chaos.counts["migrations"] += 1
            if member.is_running:
                restart(self.chaos, member, random.random() < 0.6, random.uniform(0.05, 1.5))
            self.sim.world.call_later(pause * random.uniform(0.7, 1.3), bounce)

        self.sim.world.call_later(random.uniform(5, 12), bounce)
