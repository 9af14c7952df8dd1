"""What goes wrong in a swarm run: each kind of fault at its own rate, from its own stream, and undone after a while.

Owns the table of faults. Each comes at random moments (a Poisson process); what has to end, ends by itself, and
:meth:`Chaos.over` ends everything at once. Adding a kind of fault does not change when the others come.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ...broker.controller import CONTROLLER, ControllerError
from ...types import TopicPartition
from .actors import ConsumerActor
from .corruption import Corruption
from .knobs import Knobs
from .mishandling import Mishandling
from .network import Who
from .takeover import Takeover, Witness

if TYPE_CHECKING:
    from .simulation import Simulation

#: Lets one fault happen; returns whether it could.
Fault = Callable[["Chaos", Random], bool]
#: Writes a batch of so many records to a partition's leader, or to the node named, which may have led it.
Write = Callable[[TopicPartition, int | None, int], object]
#: From whom nothing gets to whom.
Cut = tuple[list[Who], list[Who]]
#: Faults that lose what was committed.
UNCLEAN = ("unclean_elections", "takeovers")


class Chaos:
    """See the module."""

    def __init__(
        self,
        sim: Simulation,
        knobs: Knobs,
        consumers: list[ConsumerActor],
        tps: list[TopicPartition],
        write: Write = lambda tp, node, count: None,
    ) -> None:
        self.sim = sim
        self.knobs = knobs
        self.consumers = consumers
        self.tps = tps
        self.write = write
        self.counts: dict[str, int] = {}
        self.is_over = False
        self.witness = Witness(sim.world.accuse, sim.brokers.truth)
        sim.jury.add(self.witness)
        self._cuts: list[Cut] = []
        self._slowed: dict[int, list[float]] = {}  #: What each broker is slowed by; faults of a kind overlap.
        self.mishandling = Mishandling(sim.world, knobs)
        if self.mishandling.is_needed:
            sim.cluster.on(None, self.mishandling)
        careful = {consumer.name for consumer in consumers if consumer.options.get("check_crcs", True)}
        self.corruption = Corruption(sim.world.streams("chaos/corruptions"), knobs.corruptions, careful)
        sim.brokers.spoil = self.corruption
        for name, fault in FAULTS.items():
            rate = getattr(knobs, name)
            if rate and (name not in UNCLEAN or knobs.unclean):
                self._arm(name, fault, rate / 60.0)

    def over(self) -> None:
        """End everything that is wrong, and let nothing go wrong any more."""
        self.is_over = True
        sim = self.sim
        sim.network.faults.calm()
        sim.network.slow.clear()
        self._slowed.clear()
        self.corruption.rate = 0.0
        sim.cluster.rules.clear()
        self._cuts.clear()
        sim.heal()
        for node_id, node in sim.cluster.nodes.items():
            if not node.is_alive:
                sim.start(node_id)
            elif node.is_paused:
                sim.resume(node_id)
        for consumer in self.consumers:
            consumer.stalled_until = 0.0
            if not consumer.is_running:
                consumer.start()
            consumer.wake()

    # -- inside

    def _arm(self, name: str, fault: Fault, rate: float) -> None:
        random = self.sim.world.streams(f"chaos/{name}")

        def strike() -> None:
            if self.is_over:
                return
            try:
                if fault(self, random):
                    self.counts[name] = self.counts.get(name, 0) + 1
            except (ControllerError, LookupError) as error:
                self.sim.trace.add("chaos", "", name, "not possible: %s", str(error))
            self.sim.touched()
            self.sim.world.call_later(random.expovariate(rate), strike)

        self.sim.world.call_later(random.expovariate(rate), strike)

    def later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call back after a while, unless all is over by then."""

        def call() -> None:
            if not self.is_over:
                callback()

        self.sim.world.call_later(seconds, call)

    def heal_one(self, cut: Cut) -> None:
        """End one cut; the others stay."""
        if any(other is cut for other in self._cuts):
            self._cuts = [other for other in self._cuts if other is not cut]
            self.sim.heal(self._cuts)

    def cut(self, ones: list[Who], others: list[Who], seconds: float) -> Cut:
        """Cut from ones to others for a while, or until :meth:`heal_one` of what is returned."""
        cut = ones, others
        self._cuts.append(cut)
        self.sim.partition(ones, others, one_way=True)
        self.later(seconds, lambda: self.heal_one(cut))
        return cut

    def slow(self, node: int, by_s: float, seconds: float) -> None:
        """Slow a broker down for a while; of several at a time the slowest counts."""
        slowed = self._slowed.setdefault(node, [])
        slowed.append(by_s)
        self.sim.network.slow[node] = max(slowed)
        self.later(seconds, lambda: self._forget(node, by_s))

    def _forget(self, node: int, by_s: float) -> None:
        slowed = self._slowed[node]
        slowed.remove(by_s)
        if slowed:
            self.sim.network.slow[node] = max(slowed)
        else:
            self.sim.network.slow.pop(node, None)


def kill(chaos: Chaos, random: Random) -> bool:
    """A broker dies, and comes back."""
    sim = chaos.sim
    node = random.choice([*sim.cluster.nodes.values()])
    seconds, silently = random.uniform(0.2, 12), random.random() < chaos.knobs.silent_share
    if not node.is_alive:
        return False
    sim.kill(node.node_id, silently=silently)
    chaos.later(seconds, lambda: sim.start(node.node_id))
    return True


def pause(chaos: Chaos, random: Random) -> bool:
    """A broker is stopped for a while."""
    sim = chaos.sim
    node = random.choice([*sim.cluster.nodes.values()])
    seconds = random.uniform(0.1, 8)
    if not node.is_running:
        return False
    sim.pause(node.node_id)
    chaos.later(seconds, lambda: sim.resume(node.node_id) if node.is_paused else None)
    return True


def cut(chaos: Chaos, random: Random) -> bool:
    """The network parts some from others, one way or both."""
    everybody: list[Who] = [*chaos.sim.cluster.nodes, *(c.name for c in chaos.consumers), CONTROLLER]
    seconds = random.uniform(0.2, 10)
    count = 1 + random.randrange(len(everybody) - 1)
    ones = random.sample(everybody, min(count, 3))
    others = [who for who in everybody if who not in ones]
    chaos.cut(ones, others, seconds)
    if random.random() >= chaos.knobs.one_way_share:
        chaos.cut(others, ones, seconds)
    return True


def reset(chaos: Chaos, random: Random) -> bool:
    """Some connections break; of some only one side learns it, of some nobody."""
    connections = chaos.sim.network.connections
    share = random.random()
    for connection in [c for c in connections if random.random() < share]:
        told = random.choice(("both", "client", "server", "nobody"))
        chaos.sim.network.break_off(connection, told=told)  # type: ignore[arg-type]
    return True


def slow(chaos: Chaos, random: Random) -> bool:
    """Everything to and from a broker takes longer."""
    node = random.choice([*chaos.sim.cluster.nodes])
    chaos.slow(node, random.uniform(0.05, 1.5), random.uniform(0.5, 10))
    return True


def move_leader(chaos: Chaos, random: Random) -> bool:
    """Another replica leads."""
    tp = random.choice(chaos.tps)
    row = chaos.sim.cluster.controller.image.partition(*tp)
    others = [n for n in row.isr if n != row.leader] if row is not None else []
    if not others:
        return False
    chaos.sim.move_leader(tp, random.choice(others))
    return True


def elect_unclean(chaos: Chaos, random: Random) -> bool:
    """A follower is cut off until it is out of sync and lacks something, and then elected: what it lacks is lost."""
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
        chaos.sim.touched()


def _is_behind(chaos: Chaos, tp: TopicPartition, node_id: int) -> bool:
    """Return whether a replica lacks something that is committed."""
    truth = chaos.sim.brokers.truth(tp)
    partition = chaos.sim.cluster.nodes[node_id].partitions.get(tp)
    return truth is not None and partition is not None and partition.log.end_offset < truth.end


def take_over(chaos: Chaos, random: Random) -> bool:
    """A follower that was cut off leads, after readers have read what it never got: see :mod:`.takeover`."""
    tp = random.choice(chaos.tps)
    row = chaos.sim.cluster.controller.image.partition(*tp)
    alive = chaos.sim.cluster.controller.image.brokers
    others = [n for n in row.replicas if n != row.leader and n in alive] if row is not None else []
    if row is None or row.leader < 0 or len(others) < max(1, chaos.knobs.min_insync_replicas):
        return False  # nothing is committed without the one that is to fall behind
    return Takeover(chaos, random, tp, row.leader, random.choice(others)).begin()


def delete_records(chaos: Chaos, random: Random) -> bool:
    """The beginning of a log is deleted, now and then all of it."""
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
    """The log cleaner passes by."""
    tp = random.choice(chaos.tps)
    chaos.sim.cluster.compact(tp)
    chaos.sim.trace.add("admin", "", "compact", "%s-%d", *tp)
    return True


def expand(chaos: Chaos, random: Random) -> bool:
    """A topic grows, and everybody reads the new partition as well."""
    topic = random.choice(sorted({tp.topic for tp in chaos.tps}))
    count = sum(tp.topic == topic for tp in chaos.tps)
    if count >= 6:
        return False
    chaos.sim.expand(topic, count + 1)
    tp = TopicPartition(topic, count)
    chaos.tps.append(tp)
    for consumer in chaos.consumers:
        if consumer.is_running and random.random() < 0.7:
            consumer.soon(lambda consumer=consumer: consumer.assign([*consumer.assigned, tp]))  # type: ignore[misc]
    return True


def jump_clock(chaos: Chaos, random: Random) -> bool:
    """The calendar jumps: of everybody, or of one client's host."""
    jump = random.uniform(-3600, 3600)
    if random.random() < 0.5:
        clock = chaos.sim.world.clock
        clock.set_wall_time(clock.wall_time() + jump)
        chaos.sim.brokers.cluster.advance(clock.now(), clock.wall_time())
    else:
        random.choice(chaos.consumers).driver.wall_skew += jump
    chaos.sim.trace.add("clock", "", "jumps", "by %.1f s", jump)
    return True


def stall(chaos: Chaos, random: Random) -> bool:
    """An application does nothing for a while."""
    random.choice(chaos.consumers).stall(random.uniform(0.5, 12))
    return True


def crash(chaos: Chaos, random: Random) -> bool:
    """An application dies, and starts again from its checkpoint."""
    consumer = random.choice(chaos.consumers)
    seconds, silently = random.uniform(0.05, 5), random.random() < chaos.knobs.silent_share
    if not consumer.is_running:
        return False
    consumer.crash(silently=silently)
    chaos.later(seconds, lambda: None if consumer.is_running else consumer.start())
    return True


#: By the knob that says how often a minute.
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
