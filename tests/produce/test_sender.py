"""When batches are sent, to which broker and in which version, and when their delivery times out."""

from itertools import pairwise

import pytest

from thinconsumer import TopicPartition
from thinconsumer.broker import Delay, Disconnect, Edit, EntryError, Raw, Reply, Silence
from thinconsumer.errors import (
    ClusterAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.produce import ProduceRequest, ProduceResponse

T0 = TopicPartition("t", 0)


def batches(received):
    return sum(len(topic.partition_data) for topic in received.message.topic_data)


def test_one_request_per_broker_is_in_flight_and_carries_all_its_partitions(world):
    w, producer = world.start(nodes=2, topics={"t": 6})
    w.cluster.on("Produce", Delay(1.0))
    for number in range(6):
        producer.send("t", b"v", partition=number)
    producer.poll(100)
    assert [batches(got) for got in w.requests()] == [3, 3]
    for number in range(6):
        producer.send("t", b"w", partition=number)
    producer.poll(100)
    assert len(w.requests()) == 2
    producer.flush()
    assert [batches(got) for got in w.requests()] == [3, 3, 3, 3]


def test_records_sent_while_a_request_is_in_flight_form_one_batch(world):
    w, producer = world.start()
    w.cluster.on("Produce", Delay(1.0))
    producer.send("t", b"v")
    producer.poll(100)
    for _ in range(50):
        producer.send("t", b"w")
        producer.poll(0)
    producer.flush()
    assert w.stamps() == [(0, 0, 1), (0, 1, 50)]


def test_a_second_batch_of_a_partition_waits_for_the_first_even_if_the_leader_moves(world):
    w, producer = world.start(nodes=2, topics={"t": 1, "u": 1})
    w.cluster.on("Produce", Silence(), node=1)
    producer.send("t", b"first")
    producer.poll(100)
    w.cluster.move_leader(("t", 0), 2)
    w.cluster.move_leader(("u", 0), 2)
    producer._metadata.request_update("test")
    producer.send("u", b"elsewhere")
    producer.send("t", b"second")
    for _ in range(20):
        producer.poll(100)
    assert len(w.requests()) == 2
    assert producer._metadata.leader(T0).leader == 2
    assert w.values("u", 0) == [b"elsewhere"]
    assert w.values() == []
    producer.flush()
    assert w.values() == [b"first", b"second"]


def test_full_requests_alternate_between_the_partitions(world):
    w, producer = world.start(max_request_size=1024, topics={"t": 8})
    for turn in range(5):
        for number in range(8):
            producer.send("t", b"%d" % turn + bytes(380), partition=number)
    producer.flush()
    assert all(batches(got) <= 2 for got in w.requests())
    written = [p.index for got in w.requests() for t in got.message.topic_data for p in t.partition_data]
    for start in range(0, len(written), 8):
        assert sorted(written[start : start + 8]) == sorted(set(written[start : start + 8]))


def test_produce_requests_have_a_connection_of_their_own(world):
    """A metadata request does not wait behind a Produce request that waits for replicas."""
    w, producer = world.start()
    w.cluster.on("Produce", Silence())
    producer.send("t", b"v")
    producer.poll(100)
    before = len(w.requests(MetadataRequest))
    producer.send("new", b"v")
    producer.poll(100)
    assert len(w.requests(MetadataRequest)) > before


@pytest.mark.parametrize(
    ("highest", "codec", "sent"), [(13, "none", 13), (12, "none", 12), (9, "gzip", 9), (3, "none", 3), (7, "zstd", 7)]
)
def test_produce_uses_the_newest_version_that_the_broker_supports(world, highest, codec, sent):
    w = world()
    w.cluster.set_versions("Produce", (0, highest))
    w.producer(compression_type=codec)
    future = w.deliver("t", b"v")
    assert future.result().offset == 0
    assert [got.version for got in w.requests()] == [sent]


@pytest.mark.parametrize(("highest", "codec"), [(2, "none"), (6, "zstd")])
def test_records_fail_at_once_on_a_broker_too_old_for_the_batch_format(world, highest, codec):
    w = world()
    w.cluster.set_versions("Produce", (0, highest))
    producer = w.producer(compression_type=codec)
    futures = [producer.send("t", b"v") for _ in range(3)]
    assert w.seconds_of(producer.flush) < 1
    assert all(isinstance(r.error, UnsupportedVersionError) for r in futures)


def test_produce_names_topics_while_a_topic_id_is_unknown(world):
    """Metadata before version 10 has no topic ids, and Produce from 13 on no topic names."""
    w = world()
    w.cluster.set_versions("Metadata", (0, 9))
    w.producer()
    w.deliver("t", b"v")
    assert [got.version for got in w.requests()] == [12]
    assert w.values() == [b"v"]


def test_a_recreated_topic_is_written_to_under_its_new_id(world):
    w, _ = world.start()
    w.deliver("t", b"old")
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", 1)
    future = w.deliver("t", b"new")
    assert future.result().offset == 0
    assert w.values() == [b"new"]


@pytest.mark.parametrize(
    "action",
    [
        *(Disconnect(after, reset) for after in (False, True) for reset in (False, True)),
        Raw(b"\0\0\0\4bad!"), Raw(b"\0\0\0\4bad!", after=True),
        Reply(ProduceResponse()), Edit(lambda call, response: ProduceResponse()),
    ],
)  # fmt: skip
def test_a_request_without_a_response_is_sent_again_with_the_same_bytes(world, action):
    """The log has the batch once, whether or not the first request appended it."""
    w, producer = world.start()
    w.cluster.on("Produce", action, times=1)
    future = producer.send("t", b"v")
    assert w.seconds_of(producer.flush) < 1
    assert future.result().offset == 0
    assert w.values() == [b"v"]
    first, second = (got.message.topic_data[0].partition_data[0].records for got in w.requests())
    assert bytes(first) == bytes(second)


@pytest.mark.parametrize("api", [InitProducerIdRequest, MetadataRequest, ProduceRequest])
@pytest.mark.parametrize("reply", [Disconnect(), Disconnect(reset=True), Silence(), Raw(b"\0\0\0\4bad!")], ids=repr)
def test_records_survive_lost_connections_and_silence_at_every_api(world, api, reply):
    w, producer = world.start(request_timeout_ms=2000, nodes=2)
    w.cluster.on(api, reply, times=2)
    futures = [producer.send("t", b"%d" % n) for n in range(5)]
    assert w.seconds_of(producer.flush) < 7
    assert [r.result().offset for r in futures] == list(range(5))


def test_records_are_sent_once_a_broker_is_up(world):
    w = world()
    w.network.refuse("kafka1", 9092)
    w.network.call_at(w.clock.now() + 20, lambda: w.cluster.listen(1))
    w.producer()
    future = w.deliver("t", b"v")
    assert future.result().offset == 0
    assert w.clock.now() < 1023
    assert len(w.network.dials) < 60


def test_records_go_to_the_new_leader_once_one_is_elected(world):
    w, producer = world.start(nodes=3, topics={"t": 3})
    for number in range(3):
        producer.send("t", b"v", partition=number)
    producer.flush()
    w.cluster.kill(1, noticed_after_s=0)
    futures = [producer.send("t", b"w", partition=number) for number in range(3)]
    assert w.seconds_of(producer.flush) < 1
    assert [r.result().offset for r in futures] == [1, 1, 1]


def test_the_timeout_names_the_last_error_and_the_number_of_attempts(world):
    w, producer = world.start(delivery_timeout_ms=5000)
    w.refuse_produce(Code.NOT_ENOUGH_REPLICAS, times=None)
    future = producer.send("t", b"v")
    assert w.seconds_of(producer.flush) == pytest.approx(5.0, abs=0.01)
    assert isinstance(future.error, KafkaTimeoutError)
    assert "t-0: not acknowledged within delivery_timeout_ms=5000, sent " in str(future.error)
    assert "NOT_ENOUGH_REPLICAS" in str(future.error)
    assert len(w.requests()) < 15


@pytest.mark.parametrize(
    ("obstruct", "topic", "words"),
    [
        (lambda w: w.network.refuse("kafka1", 9092), "t", "no broker reachable: kafka1:9092"),
        (lambda w: None, "nowhere", "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda w: w.cluster.on("InitProducerId", Reply(Code.COORDINATOR_LOAD_IN_PROGRESS)), "t", "InitProd"),
        (lambda w: w.cluster.remove_leader(("t", 0)), "t", "no leader known; the topic has 1 partitions"),
        (lambda w: w.cluster.on("Produce", Silence()), "t", "sent 1 times; last: no answer yet"),
    ],
)
def test_the_timeout_names_the_obstacle(world, obstruct, topic, words):
    w = world()
    obstruct(w)
    producer = w.producer(delivery_timeout_ms=3000)
    future = producer.send(topic, b"v")
    assert w.seconds_of(producer.flush) == pytest.approx(3.0, abs=0.01)
    assert isinstance(future.error, KafkaTimeoutError)
    assert words in str(future.error)


def test_records_of_a_missing_partition_time_out_without_a_busy_loop(world):
    for backoff in (0, 100):
        w, producer = world.start(delivery_timeout_ms=3000, retry_backoff_ms=backoff, retry_backoff_max_ms=backoff)
        lost, good = producer.send("t", b"v", partition=5), producer.send("t", b"v", partition=0)
        producer.flush()
        assert "no leader known; the topic has 1 partitions" in str(lost.error)
        assert good.result().offset == 0
        assert len(w.requests(MetadataRequest)) <= 400


def test_records_wait_for_a_partition_that_is_added_later(world):
    w, producer = world.start()
    future = producer.send("t", b"v", partition=1)
    producer.poll(2000)
    w.cluster.expand("t", 2)
    producer.flush()
    assert future.result()[:3] == ("t", 1, 0)
    assert w.clock.now() < 1005


def test_records_wait_for_a_topic_that_is_created_later(world):
    w, producer = world.start()
    future = producer.send("new", b"v", key=b"k")
    producer.poll(5000)
    w.cluster.create_topic("new", 3)
    producer.flush()
    assert future.result().topic == "new"
    assert w.clock.now() < 1007


def test_a_topic_authorization_error_fails_records_at_once(world):
    w = world(topics={"t": 1, "u": 1})
    w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"}))
    producer = w.producer()
    refused, good = producer.send("t", b"v"), producer.send("u", b"v")
    producer.flush()
    assert isinstance(refused.error, TopicAuthorizationFailedError)
    assert good.error is None
    assert w.clock.now() < 1001
    again = w.deliver("t", b"v")
    assert isinstance(again.error, TopicAuthorizationFailedError)


def test_a_final_init_producer_id_error_fails_records_and_the_next_record_retries_it(world):
    w = world()
    w.cluster.on("InitProducerId", Reply(Code.CLUSTER_AUTHORIZATION_FAILED), times=1)
    producer = w.producer()
    futures = [producer.send("t", b"v"), producer.send("nowhere", b"v")]
    producer.flush()
    assert all(isinstance(r.error, ClusterAuthorizationFailedError) for r in futures)
    assert w.clock.now() < 1001
    later = w.deliver("t", b"v")
    assert later.error is None


def test_a_late_poll_finds_the_response_and_no_timeout(world):
    """The acknowledgement arrives while the application does not poll for a minute."""
    w, producer = world.start(delivery_timeout_ms=10_000)
    future = producer.send("t", b"v")
    while not w.requests():
        producer.poll(1)
    w.clock.advance(60)
    producer.poll(0)
    assert future.result().offset == 0


def test_a_late_poll_extends_the_deadline_by_a_second(world):
    w, producer = world.start(delivery_timeout_ms=10_000)
    future = producer.send("t", b"v")
    w.clock.advance(60)
    before = w.clock.now()
    producer.flush()
    assert future.result().offset == 0
    assert w.clock.now() - before < 1


def test_a_deadline_is_extended_once(world):
    """An application that polls every ten seconds would otherwise never see the timeout."""
    w = world()
    w.cluster.on("Produce", Silence())
    producer = w.producer(delivery_timeout_ms=10_000)
    future = producer.send("t", b"v")
    for _ in range(3):
        w.clock.advance(10)
        producer.poll(0)
    assert isinstance(future.error, KafkaTimeoutError)


def test_waiting_inside_poll_does_not_extend_the_deadline(world):
    w = world()
    w.cluster.on("Produce", Silence())
    producer = w.producer(delivery_timeout_ms=10_000)
    future = producer.send("t", b"v")
    before = w.clock.now()
    producer.poll(60_000)
    assert future.done
    assert w.clock.now() - before == pytest.approx(10.0, abs=0.01)


def test_a_response_after_the_timeout_changes_nothing(world):
    w, producer = world.start(delivery_timeout_ms=1000)
    w.cluster.on("Produce", Delay(3.0))
    future = producer.send("t", b"v")
    producer.poll(2000)
    assert isinstance(future.error, KafkaTimeoutError)
    producer.poll(5000)
    assert isinstance(future.error, KafkaTimeoutError)
    assert producer.idle


def test_throttling_delays_the_next_request(world):
    """KIP-219: the client stops sending on this connection."""
    w, _ = world.start()
    w.cluster.on("Produce", Edit(lambda call, response: setattr(response, "throttle_time_ms", 2000)))
    for _ in range(3):
        w.deliver("t", b"v")
    times = [got.at for got in w.requests()]
    assert [later - earlier >= 2.0 for earlier, later in pairwise(times)] == [True, True]


def test_response_entries_of_other_partitions_are_ignored(world):
    w, _ = world.start(topics={"t": 1, "u": 2})

    def other(call, answer):
        answer.responses[0].topic_id = bytes(15) + b"\x77"
        answer.responses[0].partition_responses[0].error_code = int(Code.INVALID_RECORD)

    w.cluster.on("Produce", Edit(other), times=1)
    future = w.deliver("t", b"v")
    assert future.result().offset == 0
    assert w.values() == [b"v"]


def test_metadata_of_idle_topics_is_not_refreshed(world):
    w, producer = world.start(metadata_max_age_ms=10_000)
    w.deliver("t", b"v")
    producer.poll(400_000)
    asked = len(w.requests(MetadataRequest))
    assert 25 < asked < 40
    producer.poll(400_000)
    assert len(w.requests(MetadataRequest)) == asked
    future = w.deliver("t", b"v")
    assert future.result().offset == 1


def test_a_record_of_a_new_topic_makes_wake_at_now(world):
    """Otherwise its metadata would not be requested until the next refresh."""
    w, producer = world.start(topics={"t": 1, "u": 1})
    w.deliver("t", b"v")
    producer.poll(1_000_000)
    assert producer.wake_at() > w.clock.now() + 100
    producer.send("u", b"v")
    assert producer.wake_at() <= w.clock.now()
    producer.flush()


def test_metadata_with_a_leader_ends_the_backoff(world):
    w, producer = world.start(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000, topics={"t": 1, "u": 1})
    w.cluster.remove_leader(T0)
    future = producer.send("t", b"v")
    producer.poll(1000)
    w.cluster.move_leader(T0, 1)
    producer.send("u", b"v")  # a new topic: metadata is requested at once, with both topics
    before = w.clock.now()
    producer.flush()
    assert future.result().offset == 0
    assert w.clock.now() - before < 0.1


def test_a_success_resets_the_backoff(world):
    w, producer = world.start()
    w.refuse_produce(*[Code.NOT_ENOUGH_REPLICAS] * 4)
    w.deliver("t", b"v")
    w.refuse_produce(Code.NOT_ENOUGH_REPLICAS)
    producer.send("t", b"w")
    before = w.clock.now()
    producer.flush()
    assert 0.07 < w.clock.now() - before < 0.14
