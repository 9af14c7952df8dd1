"""The control protocol: values, errors, rules, and invalid lines."""

import json
from types import SimpleNamespace

import pytest

from thinconsumer import IllegalArgumentError, IllegalStateError, TopicPartition
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.control import (
    BrokerProcessError,
    Dispatcher,
    answers_earlier_call,
    call_line,
    pack,
    result_of,
    unpack,
)
from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.broker.faults import FaultRule, FaultRules, Reply, Silence
from thinconsumer_testing.broker.image import ClusterImage, TopicImage


class FakeBroker:
    """Records its calls, and returns or raises what the test sets."""

    def __init__(self):
        self.calls = []
        self.outcome = None
        self.cluster = SimpleNamespace(
            bugs=["a bug"],
            rules=FaultRules(),
            controller=SimpleNamespace(image=ClusterImage("c")),
            no_leader=lambda tp: LookupError(f"there is no partition {tp.topic}-{tp.partition}"),
        )

    def _do(self, *call):
        self.calls.append(call)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def produce(self, topic, values, partition=0, **batch):
        return self._do("produce", topic, values, partition, batch)

    def kill(self, node, *, noticed_after_s=None):
        return self._do("kill", node, noticed_after_s)

    def move_leader(self, tp, to=None):
        return self._do("move_leader", tp, to)

    def close(self):
        return self._do("close")


@pytest.fixture
def broker():
    return FakeBroker()


def ask(broker, name, *args, **kwargs):
    """Make a call through the encoded lines."""
    line = call_line(7, name, args, kwargs)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return result_of(Dispatcher(broker).answer(line), 7)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -1,
        1.5,
        "ü\n",
        b"\x00\xff",
        [b"a", None, "b"],
        {"a": {"b": b"c"}},
        {"$other": 1, "b": 2},
        TopicPartition("orders", 3),
        NewRecord(b"v", None, [("h", b"\xff"), ("h", None)], 5),
        FaultRule("Fetch", Reply(Code.NOT_LEADER_OR_FOLLOWER), node=1, where={"topic": "orders"}),  # see test_faults
    ],
)
def test_values_round_trip(value):
    arrived = unpack(json.loads(json.dumps(pack(value))))
    assert type(arrived) is type(value)
    assert arrived == value or arrived.as_dict() == value.as_dict()


@pytest.mark.parametrize("value", [lambda: 1, object(), [object()], FaultRule("Fetch", print)])
def test_values_without_json_form_are_rejected_before_sending(value):
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        call_line(1, "produce", (value,), {})


def test_calls_reach_the_broker_with_their_arguments(broker):
    broker.outcome = 42
    assert ask(broker, "produce", "orders", [b"a", None], 3, codec=1) == 42
    assert ask(broker, "kill", 2, noticed_after_s=0.5) == 42
    assert ask(broker, "move_leader", TopicPartition("orders", 1)) == 42
    assert broker.calls == [
        ("produce", "orders", [b"a", None], 3, {"codec": 1}),
        ("kill", 2, 0.5),
        ("move_leader", TopicPartition("orders", 1), None),
    ]
    broker.outcome = TopicImage("t", bytes(16), (), {})
    assert ask(broker, "kill", 1) is None, "a metadata row is useless outside the broker's image"
    assert ask(broker, "bugs") == ["a bug"]
    with pytest.raises(LookupError, match="there is no partition orders-0"):
        ask(broker, "leader", TopicPartition("orders", 0))


@pytest.mark.parametrize("name", ["close", "__init__", "cluster", "nothing"])
def test_only_listed_calls_are_allowed(broker, name):
    with pytest.raises(IllegalArgumentError, match="unknown control call"):
        ask(broker, name)
    assert broker.calls == []


@pytest.mark.parametrize(
    "error",
    [
        ControllerError(Code.TOPIC_ALREADY_EXISTS, "there is one"),
        LookupError("orders-0 has no leader"),
        KeyError(9),
        ValueError("refused"),
        IllegalStateError("closed"),
        TypeError("too many"),
    ],
)
def test_errors_round_trip_with_type_and_state(broker, error):
    broker.outcome = error
    with pytest.raises(type(error)) as found:
        ask(broker, "kill", 1)
    assert type(found.value) is type(error)
    assert str(found.value) == str(error)
    assert vars(found.value) == vars(error)


def test_bug_is_reported_with_its_traceback(broker):
    broker.outcome = ZeroDivisionError("oh")
    with pytest.raises(BrokerProcessError, match="ZeroDivisionError") as found:
        ask(broker, "kill", 1)
    assert "_do" in found.value.stderr


def test_rule_hits_and_removal_use_the_rule_number(broker):
    dispatcher = Dispatcher(broker)

    def say(name, *args):
        return result_of(dispatcher.answer(call_line(1, name, args, {})), 1)

    number = say("on", FaultRule("Fetch", Silence()))
    (rule,) = broker.cluster.rules
    rule.hits = 3
    assert say("rule_hits", number) == 3
    say("rule_remove", number)
    assert len(broker.cluster.rules) == 0
    say("rule_remove", number)
    with pytest.raises(KeyError):
        say("rule_hits", number + 1)


NONSENSE = [b"", b"nonsense", b"[]", b"{}"]


def test_invalid_lines(broker):
    for line in (*NONSENSE, b'{"id": 1}', b'{"id": 1, "call": "kill"}', b"\xff"):
        assert "error" in json.loads(Dispatcher(broker).answer(line))
    assert broker.calls == []
    for line in (*NONSENSE, b'{"id": 2, "result": 1}', b'{"id": 1}'):
        with pytest.raises(BrokerProcessError, match="does not answer call 1"):
            result_of(line, 1)
    earlier = [b'{"id": 1, "result": null}', b'{"id": 2, "result": null}', b'{"id": null, "error": {}}', b"nonsense"]
    assert [answers_earlier_call(line, 2) for line in earlier] == [True, False, False, False]
