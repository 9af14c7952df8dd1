"""What goes wrong for groups, besides all that goes wrong anyway: coordinators, members and topics come and go.

Faults as in :mod:`..chaos`, each at its own rate, from its own stream.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ....broker.group.hashing import partition_for
from ....broker.naming import OFFSETS_TOPIC
from ....types import TopicPartition
from ..chaos import Chaos
from .checkers.base import names
from .knobs import STYLES
from .member import MemberActor

if TYPE_CHECKING:
    from .swarm import GroupSwarm

Fault = Callable[["GroupChaos", Random], bool]
TOPICS_MAX, PARTITIONS_MAX = 5, 7


class GroupChaos(Chaos):
    """See the module."""

    def __init__(self, swarm: GroupSwarm) -> None:
        self.swarm = swarm
        super().__init__(swarm.sim, swarm.knobs, swarm.members, swarm.tps, swarm.log_writer.write)  # type: ignore[arg-type]
        for name, fault in GROUP_FAULTS.items():
            rate = getattr(swarm.knobs, name)
            if rate:
                self._arm(name, fault, rate / 60.0)  # type: ignore[arg-type]
        for team in swarm.teams:
            if len(STYLES[team.knobs.style]) > 1:
                self._upgrade(team.name)

    def over(self) -> None:
        """End everything."""
        super().over()
        for member in self.swarm.members:
            member.calm()

    def coordinator(self, random: Random) -> int:
        """Return the node that coordinates one of the groups, as the controller has it; -1: none does."""
        group = random.choice(self.swarm.teams).name
        topic = self.sim.cluster.controller.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return -1
        row = self.sim.cluster.controller.image.partition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))
        return -1 if row is None else row.leader

    def running(self, random: Random) -> MemberActor | None:
        """Return one of the members that are there."""
        found = [member for member in self.swarm.members if member.is_running]
        return random.choice(found) if found else None

    # -- rolling bounces

    def _upgrade(self, group: str) -> None:
        """Restart one member after the other with the next list, and then all of them again with the one after."""
        random = self.sim.world.streams(f"chaos/upgrade/{group}")
        team = next(team for team in self.swarm.teams if team.name == group)
        steps = STYLES[team.knobs.style]
        plan = [(member, list(steps[step])) for step in range(1, len(steps)) for member in team.members]
        pause = 40.0 / len(plan)

        def bounce() -> None:
            if self.is_over or not plan:
                return
            member, strategy = plan[0]
            member.options["partition_assignment_strategy"] = strategy
            graceful = random.random() < 0.6
            plan.pop(0)
            self.counts["bounces"] = self.counts.get("bounces", 0) + 1
            if member.is_running:
                self.restart(member, graceful, random.uniform(0.05, 1.5))
            self.sim.world.call_later(pause * random.uniform(0.7, 1.3), bounce)

        self.sim.world.call_later(random.uniform(5, 12), bounce)

    def restart(self, member: MemberActor, graceful: bool, after_s: float) -> None:
        """Let a member go, and come back."""
        if graceful:
            member.soon(member.close)
            self._come_back(member, after_s)
        else:
            member.crash()
            self.later(after_s, lambda: None if member.is_running else member.start())

    def _come_back(self, member: MemberActor, after_s: float) -> None:
        """Once it is closed, and so much later, start it."""

        def look() -> None:
            if self.is_over:
                return
            if member.is_running:
                self.later(0.5, look)
            else:
                self.later(after_s, lambda: None if member.is_running else member.start())

        self.later(0.1, look)


def kill_coordinator(chaos: GroupChaos, random: Random) -> bool:
    """A group's coordinator dies, and comes back."""
    node = chaos.coordinator(random)
    seconds, silently = random.uniform(0.2, 10), random.random() < chaos.knobs.silent_share
    if node < 0 or not chaos.sim.cluster.nodes[node].is_alive:
        return False
    chaos.sim.kill(node, silently=silently)
    chaos.later(seconds, lambda: chaos.sim.start(node))
    return True


def pause_coordinator(chaos: GroupChaos, random: Random) -> bool:
    """A group's coordinator is stopped for a while."""
    node = chaos.coordinator(random)
    seconds = random.uniform(0.3, 10)
    if node < 0 or not chaos.sim.cluster.nodes[node].is_running:
        return False
    found = chaos.sim.cluster.nodes[node]
    chaos.sim.pause(node)
    chaos.later(seconds, lambda: chaos.sim.resume(node) if found.is_paused else None)
    return True


def move_coordinator(chaos: GroupChaos, random: Random) -> bool:
    """Another node coordinates, in order."""
    group = random.choice(chaos.swarm.teams).name
    topic = chaos.sim.cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    row = topic.partitions[partition_for(group, len(topic.partitions))]
    others = [node for node in row.isr if node != row.leader]
    if not others:
        return False
    to = random.choice(others)
    chaos.sim.cluster.move_coordinator(group, to)
    chaos.sim.trace.add("controller", "", "coordinator", "of %s: node %d", group, to)
    return True


def absent(chaos: GroupChaos, random: Random) -> bool:
    """An application does nothing for about as long as it may."""
    member = chaos.running(random)
    if member is None:
        return False
    limit = random.choice((member.member.session_timeout_s, member.member.max_poll_interval_s))
    member.stall(limit * random.uniform(0.5, 1.6))
    return True


def depart(chaos: GroupChaos, random: Random) -> bool:
    """A member closes its consumer, and starts again later."""
    member = chaos.running(random)
    seconds = random.uniform(0.05, 8)
    if member is None:
        return False
    chaos.restart(member, True, seconds)
    return True


def grow(chaos: GroupChaos, random: Random) -> bool:
    """A topic has more partitions from now on."""
    topic = random.choice(chaos.swarm.topics)
    count = sum(tp.topic == topic for tp in chaos.tps)
    more = random.randint(1, 2)
    if count + more > PARTITIONS_MAX:
        return False
    chaos.sim.trace.add("admin", "", "grow", "%s to %d", topic, count + more)
    chaos.sim.expand(topic, count + more)
    chaos.tps += [TopicPartition(topic, number) for number in range(count, count + more)]
    return True


def appear(chaos: GroupChaos, random: Random) -> bool:
    """A new topic, of a name that patterns match and some are subscribed to already."""
    free = [name for name in chaos.swarm.names if name not in chaos.swarm.used]
    if not free or len(chaos.swarm.topics) >= TOPICS_MAX:
        return False
    name = free[0]
    chaos.swarm.create_topic(name, random.randint(1, 3))
    chaos.sim.trace.add("admin", "", "appear", "%s", name)
    return True


def vanish(chaos: GroupChaos, random: Random) -> bool:
    """A topic is deleted."""
    if len(chaos.swarm.topics) < 2:
        return False
    name = random.choice(chaos.swarm.topics)
    chaos.sim.trace.add("admin", "", "vanish", "%s", name)
    gone = [tp for tp in chaos.tps if tp.topic == name]
    chaos.tps[:] = [tp for tp in chaos.tps if tp.topic != name]
    chaos.swarm.topics.remove(name)
    chaos.sim.cluster.delete_topic(name)
    chaos.sim.trace.add("admin", "", "gone", "%s", names(gone))
    return True


def change_mind(chaos: GroupChaos, random: Random) -> bool:
    """A member subscribes to other topics."""
    member = chaos.running(random)
    if member is None or member.pattern is not None:
        return False
    topics = [name for name in chaos.swarm.names if random.random() < 0.6] or [random.choice(chaos.swarm.names)]
    member.soon(lambda: member.subscribe(topics))
    return True


#: By the knob that says how often a minute.
GROUP_FAULTS: dict[str, Fault] = {
    "coordinator_kills": kill_coordinator,
    "coordinator_pauses": pause_coordinator,
    "coordinator_moves": move_coordinator,
    "absences": absent,
    "departures": depart,
    "growths": grow,
    "appearances": appear,
    "vanishings": vanish,
    "changes_of_mind": change_mind,
}
