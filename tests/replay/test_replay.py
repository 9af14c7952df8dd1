"""Traces replay to the same requests, in a process of another hash seed, and show no secret."""

import base64
import glob
import importlib.util
import itertools
import os
import shutil
import struct
import subprocess
import sys

import pytest

from tests.replay.elsewhere import line_of, lines_elsewhere
from tests.replay.traces import recording
from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.aio import AsyncConsumer
from thinconsumer.assignors import RangeAssignor
from thinconsumer.cli import main
from thinconsumer.compat.kafka import KafkaConsumer
from thinconsumer.errors import DeserializerNotReadyError, KafkaConfigurationError, KafkaTimeoutError, RecordError
from thinconsumer.network.connection import Connection
from thinconsumer.replay import RecordingConsumer, TraceError, read_trace, replay
from thinconsumer.replay.checkpoint import Built, attributes, is_ours, roots_of
from thinconsumer.replay.trace_file import MAGIC
from thinconsumer_testing import BrokerProcess, MemoryCluster, Network, NewRecord

#: Columns need it.
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
SECRETS = (b"s3cret-key", b"s3cret-value", b"s3cret-header", b"s3cret-metadata")


class Listener:
    """Asks for positions where they are new, and commits where they are given up."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.calls = 0

    def on_partitions_assigned(self, assigned):
        self.calls += 1
        for tp in assigned:
            self.consumer.position(tp)

    def on_partitions_revoked(self, revoked):
        self.calls += 1
        self.consumer.commit()


@pytest.fixture
def cluster():
    cluster = MemoryCluster(2, topics={"orders": 3})
    for number in range(3):
        cluster.produce(
            "orders",
            [NewRecord(b"s3cret-value %d" % n, b"s3cret-key", headers=[("h", b"s3cret-header")]) for n in range(40)],
            partition=number,
        )
    return cluster


@pytest.fixture
def trace(tmp_path):
    return str(tmp_path / "trace")


def read_in_group(cluster, trace):
    """A member reads all records, commits, asks, and leaves."""
    with recording(cluster, trace, group_id="readers", max_poll_records=7) as consumer:
        listener = Listener(consumer)
        consumer.subscribe(["orders"], listener=listener)
        count = 0
        while count < 110:
            count += sum(map(len, consumer.poll(1000).values()))
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(5, "s3cret-metadata", -1)})
        consumer.commit_async(callback=lambda offsets, error: None)
        assert consumer.committed({TopicPartition("orders", 0)}) == {TopicPartition("orders", 0): 40}
        consumer.seek(TopicPartition("orders", 1), 3)
        cluster.kill(2)
        consumer.poll(2000)
        cluster.start(2)
        for record, _ in zip(consumer, range(20)):
            assert record.value
    assert listener.calls >= 2


def test_readers_of_metrics_are_no_part_of_a_trace(cluster, trace):
    """They read the clock at any time: a replay, which has none of them, would look for these readings."""

    class Reporter:
        def init(self, metrics):
            self.metrics = metrics

        def metric_change(self, metric):
            assert all(isinstance(one.value(), float) for one in [*self.metrics, metric])

    with recording(cluster, trace, "orders", metric_reporters=[Reporter]) as consumer:
        for _ in range(30):
            consumer.poll(100)
    done = replay(trace)
    assert done.divergence is None and done.records == 120


def test_a_group_member_replays_in_another_process(cluster, trace):
    read_in_group(cluster, trace)
    there = replay(trace)
    assert there.divergence is None
    assert there.events == len(read_trace(trace))
    assert there.requests > 20
    assert there.records >= 130
    for seed in "1", "2":
        assert lines_elsewhere([trace], seed) == [line_of(there)]


def test_a_recorded_consumer_pushes_no_metrics(trace):
    cluster = MemoryCluster(1, {"orders": 1}, metric_reporters="ClientTelemetryReceiver")
    cluster.set_client_metrics("all", ["*"], interval_ms=100)
    with recording(cluster, trace, "orders", group_id="readers") as consumer:
        for _ in range(20):
            consumer.poll(500)
    assert cluster.pushed_metrics() == []
    assert replay(trace).divergence is None


def test_no_secret_is_in_a_trace(cluster, trace):
    read_in_group(cluster, trace)
    assert secrets_in(repr(read_trace(trace)).encode()) == []


def secrets_in(shown):
    """Return what of the secrets is in these bytes, in any form."""
    found = []
    for secret in SECRETS:
        for form in secret, base64.b64encode(secret)[:-4], secret.hex().encode(), secret.decode().encode("utf-16-le"):
            found += [each for each in (form, repr(form)[2:-1].encode()) if each in shown]
    return found


@pytest.mark.parametrize("chunk", [None, 7])
def test_a_reader_without_group_replays(trace, chunk):
    cluster = MemoryCluster(2, topics={"orders": 2}, network=Network(chunk=chunk))
    cluster.produce("orders", [b"a"] * 30)
    with recording(cluster, trace, reconnect_backoff_ms=50) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.poll(1000)
        cluster.kill(1)
        consumer.poll(5000)
        cluster.start(1)
        consumer.poll(5000)
        assert consumer.wake_at() is not None
        consumer.pause(TopicPartition("orders", 0))
        consumer.wakeup()
        with pytest.raises(Exception, match="wakeup"):
            consumer.poll(10)
    assert replay(trace).divergence is None


def read_in_many_ways(cluster, trace):
    def text(data):
        if data == b"s3cret-value 21":
            raise ValueError(data)
        return data.decode()

    consumer = recording(cluster, trace, value_deserializer=text)
    with consumer:
        consumer.assign([TopicPartition("orders", n) for n in range(3)])
        for call in (*([consumer.poll_batches] if HAS_NUMPY else []), consumer.poll_raw, consumer.poll):
            consumer.seek_to_beginning()
            assert call(1000)
        consumer.seek_to_beginning()
        errors = 0
        for _ in range(40):
            try:
                consumer.poll(100, max_records=5)
            except RecordError as error:
                errors += 1
                consumer.skip(error)
        assert errors == 3
        consumer.seek_to_beginning(TopicPartition("orders", 0))
        consumer.pause(TopicPartition("orders", 0))
        assert list(consumer.read_to_end()) == []
        ends = consumer.end_offsets({TopicPartition("orders", 0)})
        assert ends == {TopicPartition("orders", 0): 40}
        with pytest.raises(KafkaTimeoutError):
            consumer.offsets_for_times({TopicPartition("nowhere", 0): 1}, timeout_ms=100)


def test_a_deserializer_that_was_not_ready_replays(cluster, trace):
    calls = []

    def text(data):
        if data.endswith(b"7") and len(calls) < 30:
            calls.append(data)
            raise DeserializerNotReadyError("wait", 30)
        return data.decode()

    with recording(cluster, trace, value_deserializer=text, max_poll_records=5) as consumer:
        consumer.assign([TopicPartition("orders", n) for n in range(3)])
        count = 0
        while count < 120:
            count += sum(map(len, consumer.poll(50).values()))
            consumer.health()
    assert len(calls) == 30
    there = replay(trace)
    assert there.divergence is None
    assert there.events == len(read_trace(trace))


def test_all_forms_of_polls_errors_and_queries_replay(cluster, trace):
    read_in_many_ways(cluster, trace)
    there = replay(trace)
    assert there.divergence is None
    assert there.events == len(read_trace(trace))


def test_a_cut_trace_replays_up_to_there(cluster, trace, tmp_path, monkeypatch):
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 50)
    read_in_group(cluster, trace)
    whole = (tmp_path / "trace").read_bytes()
    seen = set()
    packed, times = struct.unpack_from(">II", whole, len(MAGIC))
    first = len(MAGIC) + 12 + packed + 8 * times
    for size in range(first, len(whole), len(whole) // 40):
        (tmp_path / "cut").write_bytes(whole[:size])
        there = replay(str(tmp_path / "cut"))
        assert there.divergence is None
        assert there.events == len(read_trace(str(tmp_path / "cut")))
        seen.add(there.events)
    assert len(seen) > 10


def test_another_client_is_found_out_at_its_first_other_request(cluster, trace, monkeypatch):
    read_in_group(cluster, trace)
    whole = replay(trace).requests
    monkeypatch.setattr("thinconsumer.network.client.Connection.data_to_send", other_requests(Connection.data_to_send))
    there = replay(trace)
    assert there.divergence is not None
    assert there.requests < whole


def other_requests(data_to_send):
    """Write another correlation id from the tenth request on."""

    def other(self):
        data = b"".join(data_to_send(self))
        return [data[:8] + b"\x7f" + data[9:]] if int.from_bytes(data[8:12], "big") > 10 else [data] if data else ()

    return other


def test_a_file_of_another_kind_is_no_trace(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"\0" * 100)
    with pytest.raises(TraceError, match="is no trace"):
        replay(str(path))


def test_a_trace_is_the_owners_alone(cluster, trace):
    recording(cluster, trace).close()
    assert os.stat(trace).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("group", [None, "readers"])
def test_a_trace_that_is_full_keeps_the_last_part_and_begins_with_a_checkpoint(cluster, trace, monkeypatch, group):
    calls = itertools.count()

    def text(data):
        if next(calls) % 9 == 4:
            raise DeserializerNotReadyError("wait", 20)
        return data.decode()

    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 100)
    options = {"trace_bytes_max": 100_000, "max_poll_records": 3, "group_id": group, "value_deserializer": text}
    with recording(cluster, trace, **options) as consumer:
        consumer.subscribe(["orders"]) if group else consumer.assign([TopicPartition("orders", 0)])
        for turn in range(600):
            if turn % 5 == 0:
                secret = NewRecord(b"s3cret-value %d" % turn, b"s3cret-key", headers=[("h", b"s3cret-header")])
                cluster.produce("orders", [secret] * 7)
            consumer.poll(100)
            if group:
                consumer.commit_async({TopicPartition("orders", 0): OffsetAndMetadata(turn, "s3cret-metadata", -1)})
    assert os.path.getsize(trace) + os.path.getsize(trace + ".1") < 200_000
    shutil.copyfile(trace, trace + "-alone")
    assert read_trace(trace + "-alone")[1][0][0] == "checkpoint"
    for path in trace, trace + ".1", trace + "-alone":
        events = read_trace(path)
        shown = repr(events).encode()
        for form in b"s3cret", base64.b64encode(b"s3cret"), b"s3cret".hex().encode():
            assert form not in shown
        done = replay(path)
        assert done.divergence is None
        assert done.events == len(read_trace(path))
        assert done.calls > 50
    assert replay(trace).calls > replay(trace + ".1").calls + 50


def test_what_no_trace_can_be_made_of_is_refused(cluster, trace):
    with pytest.raises(KafkaConfigurationError):
        recording(cluster, trace, partition_assignment_strategy=[object()], group_id="g")
    assert not os.path.exists(trace)


def test_sockets_replay(trace):
    with BrokerProcess(topics={"orders": 1}) as broker:
        broker.produce("orders", [b"a"] * 20)
        options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        with RecordingConsumer("orders", trace=trace, group_id="g", **options) as consumer:
            count = 0
            while count < 20:
                count += sum(map(len, consumer.poll(1000).values()))
    there = replay(trace)
    assert there.divergence is None
    assert there.records == 20


def test_the_command_says_what_was_the_same(cluster, trace, capsys):
    read_in_group(cluster, trace)
    assert main(["replay", trace, "--calls"]) == 0
    out = capsys.readouterr().out
    assert "commit({orders-0: 5})" in out
    assert "the same as in the trace" in out
    assert "Fetch" not in out


def test_no_secret_is_in_what_the_command_prints_or_draws(cluster, trace, capsys, tmp_path):
    read_in_group(cluster, trace)
    assert main(["replay", trace]) == 0
    assert main(["replay", trace, "--until", "OffsetCommit"]) == 0
    assert main(["replay", trace, "--html", str(tmp_path / "page")]) == 0
    for shown in capsys.readouterr().out.encode(), (tmp_path / "page").read_bytes():
        assert b"orders-0 at 5" in shown
        assert secrets_in(shown) == []


def test_a_consumer_imports_no_replay():
    code = "import sys, thinconsumer; c = thinconsumer.Consumer(); print([m for m in sys.modules if 'replay' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_poll_after_an_iteration_commits_the_last_record_again(cluster, trace):
    """The record that an iteration has returned last is left out of automatic commits, until a poll asks for more."""
    with recording(cluster, trace, group_id="g", auto_commit_interval_ms=100, max_poll_records=5) as consumer:
        consumer.subscribe(["orders"])
        record = next(consumer)
        consumer.pause(TopicPartition(record.topic, record.partition))
        for _ in range(30):
            consumer.poll(50)
    assert replay(trace).divergence is None


def test_polls_of_single_records_replay_and_are_written_while_they_go_on(cluster, trace):
    """They are so frequent that most are one number: these, too, must fill blocks."""
    cluster.produce("orders", [b"%d" % n for n in range(3000)])
    with recording(cluster, trace, max_poll_records=1) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        found = sum(len(consumer.poll(1000)) for _ in range(2500))
        written = len(read_trace(trace))
    assert found >= 2490
    assert written > 5000
    done = replay(trace)
    assert done.divergence is None
    assert done.records == found
    assert os.path.getsize(trace) < 150_000


def test_the_option_of_a_consumer_makes_a_trace(cluster, trace):
    options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    with Consumer("orders", trace=trace, driver=cluster.driver(), group_id="readers", **options) as consumer:
        consumer.poll(1000)
    done = replay(trace)
    assert done.divergence is None
    assert done.requests > 5


def test_other_classes_refuse_the_option(trace):
    for make in (
        lambda: AsyncConsumer(bootstrap_servers="a:1", trace=trace),
        lambda: KafkaConsumer(bootstrap_servers="a:1", trace=trace),
        lambda: Consumer.from_config({"bootstrap.servers": "a:1", "trace": trace}),
    ):
        with pytest.raises(KafkaConfigurationError, match="trace"):
            make()


def test_the_environment_makes_traces_of_all_consumers_that_can_have_one(cluster, trace, monkeypatch, caplog):
    monkeypatch.setenv("THINCONSUMER_TRACE", trace)
    options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    with Consumer(driver=cluster.driver(), **options) as one, Consumer(driver=cluster.driver(), **options) as two:
        for consumer in one, two:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.poll(1000)
    paths = sorted(glob.glob(trace + f"-{os.getpid()}-*"))
    assert len(paths) == 2
    assert all(replay(path).divergence is None for path in paths)
    options |= {"group_id": "g", "partition_assignment_strategy": [RangeAssignor()]}
    with Consumer(driver=cluster.driver(), **options) as other:
        assert type(other) is Consumer
        other.subscribe(["orders"])
        other.poll(100)
    assert "an assignor of your own" in caplog.text


def test_a_trace_can_be_switched_off_and_on_while_it_runs(cluster, trace):
    with recording(cluster, trace, max_poll_records=1) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.poll(1000)
        consumer.stop_trace()
        written = len(read_trace(trace))
        for _ in range(10):
            consumer.poll(1000)
        consumer.position(TopicPartition("orders", 0))
        assert len(read_trace(trace)) == written
        consumer.start_trace()
        for _ in range(5):
            consumer.poll(1000)
        consumer.pause(TopicPartition("orders", 0))
    done = replay(trace)
    assert done.divergence is None
    assert done.calls == 7
    assert done.records == 5


@pytest.mark.parametrize("options", [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}])
def test_a_checkpoint_finds_all_attributes_without_looking_at_a_dict(cluster, options):
    """Looking at the ``__dict__`` of the client's objects would make the client slower, in CPython 3.11 and 3.12."""
    options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **options}
    with Consumer(driver=cluster.driver(), **options) as consumer:
        consumer.subscribe(["orders"]) if "group_id" in options else consumer.assign([TopicPartition("orders", 0)])
        for _ in range(4):
            consumer.poll(500)
        client = [each for each in Built(roots_of(consumer)).by_path.values() if is_ours(each)]
        missing = {
            f"{type(each).__name__}.{name}"
            for each in client
            for name in getattr(each, "__dict__", {})
            if name not in dict(attributes(each))
        }
    assert len(client) > 100
    assert not missing
