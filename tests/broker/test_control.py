"""What crosses between a broker's process and its owner: values, errors, rules, and lines that make no sense."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from thinconsumer import IllegalArgumentError, IllegalStateError, TopicPartition
from thinconsumer.broker.control import (
    BrokerProcessError,
    Dispatcher,
    answers_earlier_call,
    call_line,
    pack,
    result_of,
    unpack,
)
from thinconsumer.broker.controller import ControllerError
from thinconsumer.broker.faults import Delay, Disconnect, Reply, Rule, Rules, Silence
from thinconsumer.broker.image import ClusterImage, TopicImage
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code


class FakeBroker:
    """Notes what it is asked, and answers or raises what it is told to."""

    def __init__(self):
        self.calls = []
        self.outcome = None
        self.cluster = SimpleNamespace(
            bugs=["a bug"], rules=Rules(), controller=SimpleNamespace(image=ClusterImage("c"))
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
    """Make a call as over the pipes."""
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
def test_values_arrive_as_they_left(value):
    arrived = unpack(json.loads(json.dumps(pack(value))))
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize("value", [lambda: 1, object(), [object()]])
def test_what_cannot_leave_is_refused_before_anything_is_sent(value):
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        call_line(1, "produce", (value,), {})


@pytest.mark.parametrize(
    "rule",
    [
        Rule("Fetch", Reply(Code.NOT_LEADER_OR_FOLLOWER), node=1, times=2, where={"topic": "orders", "partition": 0}),
        Rule(None, Delay(0.5)),
        Rule("Produce", Disconnect(after=True)),
        Rule("JoinGroup", Silence()),
    ],
)
def test_rules_arrive_as_they_left(rule):
    assert unpack(json.loads(json.dumps(pack(rule)))).as_dict() == rule.as_dict()


def test_a_rule_that_is_a_function_stays(broker):
    with pytest.raises(IllegalArgumentError, match="cannot leave this process"):
        ask(broker, "on", Rule("Fetch", lambda call: None))


def test_calls_reach_the_broker_with_what_they_were_given(broker):
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
def test_only_calls_that_are_meant_for_it_can_be_made(broker, name):
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
def test_errors_arrive_typed_and_whole(broker, error):
    broker.outcome = error
    with pytest.raises(type(error)) as found:
        ask(broker, "kill", 1)
    assert type(found.value) is type(error)
    assert str(found.value) == str(error)
    assert vars(found.value) == vars(error)


def test_a_bug_arrives_with_its_traceback(broker):
    broker.outcome = ZeroDivisionError("oh")
    with pytest.raises(BrokerProcessError, match="ZeroDivisionError") as found:
        ask(broker, "kill", 1)
    assert "_do" in found.value.stderr


def test_a_topic_comes_back_as_nothing(broker):
    """Its picture is part of a greater one, which is not here."""
    broker.outcome = TopicImage("t", bytes(16), (), {})
    assert ask(broker, "kill", 1) is None


def test_rules_count_and_go_by_their_number(broker):
    dispatcher = Dispatcher(broker)

    def say(name, *args):
        return result_of(dispatcher.answer(call_line(1, name, args, {})), 1)

    number = say("on", Rule("Fetch", Silence()))
    (rule,) = broker.cluster.rules
    rule.hits = 3
    assert say("rule_hits", number) == 3
    say("rule_remove", number)
    assert len(broker.cluster.rules) == 0
    say("rule_remove", number)
    with pytest.raises(KeyError):
        say("rule_hits", number + 1)


def test_what_is_known_of_it_can_be_asked(broker):
    assert ask(broker, "bugs") == ["a bug"]
    with pytest.raises(LookupError, match="there is no partition orders-0"):
        ask(broker, "leader", TopicPartition("orders", 0))


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b"{}", b'{"id": 1}', b'{"id": 1, "call": "kill"}', b"\xff"])
def test_lines_that_make_no_sense_are_answered_and_nothing_is_done(broker, line):
    answer = Dispatcher(broker).answer(line)
    assert "error" in json.loads(answer)
    assert broker.calls == []


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b"{}", b'{"id": 2, "result": 1}', b'{"id": 1}'])
def test_answers_that_make_no_sense_are_said_to_be_so(line):
    with pytest.raises(BrokerProcessError, match="does not answer call 1"):
        result_of(line, 1)


def test_an_answer_to_an_older_call_is_known_as_such():
    assert answers_earlier_call(b'{"id": 1, "result": null}', 2)
    assert not answers_earlier_call(b'{"id": 2, "result": null}', 2)
    assert not answers_earlier_call(b'{"id": null, "error": {}}', 2)
    assert not answers_earlier_call(b"nonsense", 2)
