"""In-memory clusters, and a client that exchanges whole messages with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest

from thinconsumer.wire import Message
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer_testing.broker.cluster import COORDINATOR_TOPICS, Cluster
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.image import PartitionImage
from thinconsumer_testing.broker.log.log import Log
from thinconsumer_testing.broker.partition import PartitionReplica
from thinconsumer_testing.broker.schedule import Schedule
from thinconsumer_testing.broker.server import EmbeddedBroker


class Client:
    """A client transport and its connection to one broker."""

    client_host = "/127.0.0.1"

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.received = bytearray()
        self.closed = False
        self.broken = False
        self._asked: dict[int, tuple[type[Message], int]] = {}
        self._number = 0
        self.connection = cluster.connect(node_id, self)

    # -- the transport

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.received += data

    def close(self) -> None:
        self.closed = True

    def reset(self) -> None:
        self.closed = self.broken = True

    # -- the client

    def send(self, message: Message, version: int | None = None) -> None:
        """Send a request without waiting for the response."""
        if version is None:
            version = self.cluster.apis[message.API_KEY].highest
        self._number += 1
        self._asked[self._number] = type(message), version
        data = encode_request(message, version, self._number, "tester")
        self.connection.data_received(len(data).to_bytes(4, "big") + data)

    def answers(self) -> list[Any]:
        """Return the responses since the last call, in order."""
        found = []
        while self.received:
            stop = 4 + int.from_bytes(self.received[:4], "big")
            frame = bytes(self.received[4:stop])
            del self.received[:stop]
            number = int.from_bytes(frame[:4], "big")
            api, version = self._asked.pop(number)
            assert not [n for n in self._asked if n < number], "answered out of order"
            _, body = decode_response_header(frame, api, version)
            found.append(api.RESPONSE.decode(frame, version, body))
        return found

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a request, and return the response, which must be sent immediately."""
        assert not self.answers()
        self.send(message, version)
        (answer,) = self.answers()
        return answer


@pytest.fixture
def new_cluster() -> Any:
    """``new_cluster(nodes, topics, **config)``; fails at the end if any handler has raised an exception.

    With ``coordinators`` the topics of the group and the transaction coordinator exist from the beginning.
    """
    made: list[Cluster] = []

    def make(
        nodes: int = 1,
        topics: dict[str, int] | None = None,
        *,
        racks: Any = None,
        security: Any = None,
        coordinators: bool = False,
        **config: Any,
    ) -> Cluster:
        cluster = Cluster(
            nodes,
            topics,
            random=random.Random(1),
            config=BrokerConfig(**config),
            racks=racks,
            wall_time=1_700_000_000.0,
            security=security,
        )
        for name in COORDINATOR_TOPICS if coordinators else ():
            cluster.controller.ensure_internal_topic(name)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        assert cluster.bugs == []


@pytest.fixture
def embedded() -> Iterator[Callable[..., EmbeddedBroker]]:
    """``embedded(...)``: an EmbeddedBroker; fails at the end if any handler has raised an exception."""
    made: list[EmbeddedBroker] = []

    def make(*args: Any, **kwargs: Any) -> EmbeddedBroker:
        made.append(EmbeddedBroker(*args, **kwargs))
        return made[-1]

    yield make
    for broker in made:
        broker.close()
        assert broker.cluster.bugs == []


@pytest.fixture
def client_of() -> Callable[[Cluster, int], Client]:
    """``client_of(cluster, node_id)`` connects a client."""
    return Client


class FollowedReplica(PartitionReplica):
    """A leader with one follower, which fetches every append at once, unless ``hold`` is set.

    ``codes`` has the results of the next appends; those other than 0 are rejected.
    """

    def __init__(self, log: Log, epoch: int, schedule: Schedule) -> None:
        replication = SimpleNamespace(on_append=lambda _: self.hold or self.replicate())
        node: Any = SimpleNamespace(node_id=1, schedule=schedule, cluster=SimpleNamespace(replication=replication))
        image = PartitionImage(log.tp.topic, bytes(16), log.tp.partition, 1, epoch, (1, 2), (1, 2))
        super().__init__(node, image, log.config, log)
        self.hold = False
        self.codes: Iterator[int] = repeat(0)
        self.appends = 0
        self.apply_image(image, log.config)

    def append_records(self, records: Any, done: Callable[[int], None], **producer: Any) -> int:
        if code := next(self.codes, 0):
            done(int(code))
            return -1
        self.appends += 1
        return super().append_records(records, done, **producer)

    def replicate(self, count: int | None = None) -> None:
        """Let the follower fetch the first waiting appends, all by default."""
        end = self.log.end_offset if count is None else self._delayed_produces[count - 1].offset
        self.update_follower_end(2, end)

    def fail(self, code: int) -> None:
        """Fail the waiting appends with an error code."""
        self._fail_delayed_produces(code)

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._listeners)


@pytest.fixture(scope="session")
def replica_type() -> type[FollowedReplica]:
    """The class of a coordinator's replica."""
    return FollowedReplica
