"""The broker's code on a network in memory and a clock that jumps: no time passes, nothing is left to chance."""

from typing import Any

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Simulation

from .base import World


class SimulatedWorld(World):
    """A :class:`Simulation` without faults of its own."""

    def __init__(self, brokers: int) -> None:
        self.sim = Simulation(seed=1, brokers=brokers)
        super().__init__()

    @property
    def bootstrap_servers(self) -> Any:
        return self.sim.bootstrap_servers

    def driver(self) -> Any:
        return self.sim.driver()

    def now(self) -> float:
        return self.sim.now()

    def compact(self, topic: str) -> None:
        self.sim.cluster.compact(TopicPartition(topic, 0))

    def move_leader(self, topic: str, partition: int = 0) -> None:
        self.sim.move_leader(TopicPartition(topic, partition))

    def kill(self, node: int) -> None:
        self.sim.kill(node)

    def start(self, node: int) -> None:
        self.sim.start(node)
