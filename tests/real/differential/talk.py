"""Talking to a broker in raw requests: over a blocking socket to a real one, in memory to the embedded one.

Owns the two ways and what they have in common: choosing versions, noting every answer, and what a script needs around
its requests. Time is real on sockets and virtual in memory.
"""

from __future__ import annotations

import abc
import itertools
import random
import select
import socket
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer.wire.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.broker.wire.transactions import EndTxnRequest

from .normal import Normal

PLANS = ("lowest", "middle", "highest")
PATIENCE = 40.0  #: Seconds until an answer that does not come is an error.
NOBODYS = 49  #: INVALID_PRODUCER_ID_MAPPING: the error for an unknown id, once the coordinator has read its log.
LISTED_ONLY = 3  #: The first version of Produce that is really spoken.

#: The settings of ``realkafka`` clusters, for the embedded cluster.
LIKE_REALKAFKA: dict[str, Any] = {
    "auto_create_topics_enable": False,
    "offsets_topic_num_partitions": 4,
    "transaction_state_log_num_partitions": 4,
    "group_min_session_timeout_ms": 1000,
}

#: What they have in addition with ACLs.
LIKE_REALKAFKA_WITH_ACLS: dict[str, Any] = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:ANONYMOUS;User:admin",
    "allow_everyone_if_no_acl_found": True,
}


class Asked:
    def __init__(self, world: World, line: Line, label: str, api: type[Message], version: int, number: int) -> None:
        self.label = label
        self._world = world
        self._line = line
        self._api = api
        self._version = version
        self._number = number

    def answered_in(self, version: int) -> Asked:
        self._version = version
        return self

    def answer(self) -> Any:
        """Wait for the answer, note and return it; None when the connection was closed instead."""
        answer = self.quiet_answer()
        self._world.note(self.label, self._world.normal.of(answer))
        return answer

    def quiet_answer(self) -> Any:
        """As :meth:`answer`, but not worth a note."""
        frame = self._line.frame(PATIENCE)
        if frame is None:
            return None
        number, start = decode_response_header(frame, self._api, self._version)
        assert number == self._number, f"the answer to request {number}, not to {self._number}"
        return self._api.RESPONSE.decode(frame, self._version, start)

    def is_parked(self, seconds: float = 0.3) -> None:
        """Note whether the answer stays away for so long."""
        self._world.note(f"{self.label} is parked", self._line.is_silent(seconds))


class Line(abc.ABC):
    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)

    def send(self, message: Message, version: int | None = None, *, about: str = "") -> Asked:
        if version is None:
            version = self._world.version(type(message))
        number = next(self._numbers)
        data = encode_request(message, version, number, "tester")
        self.write(len(data).to_bytes(4, "big") + data)
        label = f"{type(message).__name__.removesuffix('Request')} {version} {about}".strip()
        return Asked(self._world, self, label, type(message), version, number)

    def ask(self, message: Message, version: int | None = None, *, about: str = "") -> Any:
        return self.send(message, version, about=about).answer()

    @abc.abstractmethod
    def write(self, data: bytes) -> None:
        """Send bytes."""

    @abc.abstractmethod
    def frame(self, seconds: float) -> bytes | None:
        """Return the next frame; None when the connection ends before it."""

    @abc.abstractmethod
    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing comes for so long."""

    @abc.abstractmethod
    def close(self) -> None:
        """Hang up."""


class World(abc.ABC):
    """One broker, and the notes of one script's conversation with it."""

    #: Passwords by user name. If there are any, each connection logs in with PLAIN, and the first user is a super user.
    users: Mapping[str, str] = MappingProxyType({})

    def __init__(self, plan: str, prefix: str, base_ms: int) -> None:
        self.plan = plan
        self.prefix = prefix
        self.base_ms = base_ms
        self.normal = Normal(prefix, base_ms)
        self.notes: list[tuple[str, Any]] = []
        self._lines: list[Line] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        self._range_of(ApiVersionsRequest)

    # -- what a script uses

    def connect(self, user: str = "") -> Line:
        """Return a new connection, of the super user if the world has users."""
        line = self._connect()
        self._lines.append(line)
        if self.users:
            self._log_in(line, user or next(iter(self.users)))
        return line

    def connect_elsewhere(self, group: str) -> Line:
        """Return a new connection to a broker that is not the group's coordinator."""
        line = self.connect()
        for _ in self._tries():
            found = line.send(FindCoordinatorRequest(key=group, key_type=0), 3).quiet_answer()
            if found.error_code == 0:
                break
        nodes = line.send(MetadataRequest(topics=[]), 9).quiet_answer().brokers
        other = self._connect(min(node.node_id for node in nodes if node.node_id != found.node_id))
        self._lines.append(other)
        return other

    def note(self, label: str, what: Any) -> None:
        label = label.replace(self.prefix, "~").replace(self.prefix[1:], "~")
        self.notes.append((label, what))

    def version(self, request: type[Message], at_least: int = 0, at_most: int = 99) -> int:
        low, high = self._range_of(request)
        chosen = {"lowest": low, "middle": (low + high) // 2, "highest": high}[self.plan]
        return max(min(chosen, at_most, high), at_least, low)

    def name(self, stem: str) -> str:
        return f"{self.prefix}-{stem}"

    def topic(self, stem: str = "t", partitions: int = 1, **configs: str) -> str:
        """Create a topic, wait until it is there, and return its name."""
        name = self.name(stem)
        line = self.connect()
        self._create(line, name, partitions, configs)
        rows = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(partitions)]
        ask = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=rows)])
        for _ in self._tries():
            # Known to metadata is not enough: the leader takes its role a moment later.
            found = line.send(ask, 4).quiet_answer().topics[0].partitions
            if all(row.error_code == 0 for row in found):
                line.close()
                return name
        raise AssertionError

    def topic_id(self, name: str) -> bytes:
        found = self._describe(self.connect(), name)
        self.normal.of(found)
        topic_id: bytes = found.topic_id
        return topic_id

    def group(self, stem: str = "g") -> str:
        """Return a group's name, once its coordinator answers."""
        name = self.name(stem)
        line = self.connect()
        topics = [OffsetFetchRequestTopic(name="none", partition_indexes=[0])]
        for _ in self._tries():
            fetch = OffsetFetchRequest(group_id=name, topics=topics)
            if self._found(line, name, 0) and line.send(fetch, 5).quiet_answer().error_code == 0:
                line.close()
                return name
        raise AssertionError

    def transactional_id(self, stem: str = "x") -> str:
        self.producer_ids()
        name = self.name(stem)
        line = self.connect()
        end = EndTxnRequest(transactional_id=name, producer_id=0, producer_epoch=0, committed=True)
        for _ in self._tries():
            if self._found(line, name, 1) and line.send(end, 0).quiet_answer().error_code == NOBODYS:
                line.close()
                return name
        raise AssertionError

    def producer_ids(self) -> None:
        """Wait until the broker has producer ids to give: it asks the controller when the first one is needed."""
        line = self.connect()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        for _ in self._tries():
            if line.send(request, 1).quiet_answer().error_code == 0:
                line.close()
                return

    @abc.abstractmethod
    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def close(self) -> None:
        for line in self._lines:
            line.close()

    # -- inside

    @abc.abstractmethod
    def _connect(self, node_id: int = 1) -> Line: ...

    def _log_in(self, line: Line, user: str) -> None:
        assert line.send(SaslHandshakeRequest(mechanism="PLAIN"), 1).quiet_answer().error_code == 0
        login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{self.users[user]}".encode())
        assert line.send(login, 1).quiet_answer().error_code == 0

    def _tries(self) -> Any:
        for number in range(600):
            yield number
            self.wait(0.05)
        raise AssertionError("it does not come to be")

    def _create(self, line: Line, name: str, partitions: int, configs: dict[str, str]) -> None:
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=settings
        )
        created = line.send(CreateTopicsRequest(topics=[topic]), 5).quiet_answer()
        assert created.topics[0].error_code == 0, created

    def _describe(self, line: Line, name: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return line.send(request, 12).quiet_answer().topics[0]

    def _found(self, line: Line, name: str, kind: int) -> bool:
        found: int = line.send(FindCoordinatorRequest(key=name, key_type=kind), 3).quiet_answer().error_code
        return found == 0

    def _range_of(self, request: type[Message]) -> tuple[int, int]:
        if not self._ranges:
            line = self._connect()
            answer = line.send(ApiVersionsRequest(), 0).quiet_answer()
            self._ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
            low, high = self._ranges[0]
            self._ranges[0] = max(low, LISTED_ONLY), high
            line.close()
        return self._ranges[request.API_KEY]


class SocketLine(Line):
    def __init__(self, world: World, host: str, port: int) -> None:
        super().__init__(world)
        self._socket = socket.create_connection((host, port), timeout=PATIENCE)

    def write(self, data: bytes) -> None:
        """Send bytes; a broker that has hung up is noticed when its answer does not come."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def frame(self, seconds: float) -> bytes | None:
        """Return the next frame; None when the connection ends before it."""
        self._socket.settimeout(seconds)
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def is_silent(self, seconds: float) -> bool:
        return not select.select([self._socket], [], [], seconds)[0]

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                more = self._socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return bytes(data)


class SocketWorld(World):
    """A broker that listens on a port, and perhaps others, whose addresses are given by node id."""

    def __init__(
        self,
        host: str,
        port: int,
        plan: str,
        prefix: str,
        base_ms: int,
        users: Mapping[str, str] | None = None,
        others: Mapping[int, tuple[str, int]] = MappingProxyType({}),
    ) -> None:
        self._addresses = {1: (host, port), **others}
        self.users = users or {}
        super().__init__(plan, prefix, base_ms)

    def wait(self, seconds: float) -> None:
        """Let time pass: there is no other way to let a real broker's timers run out."""
        time.sleep(seconds)

    def _connect(self, node_id: int = 1) -> Line:
        return SocketLine(self, *self._addresses[node_id])


class MemoryLine(Line):
    """A connection to a cluster in memory: the transport, and the client at its other end."""

    client_host = "/127.0.0.1"

    def __init__(self, world: MemoryWorld, node_id: int) -> None:
        super().__init__(world)
        self._cluster = world.cluster
        self._received = bytearray()
        self._closed = False
        self._connection = self._cluster.connect(node_id, _Transport(self))

    def write(self, data: bytes) -> None:
        self._cluster.advance(self._cluster.schedule.now + 0.001)
        self._connection.data_received(data)

    def frame(self, seconds: float) -> bytes | None:
        """Return the next frame; None when the connection ends before it."""
        if self.is_silent(seconds):
            assert self._closed, f"no answer within {seconds} s"
        if not self._received:
            return None
        stop = 4 + int.from_bytes(self._received[:4], "big")
        frame = bytes(self._received[4:stop])
        del self._received[:stop]
        return frame

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing comes for so long, which then has passed."""
        end = self._cluster.schedule.now + seconds
        while not self._received and not self._closed:
            moment = self._cluster.wake_at()
            if moment > end:
                self._cluster.advance(end)
                break
            self._cluster.advance(moment)
        return not self._received

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.connection_lost()

    # -- for the broker's end

    def receive(self, data: bytes) -> None:
        self._received += data

    def ended(self) -> None:
        self._closed = True


class _Transport:
    """The broker's end of a line in memory."""

    def __init__(self, line: MemoryLine) -> None:
        self._line = line
        self.client_host = line.client_host

    def write(self, data: bytes) -> None:
        self._line.receive(data)

    def close(self) -> None:
        self._line.ended()

    def reset(self) -> None:
        self._line.ended()


class MemoryWorld(World):
    """The embedded broker, without a socket."""

    def __init__(
        self,
        plan: str,
        prefix: str,
        base_ms: int,
        users: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        brokers: int = 1,
    ) -> None:
        self.users = users or {}
        # The embedded broker has no lower bounds for the settings of consumer groups.
        more = {name.replace(".", "_"): value for name, value in (config or {}).items() if ".min." not in name}
        secured = {"security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": ("PLAIN",), "users": self.users}
        self.cluster = Cluster(
            brokers,
            random=random.Random(1),
            config=BrokerConfig(**LIKE_REALKAFKA, **(LIKE_REALKAFKA_WITH_ACLS if users else {}), **more),
            security=ListenerSecurity.of(secured) if users else None,
            hosts=[("127.0.0.1", 9092 + number) for number in range(brokers)],
            racks=[f"r{number}" for number in range(1, brokers + 1)],
            wall_time=base_ms / 1000,
        )
        super().__init__(plan, prefix, base_ms)

    def wait(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.schedule.now + seconds)

    def _connect(self, node_id: int = 1) -> Line:
        return MemoryLine(self, node_id)
