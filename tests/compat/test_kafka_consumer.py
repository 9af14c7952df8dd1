"""KafkaConsumer of thinconsumer.compat.kafka: what kafka-python's users see, on an embedded broker."""

import itertools
import re
import subprocess
import sys
import threading
from functools import partial
from inspect import signature

import kafka
import pytest
from kafka.consumer.fetcher import ConsumerRecord as KafkaRecord
from kafka.future import Future as KafkaFuture

import thinconsumer
from thinconsumer import ConfigurationWarning
from thinconsumer.compat.kafka import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    IsolationLevel,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
    errors,
)
from thinconsumer.compat.kafka.options import DEFAULT_CONFIG, own_options
from thinconsumer.compat.patterns import beginning
from thinconsumer_testing.broker import NewRecord
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = pytest.mark.once
NUMBERS = itertools.count()
EACH = 6
HEADERS = [("trace", b"1"), ("trace", None)]


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(config={"group.initial.rebalance.delay.ms": 0}) as process:
        yield process


@pytest.fixture
def topic(broker):
    """A topic with two partitions of six records."""
    name = f"compat-{next(NUMBERS)}"
    broker.create_topic(name, 2)
    for partition in range(2):
        broker.produce(name, [b"%d/%d" % (partition, n) for n in range(EACH)], partition)
    return name


@pytest.fixture
def tp(topic):
    return TopicPartition(topic, 0)


@pytest.fixture
def group():
    return f"group-{next(NUMBERS)}"


@pytest.fixture
def make(broker, closed_at_end):
    """Return a function that makes a consumer, which is closed after the test."""
    options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    return lambda *topics, **more: closed_at_end(KafkaConsumer(*topics, **{**options, **more}))


def read(consumer, count):
    found = []
    while len(found) < count:
        for records in consumer.poll(timeout_ms=1000).values():
            found += records
    return found


def committed(broker, group, tp):
    with thinconsumer.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        return consumer.committed(tp)


def test_polls_return_lists_of_kafka_pythons_records(broker, make):
    broker.create_topic("records", 1)
    with thinconsumer.Consumer(bootstrap_servers=broker.bootstrap_servers) as plain:
        broker.produce("records", [NewRecord(value=b"v", key=b"k", headers=HEADERS)])
        plain.assign([TopicPartition("records", 0)])
        plain.seek_to_beginning()
        (own,) = read(plain, 1)
    consumer = make("records")
    ((tp, records),) = consumer.poll(timeout_ms=5000).items()
    assert type(tp) is kafka.TopicPartition
    assert type(records) is list
    assert type(records[0]) is KafkaRecord
    assert records[0].headers == HEADERS
    assert tuple(records[0]._replace(headers=tuple(HEADERS))) == tuple(own)
    consumer.seek_to_beginning()
    assert next(consumer) == records[0]
    assert consumer.assignment() == {tp}
    consumer.pause(tp)
    found = (*consumer.assignment(), *consumer.paused(), *consumer.end_offsets([tp]), *consumer.offsets_for_times({}))
    assert {type(one) for one in found} == {kafka.TopicPartition}


def test_a_poll_without_update_returns_the_same_again(make, tp):
    """An argument that kafka-python has for itself."""
    consumer = make()
    consumer.assign([tp])
    first = consumer.poll(5000, max_records=2, update_offsets=False)
    assert consumer.poll(5000, max_records=2) == first
    assert consumer.poll(5000, max_records=2)[tp][0].offset == 2


@pytest.mark.parametrize("read_one", [lambda consumer: consumer.poll(5000, 1).popitem()[1][0], next])
def test_ctrl_c_while_records_are_converted_loses_none(make, tp, monkeypatch, read_one):
    consumer = make()
    consumer.assign([tp])
    assert read_one(consumer).offset == 0
    consumer.seek(tp, 1)  # the next record has to be polled

    def interrupted(record):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("thinconsumer.compat.kafka.consumer.record_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read_one(consumer)
    assert read_one(consumer).offset == 1


def test_times_may_have_fractions(make, tp):
    found = make().offsets_for_times({tp: 1.5})
    assert type(found[tp]) is kafka.structs.OffsetAndTimestamp
    assert found[tp].offset == 0


@pytest.mark.parametrize("ends", ["clean", "raises", "without commit"])
def test_a_close_commits_the_record_that_an_iteration_returned_last(broker, make, group, tp, ends):
    """As with kafka-python: an exception in a with block commits nothing of what was read since the last commit."""
    consumer = make(group_id=group)
    consumer.assign([tp])
    try:
        with consumer:
            for record in consumer:
                if record.offset == 2:
                    if ends == "raises":
                        raise OSError
                    if ends == "without commit":
                        consumer.close(autocommit=False)
                    break
    except OSError:
        assert ends == "raises"
    assert committed(broker, group, tp) == (3 if ends == "clean" else None)


def test_an_iteration_ends_with_the_timeout_and_once_the_consumer_is_closed(make, topic):
    consumer = make(topic, consumer_timeout_ms=300)
    assert len(list(consumer)) == 2 * EACH
    consumer.close()
    assert list(consumer) == []
    with pytest.raises(errors.IllegalStateError):
        consumer.poll()


def test_a_negative_consumer_timeout_is_none():
    assert own_options({"consumer_timeout_ms": -1})["consumer_timeout_ms"] == float("inf")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c, tp: c.poll(-1), ValueError),
        (lambda c, tp: c.poll(max_records=0), ValueError),
        (lambda c, tp: c.poll(max_records="5"), TypeError),
        (lambda c, tp: c.seek(tp, -1), ValueError),
        (lambda c, tp: c.seek(tp, "1"), ValueError),
        (lambda c, tp: c.seek(tuple(tp), 1), TypeError),
        (lambda c, tp: c.seek(tp._replace(partition=1), 1), ValueError),
        (lambda c, tp: c.seek_to_beginning(tp._replace(partition=1)), ValueError),
        (lambda c, tp: c.seek_to_end("t"), TypeError),
        (lambda c, tp: c.pause("t"), TypeError),
        (lambda c, tp: c.resume(("t", 0)), TypeError),
        (lambda c, tp: c.position("t"), TypeError),
        (lambda c, tp: c.position(tp._replace(partition=1)), kafka.errors.IllegalStateError),
        (lambda c, tp: c.highwater("t"), TypeError),
        (lambda c, tp: c.highwater(tp._replace(partition=1)), kafka.errors.IllegalStateError),
        (lambda c, tp: c.committed([tp]), TypeError),
        (lambda c, tp: c.committed(tp), kafka.errors.IllegalStateError),
        (lambda c, tp: c.commit(), kafka.errors.IllegalStateError),
        (lambda c, tp: c.commit_async(), kafka.errors.IllegalStateError),
        (lambda c, tp: c.subscribe(), ValueError),
        (lambda c, tp: c.subscribe(pattern=""), ValueError),
        (lambda c, tp: c.subscribe("t"), TypeError),
        (lambda c, tp: c.subscribe(3), TypeError),
        (lambda c, tp: c.subscribe(["t"], pattern="t"), kafka.errors.IllegalStateError),
        (lambda c, tp: c.subscribe(["a/b"]), ValueError),
        (lambda c, tp: c.subscribe(pattern="("), ValueError),
        (lambda c, tp: c.subscribe(["t"], listener=object()), TypeError),
        (lambda c, tp: c.subscribe(["t"]), kafka.errors.IllegalStateError),
        (lambda c, tp: c.offsets_for_times({tp: -1}), ValueError),
        (lambda c, tp: c.end_offsets([tp._replace(partition=9)], timeout_ms=50), kafka.errors.KafkaTimeoutError),
        (lambda c, tp: c.close(1000), kafka.errors.KafkaError),
    ],
)  # fmt: skip
def test_wrong_calls_raise_what_kafka_python_raises(shared, call, kind):
    consumer, tp = shared
    with pytest.raises(kind):
        call(consumer, tp)


@pytest.fixture(scope="module")
def shared(broker):
    broker.create_topic("shared", 1)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("shared", 0)])
        yield consumer, TopicPartition("shared", 0)


def test_seeking_everything_needs_an_assignment(make):
    with pytest.raises(ValueError, match="No partitions"):
        make().seek_to_end()


def test_queries_take_request_timeout_ms(make, topic):
    consumer = make(request_timeout_ms=300, fetch_max_wait_ms=100)
    with pytest.raises(kafka.errors.KafkaTimeoutError, match=r"0\.3"):
        consumer.beginning_offsets([TopicPartition(topic, 9)])


def test_a_close_takes_request_timeout_ms(make, monkeypatch):
    given = []
    consumer = make(request_timeout_ms=4000)
    with monkeypatch.context() as patch:
        patch.setattr(thinconsumer.Consumer, "close", lambda self, *args, **kwargs: given.append((args, kwargs)))
        consumer.close()
        consumer.close(False, 7)
    assert given == [((True, 4000), {"leave_group": None}), ((False, 7), {"leave_group": None})]


def test_a_position_without_a_timeout_raises(make, topic):
    consumer = make(default_api_timeout_ms=300, request_timeout_ms=300, fetch_max_wait_ms=100)
    consumer.assign([TopicPartition(topic, 9)])
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        consumer.position(TopicPartition(topic, 9))


def test_what_is_unknown(make, topic, tp):
    """Sets without elements, None instead of an error: as kafka-python says that it does not know."""
    consumer = make()
    assert consumer.subscription() is None
    assert consumer.partitions_for_topic("no-such-topic") == set()
    assert consumer.partitions_for_topic(topic) == {0, 1}
    assert consumer.group_metadata() == ConsumerGroupMetadata(group_id=None)
    consumer.assign([TopicPartition(topic, 9)])
    assert consumer.position(TopicPartition(topic, 9), timeout_ms=50) is None
    consumer.assign([])
    consumer.subscribe(pattern="no-such.*")
    assert consumer.subscription() == set()


def test_metrics(make):
    assert "consumer-metrics" in make().metrics()
    with pytest.warns(ConfigurationWarning, match="metrics_enabled"):
        assert make(metrics_enabled=False).metrics() is None


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders-eu", True),
        ("orders$", "orders-eu", False),
        ("^orders", "my-orders", False),
        ("a|ab", "abc", True),
        ("(?i)ORDERS", "orders-eu", True),
        ("(?x) orders # all of them", "orders-eu", True),
        (re.compile("ORDERS", re.IGNORECASE), "orders-eu", True),
        (r"(o)rders-\1", "orders-o-x", True),
        ("", "orders", True),
    ],
)
def test_a_pattern_matches_the_beginning_of_a_name(pattern, name, matches):
    assert bool(re.match(pattern, name)) == matches
    assert bool(beginning(pattern).fullmatch(name)) == matches


def test_a_listener_gets_kafka_pythons_partitions(make, topic, group):
    heard = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(assigned)
            assert consumer.group_metadata().state == kafka.structs.MemberState.REBALANCING

        def on_partitions_revoked(self, revoked):
            heard.append(revoked)

    consumer = make(group_id=group, client_id="me")
    consumer.subscribe(pattern=topic, listener=Listener())
    read(consumer, 2 * EACH)
    consumer.close()
    assert heard == [{(topic, 0), (topic, 1)}] * 2
    assert {type(tp) for tps in heard for tp in tps} == {kafka.TopicPartition}


def test_an_asynchronous_listener_is_refused(make):
    class Listener(kafka.AsyncConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned):
            pass

        async def on_partitions_revoked(self, revoked):
            pass

    with pytest.raises(ValueError, match="async def"):
        make(group_id="g").subscribe(["t"], listener=Listener())


def test_commit_async_returns_a_future(make, tp, group):
    told, default = [], []
    consumer = make(group_id=group, default_offset_commit_callback=lambda *args: default.append(args))
    consumer.assign([tp])
    offsets = {tp: OffsetAndMetadata(4, "mine", -1)}
    future = consumer.commit_async(offsets, callback=lambda *args: told.append(args))
    assert isinstance(future, KafkaFuture)
    assert not future.is_done
    future.add_callback(told.append)
    consumer.commit({tp: OffsetAndMetadata(5, "later", -1)})
    assert future.succeeded()
    assert told == [None, (offsets, None)]
    assert [type(one) for one in (*told[1][0], *told[1][0].values())] == [kafka.TopicPartition, OffsetAndMetadata]
    assert consumer.committed(tp) == 5
    assert consumer.committed(tp, metadata=True) == kafka.OffsetAndMetadata(5, "later", -1)
    too_large = consumer.commit_async({tp: OffsetAndMetadata(6, "m" * 5000, -1)})
    with pytest.raises(kafka.errors.KafkaError):
        consumer.commit({tp: OffsetAndMetadata(6, "m" * 5001, -1)})
    assert too_large.failed()
    assert isinstance(too_large.exception, kafka.errors.CommitFailedError)
    assert [error for _, error in default] == [too_large.exception]


def test_a_callback_that_is_asynchronous_is_refused(make):
    async def told(offsets, response):
        pass

    with pytest.raises(ValueError, match="async def"):
        make(group_id="g").commit_async({}, told)
    with pytest.raises(ValueError, match="async def"):
        make(group_id="g", default_offset_commit_callback=told)


def test_a_default_callback_hears_of_kafka_pythons_errors():
    """Of automatic commits, too, which no future belongs to."""
    heard = []
    options = own_options({"default_offset_commit_callback": lambda *args: heard.append(args)})
    error = thinconsumer.CommitFailedError("refused", reason="refused")
    options["default_offset_commit_callback"]({}, error)
    assert heard == [({}, error)]
    assert isinstance(error, kafka.errors.CommitFailedError)


def test_another_thread_may_look_at_the_group(make, topic, group):
    """As kafka-python's documentation allows for these two calls."""
    consumer = make(topic, group_id=group)
    assert consumer.group_metadata() == ConsumerGroupMetadata(group_id=group)
    read(consumer, 2 * EACH)
    found = []

    def look():
        found.extend([consumer.group_metadata(), consumer.assignment()])

    thread = threading.Timer(0.05, look)
    thread.start()
    assert consumer.poll(timeout_ms=300) == {}
    thread.join()
    metadata, assignment = found
    assert isinstance(metadata, kafka.ConsumerGroupMetadata)
    assert metadata.state == kafka.structs.MemberState.STABLE
    assert (metadata.group_id, metadata.generation_id) == (group, 1)
    assert len(assignment) == 2


@pytest.mark.usefixtures("leftovers_forgiven")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kafka_pythons_producer_commits_what_was_read(broker, make, topic, tp, group):
    """In a transaction, as the member that read it (KIP-447)."""
    consumer = make(topic, group_id=group, enable_auto_commit=False)
    last = [record for record in read(consumer, 2 * EACH) if record.partition == 0][-1]
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=group)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        offsets = {tp: OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
    finally:
        producer.close()
    assert consumer.committed(tp) == EACH


def test_a_foreign_partition_can_be_committed(make, broker, topic, tp, group):
    """kafka-python replaces the offset of another member. The class behind this one refuses it by default."""
    broker.create_topic(f"{topic}-other", 1)
    consumer = make(f"{topic}-other", group_id=group)
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)
    consumer.commit({tp: OffsetAndMetadata(1, "", -1)})
    assert consumer.committed(tp) == 1


def test_the_constructor_waits_for_a_broker_unless_a_version_is_given():
    make = partial(KafkaConsumer, bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=200, reconnect_backoff_ms=10)
    for kind in (kafka.errors.KafkaTimeoutError, errors.NoBrokersAvailable, thinconsumer.KafkaTimeoutError):
        with pytest.raises(kind, match="refused") as found:
            make()
    assert list(found.value.causes) == ["127.0.0.1:1"]
    with pytest.warns(ConfigurationWarning, match="api_version"):
        make(api_version=(4, 2)).close()


def test_a_failed_constructor_leaves_nothing_open(broker):
    """A rejected login, for example, is raised at once."""
    with pytest.raises(kafka.errors.KafkaError):
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
            bootstrap_timeout_ms=1000,
        )


@pytest.mark.parametrize("name", kafka.KafkaConsumer.DEFAULT_CONFIG)
@pytest.mark.filterwarnings("ignore:max_poll_interval_ms=300000 is above:thinconsumer.ConfigurationWarning")
def test_each_keyword_of_kafka_python_is_taken(broker, name):
    """With kafka-python's default, and without a warning but that there is no thread for heartbeats."""
    given = {"group_id": "g", name: kafka.KafkaConsumer.DEFAULT_CONFIG[name]}
    KafkaConsumer(**{**given, "bootstrap_servers": broker.bootstrap_servers}).close()


def test_the_configuration_is_a_dict_with_every_keyword(make):
    assert DEFAULT_CONFIG.keys() >= kafka.KafkaConsumer.DEFAULT_CONFIG.keys()
    assert KafkaConsumer.DEFAULT_CONFIG is DEFAULT_CONFIG
    consumer = make(group_id="g", max_poll_records=7, isolation_level=IsolationLevel.READ_COMMITTED)
    assert consumer.config.keys() >= DEFAULT_CONFIG.keys()
    assert isinstance(consumer.config["bootstrap_servers"], str)  # which OpenTelemetry reads
    assert (consumer.config["group_id"], consumer.config["max_poll_records"]) == ("g", 7)
    assert consumer.config["isolation_level"] == 1
    assert consumer.config["allow_foreign_commits"] is True
    assert consumer.config["session_timeout_ms"] == 45000
    assert "g" in repr(consumer.config)


def test_the_configuration_hides_secrets():
    secret = "hunter2-secret"
    with pytest.warns(ConfigurationWarning):
        consumer = KafkaConsumer(
            api_version=(4, 2),
            socks5_proxy=f"socks5://me:{secret}@proxy.example:1080",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="me",
            sasl_plain_password=secret,
        )
    consumer.close()
    assert consumer.config["sasl_plain_password"] == secret
    assert secret in consumer.config["proxy_url"]
    assert secret not in repr(consumer.config)


def test_from_config_builds_one_too(broker):
    with KafkaConsumer.from_config({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}) as consumer:
        assert type(consumer) is KafkaConsumer
        assert consumer.config["group_id"] == "g"


@pytest.mark.parametrize("read_one", [lambda consumer: consumer.poll(5000), next])
def test_errors_of_polls_and_iterations_are_kafka_pythons(make, tp, read_one):
    consumer = make(value_deserializer=int)
    consumer.assign([tp])
    with pytest.raises(kafka.errors.KafkaError) as found:
        read_one(consumer)
    assert isinstance(found.value, thinconsumer.DeserializationError)
    consumer.skip(found.value)
    assert consumer.position(tp) == 1


def test_a_failed_commit_that_nobody_hears_of_is_logged(make, tp, group, caplog):
    consumer = make(group_id=group)
    consumer.assign([tp])
    future = consumer.commit_async({tp: OffsetAndMetadata(6, "m" * 5000, -1)})
    while not future.is_done:
        consumer.poll(timeout_ms=100)
    assert "offsets not committed" in caplog.text
    assert isinstance(future.exception, kafka.errors.CommitFailedError)


def test_a_strategy_is_no_default_where_the_broker_assigns():
    for protocol, has_strategy in (("classic", True), ("consumer", False), ("auto", False)):
        options = own_options({"group_id": "g", "group_protocol": protocol})
        assert ("partition_assignment_strategy" in options) == has_strategy
        assert options["allow_foreign_commits"] is True
    assert "allow_foreign_commits" not in own_options({})


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ({"isolation_level": IsolationLevel.READ_COMMITTED}, "read_committed"),
        ({"isolation_level": 0}, "read_uncommitted"),
        ({"isolation_level": "read_committed"}, "read_committed"),
        ({"auto_offset_reset": "smallest"}, "earliest"),
        ({"auto_offset_reset": "largest"}, "latest"),
        ({"partition_assignment_strategy": ["sticky"], "group_id": "g"}, ["sticky"]),
    ],
)
def test_values_are_translated(given, own):
    assert own_options(given)[next(iter(given))] == own


def test_unknown_keywords_are_refused():
    with pytest.raises(kafka.errors.KafkaConfigurationError, match="max_poll_timeout_ms"):
        KafkaConsumer(max_poll_timeout_ms=1)


def test_each_public_name_of_kafka_pythons_class_is_there_with_its_arguments():
    for name, theirs in vars(kafka.KafkaConsumer).items():
        if not name.startswith("_") and callable(theirs):
            ours = list(signature(getattr(KafkaConsumer, name)).parameters.values())
            expected = list(signature(theirs).parameters.values())
            found = [(one.name, one.kind, one.default) for one in ours[: len(expected)]]
            assert found == [(one.name, one.kind, one.default) for one in expected], name


def test_errors_have_kafka_pythons_names():
    assert errors.KafkaError is kafka.errors.KafkaError
    assert errors.UnknownMemberIdError is kafka.errors.UnknownMemberIdError
    assert errors.NoBrokersAvailable is thinconsumer.NoBrokersAvailable
    with pytest.raises(AttributeError, match="NoSuchError"):
        errors.NoSuchError  # noqa: B018


WITHOUT = """
import sys
sys.modules["kafka"] = None
from thinconsumer.compat.kafka import *
from thinconsumer.compat.kafka import errors
consumer = KafkaConsumer("t", bootstrap_servers=sys.argv[1], group_id="without", auto_offset_reset="earliest",
    consumer_timeout_ms=1000, value_deserializer=JsonSerializer(), isolation_level=IsolationLevel.READ_COMMITTED)
record = next(consumer)
assert type(record).__module__.startswith("thinconsumer.") and record.headers == [] and record.value == {"a": 1}
done = []
future = consumer.commit_async({TopicPartition("t", 0): OffsetAndMetadata(1, "", -1)}).add_both(done.append)
consumer.commit()
assert future.succeeded() and not future.retriable() and done == [None]
future.add_callback(done.append)
assert done == [None, None]
metadata = consumer.group_metadata()
assert metadata == ConsumerGroupMetadata("without", 1, metadata.member_id, None, "<stable>")
consumer.close()
try:
    KafkaConsumer(nonsense=1)
except errors.KafkaConfigurationError as error:
    assert errors.UnknownMemberIdError is errors.UnknownMemberIdError
    print(type(error).__module__, errors.UnknownMemberIdError.__mro__[1].__name__)
"""


def test_it_needs_no_kafka_python(broker):
    broker.create_topic("t", 1)
    broker.produce("t", [b'{"a": 1}'])
    code = [sys.executable, "-W", "error", "-c", WITHOUT, broker.bootstrap_servers]
    run = subprocess.run(code, capture_output=True, text=True, check=False, timeout=50)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "thinconsumer.errors KafkaError\n"
