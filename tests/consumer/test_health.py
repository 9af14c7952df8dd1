"""Health: the reason why a consumer makes no progress, so that users need not read private fields."""

import itertools

import pytest

from thinconsumer import Consumer, HealthState, TopicPartition
from thinconsumer.broker import Edit, EntryError, FaultRule, Reply, Silence
from thinconsumer.errors import KafkaTimeoutError
from thinconsumer.testing import Simulation
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchResponse

TP = TopicPartition("t", 0)
OPTIONS = {"session_timeout_ms": 10_000, "max_poll_interval_ms": 10_000, "heartbeat_interval_ms": 1000}


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=3, topics={"t": 3})


@pytest.fixture
def consumer(sim):
    made = []

    def make(*topics, **options):
        options = {"group_id": "g", **OPTIONS, **options} if topics else options
        made.append(Consumer(*topics, driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options))
        return made[-1]

    yield make
    for found in made:
        found.close(timeout_ms=0)


def run(consumer, seconds, *, until=None):
    """Poll for so long, or until it is so; return its health."""
    driver = consumer._shell.driver
    end = driver.now() + seconds
    while driver.now() < end and not (until is not None and consumer.health().state is until):
        consumer.poll(200)
    return consumer.health()


def test_a_consumer_of_nothing_is_idle_and_asking_does_no_io(sim, consumer):
    found = consumer()
    health = found.health()
    assert (health.state, health.reason, health.last_poll_age) == (HealthState.IDLE, "", None)
    assert not found._shell.engine.network.any_open()


def test_a_member_works_its_way_to_ok_and_says_who_it_is(consumer):
    found = consumer("t")
    assert found.health().state is HealthState.WORKING
    health = run(found, 10, until=HealthState.OK)
    assert (health.state, health.reason, health.since) == (HealthState.OK, "", None)
    assert (health.group_state, health.generation_id, health.assigned) == ("stable", 1, 3)
    assert health.member_id and health.coordinator in (1, 2, 3)
    health = run(found, 3)
    assert health.state is HealthState.OK
    assert health.last_poll_age <= 0.25 and health.last_heartbeat_age <= 1.1 and health.last_fetch_age <= 1.0


def test_by_hand_there_is_no_group_in_it(sim, consumer):
    found = consumer(auto_offset_reset="earliest")
    found.assign([TP])
    health = run(found, 5, until=HealthState.OK)
    assert (health.state, health.group_state, health.coordinator) == (HealthState.OK, "", None)


def test_no_broker_at_all_is_stuck_after_half_a_session_and_ok_when_one_is_back(sim, consumer):
    found = consumer("t")
    run(found, 10, until=HealthState.OK)
    for node in (1, 2, 3):
        sim.kill(node)
    assert run(found, 1).state is not HealthState.STUCK
    health = run(found, 10)
    assert health.state is HealthState.STUCK and health.since >= 5, health
    assert "no broker can be reached" in health.reason
    for node in (1, 2, 3):
        sim.start(node)
    assert run(found, 20, until=HealthState.OK).state is HealthState.OK


def test_a_program_that_does_not_poll_is_told_so(sim, consumer):
    found = consumer("t")
    run(found, 10, until=HealthState.OK)
    sim.run_for(8)
    health = found.health()
    assert health.state is HealthState.STUCK and "heartbeats are not answered" in health.reason
    assert health.last_poll_age >= 8 and health.last_heartbeat_age >= 7
    assert run(found, 20, until=HealthState.OK).state is HealthState.OK


def test_what_no_waiting_cures_is_stuck_at_once(sim, consumer):
    first = consumer("t", group_instance_id="one")
    run(first, 10, until=HealthState.OK)
    second = consumer("t", group_instance_id="one")
    run(second, 10, until=HealthState.OK)
    with pytest.raises(Exception, match="group_instance_id"):
        run(first, 10)
    health = first.health()
    assert health.state is HealthState.STUCK and health.last_error is not None
    assert health.group_state == "fatal"


def reject(call, response):
    response.error_code = int(Code.FENCED_LEADER_EPOCH)


def test_errors_of_topics_come_before_the_state_of_the_member(sim, consumer):
    """The reason begins with the cause: without metadata of its topics, a member cannot go on."""
    found = consumer("t")
    sim.cluster.rules.add(FaultRule("Metadata", EntryError(Code.LEADER_NOT_AVAILABLE, {"name": "t"})))
    sim.cluster.rules.add(FaultRule("JoinGroup", Silence()))
    reason = run(found, 1).reason
    assert 0 <= reason.find("LEADER_NOT_AVAILABLE") < reason.find("the member is"), reason


def test_brokers_that_reject_metadata_are_named(sim, consumer):
    """Without the topic's partitions the leader assigns nothing, and each member looked as if it had no share."""
    sim.cluster.on("Metadata", Edit(reject))
    found = consumer("t")
    for _ in range(20):
        found.poll(500)
        health = found.health()
        assert health.state is not HealthState.OK
    assert health.state is HealthState.STUCK and "FENCED_LEADER_EPOCH" in health.reason
    assert "metadata cannot be refreshed" in health.reason


def test_a_call_for_metadata_that_was_rejected_leaves_no_trace(reading):
    """The call raises the error; the next refresh, which would end the obstacle, may be due in five minutes only."""
    w, found = reading(3)
    found.poll(1000)
    w.cluster.on("Metadata", Edit(reject), times=4)
    with pytest.raises(KafkaTimeoutError, match="FENCED_LEADER_EPOCH"):
        found.topics(timeout_ms=400)
    w.cluster.rules.clear()
    assert found.poll(2000) == {} and found.health().reason == ""


def test_a_broker_that_returns_no_records_at_once_is_named(reading):
    w, found = reading(3)
    assert len(found.poll(1000)[TP]) == 3
    w.cluster.on("Fetch", Reply(lambda call: FetchResponse(session_id=call.request.session_id)))
    for _ in range(10):
        assert found.poll(500) == {}
    health = found.health()
    assert (health.state, health.reason) == (
        HealthState.WORKING,
        "broker 1 answers Fetch requests at once and without records",
    )
    w.cluster.rules.clear()
    assert found.poll(2000) == {} and found.health().state is HealthState.OK


def test_a_broker_that_rejects_every_fetch_is_not_said_to_answer_none(reading):
    w, found = reading(3)
    assert len(found.poll(1000)[TP]) == 3
    w.cluster.on("Fetch", EntryError(Code.KAFKA_STORAGE_ERROR))
    for _ in range(60):
        assert found.poll(500) == {}
    reason = found.health().reason
    assert "broker 1 (" in reason and ") rejects each Fetch (last error: " in reason and "no Fetch" not in reason
    assert "KAFKA_STORAGE_ERROR" in reason
    w.cluster.rules.clear()
    assert found.poll(2000) == {} and found.health().state is HealthState.OK


def prefer_an_unknown_replica(call, response):
    for topic in response.responses:
        for data in topic.partitions:
            data.preferred_read_replica, data.records = 99, None


def every_second(action):
    """Return a decision of a fault rule: the first request and every second one after it gets the action."""
    turns = itertools.count()
    return lambda call: action if next(turns) % 2 == 0 else None


@pytest.mark.parametrize(
    ("api", "action", "words"),
    [
        ("Fetch", EntryError(Code.KAFKA_STORAGE_ERROR), "KAFKA_STORAGE_ERROR to Fetch"),
        ("Fetch", Edit(prefer_an_unknown_replica), "node 99 is the preferred replica, but not in metadata"),
        ("Metadata", EntryError(Code.UNKNOWN_SERVER_ERROR), "UNKNOWN_SERVER_ERROR to Metadata"),
        ("ListOffsets", EntryError(Code.KAFKA_STORAGE_ERROR), "KAFKA_STORAGE_ERROR to ListOffsets"),
    ],
)
def test_refusals_are_named_although_every_second_request_succeeds(api, action, words):
    sim = Simulation(seed=1, brokers=1, topics={"t": 1})
    options = {"metadata_max_age_ms": 1000, "auto_offset_reset": "earliest"}
    found = Consumer("t", driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, group_id="g", **options)
    assert run(found, 10, until=HealthState.OK).reason == ""
    rule = sim.cluster.rules.add(FaultRule(api, every_second(action)))
    for turn in range(40):
        sim.cluster.produce("t", [b"x"], 0)
        sim.run_for(0.2)
        found.poll(200)
        if api == "ListOffsets":
            found.end_offsets([TP])
        assert turn < 30 or words in found.health().reason
    assert "no Fetch" not in found.health().reason, "broker 1 does answer"
    health = run(found, 1.0)
    assert health.state is HealthState.WORKING
    sim.cluster.rules.remove(rule)
    assert run(found, 11).reason == ""
    found.close(timeout_ms=0)


def test_a_broker_that_stops_after_the_end_of_a_fetch_session_is_named(reading):
    """No session of the consumer has confirmed the partition since, so that none of them names it."""
    w, found = reading(3)
    assert len(found.poll(1000)[TP]) == 3 and found.poll(2000) == {}
    actions = iter([Reply(Code.FETCH_SESSION_ID_NOT_FOUND)])
    w.cluster.rules.add(FaultRule("Fetch", lambda call: next(actions, Silence())))
    for _ in range(20):
        assert found.poll(500) == {}
    assert "t-0: broker 1 (" in found.health().reason
