"""The command ``broker``: its ready line, serving clients, signals, warnings and errors."""

import json
import signal

import pytest

from thinconsumer import Consumer, TopicPartition


@pytest.fixture
def start(commands):
    """Start a broker; return its process and its ready line."""

    def run(*words):
        child = commands.start("broker", "--port", 0, *words)
        line = child.stdout.readline()
        assert line, child.stderr.read()
        return child, json.loads(line)

    return run


def test_the_ready_line_has_the_addresses_and_the_broker_serves(start):
    child, ready = start("--nodes", 2, "--topic", "orders:3", "--topic", "more")
    assert ready["bootstrap_servers"] == ",".join(ready["nodes"].values())
    assert list(ready["nodes"]) == ["1", "2"]
    assert ready["pid"] == child.pid
    with Consumer(bootstrap_servers=ready["bootstrap_servers"]) as consumer:
        assert consumer.partitions_for_topic("orders") == {0, 1, 2}
        assert consumer.partitions_for_topic("more") == {0}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signals_end_the_broker(start, number, code):
    child, _ = start()
    child.send_signal(number)
    out, err = child.communicate(timeout=50)
    assert child.returncode == code
    assert (out, err) == ("", "")


def test_a_closed_standard_input_does_not_end_the_broker(start):
    """A service manager closes standard input; only --control reads it."""
    child, ready = start()
    child.stdin.close()
    child.stdin = None
    with Consumer(bootstrap_servers=ready["bootstrap_servers"]) as consumer:
        assert consumer.topics() == set()
    assert child.poll() is None


def test_data_in_a_folder_survives_a_restart(commands, start, tmp_path):
    """Existing topics are not created again."""
    words = ("--topic", "orders:2", "--directory", tmp_path / "data")
    child, ready = start(*words)
    to_it = ("--partition", 1, "--bootstrap-server", ready["bootstrap_servers"])
    assert commands.run("produce", "orders", *to_it, given="kept\n")[0] == 0
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=50)
    _, ready = start(*words)
    with Consumer(bootstrap_servers=ready["bootstrap_servers"], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 1)])
        assert [record.value for record in consumer.read_to_end(10_000)] == [b"kept"]


def test_warnings_of_the_broker_are_printed(commands, start, tmp_path):
    """Such as records dropped because they were only partly written before a crash."""
    words = ("--topic", "orders", "--directory", tmp_path / "data")
    child, _ = start(*words)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=50)
    file = tmp_path / "data" / "node-1" / "orders-0" / f"{0:020}.log"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"torn")
    child, _ = start(*words)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=50)
    assert err == f"WARNING: {file}: an incomplete batch header after 0 bytes; truncating the 4 bytes from there on\n"


def test_a_port_in_use_is_an_error_with_advice(cluster, fail):
    port = cluster.addresses[1].rpartition(":")[2]
    words = f"error: port {port} of 127.0.0.1 is in use: choose another --port, or 0\n"
    assert fail("broker", "--port", port) == (1, words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "0"], "not a positive whole number"),
        (["--nodes", "2", "--rack", "a"], "--rack: 1 given for 2 brokers"),
        (["--port", "99999"], "not a port number"),
        (["--topic", "orders:"], "write TOPIC or TOPIC:PARTITIONS"),
        (["--config", "num.partition=3"], "did you mean 'num.partitions'?"),
        (["--config", "num.partitions=many"], "num.partitions"),
        (["--config", "num.partitions=0"], "num_partitions: must be at least 1"),
        (["--config", "replication_s=nan"], "must be at least 0"),
        (["--topic", "a b"], "characters other than"),
        (["--topic", ".."], "'..' is not allowed"),
        (["--topic", "a:20000"], "more than the 10000"),
        (["--topic", "a:3", "--topic", "a:4"], "a is named more than once"),
        (["--port", "65535", "--nodes", "2"], "the highest port is 65535"),
        (["--host", ""], "write an address that clients can connect to"),
    ],
)
def test_wrong_usage_exits_with_2(fail, words, said):
    code, err = fail("broker", "--port", "0", *words)
    assert code == 2 and said in err
    assert err.startswith("python -m thinconsumer broker: ")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_an_unusable_folder_is_not_reported_as_a_port(fail, tmp_path, place):
    (tmp_path / "file").touch()
    code, err = fail("broker", "--port", "0", "--directory", tmp_path / place)
    assert code == 1 and err.startswith(f"error: cannot keep data in {tmp_path / place}: ")
