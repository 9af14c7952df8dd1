"""Asking brokers, one request at a time, over the client's own connections, on whatever driver a world has."""

from collections import deque
from collections.abc import Callable
from typing import Any

from thinconsumer.config import ConsumerConfig
from thinconsumer.driver import Driver
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.network.client import NetworkClient
from thinconsumer.network.request import ANY_NODE, Request, Target
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node
from thinconsumer.wire import Message
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic

PATIENCE = 15.0
PAUSE = 0.1


class Asker:
    """Blocks until the answer is there. ``driver`` is its own."""

    def __init__(self, driver: Driver, bootstrap: Any) -> None:
        self.driver = driver
        config = ConsumerConfig.from_options(bootstrap_servers=bootstrap, metadata_recovery_strategy="none")
        self.agenda = Agenda()
        self.commands: deque[Any] = deque()
        self._links = NetworkClient(config, driver.random, agenda=self.agenda, commands=self.commands)

    # -- the endpoint that the driver sees

    @property
    def unsent(self) -> Any:
        return self._links.unsent

    def resolved(self, *answer: Any) -> None:
        self._links.resolved(*answer)

    # -- asking

    def close(self) -> None:
        self._links.close(self.driver.now())
        self.driver.step(self, self.driver.now())
        self.driver.close()

    def ask(self, message: Message, node: int | None = None, *, version_max: int | None = None) -> Any:
        """Return the response of one node, or of any. Raises what went wrong."""
        now = self.driver.now()
        target = ANY_NODE if node is None else Target(node)
        maximum = None if version_max is None else lambda: version_max
        request = Request("asker", type(message), target, lambda version: message, now + PATIENCE, max_version=maximum)
        self._links.send(request, now)
        while True:
            self._step()
            while self._links.answers:
                answer = self._links.answers.pop(0)
                if answer.error is not None:
                    raise answer.error
                return answer.response
            self.driver.step(self, now + PATIENCE + 1)

    def until(self, attempt: Callable[[], Any], what: str) -> Any:
        """Return what ``attempt`` returns once that is not None; it is tried again and again meanwhile."""
        deadline = self.driver.now() + 2 * PATIENCE
        while (found := attempt()) is None:
            assert self.driver.now() < deadline, f"gave up waiting for {what}"
            self.rest(PAUSE)
        return found

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        deadline = self.driver.now() + seconds
        while self.driver.now() < deadline:
            self._step()
            self.driver.step(self, deadline)

    def _step(self) -> None:
        now = self.driver.now()
        self._links.polls.horizon = self._links.polls.after
        self._links.step(now, list(self.agenda.take(now)))

    def metadata(self, topic: str | None = None) -> Any:
        """Return what any broker knows; nodes become known by it."""
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        def answered() -> Any:
            try:
                return self.ask(request)
            except KafkaConnectionError:
                return None  # of the broker that was killed, for instance; the next attempt goes elsewhere

        response = self.until(answered, "metadata")
        self._links.update_nodes(Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers)
        return response

    def partition(self, topic: str, number: int) -> tuple[int, list[int], list[int], bytes]:
        """Return leader, replicas, those in sync, and the topic's id; waits until there is a leader."""

        def found() -> Any:
            for each in self.metadata(topic).topics:
                for p in each.partitions:
                    if p.partition_index == number and p.leader_id >= 0 and not p.error_code:
                        return p.leader_id, p.replica_nodes, p.isr_nodes, each.topic_id
            return None

        result: tuple[int, list[int], list[int], bytes] = self.until(found, f"a leader of {topic}-{number}")
        return result
