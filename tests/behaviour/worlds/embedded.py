"""The embedded broker, in a process of its own, as users' tests have it."""

from typing import Any

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.process import BrokerProcess

from .base import SocketWorld


class EmbeddedWorld(SocketWorld):
    """A :class:`BrokerProcess` and real sockets."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        super().__init__()

    @property
    def bootstrap_servers(self) -> Any:
        return self.broker.bootstrap_servers

    def compact(self, topic: str) -> None:
        self.broker.compact(TopicPartition(topic, 0))

    def move_leader(self, topic: str, partition: int = 0) -> None:
        self.broker.move_leader(TopicPartition(topic, partition))

    def kill(self, node: int) -> None:
        self.broker.kill(node)

    def start(self, node: int) -> None:
        self.broker.start(node)
