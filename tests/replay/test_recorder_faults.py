"""A consumer with a trace does as one without: also if the file fails, a process forks, or Ctrl-C hits the recorder."""

import enum
import os
import shutil
import sys
import threading
import tracemalloc
from collections import deque
from functools import partial

import pytest

import thinconsumer.replay
from tests.replay.traces import Listener, new_cluster, recording
from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.broker import ListenerSecurity
from thinconsumer.errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError
from thinconsumer.replay import TraceError, read_trace, replay
from thinconsumer_testing import MemoryCluster

ORDERS = [TopicPartition("orders", number) for number in range(2)]
RECORDER = os.path.dirname(thinconsumer.replay.__file__) + os.sep


@pytest.fixture
def trace(tmp_path):
    return str(tmp_path / "trace")


class Topic(str, enum.Enum):
    ORDERS = "orders"


def calls_with_odd_arguments(consumer):
    """Calls as programs make them, right or wrong."""
    assign, seek = consumer.assign, consumer.seek
    yield lambda: assign(dict.fromkeys(ORDERS).keys())
    yield lambda: assign(())
    yield lambda: assign(partitions=set())
    yield lambda: assign(dict(enumerate(ORDERS)).values())
    yield lambda: assign([])
    yield lambda: assign(deque(ORDERS))
    yield lambda: consumer.partitions_for_topic(Topic.ORDERS)
    yield lambda: assign([("orders", 1), TopicPartition(Topic.ORDERS, 0)])
    yield lambda: seek(("orders", 0), 3)
    yield lambda: seek(ORDERS[0], 10**5000)
    yield lambda: consumer.poll(10**5000)
    yield lambda: seek(TopicPartition("orders", b"0"), 3)
    nested = []
    nested.append(nested)
    yield lambda: assign(nested)
    for metadata in b"bytes", "\ud800":
        yield lambda m=metadata: consumer.commit({ORDERS[0]: OffsetAndMetadata(3, m, -1)})
    yield lambda: consumer.poll(100)


def test_odd_arguments_replay_and_raise_the_same_errors_as_without_a_trace(trace):
    cluster, errors = new_cluster(), []
    options = {"group_id": "g", "bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    for more in {}, {"trace": trace}:
        errors.append([])
        with Consumer(driver=cluster.driver(), **options, **more) as consumer:
            for call in calls_with_odd_arguments(consumer):
                try:
                    call()
                except Exception as error:  # noqa: BLE001 - compared below
                    errors[-1].append(type(error))
    assert errors[0] == errors[1]
    assert IllegalArgumentError in errors[0]
    done = replay(trace)
    assert done.divergence is None
    assert done.events == len(read_trace(trace))


class FullDisk:
    closed = False

    def __init__(self, file):
        self.file = file

    def write(self, *data):
        raise OSError(28, "No space left on device")

    def close(self):
        self.file.close()
        self.write()


@pytest.mark.parametrize("when", ["block", "segment"])
def test_a_file_that_cannot_be_written_ends_the_trace_and_not_the_consumer(trace, caplog, monkeypatch, when):
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 50)
    with recording(new_cluster(), trace, group_id="g", max_poll_records=1) as consumer:
        consumer.subscribe(["orders"])
        count = sum(len(consumer.poll(1000)) for _ in range(5))
        if when == "block":
            consumer._trace._file = FullDisk(consumer._trace._file)
        else:
            monkeypatch.setattr("os.replace", FullDisk(None).write)
            consumer._trace.has_gap = consumer._trace.wants_checkpoint = True
        count += sum(len(consumer.poll(1000)) for _ in range(15))
    assert count == 20
    assert [line for line in caplog.messages if "No space left" in line][1:] == []
    assert replay(trace).divergence is None


def test_a_path_that_cannot_be_opened(tmp_path, monkeypatch, caplog):
    path = str(tmp_path / "nowhere" / "trace")
    with pytest.raises(KafkaConfigurationError, match="nowhere"):
        Consumer(bootstrap_servers="a:1", trace=path)
    monkeypatch.setenv("THINCONSUMER_TRACE", path)
    with Consumer(bootstrap_servers="a:1") as consumer:
        assert type(consumer) is Consumer
    assert "nowhere" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_writes_nothing_into_the_trace(trace):
    with recording(new_cluster(), trace, group_id="g") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(1000)
        child = os.fork()
        if not child:
            try:
                consumer._trace.wants_checkpoint = True
                consumer.close(timeout_ms=0)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        consumer.poll(1000)
        consumer.commit()
    done = replay(trace)
    assert done.divergence is None
    assert done.calls == 5


def test_two_traces_of_the_same_path_do_not_write_into_one_file(trace):
    with recording(new_cluster(), trace) as first:
        first.assign(ORDERS)
        first.poll(1000)
        with open(trace, "rb") as before, recording(new_cluster(), trace) as second:
            second.assign(ORDERS)
            second.poll(1000)
            first.poll(1000)
            first.stop_trace()
            shutil.copyfile(f"/proc/self/fd/{before.fileno()}", trace + "-first")
    for path in trace, trace + "-first":
        done = replay(path)
        assert done.divergence is None
        assert done.events == len(read_trace(path)) > 50


@pytest.mark.filterwarnings("ignore::thinconsumer.config.build.ConfigurationWarning")
def test_a_password_in_sasl_jaas_config_is_no_part_of_a_trace(trace):
    security = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=["PLAIN"], users={"ann": "s3cret"})
    cluster = MemoryCluster(1, topics={"orders": 1}, security=security)
    cluster.produce("orders", [b"1"] * 10)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = f'{module} required username="ann" password="s3cret";'
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_jaas_config": config}
    with recording(cluster, trace, "orders", group_id="g", **login) as consumer:
        assert consumer.poll(1000)
    assert b"s3cret" not in repr(read_trace(trace)).encode()
    done = replay(trace)
    assert done.divergence is None
    assert done.records == 10


class Interrupt:
    """Raises KeyboardInterrupt at a line of the recorder, counted from the beginning of the block."""

    def __init__(self, line):
        self.left = line

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.enter)

    def __exit__(self, *error):
        sys.settrace(self.before)

    def enter(self, frame, event, what):
        return self.step if frame.f_code.co_filename.startswith(RECORDER) else None

    def step(self, frame, event, what):
        if event == "line":
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.step


def read_all(path, interrupt):
    """Return the offsets of a member that is interrupted once and goes on."""
    with recording(new_cluster(), path, group_id="g", max_poll_records=3, trace_bytes_max=20_000) as consumer:
        found = []

        def read():
            found.extend((r.partition, r.offset) for records in consumer.poll(100).values() for r in records)

        def take():
            record = next(consumer)
            found.append((record.partition, record.offset))

        calls = [lambda: consumer.subscribe(["orders"], listener=Listener()), read, read, take, take, consumer.commit]
        with interrupt:
            for call in calls:
                try:
                    call()
                except KeyboardInterrupt:
                    call()
        for _ in range(10):
            read()
    return found


def pytest_generate_tests(metafunc):
    if "lines" in metafunc.fixturenames:
        step = 1 if metafunc.config.getoption("--soak") else 101
        metafunc.parametrize("lines", [range(1, 1200, step)], ids=["lines"])


def test_ctrl_c_at_any_line_of_the_recorder_is_survived(tmp_path, monkeypatch, lines):
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 20)
    calls = []
    for line in lines:
        path = str(tmp_path / str(line))
        assert sorted(read_all(path, Interrupt(line))) == [(p, n) for p in range(2) for n in range(10)], line
        done = replay(path)
        assert done.divergence is None, (line, done.divergence)
        assert done.events == len(read_trace(path))
        calls.append(done.calls)
    assert min(calls) > 8


def test_a_replay_makes_the_bytes_of_records_only_when_they_are_received(trace):
    """A trace of 256 MB may stand for many GBs of records, of which only one response is needed at a time."""
    cluster = MemoryCluster(1, topics={"orders": 1})
    for _ in range(20):
        cluster.produce("orders", [bytes(900_000)])
    with recording(cluster, trace, max_partition_fetch_bytes=1_000_000) as consumer:
        consumer.assign(ORDERS[:1])
        while consumer.position(ORDERS[0]) < 20:
            consumer.poll(1000)
    assert os.path.getsize(trace) < 100_000
    tracemalloc.start()
    try:
        done = replay(trace)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.divergence is None
    assert done.records == 20
    assert most < 10_000_000


@pytest.mark.parametrize("size", [-5, 10**30])
def test_sizes_of_responses_that_cannot_be_are_an_error_of_the_trace(trace, monkeypatch, size):
    with recording(new_cluster(), trace) as consumer:
        consumer.assign(ORDERS)
        consumer.poll(1000)
    events = read_trace(trace)
    place = next(n for n, (event, _) in enumerate(events) if isinstance(event, list) and event[0] == "response")
    event, data = events[place]
    events[place] = [*event[:2], size, [8, size], event[4]], data
    monkeypatch.setattr("thinconsumer.replay.player.read_trace", lambda path: events)
    with pytest.raises(TraceError, match="a wrong form"):
        replay(trace)


def test_iterators_that_are_resumed_in_turn_replay(trace):
    with recording(new_cluster(), trace, max_poll_records=3) as consumer:
        consumer.assign(ORDERS)
        first, second = consumer.read_to_end(), consumer.read_to_end()
        for records in first, second, first, first, second, second:
            next(records)
    done = replay(trace)
    assert done.divergence is None
    assert done.events == len(read_trace(trace))


def test_calls_that_are_rejected_are_no_part_of_a_trace(trace):
    """Those of a deserializer, and of another thread, come in the middle of a call, at any place in it."""
    rejected = []

    def call():
        for method in consumer.poll, consumer.health, lambda: consumer.pause(ORDERS[0]):
            try:
                method()
            except IllegalStateError as error:
                rejected.append(error)

    def deserialize(data):
        call()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return data

    with recording(new_cluster(), trace, value_deserializer=deserialize) as consumer:
        consumer.assign(ORDERS)
        while len(rejected) < 20 * 6:
            for records in consumer.poll(100).values():
                [record.value for record in records]
    done = replay(trace)
    assert done.divergence is None
    assert done.events == len(read_trace(trace))


def with_a_cell_without_value():
    def deserialize(data):
        return data if data else later

    if not deserialize:
        later = 1
    return deserialize


@pytest.mark.parametrize(
    "code",
    [partial(lambda key, data: data, "s3cret"), partial(partial(lambda *a, **k: 1), key="s3cret"),
     {b"s3cret": "s3cret"}.get, with_a_cell_without_value()],
    ids=["partial", "partials", "method", "cell"],
)  # fmt: skip
def test_what_user_code_refers_to_is_in_no_checkpoint(trace, code):
    code_of_errors = partial(lambda secret, error: "raise", "s3cret")
    options = {"key_deserializer": code, "value_deserializer": code, "on_bad_record": code_of_errors}
    with recording(new_cluster(), trace, "orders", group_id="g", max_poll_records=3, **options) as consumer:
        for _ in range(4):
            consumer.poll(100)
            consumer._trace.wants_checkpoint = True
    shown = repr(read_trace(trace))
    assert "checkpoint" in shown
    assert "s3cret" not in shown and b"s3cret".hex() not in shown
    done = replay(trace)
    assert done.divergence is None
    assert done.records > 5
