"""All connections of a client: the node of each request, bootstrapping, outages, and one answer to each request."""

import logging

import pytest

from thinconsumer.broker import Delay, Disconnect, Silence
from thinconsumer.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    SaslAuthenticationFailedError,
)
from thinconsumer.network.client import SILENT
from thinconsumer.network.request import ANY_NODE, Target
from thinconsumer.network.route import SLOW_ATTEMPT, STABLE_AFTER, BrokerRoute
from thinconsumer.testing import MemoryCluster, ScriptedPeer
from thinconsumer.types import Node
from thinconsumer.wire.fetch import FetchRequest

# -- to one node


def test_a_request_for_a_node_is_sent_to_that_node(bench):
    bench.know()
    answer = bench.answer_to(bench.send(2))
    assert [broker.node_id for broker in answer.response.brokers] == [1, 2, 3]
    assert answer.node_id == 2
    assert bench.brokers_of() == [2]
    assert bench.client.is_ready(2)
    assert not bench.client.is_ready(1)
    assert not bench.cluster.invalid_requests


def test_a_node_that_metadata_does_not_name_is_an_error_at_once(bench):
    bench.know(1)
    request = bench.send(9)
    (answer,) = bench.client.take_answers()
    assert answer.request is request
    assert isinstance(answer.error, KafkaConnectionError)
    assert "node 9" in str(answer.error)


def test_each_channel_has_a_connection_of_its_own(bench):
    """A heartbeat behind a long poll would wait with it."""
    bench.know()
    bench.cluster.on("Fetch", Silence(), node=1)
    bench.send(1, api=FetchRequest, build=lambda v: FetchRequest(max_wait_ms=1, min_bytes=1))
    heartbeat = bench.send(Target(1, "coordinator"))
    assert bench.answer_to(heartbeat).response
    assert bench.passed < 0.1
    assert bench.client.in_flight(Target(1)) == 1
    assert bench.client.in_flight(Target(1, "coordinator")) == 0
    assert bench.client.is_ready(1, "coordinator")
    assert len(bench.cluster.nodes[1].connections) == 2


def test_a_refused_connection_is_answered_at_once_and_the_next_request_waits_for_the_backoff(bench):
    bench.know()
    bench.network.kill("kafka1", 9092)
    first = bench.answer_to(bench.send(1))
    assert isinstance(first.error, KafkaConnectionError)
    assert "connection refused" in str(first.error)
    assert first.node_id == 1
    assert bench.passed < 0.01
    second = bench.answer_to(bench.send(1))
    assert second.error
    assert 0.04 < bench.passed < 0.07


def test_wake_at_is_now_until_a_step_handles_a_refused_connection(make_bench):
    bench = make_bench().connect()
    bench.network.kill("kafka1", 9092)
    bench.send(1)
    while not bench.client.take_answers():
        bench.driver.step(bench.client, bench.now + 60.0)
        if bench.client.agenda.next() <= bench.now:  # only then does an event loop step the client
            bench.client.step_due(bench.now)
    assert bench.passed < 0.1


def test_a_connection_lost_while_idle_causes_no_work(make_bench):
    """No request in flight, nothing wanted: no dial, no wake-up, no busy loop."""
    bench = make_bench().connect(1)
    dials, steps = len(bench.network.dials), bench.driver.steps
    bench.network.reset("kafka1", 9092)
    bench.run(300.0)
    assert len(bench.network.dials) == dials
    assert bench.driver.steps - steps < 8


def test_routes_with_nothing_to_do_are_not_stepped(make_bench, monkeypatch):
    """A cluster of hundreds of brokers must not cost each step of a client that talks to one of them."""
    bench = make_bench(connections_max_idle_ms=540_000).connect(1, 2, 3)
    bench.run(STABLE_AFTER + 1)
    stepped = []
    step = BrokerRoute.step

    def note(route, *about):
        stepped.append(route.node_id)
        step(route, *about)

    monkeypatch.setattr(BrokerRoute, "step", note)
    for _ in range(10):
        assert bench.client.step_due(bench.now) == ([], False)
        assert bench.client.agenda.next() > bench.now
    assert stepped == []
    assert bench.answer_to(bench.send(2)).response
    assert stepped == [], "nor does a request over a ready connection step its route"
    bench.cluster.nodes[3].kill()
    bench.run(0.1)
    assert set(stepped) == {3}, "a lost connection is noticed at once"
    bench.run(541)
    assert set(stepped) == {1, 2, 3} and not bench.client.any_open(), "idle connections are closed all the same"


def test_idle_connections_are_closed_and_made_again_when_wanted(make_bench):
    bench = make_bench(connections_max_idle_ms=60_000).connect(1)
    bench.run(61.0)
    assert not bench.client.any_open()
    assert bench.cluster.nodes[1].connections == []
    assert bench.answer_to(bench.send(1)).response
    assert bench.client.outage(bench.now) is None


@pytest.mark.parametrize("api_versions", [(0, 0), (0, 2), (0, 3), (0, 4)])
def test_requests_to_old_brokers_have_old_versions(make_bench, api_versions):
    bench = make_bench(nodes=1)
    bench.cluster.set_versions("ApiVersions", api_versions)
    bench.cluster.set_versions("Metadata", (0, 5))
    answer = bench.answer_to(bench.send())
    assert answer.version == 5
    assert not bench.cluster.invalid_requests


@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.parametrize("send_limit", [1, None])
def test_requests_work_however_bytes_are_split(bench, chunk, send_limit):
    bench.network.chunk, bench.network.send_limit = chunk, send_limit
    bench.know()
    assert bench.answer_to(bench.send(1)).response
    assert bench.answer_to(bench.send(ANY_NODE)).response


# -- deadlines, and long pauses between steps


def test_a_client_stepped_once_a_minute_gets_answers_and_no_timeouts(make_bench):
    """The client has no thread: after a minute without a step it must find responses, not timeouts."""
    bench = make_bench(nodes=1, socket_connection_setup_timeout_ms=10_000)
    request = bench.send(ANY_NODE, allowance=1000.0)
    for _ in range(20):
        bench.cluster.clock.advance(60.0)
        bench.turn(bench.now)
        if bench.answers:
            break
    assert bench.answer_to(request).response
    assert len(bench.network.dials) == 1
    bench.know()
    in_flight = bench.send(1, allowance=30.0)
    bench.turn(bench.now)
    bench.cluster.clock.advance(3600.0)
    bench.turn(bench.now)
    assert bench.answer_to(in_flight).response


# -- to any node


def test_any_node_is_the_least_loaded_one(make_bench):
    bench = make_bench().connect(1, 2, 3)
    for node_id in (1, 3):
        bench.cluster.on("Fetch", Silence(), node=node_id)
        bench.send(node_id, api=FetchRequest)
    before = len(bench.brokers_of())
    for _ in range(5):
        bench.answer_to(bench.send())
    assert set(bench.brokers_of()[before:]) == {2}


def test_any_node_is_one_with_a_connection(make_bench):
    bench = make_bench().connect(2)
    dials = len(bench.network.dials)
    for _ in range(10):
        bench.answer_to(bench.send())
    assert len(bench.network.dials) == dials


@pytest.mark.parametrize("channel", ["", "fetch"])
def test_any_node_is_not_one_that_does_not_answer(make_bench, channel):
    """A stopped broker has few requests in flight, and beside the connection for Fetch an idle one."""
    bench = make_bench().connect(1)
    bench.send(Target(1, channel), api=FetchRequest)
    bench.run(0.1)
    bench.network.pause("kafka1", 9092)
    bench.send(Target(1, channel), api=FetchRequest)
    bench.run(SILENT + 0.5)
    began = bench.now
    assert bench.answer_to(bench.send()).node_id in (2, 3)
    assert bench.now - began < 1.0


def test_requests_for_any_node_are_spread_over_nodes(make_bench):
    answered = set()
    for seed in range(20):
        bench = make_bench(seed=seed)
        bench.know()
        answered.add(bench.answer_to(bench.send()).node_id)
    assert answered == {1, 2, 3}


def test_one_dead_host_in_the_list_costs_a_second_and_not_a_timeout(make_bench):
    for seed in range(6):
        bench = make_bench(nodes=3, seed=seed)
        bench.network.black_hole("kafka1", 9092)
        bench.network.black_hole("kafka2", 9092)
        assert bench.answer_to(bench.send()).response
        assert bench.passed < 2 * SLOW_ATTEMPT + 0.1


def test_kip_899_bootstrap_servers_are_dialled_only_when_all_known_nodes_failed(make_bench):
    bench = make_bench(nodes=2, bootstrap=["seed:9092"])
    seed = MemoryCluster(network=bench.network, hosts=[("seed", 9092)], seed=7)
    bench.know()
    bench.network.kill("kafka1", 9092)
    for _ in range(5):
        assert bench.answer_to(bench.send()).node_id == 2
        bench.network.reset("kafka2", 9092)
    assert not seed.requests
    bench.network.kill("kafka2", 9092)
    bench.run(0.01)
    answer = bench.answer_to(bench.send())
    assert answer.response.cluster_id == seed.cluster_id != bench.cluster.cluster_id
    assert answer.node_id == -1
    assert bench.passed < 5


def test_kip_899_can_be_turned_off(make_bench):
    bench = make_bench(nodes=1, bootstrap=["seed:9092"], metadata_recovery_strategy="none")
    MemoryCluster(network=bench.network, hosts=[("seed", 9092)])
    bench.know()
    bench.network.kill("kafka1", 9092)
    bench.send()
    bench.run(20.0)
    assert {host for _, host, _ in bench.network.dials} == {"kafka1"}


def test_a_bootstrap_connection_becomes_that_of_the_node_with_its_address(make_bench):
    """One connection for a whole job, where one broker is enough."""
    bench = make_bench(nodes=1)
    bench.answer_to(bench.send())
    bench.know()
    assert bench.client.is_ready(1)
    assert bench.answer_to(bench.send(1)).node_id == 1
    assert len(bench.network.dials) == 1


def test_other_bootstrap_connections_are_closed_after_their_last_answer(make_bench):
    bench = make_bench(nodes=1, bootstrap=["seed:9092"])
    seed = MemoryCluster(network=bench.network, hosts=[("seed", 9092)], seed=7)
    bench.answer_to(bench.send())
    seed.on("Metadata", Delay(3.0))
    late = bench.send()
    bench.run(0.1)
    bench.know()
    bench.run(1.0)
    assert len(seed.nodes[1].connections) == 1
    assert bench.answer_to(late).response.cluster_id == seed.cluster_id
    bench.run(1.0)
    assert seed.nodes[1].connections == []


def test_a_request_without_a_reachable_node_times_out_and_names_each_cause(make_bench):
    bench = make_bench(nodes=2)
    bench.network.kill("kafka1", 9092)
    bench.network.names["kafka2"] = "the name does not resolve"
    answer = bench.answer_to(bench.send(allowance=3.0))
    assert isinstance(answer.error, KafkaTimeoutError)
    assert "kafka1:9092: connection refused" in str(answer.error)
    assert "kafka2:9092: DNS: the name does not resolve" in str(answer.error)
    assert bench.passed == pytest.approx(3.0, abs=0.1)


class Credentials:
    """The logins of a client, which may lack credentials."""

    def __init__(self, new_login):
        self.new_login = new_login
        self.lacks = ""
        self.error = None

    def may_dial(self):
        return not self.lacks

    def waits_for(self):
        return self.lacks

    def take_error(self):
        error, self.error = self.error, None
        return error


def test_a_failed_login_answers_requests_for_any_node(make_bench, refused_login):
    """It is the same everywhere; trying on in silence would hide it."""
    bench = make_bench(logins=Credentials(refused_login))
    answer = bench.answer_to(bench.send(), within=2.0)
    assert isinstance(answer.error, SaslAuthenticationFailedError)


def test_no_broker_is_dialled_before_there_are_credentials(make_bench):
    """A login without a token would be rejected, and rejections may lock the account."""
    logins = Credentials(None)
    logins.lacks = "no OAUTHBEARER token yet"
    bench = make_bench(nodes=1, logins=logins)
    request = bench.send()
    bench.run(3.0)
    assert not bench.client.any_open()
    assert bench.client.outage(bench.now).causes == {"kafka1:9092": "no OAUTHBEARER token yet, 0 queued"}
    logins.lacks = ""
    bench.client.step_due(bench.now)  # as the engine does after the credentials arrived
    assert bench.answer_to(request, within=2.0).response is not None


def test_requests_for_any_node_get_the_error_because_of_which_there_are_no_credentials(make_bench):
    logins = Credentials(None)
    logins.lacks = "no OAUTHBEARER token yet"
    logins.error = SaslAuthenticationFailedError("the token provider raised", code=58, name="X")
    bench = make_bench(nodes=1, logins=logins)
    assert bench.answer_to(bench.send(), within=1.0).error is not None
    assert logins.error is None


# -- the cluster changes


def test_a_node_that_moved_is_dialled_at_its_new_address(make_bench):
    bench = make_bench().connect(1)
    in_flight = bench.send(1)
    bench.client.update_nodes([Node(1, "kafka2", 9092)])
    assert "moved to kafka2:9092" in str(bench.answer_to(in_flight).error)
    assert bench.answer_to(bench.send(1)).response
    assert bench.brokers_of()[-1] == 2
    assert bench.cluster.nodes[1].connections == []


def test_a_node_missing_in_metadata_answers_requests_in_flight_only(make_bench):
    bench = make_bench().connect(1, 2)
    bench.cluster.on("Metadata", Delay(1.0), node=1, times=1)
    in_flight = bench.send(1)
    bench.know(2, 3)
    refused = bench.send(1)
    assert "not known" in str(bench.answer_to(refused).error)
    assert bench.answer_to(in_flight).response
    bench.run(0.1)
    assert bench.cluster.nodes[1].connections == []
    bench.know(1, 2, 3)
    assert bench.answer_to(bench.send(1)).response


def test_kip_1102_rebootstrap_forgets_nodes_and_connections(make_bench):
    bench = make_bench(nodes=2, bootstrap=["seed:9092"])
    bench.network.names["seed"] = bench.network.names["kafka2"]
    bench.connect(1)
    bench.cluster.on("Metadata", Silence(), node=1, times=1)
    in_flight = bench.send(1)
    bench.client.rebootstrap(bench.now)
    assert isinstance(bench.answer_to(in_flight).error, KafkaConnectionError)
    assert "not known" in str(bench.answer_to(bench.send(1)).error)
    bench.answer_to(bench.send())
    assert bench.network.dials[-1][1] == "seed"
    assert bench.cluster.nodes[1].connections == []


def test_the_client_is_due_at_once_after_a_rebootstrap(make_bench):
    """A request that waits for any broker may go to a bootstrap server, which is not known to be down any more."""
    bench = make_bench(nodes=1, bootstrap=["10.0.0.77:9092"])
    bench.send(allowance=100.0)
    bench.run(5.0)
    bench.client.step_due(bench.now)
    assert not bench.client.agenda.is_due(bench.now)
    bench.client.rebootstrap(bench.now)
    assert bench.client.agenda.is_due(bench.now)


# -- outages


def outage_of(bench, seconds):
    bench.send(allowance=100_000.0)
    bench.run(seconds)
    return bench.client.outage(bench.now)


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (lambda n: n.names.update(kafka1="the name does not resolve"), "DNS: the name does not resolve"),
        (
            lambda n: n.kill("kafka1", 9092),
            "connection refused (nothing listens there), while connecting (10.0.0.1:9092)",
        ),
        (lambda n: n.black_hole("kafka1", 9092), "timed out: no connection"),
        (lambda n: n.pause("kafka1", 9092), "no answer to ApiVersions"),
        (lambda n: n.listen("kafka1", 9092, ScriptedPeer(b"HTTP/1.1 400 Bad Request\r\n\r\n")), "not Kafka: an HTTP"),
        (
            lambda n: n.listen("kafka1", 9092, ScriptedPeer(then_close=True)),
            "before it answered ApiVersions: the port expects TLS (set security_protocol='SSL')",
        ),
        (lambda n: n.listen("kafka1", 9092, ScriptedPeer(on_connect=b"SSH-2.0-x\r\n")), "not Kafka: an SSH server"),
    ],
    ids=["dns", "refused", "timeout", "stopped", "http", "closes", "ssh"],
)
def test_an_outage_names_each_hosts_cause(make_bench, breaks, words):
    bench = make_bench(nodes=1)
    breaks(bench.network)
    outage = outage_of(bench, 40.0)
    assert words in outage.causes["kafka1:9092"]
    assert str(outage).startswith("kafka1:9092: ")
    assert outage.since == pytest.approx(bench.began)
    NoBrokersAvailable(str(outage), outage.causes)


def test_an_outage_names_hosts_not_tried_yet_and_known_nodes(make_bench):
    bench = make_bench(nodes=2, bootstrap=["seed:9092"])
    bench.network.kill("kafka1", 9092)
    bench.network.kill("kafka2", 9092)
    bench.know(1)
    outage = outage_of(bench, 0.0)
    assert list(outage.causes) == ["seed:9092", "kafka1:9092"]
    assert outage.causes["seed:9092"] == "not tried yet"
    outage = outage_of(bench, 5.0)
    assert "DNS" in outage.causes["seed:9092"]
    assert "refused" in outage.causes["kafka1:9092"]


def test_no_outage_while_a_node_works_or_no_request_waits(make_bench):
    bench = make_bench().connect(2)
    bench.network.kill("kafka1", 9092)
    bench.answer_to(bench.send(1))
    assert bench.client.outage(bench.now) is None
    bench.network.kill("kafka2", 9092)
    bench.run(60.0)
    assert bench.client.outage(bench.now) is None


def test_an_outage_ends_with_the_first_answer_and_can_be_acknowledged(make_bench):
    bench = make_bench(nodes=1)
    bench.network.kill("kafka1", 9092)
    assert outage_of(bench, 31.0).since == bench.began
    bench.client.acknowledge_outage(bench.now)
    assert bench.client.outage(bench.now).since == bench.now
    bench.cluster.listen(1)
    bench.run(2.0)
    assert bench.client.outage(bench.now) is None
    assert bench.client.any_ready()
    bench.network.kill("kafka1", 9092)
    bench.run(0.1)
    began = bench.now
    bench.send()
    assert bench.client.outage(bench.now).since == began


def test_an_outage_counts_only_the_time_in_which_the_client_is_stepped(make_bench):
    """An hour between two polls is no outage of an hour: two attempts in a row prove nothing."""
    bench = make_bench(nodes=1)
    bench.network.kill("kafka1", 9092)
    assert outage_of(bench, 1.0)
    bench.cluster.clock.advance(3600.0)
    bench.turn(bench.now)
    assert bench.now - bench.client.outage(bench.now).since < 3.0
    bench.run(30.0)
    assert 29.0 < bench.now - bench.client.outage(bench.now).since < 34.0


def test_an_outage_ends_without_a_log_line_when_no_request_has_waited_for_a_while(make_bench, caplog):
    caplog.set_level(logging.INFO, "thinconsumer")
    bench = make_bench(nodes=1)
    bench.network.kill("kafka1", 9092)
    bench.send(allowance=8.0)
    bench.run(9.0)
    assert bench.client.outage(bench.now)
    assert [text for text in caplog.messages if text.startswith("no broker can be reached: kafka1:9092: ")]
    for _ in range(10):
        bench.run(1.0)
    assert bench.client.outage(bench.now) is None
    assert not [text for text in caplog.messages if text.startswith("a broker answers again")]


# -- the end


def test_closing_answers_all_requests_and_hangs_up(make_bench):
    bench = make_bench(nodes=2).connect(1)
    bench.cluster.on("Metadata", Silence(), node=1, times=1)
    bench.network.black_hole("kafka2", 9092)
    waiting = [bench.send(1), bench.send(2), bench.send(ANY_NODE)]
    bench.client.close(bench.now)
    waiting += [bench.send(ANY_NODE), bench.send(1)]
    for request in waiting:
        assert isinstance(bench.answer_to(request).error, KafkaConnectionError)
    bench.driver.step(bench.client, bench.now + 0.01)
    assert bench.driver.streams == []
    assert not bench.client.any_open()
    bench.client.step_due(bench.now + 3600.0)
    assert bench.client.agenda.next() == float("inf")
    assert "closed" in repr(bench.client)


def test_repr_names_addresses_and_states(make_bench):
    bench = make_bench(nodes=2, bootstrap=["nowhere:9092"])
    bench.connect(1)
    bench.network.kill("kafka2", 9092)
    bench.answer_to(bench.send(2))
    bench.send(Target(1, "coordinator"))
    text = repr(bench.client)
    assert "2 nodes known" in text
    assert "node 1 kafka1:9092 ready, 0 in flight, 0 queued" in text
    assert "node 1 (coordinator) kafka1:9092 connecting for 0.0 s, 1 queued" in text
    assert "node 2 kafka2:9092 backing off" in text
    assert "connection refused" in text


def test_a_broker_that_closes_each_connection_causes_no_busy_loop(make_bench):
    """It accepts, negotiates, and hangs up at the first request: dialled again with a pause each time."""
    bench = make_bench(nodes=1)
    bench.know()
    bench.cluster.on("Metadata", Disconnect(), node=1)
    while bench.passed < 10:
        assert isinstance(bench.answer_to(bench.send(1)).error, KafkaError)
    assert len(bench.network.dials) < 10 / 0.04 + 2
