"""Properties of poll: bounded, in order, at most once per position, each error response raised once."""

import pickle

import pytest

from thinconsumer import (
    DeserializationError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    TopicAuthorizationFailedError,
    TopicPartition,
)
from thinconsumer.broker import Delay, EntryError, Silence
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.testing import ScriptedPeer
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

NONSENSE = {
    "poll timeout": lambda c: c.poll(-1),
    "poll timeout nan": lambda c: c.poll(float("nan")),
    "poll timeout text": lambda c: c.poll("100"),
    "poll timeout bool": lambda c: c.poll(True),
    "no records": lambda c: c.poll(0, max_records=0),
    "half a record": lambda c: c.poll(0, max_records=1.5),
    "true records": lambda c: c.poll(0, max_records=True),
    "assign a string": lambda c: c.assign("t"),
    "assign a tuple of text": lambda c: c.assign([("t", "0")]),
    "seek below zero": lambda c: c.seek(T0, -1),
    "seek to a float": lambda c: c.seek(T0, 1.0),
    "seek to true": lambda c: c.seek(T0, True),
    "seek too far": lambda c: c.seek(T0, 2**63),
    "seek text": lambda c: c.seek("t", 0),
    "times below zero": lambda c: c.offsets_for_times({T0: -1}),
    "position timeout": lambda c: c.position(T0, timeout_ms=-1),
    "topics timeout": lambda c: c.topics(timeout_ms="soon"),
}

NOT_ASSIGNED = {
    "seek": lambda c: c.seek(T1, 0),
    "seek_to_beginning": lambda c: c.seek_to_beginning(T0, T1),
    "seek_to_end": lambda c: c.seek_to_end(T1),
    "position": lambda c: c.position(T1),
    "pause": lambda c: c.pause(T0, T1),
    "resume": lambda c: c.resume(T1),
    "lag": lambda c: c.lag([T1]),
    "highwater": lambda c: c.highwater(T1),
}


# -- time


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_and_changes_nothing(reading, read, name):
    _, consumer = reading(4)
    assert read(consumer, 2, max_records=2) == {0: [0, 1]}
    with pytest.raises(IllegalArgumentError):
        NONSENSE[name](consumer)
    assert consumer.assignment() == {T0}
    assert read(consumer, 2) == {0: [2, 3]}


@pytest.mark.parametrize("name", NOT_ASSIGNED)
def test_what_is_not_assigned_is_refused_by_name_and_changes_nothing(reading, name):
    _, consumer = reading()
    consumer.seek(T0, 0)
    with pytest.raises(IllegalStateError, match=r"t-1 is not assigned.*t-0"):
        NOT_ASSIGNED[name](consumer)
    assert (consumer.position(T0), consumer.paused()) == (0, set())


# -- records


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 500])
def test_max_records_is_a_bound_over_all_partitions(world, limit, offsets):
    """Never more than asked for, nothing skipped, every partition in order."""
    w = world(topics={"t": 3})
    for partition in range(3):
        for _ in range(4):
            w.append(5, partition)
    consumer = w.consumer(("t", 0), ("t", 1), ("t", 2))
    found = {0: [], 1: [], 2: []}
    for _ in range(200):
        polled = offsets(consumer.poll(200, max_records=limit))
        assert sum(map(len, polled.values())) <= limit
        for number, some in polled.items():
            found[number] += some
    assert found == {number: list(range(20)) for number in range(3)}


def test_max_poll_records_is_the_default_limit(reading, offsets):
    _, consumer = reading(10, max_poll_records=4)
    assert [offsets(consumer.poll(1000)) for _ in range(3)] == [{0: [0, 1, 2, 3]}, {0: [4, 5, 6, 7]}, {0: [8, 9]}]


def test_a_known_position_is_returned_without_io(world):
    """Programs that ask for it after each record would spend most of their time on engine steps."""
    w = world()
    w.append(3)
    consumer = w.consumer()
    assert len(consumer.poll(1000, max_records=2)[T0]) == 2
    steps = consumer._shell.engine.steps
    assert consumer.position(T0) == 2 and consumer._shell.engine.steps == steps
    consumer.seek_to_end(T0)
    assert consumer.position(T0) == 3 and consumer._shell.engine.steps > steps


# -- deserializers


def test_deserializers_see_bytes_and_never_null(world):
    w = world()
    w.cluster.append_batch(T0, build_batch([NewRecord(b"7", b"k"), NewRecord(None, None)]))
    consumer = w.consumer(key_deserializer=lambda data: data.decode().upper(), value_deserializer=int)
    assert [(r.key, r.value) for r in consumer.poll(1000)[T0]] == [("K", 7), (None, None)]


@pytest.mark.parametrize("exception", [ValueError, StopIteration, KeyError])
@pytest.mark.parametrize("way_on", ["skip", "seek"])
def test_poisoned_record_is_named_and_can_be_skipped(world, offsets, exception, way_on):
    """Record 5 of 10: those before it come first, the error names it and has its bytes, and one call goes on at 6."""
    w = world()
    w.append(10)

    def poisoned(data):
        if data == b"0:5":
            raise exception("poison")
        return data

    consumer = w.consumer(value_deserializer=poisoned)
    assert offsets(consumer.poll(1000)) == {0: [0, 1, 2, 3, 4]}
    for _ in range(3):
        with pytest.raises(DeserializationError, match=r"t-0 at offset 5") as caught:
            consumer.poll(1000)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.partition, error.offset, error.next_offset, error.field) == (T0, 5, 6, "value")
    assert error.value == b"0:5"
    assert isinstance(caught.value.__cause__, exception)
    assert consumer.position(T0) == 5
    if way_on == "skip":
        consumer.skip(error)
    else:
        consumer.seek(T0, 6)
    assert offsets(consumer.poll(1000)) == {0: [6, 7, 8, 9]}
    consumer.skip(error)  # long past it: nothing happens
    assert consumer.position(T0) == 10


# -- errors that last


def test_authorization_error_is_raised_by_every_poll_until_it_is_cured(world, offsets):
    """Refused by the leader: five polls raise five times; once the ACL is there, the next poll works."""
    w = world()
    w.append(2)
    rule = w.cluster.on("Fetch", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 0}))
    consumer = w.consumer()
    for _ in range(5):
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            consumer.poll(2000)
        assert caught.value.topics == ("t",)
    w.cluster.rules.remove(rule)
    assert offsets(consumer.poll(2000)) == {0: [0, 1]}


@pytest.mark.parametrize("where", ["metadata", "fetch", "both"])
@pytest.mark.parametrize("timeout_ms", [0, 5000])
def test_wherever_the_refusal_comes_from(reading, where, timeout_ms, offsets):
    """A topic hidden by metadata, or refused while it is being read: raised, not silence; and cured by itself."""
    w, consumer = reading(2, metadata_max_age_ms=1000)
    assert offsets(consumer.poll(2000)) == {0: [0, 1]}
    if where != "fetch":
        w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"}))
    if where != "metadata":
        w.cluster.on("Fetch", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 0}))
        w.append(1)
    raised = 0
    for _ in range(50):
        try:
            consumer.poll(timeout_ms)
        except TopicAuthorizationFailedError as error:
            raised += 1
            assert error.topics == ("t",)
        w.clock.advance(0.1)
    assert raised >= 5
    w.cluster.rules.clear()
    if where == "metadata":
        w.append(1)
    end = w.clock.now() + 5
    found = {}
    while not found and w.clock.now() < end:
        try:
            found = offsets(consumer.poll(timeout_ms))
        except TopicAuthorizationFailedError:
            pass
        w.clock.advance(0.01)
    assert found == {0: [2]}


def test_position_raises_what_stands_in_its_way(world):
    """A refusal by metadata comes out of position(), too, and not after a minute."""
    w = world()
    w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"}))
    consumer = w.consumer()

    def position():
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.position(T0)

    seconds, _ = w.elapsed(position)
    assert seconds < 5


def test_error_about_a_topic_that_was_only_asked_about_is_not_raised_by_polls(world, offsets):
    """end_offsets of a topic that one may not see fails; reading another one does not."""
    w = world(topics={"t": 1, "secret": 1})
    w.append(2)
    w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "secret"}))
    consumer = w.consumer()
    with pytest.raises((TopicAuthorizationFailedError, KafkaTimeoutError)):
        consumer.end_offsets([TopicPartition("secret", 0)], timeout_ms=3000)
    assert offsets(consumer.poll(2000)) == {0: [0, 1]}
    asked = len(w.requests(MetadataRequest))
    for _ in range(20):
        assert consumer.poll(1000) == {}
    assert len(w.requests(MetadataRequest)) <= asked + 1


# -- nothing reachable


def test_nothing_reachable_is_told_with_every_hosts_cause(world, offsets):
    """{} until bootstrap_timeout_ms, then one error that says of each server what is wrong; the object goes on."""
    w = world()
    w.append(2)
    network = w.network
    network.names["nowhere"] = "Name or service not known"
    network.names["refused"] = ["10.9.0.1"]
    network.names["hole"] = ["10.9.0.2"]
    network.black_hole("hole", 9092)
    network.listen("web", 80, ScriptedPeer(b"HTTP/1.1 400 Bad Request\r\n\r\n", then_close=True))
    servers = ["nowhere:9092", "refused:9092", "hole:9092", "web:80"]
    consumer = w.consumer(bootstrap_servers=servers, bootstrap_timeout_ms=20_000)
    began = w.clock.now()
    for _ in range(20):
        try:
            assert consumer.poll(1000) == {}
        except NoBrokersAvailable as raised:
            error = pickle.loads(pickle.dumps(raised))
            break
        assert w.clock.now() - began <= 20.01
    assert w.clock.now() - began == pytest.approx(20, abs=1.1)
    assert set(error.causes) == set(servers)
    assert "Name or service not known" in error.causes["nowhere:9092"]
    assert "refused" in error.causes["refused:9092"]
    assert "hole" not in error.causes["hole:9092"] and error.causes["hole:9092"]
    assert "HTTP" in error.causes["web:80"] or "Kafka" in error.causes["web:80"]
    assert all(cause in str(error) for cause in error.causes.values())
    # And again after as long; a poll in between is quiet.
    before = w.clock.now()
    with pytest.raises(NoBrokersAvailable):
        consumer.poll(60_000)
    assert w.clock.now() - before == pytest.approx(20, abs=0.1)
    # The name comes to life: the same object reads.
    network.names["nowhere"] = [network.names["kafka1"][0]]
    found = {}
    end = w.clock.now() + 20
    while not found and w.clock.now() < end:
        found = offsets(consumer.poll(1000))
    assert found == {0: [0, 1]}


def test_calls_that_need_an_answer_name_the_cause_of_their_timeout(world):
    w = world()
    w.network.kill("kafka1", 9092)
    consumer = w.consumer()

    def ask():
        with pytest.raises(KafkaTimeoutError, match=r"end_offsets.*5\.000 s.*kafka1:9092.*refused"):
            consumer.end_offsets([T0], timeout_ms=5000)

    seconds, _ = w.elapsed(ask)
    assert seconds == pytest.approx(5, abs=0.01)


def test_default_api_timeout_bounds_calls_without_one(world):
    w = world()
    w.cluster.on("ListOffsets", Silence())
    consumer = w.consumer(default_api_timeout_ms=7000)
    before = w.clock.now()
    with pytest.raises(KafkaTimeoutError):
        consumer.position(T0)
    assert w.clock.now() - before == pytest.approx(7, abs=0.01)


def test_slow_answers_are_waited_for(world):
    w = world()
    w.append(3)
    w.cluster.on("ListOffsets", Delay(4))
    consumer = w.consumer()
    seconds, found = w.elapsed(lambda: consumer.end_offsets([T0]))
    assert found == {T0: 3}
    assert seconds == pytest.approx(4, abs=0.05)


def test_first_record_takes_round_trips_and_no_pauses(reading):
    """Connecting, metadata, the offset, the fetch: nothing else stands between a new consumer and its first record."""
    w, consumer = reading(1)
    seconds, found = w.elapsed(lambda: consumer.poll(60_000))
    assert found
    assert seconds < 20 * w.network.latency


def test_questions_do_not_wait_behind_a_long_poll(reading):
    """Fetches have a connection of their own: a lookup takes a round trip while nothing arrives, and no longer."""
    w, consumer = reading(1)
    assert consumer.poll(60_000)
    consumer.poll(5)  # the next Fetch is out now, and parked
    seconds, found = w.elapsed(lambda: consumer.end_offsets([T0]))
    assert found == {T0: 1}
    assert seconds < 4 * w.network.latency
