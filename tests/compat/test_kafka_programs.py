"""Programs for kafka-python as they are found: version 2, closes from elsewhere, options from the environment."""

import itertools
import os
import signal
import ssl
import subprocess
import sys
import threading

import kafka
import pytest

import thinconsumer
from thinconsumer.compat.kafka import KafkaConsumer, TopicPartition, errors
from thinconsumer.compat.kafka.options import own_options
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = pytest.mark.once
NUMBERS = itertools.count()
EACH = 6
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(config={"group.initial.rebalance.delay.ms": 0}) as process:
        process.create_topic("t", 1)
        process.produce("t", [b"%d" % n for n in range(EACH)])
        yield process


@pytest.fixture
def group():
    return f"group-{next(NUMBERS)}"


@pytest.fixture
def consumer(broker, group, closed_at_end):
    options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest", "group_id": group}
    return closed_at_end(KafkaConsumer("t", **options))


def committed(broker, group):
    with thinconsumer.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        return consumer.committed(thinconsumer.TopicPartition("t", 0))


@pytest.fixture(params=["thread", "signal handler"])
def meanwhile(request):
    """Return a function that has another one run in the middle of the next call, by a thread or a signal handler."""
    timers = []
    before = signal.getsignal(signal.SIGUSR1)

    def run(function):
        if request.param == "thread":
            timers.append(threading.Timer(0.5, function))
        else:
            signal.signal(signal.SIGUSR1, lambda *_: function())
            timers.append(threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)))
        timers[-1].start()

    yield run
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGUSR1, before)


def test_a_close_during_an_iteration_ends_it_and_commits(consumer, broker, group, meanwhile):
    meanwhile(consumer.close)
    assert len(list(consumer)) == EACH
    assert committed(broker, group) == EACH
    assert consumer.bootstrap_connected() is False
    with pytest.raises(errors.IllegalStateError, match="closed"):
        consumer.poll()


def test_a_close_during_a_poll_ends_it(consumer, broker, group, meanwhile):
    assert next(consumer).offset == 0
    consumer.pause(TopicPartition("t", 0))
    meanwhile(lambda: consumer.close(autocommit=False))
    assert consumer.poll(timeout_ms=20_000) == {}
    assert consumer.assignment() == set()
    assert committed(broker, group) is None


def test_a_close_during_another_call_ends_it(consumer, meanwhile):
    meanwhile(consumer.close)
    with pytest.raises(kafka.errors.IllegalStateError, match="closed"):
        consumer.end_offsets([TopicPartition("t", 9)], timeout_ms=20_000)
    assert list(consumer) == []


def test_an_iteration_ends_while_another_thread_closes(consumer, monkeypatch):
    found = []
    with monkeypatch.context() as patch:
        patch.setattr(thinconsumer.Consumer, "close", lambda *args, **kwargs: found.append(next(consumer, None)))
        consumer.close()
    assert found == [None]
    assert next(consumer).offset == 0


def test_a_handler_that_closes_and_exits_leaves_a_closed_consumer(consumer, broker, group):
    def stop(*_):
        consumer.close()
        sys.exit(0)

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(SystemExit):
            list(consumer)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert committed(broker, group) == EACH
    assert list(consumer) == []


def test_a_wakeup_is_no_close(consumer):
    consumer.wakeup()
    with pytest.raises(thinconsumer.WakeupError):
        consumer.poll(timeout_ms=1000)
    assert next(consumer).offset == 0


def test_a_close_in_a_listener_is_refused(broker, group, closed_at_end):
    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            consumer.close()

        def on_partitions_revoked(self, revoked):
            pass

    consumer = closed_at_end(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group))
    consumer.subscribe(["t"], listener=Listener())
    with pytest.raises(errors.IllegalStateError):
        consumer.poll(timeout_ms=5000)


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ({"api_version_auto_timeout_ms": 5000}, {"bootstrap_timeout_ms": 5000}),
        ({"api_version_auto_timeout_ms": 5000, "bootstrap_timeout_ms": 1}, {"bootstrap_timeout_ms": 1}),
        ({"legacy_iterator": False, "sock_chunk_bytes": 4096, "sock_chunk_buffer_count": 1000}, {}),
        ({"sasl_plain_username": "", "ssl_cafile": "", "ssl_check_hostname": False}, {"ssl_check_hostname": False}),
        ({"ssl_context": CONTEXT, "ssl_check_hostname": False}, {"ssl_context": CONTEXT}),
        ({"bootstrap_servers": {"b:1", "a:1"}}, {"bootstrap_servers": ["a:1", "b:1"]}),
        ({"client_id": ""}, {"client_id": ""}),
    ],
)
def test_options_of_version_2_and_of_an_empty_environment(given, own):
    assert own_options(given) == {**own_options({}), **own}


def test_the_default_of_a_reset_is_text(consumer):
    assert KafkaConsumer.DEFAULT_CONFIG["auto_offset_reset"] == "latest"
    assert consumer.config["auto_offset_reset"] == "earliest"


def test_topics_may_be_none_beside_a_pattern(consumer):
    consumer.unsubscribe()
    consumer.subscribe(topics=None, pattern="t")
    assert next(consumer).offset == 0
    with pytest.raises(ValueError, match="neither"):
        consumer.subscribe(None)


#: As in kafka-python 2.0.2: no leader epochs, other names of errors.
VERSION_2 = {
    "__init__": "",
    "structs": """
from collections import namedtuple
TopicPartition = namedtuple("TopicPartition", ["topic", "partition"])
OffsetAndMetadata = namedtuple("OffsetAndMetadata", ["offset", "metadata"])
OffsetAndTimestamp = namedtuple("OffsetAndTimestamp", ["offset", "timestamp"])
""",
    "consumer/__init__": "",
    "consumer/fetcher": """
from collections import namedtuple
ConsumerRecord = namedtuple("ConsumerRecord", ["topic", "partition", "offset", "timestamp", "timestamp_type", "key",
    "value", "headers", "checksum", "serialized_key_size", "serialized_value_size", "serialized_header_size"])
""",
    "errors": """
class KafkaError(RuntimeError): pass
class BrokerResponseError(KafkaError): pass
class AuthenticationFailedError(KafkaError): pass
class CorruptRecordException(KafkaError): pass
for_code = lambda code: BrokerResponseError
""",
}
PROGRAM = """
import sys
import kafka.structs, kafka.consumer.fetcher, kafka.errors
from thinconsumer import CorruptRecordError, SaslAuthenticationFailedError
from thinconsumer.compat.kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition, errors
from thinconsumer.compat.peer_types import KAFKA_PYTHON
tp, told = TopicPartition("t", 0), []
consumer = KafkaConsumer("t", bootstrap_servers=[sys.argv[1]], group_id="version-2", auto_offset_reset="earliest",
    default_offset_commit_callback=lambda offsets, response: told.append(offsets), consumer_timeout_ms=9000)
record = next(consumer)
assert type(record) is kafka.consumer.fetcher.ConsumerRecord, type(record)
assert (record.offset, record.value, record.headers, record.serialized_value_size) == (0, b"0", [], 1), record
consumer.commit_async({tp: OffsetAndMetadata(3, "mine")})
consumer.commit()
assert told == [{tp: (3, "mine")}], told
assert consumer.committed(tp, metadata=True) == kafka.structs.OffsetAndMetadata(1, "")
assert consumer.offsets_for_times({tp: 0}) == {tp: kafka.structs.OffsetAndTimestamp(0, record.timestamp)}
consumer.close()
corrupt = CorruptRecordError("torn", tp, 1, 2)
rejected = SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")
for error, name in ((corrupt, "CorruptRecordException"), (rejected, "AuthenticationFailedError")):
    assert isinstance(KAFKA_PYTHON.adopt(error), getattr(kafka.errors, name)), type(error).__mro__
    assert getattr(errors, name) is getattr(kafka.errors, name)
"""


def test_values_are_of_version_2_where_that_is_installed(broker, tmp_path):
    for name, text in VERSION_2.items():
        path = tmp_path / "kafka" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    code = [sys.executable, "-W", "error", "-c", PROGRAM, broker.bootstrap_servers]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    run = subprocess.run(code, capture_output=True, text=True, check=False, timeout=50, env=env)
    assert (run.returncode, run.stderr) == (0, "")
