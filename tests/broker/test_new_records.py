"""What is wrong with records to write, or with the topic that they are for, is said in the words of who writes them."""

import pytest

from thinconsumer import IllegalArgumentError
from thinconsumer.broker import BrokerProcess, NewRecord
from thinconsumer.testing import MemoryCluster, Simulation

WRONG = {
    "a text": (["abc"], "value is a str: encode it, 'abc'.encode()"),
    "a long text": ([b"ok", "x" * 41], "value is a str: encode it, value.encode()"),
    "a dict": ([{"a": 1}], "value is of type dict: write bytes, such as json.dumps(...).encode(), or None"),
    "an object": ([object()], "value is of type object: write bytes, such as json.dumps(...).encode(), or None"),
    "a number": ([7], "value is of type int: write bytes, such as json.dumps(...).encode(), or None"),
    "a text as key": ([NewRecord(b"x", "abc")], "key is a str: encode it, 'abc'.encode()"),
    "a text as header": ([NewRecord(b"x", None, [("n", "v")])], "header 'n' is a str: encode it, 'v'.encode()"),
    "headers without names": ([NewRecord(b"x", None, [b"n"])], "headers are pairs of a str and bytes or None: "),
    "a header's name in bytes": ([NewRecord(b"x", None, [(b"n", b"v")])], "headers are pairs of a str and bytes"),
    "an iterator of headers": ([NewRecord(b"x", None, iter([("n", b"v")]))], "headers are pairs of a str and bytes"),
    "one text": ("abc", "values is a single str: give a list, ['abc'.encode()]"),
    "one value": (b"abc", "values is a single bytes: give a list, [b'abc']"),
    "one record": (NewRecord(b"x" * 40), "values is a single NewRecord: give a list, [value]"),
}


@pytest.fixture(scope="module")
def process():
    with BrokerProcess(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture(params=["process", "memory", "simulation"])
def produce(request):
    if request.param == "process":
        return request.getfixturevalue("process").produce
    if request.param == "memory":
        return MemoryCluster(topics={"t": 2}).produce
    simulation = Simulation(seed=1, brokers=1, topics={"t": 2})
    return lambda topic, values, partition=0: simulation.produce(topic, partition, values)


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_bytes_is_named(produce, what):
    values, words = WRONG[what]
    with pytest.raises(IllegalArgumentError) as raised:
        produce("t", values)
    assert str(raised.value).startswith(words)


def test_headers_as_a_dict_are_refused():
    """Keys of two letters would be taken for pairs."""
    with pytest.raises(IllegalArgumentError, match="headers are pairs"):
        MemoryCluster(topics={"t": 1}).produce("t", [NewRecord(b"x", None, {"ab": b"1"})])


def test_what_is_bytes_is_written(produce):
    assert produce("t", [b"a", None, bytearray(b"b"), NewRecord(b"c", b"k", (("n", None), ("m", b"v")))], 1) == 0
    assert produce("t", (value for value in [b"d"]), 1) == 4


def test_a_missing_topic_or_partition_is_named(produce):
    words = (
        "topic 'x' does not exist in this broker: create it with create_topic('x', 1), or with the fixture kafka_topic"
    )
    with pytest.raises(LookupError) as raised:
        produce("x", [b"a"])
    assert str(raised.value) == words
    with pytest.raises(LookupError, match="topic 't' has no partition 2, but those from 0 to 1"):
        produce("t", [b"a"], 2)


def test_the_leader_of_a_missing_topic_is_no_number(process):
    with pytest.raises(LookupError, match=r"create it with create_topic\('x', 1\)"):
        process.leader(("x", 0))


def test_a_partition_without_a_leader_is_told_from_a_missing_one():
    cluster = MemoryCluster(1, {"t": 1})
    cluster.kill(1)
    with pytest.raises(LookupError, match="t-0 has no leader"):
        cluster.produce("t", [b"a"])
