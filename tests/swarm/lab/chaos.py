"""The schedule of faults in a swarm run. The kinds of faults are in :mod:`.faults` and :mod:`.group_faults`.

Each kind occurs at random moments (a Poisson process) at its own rate. Each fault ends by itself after a while, and
:meth:`Chaos.over` ends all. Each kind has its own random generator, so a new kind changes no other kind's moments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.simulation.actors.consumer import ConsumerActor
from thinconsumer_testing.simulation.network import Who

from .corruption import Corruption
from .faults import FAULTS, UNCLEAN, Fault
from .group_faults import GROUP_FAULTS, bounce_rolling
from .logins import LOGIN_FAULTS, LostCloses
from .request_faults import GroupErrors, RequestFaults
from .takeover import Witness

if TYPE_CHECKING:
    from .swarm import Swarm

#: A network cut, as two lists of hosts: no bytes get from any host of the first to any host of the second.
Cut = tuple[list[Who], list[Who]]


class Chaos:
    """Injects the faults of a run. ``counts`` has the number of faults of each kind."""

    def __init__(self, swarm: Swarm) -> None:
        sim, knobs = swarm.sim, swarm.knobs
        self.swarm = swarm
        self.sim = sim
        self.knobs = knobs
        self.tps = swarm.tps
        self.actors = swarm.actors
        self.counts: Counter[str] = Counter()
        self.is_over = False
        self.witness = Witness(sim.world.accuse, sim.cluster.truth)
        sim.jury.add(self.witness)
        self._cuts: list[Cut] = []
        self._delays: list[tuple[int, float]] = []  #: The delays that are in force now: broker id, seconds.
        self.request_faults = RequestFaults(sim.world, knobs)
        self.group_errors = GroupErrors(sim.world, knobs.group_error_rate, swarm.group_errors)
        for rule in (self.request_faults, self.group_errors):
            if rule.is_needed:
                sim.cluster.on(None, rule)
        if knobs.logins is not None and knobs.logins.lost_closes:
            sim.cluster.on(None, LostCloses(sim.world, knobs.logins.lost_closes))
        careful = {actor.name for actor in self.actors if actor.options.get("check_crcs", True)}
        self.corruption = Corruption(sim.world.streams("chaos/corruptions"), knobs.corruptions, careful)
        sim.cluster.spoil = self.corruption
        for name, fault in {**FAULTS, **GROUP_FAULTS}.items():
            rate = getattr(knobs, name)
            if rate and (name not in UNCLEAN or knobs.unclean):
                self._arm(name, fault, rate / 60.0)
        for name, fault in LOGIN_FAULTS.items() if knobs.logins is not None else ():
            if rate := getattr(knobs.logins, name):
                self._arm(name, fault, rate / 60.0)
        for group in swarm.groups:
            bounce_rolling(self, group)

    @property
    def readers(self) -> list[ConsumerActor]:
        """The actors with assigned partitions."""
        return [actor for actor in self.actors if isinstance(actor, ConsumerActor)]

    def over(self) -> None:
        """End every fault, and inject none from now on."""
        self.is_over = True
        sim = self.sim
        sim.network.faults.calm()
        self._delays.clear()
        self._apply_delays()
        self.corruption.rate = 0.0
        if self.swarm.logins is not None:
            self.swarm.logins.calm()
        sim.cluster.rules.clear()
        self._cuts.clear()
        sim.heal()
        for node_id, node in sim.cluster.nodes.items():
            if not node.is_alive:
                sim.start(node_id)
            elif node.is_paused:
                sim.resume(node_id)
        for actor in self.actors:
            actor.recover()

    def _arm(self, name: str, fault: Fault, rate: float) -> None:
        random = self.sim.world.streams(f"chaos/{name}")

        def inject() -> None:
            if self.is_over:
                return
            try:
                if fault(self, random):
                    self.counts[name] += 1
            except (ControllerError, LookupError) as error:
                self.sim.trace.add("chaos", "", name, "not possible: %s", str(error))
            self.sim.world.call_later(random.expovariate(rate), inject)

        self.sim.world.call_later(random.expovariate(rate), inject)

    def later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call ``callback`` after this many seconds, unless :meth:`over` has ended all faults by then."""

        def call() -> None:
            if not self.is_over:
                callback()

        self.sim.world.call_later(seconds, call)

    def heal_one(self, cut: Cut) -> None:
        """End one network cut; other cuts between the same hosts stay in force."""
        if any(other is cut for other in self._cuts):
            self._cuts = [other for other in self._cuts if other is not cut]
            self.sim.heal(self._cuts)

    def cut(self, ones: list[Who], others: list[Who], seconds: float) -> Cut:
        """Cut the network from ``ones`` to ``others`` for ``seconds``; :meth:`heal_one` ends it earlier."""
        cut = ones, others
        self._cuts.append(cut)
        self.sim.partition(ones, others, one_way=True)
        self.later(seconds, lambda: self.heal_one(cut))
        return cut

    def slow(self, node: int, by_s: float, seconds: float) -> None:
        """Delay all bytes to and from a broker for ``seconds``; of overlapping delays, the longest applies."""

        def end() -> None:
            self._delays.remove((node, by_s))
            self._apply_delays()

        self._delays.append((node, by_s))
        self._apply_delays()
        self.later(seconds, end)

    def _apply_delays(self) -> None:
        # If a broker has several delays, sorted() puts the longest last, and dict() keeps the last.
        self.sim.network.slow = dict(sorted(self._delays))
