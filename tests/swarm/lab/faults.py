"""Faults of brokers, the network, logs and applications: ``FAULTS`` has each by the knob that sets its rate."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.controller import CONTROLLER
from thinconsumer_testing.simulation.network import Who

from .takeover import Takeover

if TYPE_CHECKING:
    from .chaos import Chaos

#: Injects one fault; returns whether it was possible.
Fault = Callable[["Chaos", Random], bool]
#: The knobs of the faults that lose committed records: these faults occur only if the knob ``unclean`` is set.
UNCLEAN = ("unclean_elections", "takeovers")


def kill(chaos: Chaos, random: Random) -> bool:
    """Kill a broker, and start it again later."""
    return kill_node(chaos, random, random.choice([*chaos.sim.cluster.nodes]), 12)


def kill_node(chaos: Chaos, random: Random, node: int, most_s: float) -> bool:
    """Kill broker ``node``, and start it again within ``most_s`` seconds; return whether it was alive."""
    seconds, silently = random.uniform(0.2, most_s), random.random() < chaos.knobs.silent_share
    if node < 0 or not chaos.sim.cluster.nodes[node].is_alive:
        return False
    chaos.sim.kill(node, silently=silently)
    chaos.later(seconds, lambda: chaos.sim.start(node))
    return True


def pause(chaos: Chaos, random: Random) -> bool:
    """Pause a broker's process for a while."""
    return pause_node(chaos, random.choice([*chaos.sim.cluster.nodes]), random.uniform(0.1, 8))


def pause_node(chaos: Chaos, node: int, seconds: float) -> bool:
    """Pause the process of broker ``node`` for this many seconds; return whether it was running."""
    if node < 0 or not chaos.sim.cluster.nodes[node].is_running:
        return False
    found = chaos.sim.cluster.nodes[node]
    chaos.sim.pause(node)
    chaos.later(seconds, lambda: chaos.sim.resume(node) if found.is_paused else None)
    return True


def cut(chaos: Chaos, random: Random) -> bool:
    """Cut the network between some hosts and all others, one way or both."""
    hosts: list[Who] = [*chaos.sim.cluster.nodes, *(c.name for c in chaos.actors), CONTROLLER]
    seconds = random.uniform(0.2, 10)
    count = 1 + random.randrange(len(hosts) - 1)
    ones = random.sample(hosts, min(count, 3))
    others = [who for who in hosts if who not in ones]
    chaos.cut(ones, others, seconds)
    if random.random() >= chaos.knobs.one_way_share:
        chaos.cut(others, ones, seconds)
    return True


def reset(chaos: Chaos, random: Random) -> bool:
    """Break some connections; sometimes only one side notices, or neither."""
    connections = chaos.sim.network.connections
    share = random.random()
    for connection in [c for c in connections if random.random() < share]:
        told = random.choice(("both", "client", "server", "nobody"))
        chaos.sim.network.break_off(connection, told=told)  # type: ignore[arg-type]
    return True


def slow(chaos: Chaos, random: Random) -> bool:
    """Delay all bytes to and from a broker for a while."""
    node = random.choice([*chaos.sim.cluster.nodes])
    chaos.slow(node, random.uniform(0.05, 1.5), random.uniform(0.5, 10))
    return True


def move_leader(chaos: Chaos, random: Random) -> bool:
    """Make another in-sync replica the leader of a partition."""
    tp = random.choice(chaos.tps)
    row = chaos.sim.cluster.controller.image.partition(*tp)
    others = [n for n in row.isr if n != row.leader] if row is not None else []
    if not others:
        return False
    chaos.sim.move_leader(tp, random.choice(others))
    return True


def elect_unclean(chaos: Chaos, random: Random) -> bool:
    """Cut a follower off until it is out of sync, and elect it uncleanly: the records that it lacks are lost."""
    tp = random.choice(chaos.tps)
    row = chaos.sim.cluster.controller.image.partition(*tp)
    seconds = chaos.knobs.replica_lag_time_max_ms / 1000 * 1.5 + random.uniform(0.5, 5)
    others = [n for n in row.replicas if n != row.leader] if row is not None else []
    if row is None or row.leader < 0 or not others:
        return False
    victim = random.choice(others)
    chaos.cut([row.leader], [victim], seconds + 0.1)
    chaos.later(seconds, lambda: _elect(chaos, tp, victim))
    return True


def _elect(chaos: Chaos, tp: TopicPartition, node_id: int) -> None:
    controller = chaos.sim.cluster.controller
    if node_id in controller.image.brokers and _is_behind(chaos, tp, node_id):
        chaos.sim.trace.add("controller", "", "unclean", "%s-%d: node %d leads", *tp, node_id)
        controller.elect_unclean(tp, node_id)


def _is_behind(chaos: Chaos, tp: TopicPartition, node_id: int) -> bool:
    """Return whether a node's replica lacks committed records."""
    truth = chaos.sim.cluster.truth(tp)
    partition = chaos.sim.cluster.nodes[node_id].partitions.get(tp)
    return truth is not None and partition is not None and partition.log.end_offset < truth.end


def take_over(chaos: Chaos, random: Random) -> bool:
    """Cut a follower off and elect it once readers have read records that it lacks, as :mod:`.takeover` describes."""
    tp = random.choice(chaos.tps)
    row = chaos.sim.cluster.controller.image.partition(*tp)
    alive = chaos.sim.cluster.controller.image.brokers
    others = [n for n in row.replicas if n != row.leader and n in alive] if row is not None else []
    if row is None or row.leader < 0 or len(others) < max(1, chaos.knobs.min_insync_replicas):
        return False  # with the follower cut off, the ISR would be smaller than min.insync.replicas
    return Takeover(chaos, random, tp, row.leader, random.choice(others)).begin()


def delete_records(chaos: Chaos, random: Random) -> bool:
    """Delete the records before an offset; sometimes all records."""
    tp = random.choice(chaos.tps)
    log = chaos.sim.cluster.leader(tp).log
    if log.end_offset <= log.start_offset:
        return False
    share = 1.0 if random.random() < 0.2 else random.random()
    before = log.start_offset + round(share * (log.end_offset - log.start_offset))
    chaos.sim.trace.add("admin", "", "delete records", "%s-%d before %d", *tp, before)
    chaos.sim.delete_records(tp, before)
    return True


def compact(chaos: Chaos, random: Random) -> bool:
    """Compact a log."""
    tp = random.choice(chaos.tps)
    chaos.sim.cluster.compact(tp)
    chaos.sim.trace.add("admin", "", "compact", "%s-%d", *tp)
    return True


def expand(chaos: Chaos, random: Random) -> bool:
    """Add a partition to a topic; some readers assign it as well."""
    topic = random.choice(sorted({tp.topic for tp in chaos.tps}))
    count = sum(tp.topic == topic for tp in chaos.tps)
    if count >= 6:
        return False
    chaos.sim.expand(topic, count + 1)
    tp = TopicPartition(topic, count)
    chaos.tps.append(tp)
    for consumer in chaos.readers:
        if consumer.is_running and random.random() < 0.7:
            consumer.soon(lambda consumer=consumer: consumer.assign([*consumer.assigned, tp]))  # type: ignore[misc]
    return True


def jump_clock(chaos: Chaos, random: Random) -> bool:
    """Let the wall clock jump, on all hosts or on one client's host."""
    jump = random.uniform(-3600, 3600)
    if random.random() < 0.5:
        clock = chaos.sim.world.clock
        clock.set_wall_time(clock.wall_time() + jump)
        chaos.sim.cluster.advance(clock.now(), clock.wall_time())
    else:
        random.choice(chaos.actors).driver.wall_skew += jump
    chaos.sim.trace.add("clock", "", "jumps", "by %.1f s", jump)
    return True


def stall(chaos: Chaos, random: Random) -> bool:
    """Stall an application."""
    random.choice(chaos.actors).stall(random.uniform(0.5, 12))
    return True


def crash(chaos: Chaos, random: Random) -> bool:
    """Crash an application, and start it again later."""
    consumer = random.choice(chaos.actors)
    seconds, silently = random.uniform(0.05, 5), random.random() < chaos.knobs.silent_share
    if not consumer.is_running:
        return False
    consumer.crash(silently=silently)
    chaos.later(seconds, lambda: None if consumer.is_running else consumer.start())
    return True


FAULTS: dict[str, Fault] = {
    "kills": kill,
    "pauses": pause,
    "cuts": cut,
    "resets": reset,
    "slow": slow,
    "leader_moves": move_leader,
    "unclean_elections": elect_unclean,
    "takeovers": take_over,
    "deletions": delete_records,
    "compactions": compact,
    "expansions": expand,
    "clock_jumps": jump_clock,
    "stalls": stall,
    "crashes": crash,
}
