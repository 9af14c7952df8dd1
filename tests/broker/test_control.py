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
            bugs=["a bug"], rules=FaultRules(), controller=SimpleNamespace(image=ClusterImage("c"))
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
    ],
)
def test_values_round_trip(value):
    arrived = unpack(json.loads(json.dumps(pack(value))))
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize("value", [lambda: 1, object(), [object()]])
def test_values_without_json_form_are_rejected_before_sending(value):
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        call_line(1, "produce", (value,), {})


def test_rules_round_trip():
    """For other rules see test_faults."""
    rule = FaultRule("Fetch", Reply(Code.NOT_LEADER_OR_FOLLOWER), node=1, where={"topic": "orders", "partition": 0})
    assert unpack(json.loads(json.dumps(pack(rule)))).as_dict() == rule.as_dict()


def test_rule_with_a_function_is_rejected(broker):
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        ask(broker, "on", FaultRule("Fetch", lambda call: None))


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


def test_topic_image_is_returned_as_none(broker):
    """A metadata row is useless outside the broker's image."""
    broker.outcome = TopicImage("t", bytes(16), (), {})
    assert ask(broker, "kill", 1) is None


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


def test_leader_and_bugs_can_be_queried(broker):
    assert ask(broker, "bugs") == ["a bug"]
    with pytest.raises(LookupError, match="there is no partition orders-0"):
        ask(broker, "leader", TopicPartition("orders", 0))


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b"{}", b'{"id": 1}', b'{"id": 1, "call": "kill"}', b"\xff"])
def test_invalid_call_lines_get_an_error(broker, line):
    answer = Dispatcher(broker).answer(line)
    assert "error" in json.loads(answer)
    assert broker.calls == []


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b"{}", b'{"id": 2, "result": 1}', b'{"id": 1}'])
def test_invalid_response_lines_raise(line):
    with pytest.raises(BrokerProcessError, match="does not answer call 1"):
        result_of(line, 1)


def test_response_to_an_earlier_call_is_recognised():
    assert answers_earlier_call(b'{"id": 1, "result": null}', 2)
    assert not answers_earlier_call(b'{"id": 2, "result": null}', 2)
    assert not answers_earlier_call(b'{"id": null, "error": {}}', 2)
    assert not answers_earlier_call(b"nonsense", 2)
