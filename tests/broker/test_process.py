"""A broker in its own process: start, calls, errors, and reliable termination."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import thinconsumer
from thinconsumer import Consumer, IllegalArgumentError, IllegalStateError, TopicPartition
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.control import BrokerProcessError
from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.broker.faults import Disconnect, Reply, Silence
from thinconsumer_testing.broker.process import BrokerProcess

ORDERS = TopicPartition("orders", 0)

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("compiled_once")]


@pytest.fixture(scope="module")
def shared(compiled_once):
    """A process for tests that leave it unchanged."""
    with BrokerProcess(3, {"orders": 2}) as process:
        yield process
        assert process.bugs() == []


@pytest.fixture
def process():
    """A process for one test."""
    with BrokerProcess(2, {"orders": 2}) as process:
        yield process
        assert process.bugs() == []


def read(process, tp=ORDERS, **options):
    """Return all values of a partition."""
    with Consumer(
        bootstrap_servers=process.bootstrap_servers, auto_offset_reset="earliest", bootstrap_timeout_ms=5000, **options
    ) as consumer:
        consumer.assign([tp])
        return [record.value for record in consumer.read_to_end(10_000)]


def is_alive(pid):
    """Return whether the process exists and has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_until_gone(pid):
    """Wait for the end of a process that is not a child of this one."""
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} stayed behind"
        time.sleep(0.01)


def test_produced_records_can_be_read(shared):
    first = shared.produce("orders", [b"a", None, NewRecord(b"b", b"key", [("h", b"1")])], 1)
    assert shared.produce("orders", [b"\xff"], 1, codec=1) == first + 3
    assert read(shared, TopicPartition("orders", 1))[first:] == [b"a", None, b"b", b"\xff"]
    values = [bytes([number]) * 10_000 for number in range(60)]  # more than the pipe's buffer
    shared.produce("orders", values)
    assert read(shared) == values


def test_topics_leaders_and_coordinators_are_changed(shared):
    assert shared.bootstrap_servers == ",".join(shared.addresses.values())
    assert list(shared.addresses) == [1, 2, 3]
    assert repr(shared) == f"<BrokerProcess {shared.bootstrap_servers} pid {shared.pid}>"
    shared.create_topic("short", 1, configs={"cleanup.policy": "compact"})
    shared.expand("short", 3)
    with Consumer(bootstrap_servers=shared.bootstrap_servers) as consumer:
        assert consumer.partitions_for_topic("short") == {0, 1, 2}
        shared.delete_topic("short")
        assert consumer.partitions_for_topic("short") is None
    before = shared.leader(ORDERS)
    after = shared.move_leader(ORDERS)
    assert after != before
    assert shared.leader(("orders", 0)) == after
    assert shared.move_coordinator("billing") in (1, 2, 3)


def test_errors_have_their_original_type(shared):
    with pytest.raises(ControllerError) as error:
        shared.create_topic("orders", 1)
    assert error.value.code == Code.TOPIC_ALREADY_EXISTS
    with pytest.raises(LookupError):
        shared.produce("not-there", [b"x"])
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        shared.on("Fetch", lambda call: None)
    with pytest.raises(TypeError):
        shared.call("kill")
    assert shared.leader(ORDERS) > 0  # it keeps running


def test_brokers_are_killed_and_paused(process):
    os.kill(process.pid, signal.SIGINT)  # a terminal sends it to both processes; the broker must keep running
    process.produce("orders", [b"before"])
    victim = process.leader(ORDERS)
    process.kill(victim, noticed_after_s=0)
    assert process.leader(ORDERS) not in (victim, -1)
    process.produce("orders", [b"after"])
    assert read(process) == [b"before", b"after"]
    process.start(victim)
    process.move_leader(ORDERS, victim)
    for node in process.addresses:
        process.pause(node)
    with pytest.raises(thinconsumer.KafkaError):
        read(process, request_timeout_ms=200, default_api_timeout_ms=300)
    for node in process.addresses:
        process.resume(node)
    assert read(process) == [b"before", b"after"]


def test_rules_apply_until_they_are_removed(process):
    process.produce("orders", [b"a"])
    rule = process.on("Fetch", Reply(Code.NOT_LEADER_OR_FOLLOWER), times=1)
    lost = process.on("ListOffsets", Disconnect(), times=1)
    for_ever = process.on("Metadata", Silence(), where={"name": "nobody asks for it"})
    assert read(process) == [b"a"]
    assert (rule.hits, lost.hits, for_ever.hits) == (1, 1, 0)
    for_ever.remove()
    for_ever.remove()


def test_configuration_is_passed_on(tmp_path):
    config = {"num.partitions": 4, "auto.create.topics.enable": False}
    with BrokerProcess(1, {"here": 1}, config=config, directory=tmp_path / "data", racks=["a"]) as process:
        process.create_topic("four")
        with Consumer(bootstrap_servers=process.bootstrap_servers) as consumer:
            assert consumer.partitions_for_topic("four") == {0, 1, 2, 3}
        process.produce("here", [b"kept"])
    with BrokerProcess(1, config=BrokerConfig(num_partitions=2), directory=tmp_path / "data") as process:
        assert read(process, TopicPartition("here", 0)) == [b"kept"]


def test_process_starts_and_stops_quickly():
    """Most of the time is Python's own start, so only the order of magnitude is checked."""
    started = time.monotonic()
    with BrokerProcess(3, {"orders": 6}) as process:
        took, pid = time.monotonic() - started, process.pid
    stopped = time.monotonic() - started - took
    assert took < 5
    assert stopped < 2
    assert not is_alive(pid)
    process.stop()
    assert process.pid is None
    with pytest.raises(IllegalStateError, match="was stopped"):
        process.kill(1)


def test_failed_start_has_a_reason(shared):
    port = int(shared.addresses[1].rpartition(":")[2])
    with pytest.raises(BrokerProcessError, match=f"port {port} of 127.0.0.1 is in use") as error:
        BrokerProcess(port=port)
    assert error.value.returncode == 1
    assert "in use" in error.value.stderr
    with pytest.raises(BrokerProcessError, match="did you mean 'num.partitions'") as error:
        BrokerProcess(config={"num.partition": 3})
    assert error.value.returncode == 2


def test_ended_process_is_reported():
    process = BrokerProcess()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(BrokerProcessError, match="has ended with exit code -9"):
        process.create_topic("t")
    with pytest.raises(IllegalStateError):
        process.create_topic("t")


def test_hanging_process_is_killed():
    process = BrokerProcess(timeout_s=5)
    pid = process.pid
    process._timeout_s = 0.2
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(BrokerProcessError, match=r"did not respond within 0\.2 s"):
        process.create_topic("t")
    assert not is_alive(pid)


def test_unstopped_process_is_killed_with_a_warning():
    process = BrokerProcess()
    pid = process.pid
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        del process
    assert any(w.category is ResourceWarning and "unstopped" in str(w.message) for w in found)
    assert not is_alive(pid)


def test_process_ends_when_its_parent_is_killed(tmp_path):
    """The parent has no chance to stop it, for example when a test run is killed."""
    program = tmp_path / "owner.py"
    program.write_text(
        "import time\nfrom thinconsumer_testing.broker.process import BrokerProcess\n"
        "process = BrokerProcess()\nprint(process.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, cwd=tmp_path) as owner:
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
    wait_until_gone(pid)


def test_sigterm_ends_the_process():
    process = BrokerProcess()
    os.kill(process.pid, signal.SIGTERM)
    wait_until_gone(process.pid)
    with pytest.raises(BrokerProcessError, match="has ended with exit code 0"):
        process.bugs()


def test_interrupted_call_leaves_the_process_usable(process):
    """The late response is not taken for that of the next call."""

    class Interruption(BaseException):
        pass

    def interrupt(number, frame):
        raise Interruption

    os.kill(process.pid, signal.SIGSTOP)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Interruption):
            process.create_topic("interrupted", 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    os.kill(process.pid, signal.SIGCONT)
    assert process.leader(("interrupted", 0)) > 0


def test_security_settings_reach_the_process_but_not_its_arguments():
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN", "user_alice": "canary"}
    with BrokerProcess(security=settings) as process:
        arguments = process._child.args
        (file,) = [word.partition("=")[2] for word in arguments if word.startswith("--security=")]
        assert not Path(file).exists()
        assert "canary" not in str(arguments)
    with pytest.raises(IllegalArgumentError, match="needs sasl_enabled_mechanisms"):
        BrokerProcess(security={"security.protocol": "SASL_PLAINTEXT"})
