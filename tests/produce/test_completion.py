"""The effect of every Produce response on a batch and on its partition's sequence numbers."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.broker import Disconnect, Edit, Reply
from thinconsumer.errors import BrokerResponseError, KafkaTimeoutError, TopicAuthorizationFailedError
from thinconsumer.failures import Action, Scope, rule
from thinconsumer.produce.batch import EPOCH_MAX
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.produce import BatchIndexAndErrorMessage, ProduceRequest
from thinconsumer_testing.clock import SOME_DAY

T0 = TopicPartition("t", 0)
AGAIN = {Action.RETRY, Action.REFRESH_METADATA, Action.NEW_SEQUENCE}


def action_of(code):
    return rule("Produce", code, Scope.PARTITION).action


CODES = pytest.mark.parametrize("code", [code for code in Code if code != Code.NONE], ids=lambda code: code.name)


@CODES
def test_one_response_with_each_error_code(world, code):
    """A retriable error is retried; a final one becomes the future's error, and the next record is written."""
    w, producer = world.start()
    before = w.deliver("t", b"before")
    w.refuse_produce(code)
    future = producer.send("t", b"v")
    assert w.seconds_of(producer.flush) < 1
    after = w.deliver("t", b"after")
    assert before.error is None
    assert after.error is None
    action = action_of(code)
    if action in AGAIN:
        assert future.result().offset == 1
        assert w.values() == [b"before", b"v", b"after"]
    elif action is Action.ACCEPT:
        assert future.result().offset == -1
    else:
        assert type(future.error) is BY_CODE[code].error
        assert future.error.code == code
        assert w.values() == [b"before", b"after"]


@CODES
def test_each_error_code_in_every_response_ends_by_the_deadline_without_a_busy_loop(world, code):
    w, producer = world.start(delivery_timeout_ms=3000)
    w.refuse_produce(code, times=None)
    futures = [producer.send("t", b"v") for _ in range(3)]
    assert w.seconds_of(producer.flush) <= 3.01
    assert len(w.requests()) < 15
    for future in futures:
        if action_of(code) in AGAIN:
            assert isinstance(future.error, KafkaTimeoutError)
            assert code.name in str(future.error)
        elif action_of(code) is not Action.ACCEPT:
            assert future.error.code == code


@pytest.mark.once
@pytest.mark.parametrize("backoff", [0, 100])
def test_brokers_that_name_each_other_as_leader_cause_no_busy_loop(world, backoff):
    """Each of two brokers names the other one as leader, with increasing epochs (KIP-951)."""
    w, _ = world.start(delivery_timeout_ms=2000, retry_backoff_ms=backoff, retry_backoff_max_ms=backoff, nodes=2)
    w.cluster.on("Produce", lambda call: w.cluster.move_leader(T0, 3 - call.node.node_id) and None)
    w.deliver("t", b"v")
    assert len(w.requests()) < (260 if backoff == 0 else 40)


def test_a_leader_hint_is_followed_without_backoff(world):
    w, _ = world.start(retry_backoff_ms=5000, nodes=2)
    w.deliver("t", b"v")
    w.cluster.move_leader(("t", 0), 2)
    started = w.clock.now()
    future = w.deliver("t", b"w")
    assert future.result().offset == 1
    assert w.clock.now() - started < 0.1


def test_a_leader_hint_names_the_address_of_an_unknown_node(world):
    w = world(nodes=2)

    def hide(call, response):
        response.brokers = [broker for broker in response.brokers if broker.node_id == 1]

    w.cluster.on("Metadata", Edit(hide), times=1)
    producer = w.producer(retry_backoff_ms=5000)
    w.deliver("t", b"v")
    w.cluster.move_leader(("t", 0), 2)
    w.cluster.on("Metadata", Disconnect())
    future = producer.send("t", b"w")
    producer.poll(1000)
    assert future.result().offset == 1
    assert w.cluster.received(ProduceRequest, node=2)


def test_a_truncated_log_gets_the_batch_under_the_next_epoch(world):
    """After an unclean election the broker lacks log and producer state: OUT_OF_ORDER_SEQUENCE_NUMBER."""
    w, _ = world.start()
    for number in range(4):
        w.deliver("t", b"%d" % number)
    w.cluster.leader(T0).truncate_to(2)
    future = w.deliver("t", b"next")
    assert future.result().offset == 2
    assert w.values() == [b"0", b"1", b"next"]
    assert w.stamps()[-2:] == [(0, 4, 1), (1, 0, 1)]


def test_a_broker_that_forgot_the_producer_gets_the_batch_under_the_next_epoch(world):
    w, _ = world.start()
    w.deliver("t", b"v")
    w.cluster.leader(T0).log.producers.expire(w.cluster.schedule.wall_ms() + 1, 0)
    w.refuse_produce(Code.UNKNOWN_PRODUCER_ID)
    future = w.deliver("t", b"w")
    assert future.result().offset == 1
    assert w.stamps() == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]


def test_a_new_epoch_leaves_other_partitions_alone(world):
    w, producer = world.start(topics={"t": 2})
    for number in (0, 1):
        producer.send("t", b"v", partition=number)
    producer.flush()
    w.refuse_produce(Code.INVALID_RECORD)
    w.deliver("t", b"bad", partition=0)
    for number in (0, 1):
        w.deliver("t", b"w", partition=number)
    assert w.stamps()[-2:] == [(1, 0, 1), (0, 1, 1)]


def test_the_last_epoch_is_followed_by_a_new_producer_id(world):
    w, producer = world.start()
    w.deliver("t", b"v")
    queue = producer._accumulator.topics["t"].queues[0]
    queue.epoch = EPOCH_MAX
    w.refuse_produce(Code.INVALID_RECORD)
    producer.send("t", b"bad")
    future = w.deliver("t", b"w")
    future = w.deliver("t", b"x")
    assert future.error is None
    assert len(w.requests(InitProducerIdRequest)) == 2
    assert w.stamps()[-1] == (0, 0, 1)


@pytest.mark.parametrize(
    "code", [Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_ID_MAPPING], ids=lambda c: c.name
)
def test_a_fenced_producer_id_is_replaced(world, code):
    w, _ = world.start()
    w.refuse_produce(code)
    first = w.deliver("t", b"v")
    second = w.deliver("t", b"w")
    assert first.error.code == code
    assert second.error is None
    assert len(w.requests(InitProducerIdRequest)) == 2


def test_a_batch_that_is_too_large_is_split(world):
    w, producer = world.start()

    def is_large(call):
        return len(call.request.topic_data[0].partition_data[0].records) > 61 + 3 * 110

    w.cluster.on("Produce", Reply(Code.MESSAGE_TOO_LARGE), where=is_large)
    futures = [producer.send("t", b"%03d" % n + bytes(97)) for n in range(23)]
    late = w.deliver("t", b"late")
    assert [value[:3] for value in w.values()][:23] == [b"%03d" % n for n in range(23)]
    assert [r.result().offset for r in futures] == list(range(23))
    assert late.result().offset == 23
    assert {epoch for epoch, *_ in w.stamps()} == {0}


def test_a_record_that_is_too_large_fails_alone(world):
    w, producer = world.start()
    w.refuse_produce(Code.MESSAGE_TOO_LARGE, Code.MESSAGE_TOO_LARGE)
    futures = [producer.send("t", b"%d" % n) for n in range(2)]
    producer.flush()
    assert [r.error and r.error.code for r in futures] == [Code.MESSAGE_TOO_LARGE, None]
    assert w.values() == [b"1"]


def test_a_batch_that_may_have_been_appended_is_not_split(world):
    """The broker could not recognize its halves as duplicates, since their numbers differ."""
    for reply in (Disconnect(), Reply(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)):
        w, producer = world.start()
        w.cluster.on("Produce", reply, times=1)
        w.refuse_produce(Code.MESSAGE_TOO_LARGE)
        futures = [producer.send("t", b"%d" % n) for n in range(4)]
        producer.flush()
        assert all(r.error.code == Code.MESSAGE_TOO_LARGE for r in futures)
        assert w.values() == []


def test_record_errors_name_the_invalid_records_of_a_batch(world):
    """KIP-467."""
    w, producer = world.start()
    blame = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    w.refuse_produce(Code.INVALID_RECORD, record_errors=blame, error_message="some are bad")
    futures = [producer.send("t", b"%d" % n) for n in range(3)]
    producer.flush()
    assert [isinstance(r.error, BrokerResponseError) for r in futures] == [True] * 3
    assert "no key" in str(futures[1].error)
    for other in (0, 2):
        assert "another record of the same batch is invalid" in str(futures[other].error)


def test_the_error_has_the_brokers_message_and_the_topic(world):
    w, _ = world.start()
    w.refuse_produce(Code.TOPIC_AUTHORIZATION_FAILED, error_message="not you")
    future = w.deliver("t", b"v")
    assert isinstance(future.error, TopicAuthorizationFailedError)
    assert future.error.topics == ("t",)
    assert (future.error.code, future.error.api) == (Code.TOPIC_AUTHORIZATION_FAILED, "Produce")
    assert (future.error.partition, future.error.node_id) == (T0, 1)
    assert "not you" in str(future.error)


def test_log_append_time_replaces_the_timestamp(world):
    w, _ = world.start()
    w.cluster.create_topic("dated", configs={"message.timestamp.type": "LogAppendTime"})
    future = w.deliver("dated", b"v", timestamp_ms=7)
    assert future.result().timestamp >= SOME_DAY * 1000
