"""All connections: whom requests go to, bootstrapping, outages, and never a request without its one answer."""

from __future__ import annotations

import random

import pytest

from thinconsumer.broker import Delay, Disconnect, Silence
from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import ANY_NODE, Request, Target
from thinconsumer.connection.route import SLOW_ATTEMPT
from thinconsumer.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    SaslAuthenticationFailedError,
)
from thinconsumer.network_client import SILENT, NetworkClient
from thinconsumer.testing import MemoryCluster, MemoryDriver, ScriptedPeer
from thinconsumer.types import Node
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest


class Desk:
    """A network client on a cluster in memory, stepped as a consumer steps its engine."""

    def __init__(self, nodes=3, bootstrap=None, new_login=None, seed=1, **options):
        self.cluster = MemoryCluster(nodes)
        self.network = self.cluster.network
        self.driver = MemoryDriver(self.network)
        servers = bootstrap or self.cluster.bootstrap_servers
        self.config = ConsumerConfig.from_options(bootstrap_servers=servers, **options)
        self.client = NetworkClient(self.config, random.Random(seed), new_login)
        self.answers = []
        self.began = self.now

    @property
    def now(self):
        return self.driver.now()

    @property
    def passed(self):
        """Seconds since the beginning."""
        return self.now - self.began

    def turn(self, deadline):
        self.driver.step(self.client, min(deadline, self.client.wake_at()))
        self.client.step(self.now)
        self.answers += self.client.take_answers()

    def run(self, seconds):
        deadline = self.now + seconds
        while self.now < deadline:
            self.turn(deadline)

    def send(self, target=ANY_NODE, *, allowance=30.0, api=MetadataRequest, build=None, **more):
        target = target if isinstance(target, Target) else Target(target)
        build = build or (lambda version: api())
        request = Request("test", api, target, build, self.now + allowance, **more)
        self.client.send(request, self.now)
        self.client.step(self.now)
        return request

    def answer_to(self, request, within=120.0):
        """Step until a request has its answer, and return it."""
        deadline = self.now + within
        while not (found := [answer for answer in self.answers if answer.request is request]):
            assert self.now < deadline, "no answer"
            self.turn(deadline)
        (answer,) = found
        return answer

    def know(self, *node_ids):
        """Tell the client of nodes, as metadata does."""
        brokers = [self.cluster.nodes[node_id] for node_id in node_ids or self.cluster.nodes]
        self.client.update_nodes([Node(b.node_id, b.host, b.port) for b in brokers])

    def connect(self, *node_ids):
        """Know all nodes and be ready at these."""
        self.know()
        for node_id in node_ids:
            assert self.answer_to(self.send(node_id)).response
        return self

    def heard_by(self, api=MetadataRequest):
        """Return the ids of the brokers that heard requests of an API, in order."""
        return [received.node_id for received in self.cluster.received(api)]


# -- to one node


def test_a_request_for_a_node_goes_there():
    desk = Desk()
    desk.know()
    answer = desk.answer_to(desk.send(2))
    assert [broker.node_id for broker in answer.response.brokers] == [1, 2, 3]
    assert answer.node_id == 2
    assert desk.heard_by() == [2]
    assert desk.client.is_ready(2)
    assert not desk.client.is_ready(1)
    assert not desk.cluster.invalid_requests


def test_a_node_that_metadata_does_not_name_is_an_error_at_once():
    desk = Desk()
    desk.know(1)
    request = desk.send(9)
    (answer,) = desk.client.take_answers()
    assert answer.request is request
    assert isinstance(answer.error, KafkaConnectionError)
    assert "node 9" in str(answer.error)


def test_pain_A4_each_channel_has_a_connection_of_its_own():
    """A heartbeat behind a long poll would wait with it."""
    desk = Desk()
    desk.know()
    desk.cluster.on("Fetch", Silence(), node=1)
    desk.send(1, api=FetchRequest, build=lambda v: FetchRequest(max_wait_ms=1, min_bytes=1))
    heartbeat = desk.send(Target(1, "coordinator"))
    assert desk.answer_to(heartbeat).response
    assert desk.passed < 0.1
    assert desk.client.in_flight(Target(1)) == 1
    assert desk.client.in_flight(Target(1, "coordinator")) == 0
    assert desk.client.is_ready(1, "coordinator")
    assert len(desk.cluster.nodes[1].connections) == 2


def test_a_refused_connection_is_answered_at_once_and_the_next_request_waits_for_the_backoff():
    desk = Desk()
    desk.know()
    desk.network.kill("kafka1", 9092)
    first = desk.answer_to(desk.send(1))
    assert isinstance(first.error, KafkaConnectionError)
    assert "connection refused" in str(first.error)
    assert first.node_id == 1
    assert desk.passed < 0.01
    second = desk.answer_to(desk.send(1))
    assert second.error
    assert 0.04 < desk.passed < 0.07


def test_a_manager_that_asks_again_at_once_does_not_spin():
    """Each attempt costs its backoff: 20 dials in the first 15 seconds are few."""
    desk = Desk()
    desk.know()
    desk.network.kill("kafka1", 9092)
    while desk.passed < 15:
        desk.answer_to(desk.send(1))
    assert len(desk.network.dials) < 25
    assert desk.driver.steps < 200


def test_pain_B3_a_connection_lost_while_idle_costs_nothing():
    """No request in flight, nothing wanted: no dial, no wake-up, no busy loop."""
    desk = Desk().connect(1)
    dials, steps = len(desk.network.dials), desk.driver.steps
    desk.network.reset("kafka1", 9092)
    desk.run(300.0)
    assert len(desk.network.dials) == dials
    assert desk.driver.steps - steps < 5


def test_idle_connections_are_closed_and_made_again_when_wanted():
    desk = Desk(connections_max_idle_ms=60_000).connect(1)
    desk.run(61.0)
    assert not desk.client.any_open()
    assert desk.cluster.nodes[1].connections == []
    assert desk.answer_to(desk.send(1)).response
    assert desk.client.outage(desk.now) is None


def test_an_overdue_answer_closes_the_connection_and_the_next_one_is_fine():
    desk = Desk().connect(1)
    desk.cluster.on("Metadata", Silence(), node=1, times=1)
    slow = desk.send(1, allowance=5.0)
    other = desk.send(1, allowance=30.0)
    assert isinstance(desk.answer_to(slow).error, KafkaTimeoutError)
    assert isinstance(desk.answer_to(other).error, KafkaConnectionError)
    assert desk.passed == pytest.approx(5.0, abs=0.1)
    assert desk.answer_to(desk.send(1)).response


@pytest.mark.parametrize("api_versions", [(0, 0), (0, 2), (0, 3), (0, 4)])
def test_old_brokers_are_spoken_to_in_their_versions(api_versions):
    desk = Desk(nodes=1)
    desk.cluster.set_versions("ApiVersions", api_versions)
    desk.cluster.set_versions("Metadata", (0, 5))
    answer = desk.answer_to(desk.send())
    assert answer.version == 5
    assert not desk.cluster.invalid_requests


@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.parametrize("send_limit", [1, None])
def test_however_bytes_are_cut_it_works(chunk, send_limit):
    desk = Desk()
    desk.network.chunk, desk.network.send_limit = chunk, send_limit
    desk.know()
    assert desk.answer_to(desk.send(1)).response
    assert desk.answer_to(desk.send(ANY_NODE)).response


# -- deadlines and callers who stay away


def test_poll_0_now_and_then_gets_its_answer_though_every_deadline_passed_meanwhile():
    """One thread: whoever stays away for a minute must find what came, not that it did not come in time."""
    desk = Desk(nodes=1, socket_connection_setup_timeout_ms=10_000)
    request = desk.send(ANY_NODE, allowance=1000.0)
    for _ in range(20):
        desk.cluster.clock.advance(60.0)
        desk.turn(desk.now)
        if desk.answers:
            break
    assert desk.answer_to(request).response
    assert len(desk.network.dials) == 1
    desk.know()
    flying = desk.send(1, allowance=30.0)
    desk.turn(desk.now)
    desk.cluster.clock.advance(3600.0)
    desk.turn(desk.now)
    assert desk.answer_to(flying).response


# -- to any node


def test_any_node_takes_the_least_loaded_one():
    desk = Desk().connect(1, 2, 3)
    for node_id in (1, 3):
        desk.cluster.on("Fetch", Silence(), node=node_id)
        desk.send(node_id, api=FetchRequest)
    before = len(desk.heard_by())
    for _ in range(5):
        desk.answer_to(desk.send())
    assert set(desk.heard_by()[before:]) == {2}


def test_any_node_prefers_what_is_there_to_dialling():
    desk = Desk().connect(2)
    dials = len(desk.network.dials)
    for _ in range(10):
        desk.answer_to(desk.send())
    assert len(desk.network.dials) == dials


def test_any_node_avoids_one_that_has_fallen_silent():
    """A stopped broker has as few requests in flight as a healthy one; asked, it would cost a timeout."""
    desk = Desk().connect(1)
    desk.network.pause("kafka1", 9092)
    desk.send(1, api=FetchRequest)
    desk.run(SILENT + 0.5)
    began = desk.now
    assert desk.answer_to(desk.send()).node_id in (2, 3)
    assert desk.now - began < 1.0


def test_any_node_avoids_one_that_is_silent_over_another_connection():
    """Fetches go over their own: only there a stopped broker shows, and questions would go to its idle connection."""
    desk = Desk().connect(1)
    desk.send(Target(1, "fetch"), api=FetchRequest)
    desk.run(0.1)
    desk.network.pause("kafka1", 9092)
    desk.send(Target(1, "fetch"), api=FetchRequest)
    desk.run(SILENT + 0.5)
    began = desk.now
    assert desk.answer_to(desk.send()).node_id in (2, 3)
    assert desk.now - began < 1.0


def test_any_node_is_spread_over_nodes():
    answered = set()
    for seed in range(20):
        desk = Desk(seed=seed)
        desk.know()
        answered.add(desk.answer_to(desk.send()).node_id)
    assert answered == {1, 2, 3}


def test_pain_H2_one_dead_host_in_the_list_costs_a_second_and_not_a_timeout():
    for seed in range(6):
        desk = Desk(nodes=3, seed=seed)
        desk.network.black_hole("kafka1", 9092)
        desk.network.black_hole("kafka2", 9092)
        assert desk.answer_to(desk.send()).response
        assert desk.passed < 2 * SLOW_ATTEMPT + 0.1


def test_kip_899_bootstrap_servers_are_dialled_only_when_all_known_nodes_failed():
    desk = Desk(nodes=2, bootstrap=["seed:9092"])
    seed = MemoryCluster(network=desk.network, hosts=[("seed", 9092)], seed=7)
    desk.know()
    desk.network.kill("kafka1", 9092)
    for _ in range(5):
        assert desk.answer_to(desk.send()).node_id == 2
        desk.network.reset("kafka2", 9092)
    assert not seed.requests
    desk.network.kill("kafka2", 9092)
    desk.run(0.01)
    answer = desk.answer_to(desk.send())
    assert answer.response.cluster_id == seed.cluster_id != desk.cluster.cluster_id
    assert answer.node_id == -1
    assert desk.passed < 5


def test_kip_899_can_be_turned_off():
    desk = Desk(nodes=1, bootstrap=["seed:9092"], metadata_recovery_strategy="none")
    MemoryCluster(network=desk.network, hosts=[("seed", 9092)])
    desk.know()
    desk.network.kill("kafka1", 9092)
    desk.send()
    desk.run(20.0)
    assert {host for _, host, _ in desk.network.dials} == {"kafka1"}


def test_a_bootstrap_connection_becomes_that_of_the_node_living_there():
    """One connection for a whole job, where one broker is enough."""
    desk = Desk(nodes=1)
    desk.answer_to(desk.send())
    desk.know()
    assert desk.client.is_ready(1)
    assert desk.answer_to(desk.send(1)).node_id == 1
    assert len(desk.network.dials) == 1


def test_other_bootstrap_connections_are_closed_when_nothing_waits_for_them():
    desk = Desk(nodes=1, bootstrap=["seed:9092"])
    seed = MemoryCluster(network=desk.network, hosts=[("seed", 9092)], seed=7)
    desk.answer_to(desk.send())
    seed.on("Metadata", Delay(3.0))
    late = desk.send()
    desk.run(0.1)
    desk.know()
    desk.run(1.0)
    assert len(seed.nodes[1].connections) == 1
    assert desk.answer_to(late).response.cluster_id == seed.cluster_id
    desk.run(1.0)
    assert seed.nodes[1].connections == []


def test_what_nobody_can_take_waits_until_its_deadline_and_says_why():
    desk = Desk(nodes=2)
    desk.network.kill("kafka1", 9092)
    desk.network.names["kafka2"] = "the name does not resolve"
    answer = desk.answer_to(desk.send(allowance=3.0))
    assert isinstance(answer.error, KafkaTimeoutError)
    assert "kafka1:9092: connection refused" in str(answer.error)
    assert "kafka2:9092: DNS: the name does not resolve" in str(answer.error)
    assert desk.passed == pytest.approx(3.0, abs=0.1)


def test_a_refused_login_reaches_who_asked_any_node():
    """It is the same everywhere; trying on in silence would hide it."""

    class Refused:
        def next_request(self, answer, now):
            raise SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")

    desk = Desk(new_login=lambda host: Refused())
    answer = desk.answer_to(desk.send(), within=2.0)
    assert isinstance(answer.error, SaslAuthenticationFailedError)


# -- names and addresses


def test_one_name_is_looked_up_at_a_time():
    """The resolver blocks; the second name waits for another step."""
    desk = Desk()
    desk.know()
    for node_id in (1, 2, 3):
        desk.send(node_id)
    resolves = [command for command in desk.client.take_commands() if type(command).__name__ == "Resolve"]
    assert len(resolves) == 1
    assert desk.client.take_commands() == []


def test_pain_B7_all_addresses_change_and_it_finds_the_new_ones():
    desk = Desk(nodes=1).connect(1)
    desk.network.kill("kafka1", 9092)
    desk.network.names["kafka1"] = ["10.9.9.9"]
    desk.cluster.listen(1)
    desk.run(0.1)
    assert desk.answer_to(desk.send(1)).response
    assert str(desk.network.dials[-1][2]) == "10.9.9.9:9092"


def test_v6_first_and_v4_when_that_fails():
    desk = Desk(nodes=1)
    desk.network.names["kafka1"] = ["fd00::1", "10.0.0.1"]
    assert desk.answer_to(desk.send()).response
    assert [str(address) for _, _, address in desk.network.dials] == ["[fd00::1]:9092", "10.0.0.1:9092"]


# -- the cluster changes


def test_a_node_that_moved_is_dialled_at_its_new_address():
    desk = Desk().connect(1)
    flying = desk.send(1)
    desk.client.update_nodes([Node(1, "kafka2", 9092)])
    assert "moved to kafka2:9092" in str(desk.answer_to(flying).error)
    assert desk.answer_to(desk.send(1)).response
    assert desk.heard_by()[-1] == 2
    assert desk.cluster.nodes[1].connections == []


def test_a_node_that_vanished_drains_and_takes_nothing_new():
    desk = Desk().connect(1, 2)
    desk.cluster.on("Metadata", Delay(1.0), node=1, times=1)
    flying = desk.send(1)
    desk.know(2, 3)
    refused = desk.send(1)
    assert "not known" in str(desk.answer_to(refused).error)
    assert desk.answer_to(flying).response
    desk.run(0.1)
    assert desk.cluster.nodes[1].connections == []
    desk.know(1, 2, 3)
    assert desk.answer_to(desk.send(1)).response


def test_kip_1102_rebootstrap_forgets_everything():
    desk = Desk(nodes=2, bootstrap=["seed:9092"])
    desk.network.names["seed"] = desk.network.names["kafka2"]
    desk.connect(1)
    desk.cluster.on("Metadata", Silence(), node=1, times=1)
    flying = desk.send(1)
    desk.client.rebootstrap(desk.now)
    assert isinstance(desk.answer_to(flying).error, KafkaConnectionError)
    assert "not known" in str(desk.answer_to(desk.send(1)).error)
    desk.answer_to(desk.send())
    assert desk.network.dials[-1][1] == "seed"
    assert desk.cluster.nodes[1].connections == []


# -- outages


def outage_of(desk, seconds):
    desk.send(allowance=100_000.0)
    desk.run(seconds)
    return desk.client.outage(desk.now)


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (lambda n: n.names.update(kafka1="the name does not resolve"), "DNS: the name does not resolve"),
        (lambda n: n.kill("kafka1", 9092), "connection refused"),
        (lambda n: n.black_hole("kafka1", 9092), "timed out: no connection"),
        (lambda n: n.pause("kafka1", 9092), "no answer to ApiVersions"),
        (lambda n: n.listen("kafka1", 9092, ScriptedPeer(b"HTTP/1.1 400 Bad Request\r\n\r\n")), "not Kafka: an HTTP"),
        (
            lambda n: n.listen("kafka1", 9092, ScriptedPeer(b"\x15\x03\x03\0\2\2F", then_close=True)),
            "security_protocol='SSL'",
        ),
        (
            lambda n: n.listen("kafka1", 9092, ScriptedPeer(then_close=True)),
            "before it answered ApiVersions: the port expects TLS (set security_protocol='SSL')",
        ),
        (lambda n: n.listen("kafka1", 9092, ScriptedPeer(on_connect=b"SSH-2.0-x\r\n")), "not Kafka: an SSH server"),
    ],
    ids=["dns", "refused", "timeout", "stopped", "http", "tls", "closes", "ssh"],
)
def test_pain_H2_an_outage_names_each_hosts_cause(breaks, words):
    desk = Desk(nodes=1)
    breaks(desk.network)
    outage = outage_of(desk, 40.0)
    assert words in outage.causes["kafka1:9092"]
    assert str(outage).startswith("kafka1:9092: ")
    assert outage.since == pytest.approx(desk.began)
    NoBrokersAvailable(str(outage), outage.causes)


def test_causes_do_not_repeat_the_name_and_tell_the_address():
    desk = Desk(nodes=1)
    desk.network.kill("kafka1", 9092)
    cause = outage_of(desk, 1.0).causes["kafka1:9092"]
    assert cause == "connection refused (nothing listens there), while connecting (10.0.0.1:9092)"


def test_an_outage_names_hosts_not_tried_yet_and_known_nodes():
    desk = Desk(nodes=2, bootstrap=["seed:9092"])
    desk.network.kill("kafka1", 9092)
    desk.network.kill("kafka2", 9092)
    desk.know(1)
    outage = outage_of(desk, 0.02)
    assert list(outage.causes) == ["seed:9092", "kafka1:9092"]
    outage = outage_of(desk, 5.0)
    assert "DNS" in outage.causes["seed:9092"]
    assert "refused" in outage.causes["kafka1:9092"]


def test_no_outage_while_anything_is_ready_or_nothing_is_wanted():
    desk = Desk().connect(2)
    desk.network.kill("kafka1", 9092)
    desk.answer_to(desk.send(1))
    assert desk.client.outage(desk.now) is None
    desk.network.kill("kafka2", 9092)
    desk.run(60.0)
    assert desk.client.outage(desk.now) is None


def test_an_outage_ends_with_the_first_success_and_can_be_acknowledged():
    desk = Desk(nodes=1)
    desk.network.kill("kafka1", 9092)
    assert outage_of(desk, 31.0).since == desk.began
    desk.client.acknowledge_outage(desk.now)
    assert desk.client.outage(desk.now).since == desk.now
    desk.cluster.listen(1)
    desk.run(2.0)
    assert desk.client.outage(desk.now) is None
    assert desk.client.any_ready()
    desk.network.kill("kafka1", 9092)
    desk.run(0.1)
    began = desk.now
    desk.send()
    assert desk.client.outage(desk.now).since == began


def test_an_outage_counts_only_time_that_somebody_attended():
    """An hour between two polls is no outage of an hour: two attempts in a row prove nothing."""
    desk = Desk(nodes=1)
    desk.network.kill("kafka1", 9092)
    assert outage_of(desk, 1.0)
    desk.cluster.clock.advance(3600.0)
    desk.turn(desk.now)
    assert desk.now - desk.client.outage(desk.now).since < 3.0
    desk.run(30.0)
    assert 29.0 < desk.now - desk.client.outage(desk.now).since < 34.0


def test_an_outage_is_forgotten_when_nothing_was_wanted_for_a_while():
    desk = Desk(nodes=1)
    desk.network.kill("kafka1", 9092)
    desk.send(allowance=3.0)
    desk.run(4.0)
    assert desk.client.outage(desk.now)
    for _ in range(10):
        desk.run(1.0)
    assert desk.client.outage(desk.now) is None


# -- the end


def test_closing_answers_everything_and_hangs_up():
    desk = Desk(nodes=2).connect(1)
    desk.cluster.on("Metadata", Silence(), node=1, times=1)
    desk.network.black_hole("kafka2", 9092)
    waiting = [desk.send(1), desk.send(2), desk.send(ANY_NODE)]
    desk.client.close(desk.now)
    waiting += [desk.send(ANY_NODE), desk.send(1)]
    for request in waiting:
        assert isinstance(desk.answer_to(request).error, KafkaConnectionError)
    desk.driver.step(desk.client, desk.now + 0.01)
    assert desk.driver.streams == []
    assert not desk.client.any_open()
    assert desk.client.wake_at() == float("inf")
    assert "closed" in repr(desk.client)


def test_repr_answers_the_support_question():
    desk = Desk(nodes=2, bootstrap=["nowhere:9092"])
    desk.connect(1)
    desk.network.kill("kafka2", 9092)
    desk.answer_to(desk.send(2))
    desk.send(Target(1, "coordinator"))
    text = repr(desk.client)
    assert "2 nodes known" in text
    assert "node 1 kafka1:9092 ready, 0 in flight, 0 queued" in text
    assert "node 1 (coordinator) kafka1:9092 connecting for 0.0 s, 1 queued" in text
    assert "node 2 kafka2:9092 backing off" in text
    assert "connection refused" in text


def test_disconnecting_brokers_do_not_make_a_busy_loop():
    """It accepts, negotiates, and hangs up at the first request: dialled again with a pause each time."""
    desk = Desk(nodes=1)
    desk.know()
    desk.cluster.on("Metadata", Disconnect(), node=1)
    while desk.passed < 10:
        assert isinstance(desk.answer_to(desk.send(1)).error, KafkaError)
    assert len(desk.network.dials) < 10 / 0.04 + 2
