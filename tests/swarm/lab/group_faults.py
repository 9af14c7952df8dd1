"""Faults of a group's coordinator, members and topics: ``GROUP_FAULTS`` has each by the knob that sets its rate."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.naming import OFFSETS_TOPIC
from thinconsumer_testing.simulation.checkers.base import names

from .actors.member import MemberActor
from .faults import Fault, kill_node, pause_node
from .knobs import STYLES
from .ledger import SimulatedGroup

if TYPE_CHECKING:
    from .chaos import Chaos

TOPICS_MAX, PARTITIONS_MAX = 5, 7


def coordinator(chaos: Chaos, random: Random) -> int:
    """Return the broker id of a random group's coordinator, by the controller's metadata; -1 if there is none."""
    group = random.choice(chaos.swarm.groups).name
    topic = chaos.sim.cluster.controller.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return -1
    row = chaos.sim.cluster.controller.image.partition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))
    return -1 if row is None else row.leader


def running(chaos: Chaos, random: Random) -> MemberActor | None:
    """Return a random running member, None if there is none."""
    found = [member for group in chaos.swarm.groups for member in group.running()]
    return random.choice(found) if found else None


def bounce_rolling(chaos: Chaos, group: SimulatedGroup) -> None:
    """Change the assignors of all members by rolling restarts.

    :data:`.knobs.STYLES` lists the assignors of the group's style for each step: the members are restarted one by one
    with those of the second step, and then again with those of the third.
    """
    random = chaos.sim.world.streams(f"chaos/upgrade/{group.name}")
    steps = STYLES[group.knobs.style]
    plan = [(member, list(steps[step])) for step in range(1, len(steps)) for member in group.members]

    def bounce() -> None:
        if chaos.is_over or not plan:
            return
        member, strategy = plan.pop(0)
        member.options["partition_assignment_strategy"] = strategy
        graceful = random.random() < 0.6
        chaos.counts["bounces"] += 1
        if member.is_running:
            restart(chaos, member, graceful, random.uniform(0.05, 1.5))
        chaos.sim.world.call_later(pause * random.uniform(0.7, 1.3), bounce)

    if plan:
        pause = 40.0 / len(plan)
        chaos.sim.world.call_later(random.uniform(5, 12), bounce)


def restart(chaos: Chaos, member: MemberActor, graceful: bool, after_s: float) -> None:
    """Close a member, or crash it, and start it again after ``after_s`` seconds."""

    def start() -> None:
        if not member.is_running:
            member.start()

    def start_when_closed() -> None:
        if member.is_running:
            chaos.later(0.5, start_when_closed)
        else:
            chaos.later(after_s, start)

    if graceful:
        member.soon(member.close)
        chaos.later(0.1, start_when_closed)
    else:
        member.crash()
        chaos.later(after_s, start)


def kill_coordinator(chaos: Chaos, random: Random) -> bool:
    """Kill a group's coordinator, and start it again later."""
    return kill_node(chaos, random, coordinator(chaos, random), 10)


def pause_coordinator(chaos: Chaos, random: Random) -> bool:
    """Pause a group's coordinator for a while."""
    return pause_node(chaos, coordinator(chaos, random), random.uniform(0.3, 10))


def move_coordinator(chaos: Chaos, random: Random) -> bool:
    """Move a group's coordinator to another broker."""
    return _move(chaos, random, random.choice(chaos.swarm.groups).name)


def _move(chaos: Chaos, random: Random, group: str) -> bool:
    topic = chaos.sim.cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    row = topic.partitions[partition_for(group, len(topic.partitions))]
    others = [node for node in row.isr if node != row.leader]
    if not others:
        return False
    to = random.choice(others)
    chaos.sim.cluster.move_coordinator(group, to)
    chaos.sim.trace.add("controller", "", "coordinator", "of %s: node %d", group, to)
    return True


def absent(chaos: Chaos, random: Random) -> bool:
    """Stall a member for 0.5 to 1.6 times its session timeout or its max.poll.interval.ms."""
    member = running(chaos, random)
    if member is None:
        return False
    limit = random.choice((member.member.session_timeout_s, member.member.max_poll_interval_s))
    member.stall(limit * random.uniform(0.5, 1.6))
    return True


def absent_twice(chaos: Chaos, random: Random) -> bool:
    """Stall a member twice for longer than its session; while it is away first, its coordinator moves.

    The new coordinator begins a new session, so the member survives the first stall. It does not survive the second:
    a member must not conclude from the first how long its session is.
    """
    member = running(chaos, random)
    if member is None:
        return False
    session, actor = member.member.session_timeout_s, member
    first, second = session * random.uniform(1.3, 1.5), session * random.uniform(1.1, 1.25)

    def move() -> None:
        with suppress(ControllerError, LookupError):
            _move(chaos, random, actor.group)

    member.stall(first)
    chaos.later(session * 0.6, move)
    chaos.later(first + random.uniform(1, 3), lambda: actor.stall(second) if actor.is_running else None)
    return True


def nap(chaos: Chaos, random: Random) -> bool:
    """Let a member make one call every few seconds, several times in a row, shorter or longer than its session.

    If that call is ``poll(0)``, it gets each response after the next gap only.
    """
    member = running(chaos, random)
    if member is None:
        return False
    seconds, actor = member.member.session_timeout_s * random.uniform(0.4, 1.2), member

    def stall(left: int) -> None:
        if not actor.is_running:
            return
        again = seconds * random.uniform(0.9, 1.1)
        actor.stall(again)
        if left:
            chaos.later(again + 0.001, lambda: stall(left - 1))

    stall(random.randint(2, 4))
    return True


def depart(chaos: Chaos, random: Random) -> bool:
    """Close a member's consumer, and start the member again later with a new one."""
    member = running(chaos, random)
    seconds = random.uniform(0.05, 8)
    if member is None:
        return False
    restart(chaos, member, True, seconds)
    return True


def grow(chaos: Chaos, random: Random) -> bool:
    """Add partitions to a topic."""
    topic = random.choice(chaos.swarm.topics)
    count = sum(tp.topic == topic for tp in chaos.tps)
    more = random.randint(1, 2)
    if count + more > PARTITIONS_MAX:
        return False
    chaos.sim.trace.add("admin", "", "grow", "%s to %d", topic, count + more)
    chaos.sim.expand(topic, count + more)
    chaos.tps += [TopicPartition(topic, number) for number in range(count, count + more)]
    return True


def appear(chaos: Chaos, random: Random) -> bool:
    """Create a topic that subscribed patterns match, and to which some members have subscribed by name before."""
    free = [name for name in chaos.swarm.names if name not in chaos.swarm.used]
    if not free or len(chaos.swarm.topics) >= TOPICS_MAX:
        return False
    name = free[0]
    chaos.swarm.create_topic(name, random.randint(1, 3))
    chaos.sim.trace.add("admin", "", "appear", "%s", name)
    return True


def vanish(chaos: Chaos, random: Random) -> bool:
    """Delete a topic."""
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


def change_mind(chaos: Chaos, random: Random) -> bool:
    """Subscribe a member to other topics, which need not exist yet.

    A regular expression of the broker matches at least one topic. To one that matches none, Kafka begins no epoch: the
    partitions that the member gives up stay without an owner until the next one (docs/groups.md).
    """
    member = running(chaos, random)
    if member is None or member.pattern is not None:
        return False
    topics = [name for name in chaos.swarm.names if random.random() < 0.6] or [random.choice(chaos.swarm.names)]
    if member.uses_broker_pattern and not set(topics) & set(chaos.swarm.topics):
        topics.append(random.choice(chaos.swarm.topics))
    member.soon(lambda: member.subscribe(topics))
    return True


GROUP_FAULTS: dict[str, Fault] = {
    "coordinator_kills": kill_coordinator,
    "coordinator_pauses": pause_coordinator,
    "coordinator_moves": move_coordinator,
    "absences": absent,
    "double_absences": absent_twice,
    "naps": nap,
    "departures": depart,
    "growths": grow,
    "appearances": appear,
    "vanishings": vanish,
    "changes_of_mind": change_mind,
}
