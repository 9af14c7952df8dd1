"""The engine: which manager gets which answer, when a step is due, and how it restarts."""

import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.driver import Address
from thinconsumer.engine import Engine
from thinconsumer.engine.engine import ROUNDS_MAX
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Request, Target
from thinconsumer.support.agenda import Agenda, ReportingKey
from thinconsumer.support.timers import NEVER
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.metadata import MetadataRequest


class Asks:
    """A manager that sends the test's requests and keeps the answers."""

    def __init__(self, asker="asks"):
        self.asker = asker
        self.todo = []
        self.answers = []
        self.restarted = 0
        self.concerns_no_other = False  #: The result of ``handle``.
        self.again = 0  #: Ask so many times more, each time from an answer.

    def ask(self, target=ANY_NODE, timeout=30.0, now=1000.0):
        self.todo.append(Request(self.asker, ApiVersionsRequest, target, lambda v: _versions(), now + timeout))

    def step(self, now):
        todo, self.todo = self.todo, []
        return todo

    def handle(self, answer, now):
        self.answers.append(answer)
        if self.again:
            self.again -= 1
            self.ask(Target(99))
        return self.concerns_no_other

    def restart(self, now):
        self.restarted += 1


def _versions():
    return ApiVersionsRequest(client_software_name="test", client_software_version="1")


def new_engine(options, driver, *managers):
    agenda = Agenda()
    metadata = Metadata(options, driver.random, agenda)
    return Engine(options, driver.random, metadata, managers, driver.wall_time, agenda)


@pytest.fixture
def made():
    """Return (cluster, driver, engine, two managers)."""
    cluster = MemoryCluster(2, {"t": 1})
    options = ClientOptions.from_options(bootstrap_servers=cluster.bootstrap_servers)
    driver = cluster.driver()
    one, two = Asks("one"), Asks("two")
    engine = new_engine(options, driver, one, two)
    return cluster, driver, engine, one, two


def run(driver, engine, seconds=1.0):
    deadline = driver.now() + seconds
    engine.agenda.touch()  # as a public call does
    while driver.now() < deadline:
        driver.step(engine, deadline)
        engine.step(driver.now())


def test_each_answer_goes_to_who_asked(made):
    _, driver, engine, one, two = made
    one.ask()
    two.ask()
    two.ask()
    assert engine.step(driver.now())
    run(driver, engine)
    assert [len(one.answers), len(two.answers)] == [1, 2]
    assert all(a.response is not None for a in one.answers + two.answers)
    assert not engine.step(driver.now())


def test_nothing_is_dialled_before_something_is_asked(made):
    cluster, driver, engine, *_ = made
    engine.step(driver.now())
    assert engine.agenda.next() == NEVER
    assert cluster.network.dials == []


def test_it_wants_to_be_called_when_a_manager_does(made):
    _, driver, engine, one, _ = made
    engine.step(driver.now())
    one.ask()
    engine.touch("one")
    assert engine.agenda.is_due(driver.now())


def test_nodes_that_metadata_names_can_be_asked(made):
    answer = reach_node(made)
    assert (answer.node_id, answer.error) == (2, None)


def test_answers_that_cause_questions_do_not_keep_it_in_one_step_for_ever(made):
    _, driver, engine, one, _ = made
    one.again = 10 * ROUNDS_MAX
    one.ask(Target(99))  # an unknown node: answered with an error at once
    engine.step(driver.now())
    assert 0 < len(one.answers) <= ROUNDS_MAX


def test_starting_over_connects_anew_and_tells_the_managers(made):
    cluster, driver, engine, one, two = made
    engine.metadata.want(["t"])
    one.ask()
    run(driver, engine)
    before = len(cluster.network.dials)
    driver.hang_up_all()
    engine.restart(driver.now())
    assert (one.restarted, two.restarted) == (1, 1)
    one.ask(Target(1), now=driver.now())
    engine.metadata.want(["t"])
    run(driver, engine)
    assert len(cluster.network.dials) > before
    assert one.answers[-1].error is None


def test_a_broken_connection_has_metadata_asked_for_though_nobody_asked_anything(made):
    """An idle client refreshes metadata when the leader's connection breaks, before it next sends to it."""
    cluster, driver, engine, one, _ = made
    engine.metadata.want(["t"])
    one.ask(Target(1), now=driver.now())
    run(driver, engine, 2.0)
    one.ask(Target(1), now=driver.now())
    run(driver, engine, 2.0)
    assert one.answers[-1].node_id == 1
    asked = len(cluster.received(MetadataRequest))
    cluster.kill(1, noticed_after_s=0)
    run(driver, engine, 0.5)
    assert len(cluster.received(MetadataRequest)) == asked + 1


def test_trouble_is_said_with_its_cause(made):
    cluster, driver, engine, one, _ = made
    assert engine.obstacle() == ""
    for node in cluster.nodes.values():
        cluster.network.refuse(node.host, node.port)
    one.ask()
    run(driver, engine)
    assert engine.obstacle().startswith("no broker reachable: kafka1:9092: ")


def test_a_broker_that_demands_it_has_the_client_start_from_the_bootstrap_servers(made):
    cluster, driver, engine, *_ = made
    engine.metadata.want(["t"])
    run(driver, engine)
    engine.metadata.rebootstrap_reason = "told to"
    before = len(cluster.network.dials)
    engine.metadata.request_update("test")
    run(driver, engine, 5.0)
    assert engine.metadata.rebootstrap_reason is None
    assert len(cluster.network.dials) > before


@pytest.fixture
def untimed(made):
    """Return as ``made`` does; all managers have stepped."""
    _, driver, engine, _, _ = made
    engine.step(driver.now())
    return made


def test_only_touched_managers_step_before_the_first_is_due(untimed):
    _, driver, engine, one, two = untimed
    one.ask()
    two.ask()
    assert not engine.agenda.is_due(driver.now())
    engine.touch("two")
    assert engine.agenda.is_due(driver.now())
    engine.step(driver.now())
    assert [len(one.todo), len(two.todo)] == [1, 0]
    engine.touch()
    engine.step(driver.now())
    assert one.todo == []


@pytest.mark.parametrize("concerns_no_other", [True, False])
def test_an_answer_steps_all_managers_unless_its_manager_says_that_it_concerns_no_other(untimed, concerns_no_other):
    _, driver, engine, one, two = untimed
    one.concerns_no_other = concerns_no_other
    one.ask(Target(99))
    two.ask()
    engine.touch("one")
    engine.step(driver.now())  # node 99 is not known: the answer comes within the step
    assert bool(two.todo) is concerns_no_other


def test_a_manager_can_be_left_to_the_next_step(untimed):
    _, driver, engine, one, two = untimed
    one.ask()
    engine.touch("one")
    engine.step(driver.now(), "one")
    assert engine.agenda.touched and one.todo and engine.agenda.is_due(driver.now())
    two.ask()
    engine.touch("two")
    engine.step(driver.now(), "one")
    assert not engine.agenda.touched and not one.todo and not two.todo, "it is not the only one that is due"


def test_what_a_manager_touches_while_requests_are_sent_is_due(untimed, monkeypatch):
    _, driver, engine, one, two = untimed
    stepped = one.step

    def step(now):
        requests = stepped(now)
        if requests:
            two.ask()
            engine.agenda.touch("two")
        return requests

    monkeypatch.setattr(one, "step", step)
    one.ask()
    engine.touch("one")
    engine.step(driver.now())
    assert not two.todo or "two" in engine.agenda.touched


def test_nothing_is_left_to_the_next_step_if_all_managers_step(untimed):
    _, driver, engine, _, two = untimed
    two.ask()
    engine.touch()
    engine.step(driver.now(), "two")
    assert not engine.agenda.touched and not two.todo


def test_a_restart_leaves_nothing_to_the_next_step(untimed):
    _, driver, engine, one, _ = untimed
    one.ask()
    engine.touch("one")
    engine.step(driver.now(), "one")
    engine.restart(driver.now())
    assert not engine.agenda.touched


def test_all_managers_step_once_one_is_due(untimed):
    _, driver, engine, _, two = untimed
    at = driver.now() + 5.0
    engine.agenda.alarm().set(at)
    two.ask()
    assert engine.agenda.next() == at and not engine.agenda.is_due(at - 1.0) and engine.agenda.is_due(at)
    engine.step(at)
    assert two.todo == []


def test_a_request_that_cannot_be_sent_between_two_steps_has_its_answer_in_the_next_which_is_due_at_once(untimed):
    """Otherwise its manager would wait for the answer until something else causes a step: with luck, a heartbeat."""
    _, driver, engine, one, _ = untimed
    one.ask(Target(99))
    engine.touch("one")
    engine.step_touched(driver.now())
    assert engine.agenda.next() == -NEVER and engine.is_due(driver.now()) and not one.answers
    engine.step(driver.now())
    assert one.answers and engine.agenda.next() > driver.now() and not engine.is_due(driver.now())


def test_managers_are_due_at_their_times_though_others_step_again_in_the_same_step(untimed):
    _, driver, engine, _, two = untimed
    at = driver.now() + 5.0
    engine.agenda.alarm("one").set(at)
    two.concerns_no_other = True
    two.ask(Target(99))
    engine.touch("one")
    engine.touch("two")
    engine.step(driver.now())
    assert two.answers and engine.agenda.next() == at


def reach_node(made):
    _, driver, engine, one, _ = made
    engine.metadata.want(["t"])
    run(driver, engine)
    one.ask(Target(2), now=driver.now())
    run(driver, engine)
    (answer,) = one.answers
    one.answers.clear()
    assert answer.response
    return answer


def test_a_request_that_waits_for_one_broker_makes_no_step_due(made):
    """Otherwise each poll that returns a buffered record of another broker would wait for I/O."""
    cluster, driver, engine, one, _ = made
    reach_node(made)
    cluster.network.black_hole("kafka1", 9092)
    one.ask(Target(1, "group"), now=driver.now())
    run(driver, engine, 0.1)
    assert engine.network.in_flight(Target(1, "group")) == 1 and engine.network.outage_since is None
    assert not engine.is_due(driver.now()) and engine.agenda.next() > driver.now()


def test_after_a_long_pause_nothing_is_written_to_the_idle_connection(made):
    """A load balancer has dropped such a connection: the request would wait for its timeout."""
    cluster, driver, engine, one, _ = made
    reach_node(made)
    dials = len(cluster.network.dials)
    driver.clock.advance(3600.0)
    one.ask(Target(2), now=driver.now())
    engine.touch("one")
    engine.step_touched(driver.now())
    run(driver, engine)
    assert one.answers.pop().response and len(cluster.network.dials) > dials


def test_requests_that_routes_write_are_composed_before_alarms_of_the_same_step_are_reported(made, monkeypatch):
    """Else a Fetch, composed by the time of the planner's last step, uses up the report that a backoff has ended."""
    engine, events, step = made[2], [], made[2].network.step
    key = type("Key", (ReportingKey,), {"report_change": lambda self: events.append("report")})()
    engine.agenda.alarm(key).set(0.0)
    monkeypatch.setattr(engine.network, "step", lambda now, routes: events.append("routes") or step(now, []))
    engine.step(1.0)
    assert events[:2] == ["routes", "report"]


def test_an_outage_counts_no_pause_that_ends_with_a_step_of_what_was_touched(made):
    """Otherwise a consumer that returns buffered records and polls once a minute soon raises NoBrokersAvailable."""
    cluster, driver, engine, one, _ = made
    reach_node(made)
    for node in (1, 2):
        cluster.kill(node)
    one.ask(Target(2), timeout=1e6)
    run(driver, engine, 2.0)
    one.ask(Target(2), timeout=1e6)
    run(driver, engine, 1.0)
    before = driver.now() - engine.network.outage_since
    driver.clock.advance(3600.0)
    engine.touch("one")
    engine.step_touched(driver.now())
    driver.step(engine, driver.now())
    engine.step(driver.now())
    assert driver.now() - engine.network.outage_since < before + 5.0


def test_an_engine_is_due_throughout_an_outage(made):
    """The network client decides in its steps that an outage is over: skipped steps would raise one that is."""
    cluster, driver, engine, one, _ = made
    for node in (1, 2):
        cluster.kill(node)
    one.ask()
    run(driver, engine, 3.0)
    assert engine.network.outage_since is not None
    assert engine.is_due(driver.now())


@pytest.fixture
def fetching_token():
    """Return (driver, engine, manager) of a client that gets its token from an endpoint."""
    options = ClientOptions.from_options(
        bootstrap_servers="localhost:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="http://localhost:8080/token",
        sasl_oauthbearer_client_credentials_client_id="billing",
        sasl_oauthbearer_client_credentials_client_secret="secret",
    )
    driver = MemoryCluster(1, {"t": 1}).driver()
    asks = Asks()
    return driver, new_engine(options, driver, asks), asks


def test_a_fetch_of_a_token_is_due_at_its_time_though_only_another_manager_was_touched(fetching_token):
    """The driver's calls change that time: once connected, the timeout of the response takes effect."""
    driver, engine, _ = fetching_token
    now = driver.now()
    engine.step(now)
    engine.resolved("localhost", 8080, [Address(2, ("127.0.0.1", 8080))], "", now)
    engine.touch("asks")
    engine.step(now)
    *_, dial = engine.commands
    dial.stream.connection_made(now + 1.0)
    engine.touch("asks")
    engine.step(now + 1.0)
    assert engine.agenda.next() == now + 31.0


def test_a_request_that_waited_for_a_token_is_dialled_for_when_the_token_arrives(fetching_token):
    """Otherwise the first call of a consumer that gets its token from an endpoint waits until its timeout."""
    driver, engine, asks = fetching_token
    now = driver.now()
    asks.ask(now=now)
    engine.step(now)
    assert [engine.commands.popleft().port] == [8080]
    logins = engine.logins

    def receive_token(at):
        logins._refresh.succeeded(driver.wall_time() + 3600, at, driver.wall_time())
        return []

    logins.step = receive_token
    engine.step(now + 0.1)
    assert logins.may_dial()
    assert [command.port for command in engine.commands] == [9092]
