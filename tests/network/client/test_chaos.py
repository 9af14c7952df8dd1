"""Random operations of driver, resolver and peers: one answer for each request, no exception, no busy loop.

The test is the driver here, and a rude one: it loses connections at every moment, cuts bytes anywhere, feeds rubbish,
answers lookups late, and lets time jump. Operations are drawn by hypothesis and shrink to a short story.
"""

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stepped_client import Stepped

from thinconsumer.broker import Delay, Disconnect, Raw, Reply, Silence
from thinconsumer.config import ConsumerConfig
from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.errors import IllegalArgumentError, KafkaConnectionError, KafkaError
from thinconsumer.network.client import NetworkClient
from thinconsumer.network.request import ANY_NODE, Request, Target
from thinconsumer.network.route import BrokerRoute
from thinconsumer.types import Node
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.faults import APIS_BY_NAME

ACTIONS = [
    Reply(MetadataResponse()),
    Reply(MetadataResponse(throttle_time_ms=3000)),
    Reply(MetadataResponse(throttle_time_ms=-1)),
    Raw(b"\0\0\0\x08\0\0\0\x01rubb"),
    Raw(b"\x15\x03\x03\0\2\2F"),
    Raw(b""),
    Silence(),
    Disconnect(),
    Delay(1.0),
]


def state_of(route, now):
    """Return everything about a route that a step may change, except the time of the step."""
    connection = route.connection
    inside = (
        None if connection is None else (connection.state, connection.in_flight, connection in route._shared.unsent)
    )
    shared = route._shared
    kept = (route.state, connection, inside, list(route.queue), route.failures, route.unreachable, route.cause)
    times = (route._backoff.at, route.broken_at, route._success_noted, route.is_working)
    return *kept, *times, len(shared.commands), len(shared.answers), len(shared.lost), len(shared.outages.under_way)


def step_checked(client, now, due):
    """Step the routes that the client leaves out, too: that must change nothing, and make nothing due earlier."""
    stepped.clear()
    result = step(client, now, due)
    for route in client._all_routes():
        if route in stepped or route in client._agenda.touched:
            continue
        before, at = state_of(route, now), route._alarm.at
        step_route(route, now)
        assert state_of(route, now) == before
        assert route._alarm.at >= at
        assert route not in client._agenda.touched
        route._alarm.at = at  # else the check would set what the client has forgotten
        counts["skipped"] += 1
    return result


def step_route_noted(route, *about, **more):
    stepped.append(route)
    step_route(route, *about, **more)


step, step_route = NetworkClient.step, BrokerRoute.step
stepped: list[BrokerRoute] = []
counts = Counter()


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Check each time that a route without a step would have changed nothing in one."""
    monkeypatch.setattr(NetworkClient, "step", step_checked)
    monkeypatch.setattr(BrokerRoute, "step", step_route_noted)


class ChaosConnection:
    """One dialled stream, and the broker's connection at the other end; bytes wait until the test delivers them."""

    client_host = "/127.0.0.1"

    def __init__(self, stream):
        self.stream = stream
        self.made = False
        self.to_client = bytearray()
        self.server = None

    def write(self, data):
        self.to_client += data

    def close(self):
        pass

    reset = close


class Chaos:
    def __init__(self, seed):
        config = ConsumerConfig.from_options(
            bootstrap_servers="seed1:9092,10.0.0.9:9092", receive_message_max_bytes=60_000_000, fetch_max_bytes=100_000
        )
        self.client = Stepped(config, random.Random(seed))
        self.now = 0.0
        self.requests = []
        self.answers = []
        self.lines = []
        self.resolves = []
        self.broker = Cluster(1, random=random.Random(seed))
        self.broker.on("Metadata", lambda call: ACTIONS[self.reply])
        self.reply = 0

    def take_commands(self):
        while self.client.commands:
            command = self.client.commands.popleft()
            if isinstance(command, Dial):
                self.lines.append(ChaosConnection(command.stream))
            elif isinstance(command, Hangup):
                self.lines = [line for line in self.lines if line.stream is not command.stream]
            else:
                self.resolves.append(command)

    def line(self, number):
        return self.lines[number % len(self.lines)] if self.lines else None

    # -- what can happen

    def send(self, number):
        def build(version):
            if number % 11 == 3:
                raise IllegalArgumentError("cannot be built")
            return MetadataRequest()

        target = [ANY_NODE, Target(1), Target(2), Target(1, "coordinator"), Target(77)][number % 5]
        minimum = 99 if number % 13 == 5 else 0
        request = Request("test", MetadataRequest, target, build, self.now + number % 40, min_version=minimum)
        self.requests.append(request)
        self.client.send(request, self.now)

    def step(self, number):
        self.client.step_due(self.now)

    def obey(self, number):
        self.take_commands()

    def wait(self, number):
        self.now += [0.001, 0.06, 1.0, 12.0, 40.0, 700.0][number % 6]

    def resolve(self, number):
        if self.resolves:
            resolve = self.resolves.pop()
            count = number % 4
            addresses = [Address(2, (f"10.0.{number % 7}.{i}", resolve.port)) for i in range(count)]
            self.client.resolved(resolve.host, resolve.port, addresses, "" if count else "no such name", self.now)

    def resolve_unasked(self, number):
        self.client.resolved("stranger", 9092, [], "?", self.now)

    def make(self, number):
        line = self.line(number)
        if line is not None and not line.made:
            line.made = True
            line.server = self.broker.connect(1, line)
            line.stream.connection_made(self.now)

    def write(self, number):
        line = self.line(number)
        if line is not None and line.made:
            data = b"".join(line.stream.data_to_send())[: 1 + number % 50]
            if data:
                line.stream.data_sent(len(data), self.now)
                line.server.data_received(data)

    def write_all(self, number):
        for line in self.lines:
            if line.made and (data := b"".join(line.stream.data_to_send())):
                line.stream.data_sent(len(data), self.now)
                line.server.data_received(data)

    def read(self, number):
        line = self.line(number)
        if line is not None and line.made:
            self._feed(line, line.to_client, 1 + number % 60)

    def read_all(self, number):
        for line in list(self.lines):
            if line.made:
                self._feed(line, line.to_client, len(line.to_client))

    def rubbish(self, number):
        line = self.line(number)
        if line is not None and line.made:
            self._feed(line, bytearray(random.Random(number).randbytes(1 + number % 30)), 30)

    def _feed(self, line, data, size):
        taken, data[:size] = bytes(data[:size]), b""
        while taken:
            buffer = line.stream.get_buffer()
            assert len(buffer) > 0
            count = min(len(buffer), len(taken))
            buffer[:count] = taken[:count]
            taken = taken[count:]
            line.stream.buffer_updated(count, self.now)

    def lose(self, number):
        line = self.line(number)
        if line is not None:
            self.lines.remove(line)
            line.stream.connection_lost(KafkaConnectionError("reset") if number % 2 else None, self.now)

    def change_reply(self, number):
        self.reply = number % len(ACTIONS)

    def change_versions(self, number):
        offered = [{18: (0, 4), 3: (0, 13)}, {18: (0, 0), 3: (0, 3)}, {18: (0, 5)}, {}][number % 4]
        for api in ("ApiVersions", "Metadata"):
            self.broker.set_versions(api, offered.get(APIS_BY_NAME[api]))

    def let_peers_go_on(self, number):
        self.broker.advance(self.broker.schedule.now + 1.0)

    def nodes(self, number):
        hosts = [f"kafka{1 + number % 3}", "10.0.0.9", "seed1"]
        self.client.update_nodes([Node(i + 1, hosts[(i + number) % 3], 9092) for i in range(number % 3)])

    def rebootstrap(self, number):
        self.client.rebootstrap(self.now)

    def look(self, number):
        repr(self.client)
        str(self.client.outage(self.now))
        self.client.acknowledge_outage(self.now)
        assert self.client.in_flight(Target(1)) >= 0

    def calm(self, number):
        """Let everything go well for a moment, or nothing would ever get beyond its beginning."""
        for round_number in range(6):
            self.step(0)
            self.obey(0)
            self.resolve(1 + round_number % 3)
            for line in range(len(self.lines)):
                self.make(line)
            self.write_all(0)
            self.read_all(0)
            self.now += 0.06

    # -- what must hold

    def check_wake(self):
        """Once everything due has happened, the next time to wake lies ahead: else a driver would spin."""
        for _ in range(4):
            self.client.step_due(self.now)
            self.take_commands()
            for line in self.lines:
                line.stream.data_to_send()  # a driver looks, even where the line takes nothing
            self.answers += self.client.take_answers()
        assert not self.client.commands and not self.client.unsent
        assert self.client.agenda.next() > self.now

    def finish(self):
        self.client.close(self.now)
        self.answers += self.client.take_answers()
        counts = Counter(id(answer.request) for answer in self.answers)
        assert counts == Counter(id(request) for request in self.requests)
        for answer in self.answers:
            assert (answer.response is None) is not (answer.error is None)
            assert answer.error is None or isinstance(answer.error, KafkaError)
        self.take_commands()
        assert not self.lines
        assert not self.client.any_open()


#: Rare ones once, those that make progress often.
OPERATIONS = [
    *["calm"] * 4, *["send"] * 3, *["step"] * 4, *["obey"] * 4, *["make"] * 3, *["write_all"] * 3,
    *["read_all"] * 3, *["resolve"] * 3,
    "wait", "write", "read", "rubbish", "lose", "change_reply", "change_versions", "let_peers_go_on", "nodes",
    "rebootstrap", "look", "resolve_unasked", "check_wake",
]  # fmt: skip


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 3), story=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1000)), max_size=80)
)
def test_every_request_gets_one_answer_whatever_happens(seed, story):
    chaos = Chaos(seed)
    for name, number in [("nodes", 5), *story]:
        if name == "check_wake":
            chaos.check_wake()
        else:
            getattr(chaos, name)(number)
    chaos.check_wake()
    chaos.finish()


def test_random_operations_reach_every_kind_of_answer():
    """A storm in which nothing ever connects would prove nothing."""
    answered, ready = 0, 0
    for seed in range(60):
        rng = random.Random(seed)
        chaos = Chaos(seed)
        chaos.nodes(5)
        for _ in range(300):
            name = rng.choice(OPERATIONS)
            if name == "check_wake":
                chaos.check_wake()
            else:
                getattr(chaos, name)(rng.randrange(1000))
            ready += chaos.client.any_ready()
        chaos.check_wake()
        chaos.finish()
        answered += sum(answer.response is not None for answer in chaos.answers)
    assert answered > 50
    assert ready > 1000
    assert counts["skipped"] > 1000
