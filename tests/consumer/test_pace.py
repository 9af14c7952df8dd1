"""Whatever brokers answer, the client sets the pace: at most ten requests of a kind in a second, on average one in each
``retry_backoff_ms`` after the first second, and a word in health. The requests that set up connections, too.

Hypothesis draws a client, the APIs whose responses are changed, and the changes: error codes, numbers, empty lists,
batches from other offsets, lost connections. They are repeated for ever. Requests are counted for each partition and
broker, and for the coordinator.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thinconsumer import Consumer, GroupMember, Health, MemberHealth, OffsetAndMetadata, TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.broker import Disconnect, Edit, EntryError, FaultRule, Reply, Silence
from thinconsumer.errors import KafkaError
from thinconsumer.failures.policy import EXCEPTIONS
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import HeartbeatAssignment, TopicPartitions
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from thinconsumer_testing.broker.security import ListenerSecurity

T0 = TopicPartition("t", 0)
#: Most requests of one kind in any second.
PER_SECOND = 10
#: As many within a tenth of a second end the test: a client in a busy loop would never come to an end.
BUSY = 100
SECONDS = 6.0
#: The requests that set up a connection are counted for each broker. A client has so many connections to one.
SETUP, CONNECTIONS = ("ApiVersions", "SaslHandshake", "SaslAuthenticate"), 3
SECURITY = ListenerSecurity(
    security_protocol="SASL_PLAINTEXT",
    sasl_enabled_mechanisms=("SCRAM-SHA-256",),
    users={"alice": "secret"},
    connections_max_reauth_ms=3000,
)
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice", "sasl_plain_password": "secret",
}  # fmt: skip
#: A Fetch that returned records is followed by the next one at once. All records of the topic come in one response.
FREE = 3


class BusyLoop(BaseException):
    """Ends the poll of a client that sends requests in a loop."""


# -- changes of responses


def structs(message: Message) -> list[Any]:
    found: list[Any] = [message]
    for struct in found:
        for one in fields(struct):
            value = getattr(struct, one.name)
            found += [inner for inner in (value if isinstance(value, list) else [value]) if is_dataclass(inner)]
    return found


def attributes(message: Message, wanted: Callable[[str, Any], bool]) -> list[tuple[Any, str]]:
    """Return the structs and names of all fields with a wanted name and value."""
    return [
        (struct, one.name)
        for struct in structs(message)
        for one in fields(struct)
        if wanted(one.name, getattr(struct, one.name))
    ]


def set_one(found: list[tuple[Any, str]], index: int, change: Callable[[Any], Any]) -> None:
    if found:
        struct, name = found[index % len(found)]
        setattr(struct, name, change(getattr(struct, name)))


def set_code(response: Message, index: int, code: int) -> None:
    set_one(attributes(response, lambda name, value: name == "error_code"), index, lambda value: int(code))


def set_top(response: Message, code: int) -> None:
    if hasattr(response, "error_code"):
        response.error_code = int(code)


def set_number(response: Message, index: int, how: str, number: int) -> None:
    skipped = ("error_code", "throttle_time_ms", "port")  # throttling only slows the client down
    found = attributes(response, lambda name, value: type(value) is int and name not in skipped)
    set_one(found, index, lambda value: value + number if how == "add" else number)


def set_empty(response: Message, index: int) -> None:
    set_one(attributes(response, lambda name, value: isinstance(value, list) and bool(value)), index, lambda value: [])


def move_batch(response: Message, offset: int | None, epoch: int | None) -> None:
    """Change the base offset and the leader epoch of the first batch of a Fetch, which no checksum covers."""
    for struct, _ in attributes(response, lambda name, value: name == "records" and bool(value)):
        records = bytearray(struct.records)
        if offset is not None:
            records[0:8] = offset.to_bytes(8, "big", signed=True)
        if epoch is not None:
            records[12:16] = epoch.to_bytes(4, "big", signed=True)
        struct.records = bytes(records)


def cut_records(response: Message, size: int) -> None:
    for struct, _ in attributes(response, lambda name, value: name == "records" and bool(value)):
        struct.records = bytes(struct.records)[:size]


def set_end(response: Message, epoch: int, offset: int) -> None:
    for struct, _ in attributes(response, lambda name, value: name == "end_offset"):
        struct.leader_epoch, struct.end_offset = epoch, offset


def name_leader(response: Message, node: int, epoch: int) -> None:
    """Refuse a Fetch, and name another leader (KIP-951)."""
    for struct, _ in attributes(response, lambda name, value: name == "current_leader"):
        struct.error_code, struct.records = int(Code.NOT_LEADER_OR_FOLLOWER), None
        struct.current_leader.leader_id, struct.current_leader.leader_epoch = node, epoch


def set_leader(response: Message, node: int, epoch: int) -> None:
    for struct, _ in attributes(response, lambda name, value: name == "isr_nodes"):
        struct.leader_id, struct.leader_epoch = node, epoch


def prefer(response: Message, node: int) -> None:
    """Name a preferred read replica, and return no records (KIP-392)."""
    for struct, _ in attributes(response, lambda name, value: name == "preferred_read_replica"):
        struct.preferred_read_replica, struct.records = node, None


def set_versions(response: Message, api_key: int, least: int, most: int) -> None:
    """Offer other versions of an API."""
    for struct, _ in attributes(response, lambda name, value: name == "api_key" and value == api_key):
        struct.min_version, struct.max_version = least, most


CHANGES: dict[str, Callable[..., None]] = {
    "code": set_code,
    "top": set_top,
    "number": set_number,
    "empty": set_empty,
    "batch": move_batch,
    "cut": cut_records,
    "end": set_end,
    "leader": name_leader,
    "lead": set_leader,
    "prefer": prefer,
    "versions": set_versions,
    "lifetime": lambda response, milliseconds: setattr(response, "session_lifetime_ms", milliseconds),
}


def changed(response: Message, changes: list[tuple[Any, ...]], turn: int) -> None:
    """Make changes in place; the word "rise" stands for a number that is higher in each response."""
    for what, *about in changes:
        CHANGES[what](response, *(turn if value == "rise" else value for value in about))


def without_records(call: Any) -> Message:
    """Return a Fetch response without records; it comes at once."""
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[PartitionData(partition_index=part.partition, high_watermark=100) for part in topic.partitions],
        )
        for topic in call.request.topics
    ]
    return FetchResponse(session_id=call.request.session_id, responses=topics)


def action_of(answer: tuple[Any, ...], call: Any, turn: int) -> Any:
    kind, *about = answer
    if kind == "codes":
        return EntryError(about[0])
    if kind == "changed":
        return Edit(lambda call, response: changed(response, about[0], turn))
    if kind == "edit":
        return Edit(about[0])
    if kind == "nothing":
        return Reply(without_records) if call.request.API_KEY == 1 else None
    return {"pass": None, "close": Disconnect(), "silence": Silence()}[kind]


# -- the answers to draw


def codes_of(api: str) -> st.SearchStrategy[Code]:
    """Return error codes for an API: often those that it treats in a way of its own."""
    own = [code for (one, _), rules in EXCEPTIONS.items() if one == api for code in rules]
    common = [Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH, Code.UNKNOWN_TOPIC_ID]
    return st.one_of(st.sampled_from(own + common), st.sampled_from([code for code in Code if code]))


NUMBERS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from([-1, 0, 1, 2, 3, 5, 9, 50, 2**31 - 1])),
    st.tuples(st.just("add"), st.sampled_from([-3, -1, 1, 2, 5])),
)
NODES = st.sampled_from([-1, 1, 2, 3])
EPOCHS = st.sampled_from([-1, 0, 1, 2, 7, "rise"])
OFFSETS = st.sampled_from([-1, 0, 3, 5, 9, 10, 50])
OWN: dict[str, st.SearchStrategy[Any]] = {
    "Fetch": st.one_of(
        st.tuples(st.just("batch"), st.none() | OFFSETS, st.sampled_from([None, -1, 0, 1, 7])),
        st.tuples(st.just("cut"), st.sampled_from([1, 12, 61, 70])),
        st.tuples(st.just("leader"), NODES, EPOCHS),
        st.tuples(st.just("prefer"), NODES),
    ),
    "OffsetForLeaderEpoch": st.tuples(st.just("end"), EPOCHS, OFFSETS),
    "Metadata": st.tuples(st.just("lead"), NODES, EPOCHS),
    "ApiVersions": st.tuples(
        st.just("versions"), st.sampled_from([1, 3, 17, 18, 36]), st.sampled_from([0, 90]), st.sampled_from([0, 1, 99])
    ),
    "SaslAuthenticate": st.tuples(st.just("lifetime"), st.sampled_from([1, 10, 500, 2000, 2**40])),
}


def answers_of(api: str) -> st.SearchStrategy[Any]:
    codes = codes_of(api)
    change = st.one_of(
        *([OWN[api]] * 3 if api in OWN else []),
        st.tuples(st.just("code"), st.integers(0, 8), codes),
        st.tuples(st.just("top"), codes),
        st.builds(lambda index, how: ("number", index, *how), st.integers(0, 40), NUMBERS),
        st.tuples(st.just("empty"), st.integers(0, 6)),
    )
    some = st.tuples(st.just("changed"), st.lists(change, min_size=1, max_size=2))
    plain = st.sampled_from([("pass",), ("pass",), ("close",), ("silence",), ("nothing",)])
    return st.one_of(plain, st.tuples(st.just("codes"), codes), some, some)


POSITIONS = ["ListOffsets", "OffsetForLeaderEpoch", "Fetch", "Metadata"]
GROUP = ["FindCoordinator", "OffsetFetch", "OffsetCommit"]
APIS = {
    "assigned": POSITIONS,
    "classic": [*GROUP, "JoinGroup", "SyncGroup", "Heartbeat", *POSITIONS],
    "consumer": [*GROUP, "ConsumerGroupHeartbeat", *POSITIONS],
    "static": ["DescribeGroups", "FindCoordinator", "JoinGroup", "SyncGroup"],
    "barrier": [*GROUP, *POSITIONS],
    "ordered": ["PartitionLeaderEpochsForPartitions", "ConsumerGroupPositions", *POSITIONS],
    "login": [*SETUP, *SETUP, "Fetch", "Heartbeat", "Metadata"],
    "member": ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "Metadata", "ApiVersions"],
    "admin": ["Metadata", "FindCoordinator", "ConsumerGroupDescribe", "DescribeGroups", "ListGroups", "ApiVersions"],
    "producer": ["InitProducerId", "Produce", "Metadata"],
}
#: APIs with responses that may give a member an empty assignment.
ASSIGNING = {"JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"}


@st.composite
def stories(draw: Any, clients: tuple[str, ...] = tuple(APIS)) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Draw a client, its answers by API, and what happens at the beginning."""
    client = draw(st.sampled_from(clients))
    apis = draw(st.lists(st.sampled_from(APIS[client]), min_size=1, max_size=2, unique=True))
    script = {api: draw(st.lists(answers_of(api), min_size=1, max_size=4)) for api in apis}
    begin = {
        "late": draw(st.booleans()),
        "seek": draw(st.sampled_from([None, "epoch", "far"])),
        "move": draw(st.booleans()),
        "backoff_ms": draw(st.sampled_from([100, 250])),
    }
    return client, script, begin


# -- the client and its requests


def keys_of(api: str, call: Any, fetched: set[int]) -> Iterator[tuple[Any, ...]]:
    """Yield what a request is counted for: its partitions and their broker, or the API alone."""
    if api in ("ListOffsets", "OffsetForLeaderEpoch"):
        for topic in call.request.topics:
            for part in topic.partitions:
                number = part.partition_index if api == "ListOffsets" else part.partition
                # A reset looks up both ends of the log, and gates the ends of other leader epochs than a validation.
                about = part.timestamp if api == "ListOffsets" else part.leader_epoch
                yield api, call.node.node_id, number, about
    elif api == "Fetch":
        for number in fetched:
            yield api, call.node.node_id, number
    elif api in ("Produce", "ListGroups", *SETUP):
        yield api, call.node.node_id
    elif api == "Metadata":
        names = call.request.topics or ()
        yield api, any(topic.name is None for topic in names)  # topic ids are looked up beside the refresh
    else:
        yield (api,)


class Worker(GroupMember):
    """A member of a generic group."""

    def perform_assignment(self, leader_id: str, protocol: str, members: Any) -> Any:
        return dict.fromkeys(members, b"all")

    def on_join_complete(self, protocol: str, share: bytes) -> None:
        pass


class World:
    """Two brokers, the records 0 to 9 of one partition, a client, and the times of its requests."""

    def __init__(self, client: str, script: dict[str, Any], backoff_ms: int) -> None:
        security = SECURITY if client == "login" else None
        self.cluster = MemoryCluster(2, group_initial_rebalance_delay_ms=0, security=security)
        self.clock = self.cluster.clock
        self.client = client
        self.script = script
        self.is_on = False
        self.turns: Counter[str] = Counter()
        self.times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        self.sessions: dict[int, set[int]] = defaultdict(set)  #: By node: the partitions of its fetch session.
        self.expects = False  #: Whether records are left to read.
        self.reasons: list[str] = []  #: What health says in the last two seconds.
        self.returned: list[float] = []  #: When polls have returned records.
        self.asked = 0  #: How often an admin was called.
        self.cluster.create_topic("t", 1, 2, {"enable.ordered.delivery": "true"} if client == "ordered" else {})
        self.cluster.produce("t", [b"%d" % number for number in range(10)], 0)
        if client == "ordered":
            self.cluster.expand("t", 2)
            self.clock.advance(1.0)
            self.cluster.network.run_due()
        self.cluster.rules.add(FaultRule(None, self.decide))
        self.most = PER_SECOND + (SECONDS - 1.0) * 1000 / backoff_ms  #: Most requests of one kind in all.
        common: dict[str, Any] = {"bootstrap_servers": self.cluster.bootstrap_servers, "retry_backoff_ms": backoff_ms}
        driver = self.cluster.driver()
        if client == "producer":
            self.producer = Producer(ProducerSettings.from_options(**common, delivery_timeout_ms=60_000), driver=driver)
        elif client == "admin":
            self.admin = Admin(ClientOptions.from_options(**common, default_api_timeout_ms=2000), driver=driver)
        elif client == "member":
            self.member = Worker("work", driver=driver, group_id="g", heartbeat_interval_ms=1000, **common)
        else:
            self.consumer = self.make_consumer(**common)
        self.program = {"producer": self.produce, "admin": self.describe, "member": self.take_part}.get(
            client, self.read
        )
        if client == "barrier":
            self.work(1.0)
            self.cluster.expand("t", 2)
            self.cluster.produce("t", [b"new"] * 3, 1)
        elif client == "static":  # restarted as the leader, it compares the assignments of all members
            self.work(1.0)
            self.consumer.close()
            self.cluster.produce("t", [b"new"] * 3, 0)
            self.consumer = self.make_consumer(**common)

    def make_consumer(self, **options: Any) -> Consumer[Any, Any]:
        options |= {"auto_offset_reset": "earliest", "driver": self.cluster.driver()}
        if self.client != "assigned":
            options |= {"group_id": "g", "auto_commit_interval_ms": 1000}
            options["group_protocol"] = "consumer" if self.client == "consumer" else "classic"
        if self.client == "login":
            options |= LOGIN
        if self.client not in ("assigned", "consumer"):
            options |= {"heartbeat_interval_ms": 1000, "session_timeout_ms": 10_000}
        if self.client == "barrier":
            options |= {"ordered_delivery": "barrier", "ordered_delivery_grace_ms": 500, "metadata_max_age_ms": 300}
        elif self.client == "static":
            options |= {"group_instance_id": "i", "partition_assignment_strategy": ["cooperative-sticky"]}
        consumer: Consumer[Any, Any] = Consumer(**options)
        if self.client == "assigned":
            consumer.assign([T0])
        else:
            consumer.subscribe(["t"])
        return consumer

    def decide(self, call: Any) -> Any:
        """Count a request, and return what the broker does with it."""
        api, now = type(call.request).__name__.removesuffix("Request"), self.clock.now()
        for key in keys_of(api, call, self.fetched(call) if api == "Fetch" else set()):
            times = self.times[key]
            times.append(now)
            if len(times) > BUSY and times[-BUSY] > now - 0.1:
                raise BusyLoop(key)
        answers = self.script.get(api)
        if not self.is_on or not answers:
            return None
        self.turns[api] += 1
        return action_of(answers[(self.turns[api] - 1) % len(answers)], call, self.turns[api])

    def fetched(self, call: Any) -> set[int]:
        """Return the partitions that a Fetch reads: those of its session, too (KIP-227)."""
        request = call.request
        numbers = {part.partition for topic in request.topics for part in topic.partitions}
        if request.session_epoch > 0:
            forgotten = {number for topic in request.forgotten_topics_data for number in topic.partitions}
            numbers |= self.sessions[call.node.node_id] - forgotten
        if request.session_epoch >= 0:
            self.sessions[call.node.node_id] = numbers
        return numbers

    def run(self, begin: dict[str, Any]) -> None:
        """Let the program run for some seconds, with wrong answers after the first one or from the beginning on."""
        if begin["late"]:
            self.work(1.0)
        self.is_on, self.expects = True, not begin["late"]
        for seen in (self.times, self.returned, self.reasons):
            seen.clear()
        if self.is_reader and T0 in self.consumer.assignment():
            self.expects = self.expects or begin["seek"] is not None
            with contextlib.suppress(KafkaError):
                if begin["seek"] == "epoch":
                    self.consumer.seek(T0, OffsetAndMetadata(5, "", 0))
                elif begin["seek"] == "far":
                    self.consumer.seek(T0, 1000)
        if begin["move"]:
            self.cluster.move_leader(T0)
        self.work(SECONDS)

    @property
    def is_reader(self) -> bool:
        """Whether the client is a consumer."""
        return self.client not in ("producer", "admin", "member")

    def work(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            before = self.clock.now()
            with contextlib.suppress(KafkaError):
                self.program()
            if self.client not in ("producer", "admin") and end - self.clock.now() < 2.0:
                self.reasons.append((self.consumer if self.is_reader else self.member).health().reason)
            if self.clock.now() == before:
                self.clock.advance(0.01)  # a program that logs each error and goes on

    def read(self) -> None:
        if self.consumer.poll(100):
            self.returned.append(self.clock.now())

    def take_part(self) -> None:
        self.member.poll(100)
        self.expects &= self.member.held_generation < 0

    def describe(self) -> None:
        """Describe a group and a topic and list groups in turns: at most two calls in a second."""
        self.clock.advance(0.5)
        admin = self.admin
        calls = [lambda: admin.describe_groups(["g"]), admin.list_groups, lambda: admin.describe_topics(["t"])]
        self.asked += 1
        calls[self.asked % 3]()

    def produce(self) -> None:
        """Send a record if none waits: at most two in a second."""
        if self.producer.idle:
            self.producer.send("t", b"x", partition=0)
        self.producer.poll(500)
        self.clock.advance(0.5)

    def close(self) -> None:
        if self.client == "admin":
            self.admin.close()
        elif self.client == "producer":
            self.producer.close(timeout_ms=0)
        else:
            (self.consumer if self.is_reader else self.member).close(timeout_ms=0)

    def crowded(self) -> dict[tuple[Any, ...], int]:
        """Return the keys with too many requests, in a second or in all, and how many there were."""
        found: dict[tuple[Any, ...], int] = {}
        for key, times in self.times.items():
            lines = CONNECTIONS if key[0] in SETUP else 1
            for number, at in enumerate(times):
                count = sum(at <= other < at + 1.0 for other in times[number : number + 2 * BUSY])
                free = FREE * sum(at - 0.2 <= other < at + 1.0 for other in self.returned)
                if count > PER_SECOND * lines + free:
                    found[key] = max(count, found.get(key, 0))
            if len(times) > self.most * lines + FREE * len(self.returned):
                found[(*key, "in all")] = len(times)
        return found

    def unexplained(self) -> Health | MemberHealth | None:
        """Return the health of a client that reads no record, or takes no part, although it can, and says not why."""
        if self.client in ("producer", "admin"):
            return None
        client = self.consumer if self.is_reader else self.member
        has_assignment = not self.is_reader or not self.script.keys() & ASSIGNING or self.consumer.assignment()
        # If good answers come between the others, each of them ends what health would say.
        is_constant = all(len(answers) == 1 for answers in self.script.values())
        may_return = self.expects and has_assignment and is_constant
        return None if not may_return or self.returned or any(self.reasons) else client.health()


class Outcome(NamedTuple):
    busy: Any  #: The kind of request that was sent in a busy loop, if any.
    crowded: dict[tuple[Any, ...], int]  #: The kinds of which too many were sent in a second.
    #: The health of a consumer that reads nothing, or of a member that works on nothing, and does not say why.
    unexplained: Health | MemberHealth | None


def outcome(story: Any) -> Outcome:
    client, script, begin = story
    world, busy = World(client, script, begin["backoff_ms"]), None
    try:
        world.run(begin)
    except BusyLoop as error:
        busy = error.args[0]
    found = Outcome(busy, world.crowded(), None if busy else world.unexplained())
    world.is_on = False
    world.times.clear()
    with contextlib.suppress(KafkaError, BusyLoop):
        world.close()
    return found


def flip_assignment(call: Any, response: Any) -> None:
    """Take the partition from a member that owns it, and give it to one that does not."""
    own = TopicPartitions(topic_id=call.node.image.topics["t"].topic_id, partitions=[0])
    response.assignment = HeartbeatAssignment(topic_partitions=[] if call.request.topic_partitions else [own])


BEGIN = {"late": False, "seek": None, "move": False, "backoff_ms": 250}
IN_DOUBT = {"late": True, "seek": "epoch", "move": True, "backoff_ms": 250}
NOTHING = ("nothing",)


def change(*about: Any) -> tuple[str, list[Any]]:
    return "changed", [about]


#: Answers that were once followed by requests without a backoff.
FOUND: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a newer epoch than requested": ("assigned", {"OffsetForLeaderEpoch": [change("end", 2, 3)]}, IN_DOUBT),
    "no records at once": ("assigned", {"Fetch": [NOTHING]}, BEGIN),
    "followers that prefer each other": ("assigned", {"Fetch": [change("prefer", 1), change("prefer", 2)]}, BEGIN),
    "sessions that end": ("assigned", {"Fetch": [NOTHING, change("top", Code.INVALID_FETCH_SESSION_EPOCH)]}, BEGIN),
    "every second Fetch is rejected": ("assigned", {"Fetch": [("codes", Code.KAFKA_STORAGE_ERROR), NOTHING]}, BEGIN),
    "heartbeats without an interval": ("consumer", {"ConsumerGroupHeartbeat": [change("number", 1, "set", 0)]}, BEGIN),
    "every second commit is rejected": (
        "consumer",
        {"OffsetCommit": [change("code", 3, Code.UNKNOWN_LEADER_EPOCH), change("number", 0, "set", 2)]},
        BEGIN | {"backoff_ms": 100},
    ),
    "assignments that change": ("consumer", {"ConsumerGroupHeartbeat": [("edit", flip_assignment)]}, BEGIN),
    "no leader epochs": ("ordered", {"PartitionLeaderEpochsForPartitions": [change("empty", 0)]}, BEGIN),
}
#: A connection that cannot be set up, or cannot be used.
UNUSABLE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ApiVersions is closed": ("login", {"ApiVersions": [("close",)]}, BEGIN),
    "ApiVersions is rejected": ("member", {"ApiVersions": [("codes", Code.UNSUPPORTED_VERSION)]}, BEGIN),
    "no common version of Metadata": ("admin", {"ApiVersions": [change("versions", 3, 90, 99)]}, BEGIN),
    "no common version of the login": ("login", {"ApiVersions": [change("versions", 36, 90, 99)]}, BEGIN),
    "no such mechanism": ("login", {"SaslHandshake": [change("top", Code.UNSUPPORTED_SASL_MECHANISM)]}, BEGIN),
    "a wrong password": ("login", {"SaslAuthenticate": [change("top", Code.SASL_AUTHENTICATION_FAILED)]}, BEGIN),
    "a login out of turn": ("login", {"SaslHandshake": [change("top", Code.ILLEGAL_SASL_STATE)]}, BEGIN),
    "a request out of turn": ("login", {"Fetch": [("codes", Code.ILLEGAL_SASL_STATE)]}, BEGIN | {"late": True}),
    "sessions that end at once": ("login", {"SaslAuthenticate": [change("lifetime", 1)]}, BEGIN),
}


def check(found: Outcome) -> None:
    assert found.busy is None, f"busy loop: {found.busy}"
    assert found.crowded == {}
    assert found.unexplained is None


@pytest.mark.parametrize("story", [*FOUND.values(), *UNUSABLE.values()], ids=[*FOUND, *UNUSABLE])
def test_answers_that_were_followed_by_requests_without_a_backoff(story):
    check(outcome(story))


@pytest.mark.parametrize("client", APIS)
@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_answers_make_a_client_send_requests_without_a_backoff(client, data):
    check(outcome(data.draw(stories((client,)))))


def test_records_that_come_too_late_for_a_seek_cost_no_pause():
    """Each seek of a program that reads at random offsets of a long log drops the records of a Fetch in flight."""
    cluster = MemoryCluster(1, {"t": 1})
    for _ in range(20):
        cluster.produce("t", [b"x" * 300_000], 0)
    consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver(), fetch_max_bytes=400_000)
    consumer.assign([T0])
    began = cluster.clock.now()
    for turn in range(30):
        offset = turn * 7 % 19
        consumer.seek(T0, offset)
        assert consumer.poll(1000, max_records=1)[T0][0].offset == offset
    assert cluster.clock.now() - began < 0.5
    assert consumer.health().reason == ""
    consumer.close()
