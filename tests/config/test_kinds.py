"""Each kind of option value: valid and invalid values, and parsing from text."""

import functools
import math
import selectors

import pytest

from thinconsumer.assignors import PartitionAssignor
from thinconsumer.config import kinds
from thinconsumer.config.values import HostPort, OffsetResetPolicy, OffsetResetStrategy


class OwnAssignor(PartitionAssignor):
    name = "own"

    def assign(self, cluster, subscriptions):
        return {}


CHOICE = kinds.Choice(("red", "green"), {"blue": "blue is not supported yet"})
NAME = kinds.Text(may_be_empty=False, pattern="[a-z]+", pattern_says="lower-case letters")

TAKES = [
    (kinds.Boolean(), True, True),
    (kinds.Boolean(), False, False),
    (kinds.Integer(at_least=2, at_most=4), 2, 2),
    (kinds.Integer(at_least=2, at_most=4), 4, 4),
    (kinds.Integer(at_least=1, system_default=True), -1, None),
    (kinds.Integer(at_least=1, system_default=True), 1, 1),
    (kinds.MillisecondsOrNever(), 0, 0),
    (kinds.MillisecondsOrNever(), 1.5, 1.5),
    (kinds.MillisecondsOrNever(), math.inf, math.inf),
    (kinds.MillisecondsOrNever(at_least=1), -1, math.inf),
    (kinds.Text(), "", ""),
    (kinds.Text(), "x" * 32767, "x" * 32767),
    (NAME, "abc", "abc"),
    (CHOICE, "RED", "red"),
    (kinds.Servers(), "a, b:1,,[::1]:2", (HostPort("a", 9092), HostPort("b", 1), HostPort("::1", 2))),
    (kinds.Servers(), ["a:1", "a:1", "b"], (HostPort("a", 1), HostPort("b", 9092))),
    (kinds.OffsetReset(), "by_duration:PT1S", OffsetResetPolicy(OffsetResetStrategy.BY_DURATION, 1000)),
    (kinds.OffsetReset(), OffsetResetPolicy(OffsetResetStrategy.NONE), OffsetResetPolicy(OffsetResetStrategy.NONE)),
    (kinds.Function("()"), selectors.SelectSelector, selectors.SelectSelector),
    (kinds.Assignors(), ["range", OwnAssignor], ("range", OwnAssignor)),
    (kinds.SocketOptions(), [[6, 1, 1], (1, 2, b"x")], ((6, 1, 1), (1, 2, b"x"))),
    (kinds.SocketOptions(), [], ()),
]


@pytest.mark.parametrize(("kind", "value", "result"), TAKES)
def test_valid_values_are_parsed(kind, value, result):
    parsed = kind.parse(value)
    assert parsed == result
    assert type(parsed) is type(result)


REFUSES = [
    (kinds.Boolean(), 1, "must be True or False, not int"),
    (kinds.Boolean(), "true", "must be True or False, not str"),
    (kinds.Integer(at_least=2, at_most=4), 1, "must be at least 2"),
    (kinds.Integer(at_least=2, at_most=4), 5, "must be at most 4"),
    (kinds.Integer(), True, "must be a whole number, not bool"),
    (kinds.Integer(), "500", "must be a whole number, not str"),
    (kinds.Integer(), 500.0, "must be a whole number, not float"),
    (kinds.Integer(), -1, "must be at least 0"),
    (kinds.Integer(at_least=1, system_default=True), 0, "must be at least 1"),
    (kinds.MillisecondsOrNever(at_least=1), 0, "must be at least 1, or"),
    (kinds.MillisecondsOrNever(), -2, "must be at least 0, or"),
    (kinds.MillisecondsOrNever(), -math.inf, "must be at least 0, or"),
    (kinds.MillisecondsOrNever(), math.nan, "must be at least 0, or"),
    (kinds.MillisecondsOrNever(), True, "not bool"),
    (kinds.MillisecondsOrNever(), "1", "not str"),
    (kinds.Text(), b"bytes", "must be a str, not bytes"),
    (kinds.Text(), "x" * 32768, "at most 32767 bytes"),
    (kinds.Text(), "\udc80", "UTF-8"),
    (NAME, "", "must not be empty"),
    (NAME, "Abc", "must be lower-case letters"),
    (NAME, "abc\n", "must be lower-case letters"),
    (CHOICE, "blue", "refused: blue is not supported yet"),
    (CHOICE, "grene", "must be one of 'red', 'green'; did you mean 'green'?"),
    (CHOICE, 7, "must be one of 'red', 'green', not int"),
    (kinds.Servers(), "", "must name at least one server"),
    (kinds.Servers(), " , ", "must name at least one server"),
    (kinds.Servers(), [], "must name at least one server"),
    (kinds.Servers(), [("host", 9092)], "list of str"),
    (kinds.Servers(), 9092, "must be a str or a list of str"),
    (kinds.Servers(), ["good:1", "bad:x"], "'bad:x': the port must be a number"),
    (kinds.OffsetReset(), "earlest", "did you mean 'earliest'?"),
    (kinds.OffsetReset(), "EARLIEST", "did you mean 'earliest'?"),
    (kinds.OffsetReset(), "by_duration:1h", "'1h' is not a duration"),
    (kinds.OffsetReset(("earliest",)), "none", "must be one of 'earliest'"),
    (kinds.OffsetReset(), 0, "must be a str, not int"),
    (kinds.DeserializerKind(), "json", "not a str"),
    (kinds.DeserializerKind(), 7, "must be a callable"),
    (kinds.Function("(a, b)"), 7, "must be a callable (a, b), not int"),
    (kinds.Assignors(), "range", "must be a list of assignors or of their names, not str"),
    (kinds.Assignors(), [], "at least one assignor"),
    (kinds.Assignors(), ["range", "range"], "names an assignor twice"),
    (kinds.Assignors(), ["rage"], "did you mean 'range'?"),
    (kinds.Assignors(), ["org.apache.kafka.clients.consumer.StickyAssignor"], "write 'sticky'"),
    (kinds.Assignors(), ["com.example.MyAssignor"], "pass an assignor object"),
    (kinds.Assignors(), [object()], "<object>, which is no PartitionAssignor"),
    (kinds.Assignors(), [type("Duck", (), {"name": "duck", "assign": len})], "is no PartitionAssignor"),
    (kinds.Assignors(), [type("Half", (PartitionAssignor,), {"name": "half"})], "which lacks assign"),
    (kinds.Assignors(), [type("Anon", (PartitionAssignor,), {"assign": len})], "which has no name"),
    (kinds.SocketOptions(), "6,1,1", "not str"),
    (kinds.SocketOptions(), [(6, 1)], "(6, 1), which is not (level, option, value)"),
    (kinds.SocketOptions(), [6], "which is not (level, option, value)"),
    (kinds.SocketOptions(), [("6", 1, 1)], "which is not (level, option, value)"),
    (kinds.SocketOptions(), [(6, 1, None)], "which is not (level, option, value)"),
]


@pytest.mark.parametrize(("kind", "value", "says"), REFUSES)
def test_invalid_values_raise(kind, value, says):
    with pytest.raises(ValueError) as caught:
        kind.parse(value)
    assert says in str(caught.value)


def test_kafka_pythons_assignors_become_built_in_names(kafka_python):
    """Programs that come from there name classes; ours have racks and Java's order besides."""
    for entry in (kafka_python.RangePartitionAssignor, kafka_python.RangePartitionAssignor()):
        assert kinds.Assignors().parse([entry]) == ("range",)


def test_a_users_kafka_python_assignor_is_kept(kafka_python):
    class Mine(kafka_python.RangePartitionAssignor):
        name = "mine"

    assert kinds.Assignors().parse([Mine, "sticky"]) == (Mine, "sticky")


READS = [
    (kinds.Boolean(), " True ", True),
    (kinds.Boolean(), "false", False),
    (kinds.Integer(), " 500 ", 500),
    (kinds.Integer(system_default=True), "-1", None),
    (kinds.MillisecondsOrNever(), "inf", math.inf),
    (kinds.MillisecondsOrNever(), "-1", math.inf),
    (kinds.MillisecondsOrNever(), "250", 250),
    (kinds.Text(), " kept ", " kept "),
    (CHOICE, " Green ", "green"),
    (kinds.Servers(), "a:1,b", (HostPort("a", 1), HostPort("b", 9092))),
    (kinds.OffsetReset(), "earliest ", OffsetResetPolicy(OffsetResetStrategy.EARLIEST)),
    (kinds.Assignors(), "range, sticky", ("range", "sticky")),
]


@pytest.mark.parametrize(("kind", "text", "result"), READS)
def test_valid_text_is_parsed(kind, text, result):
    assert kind.parse(kind.from_text(text)) == result


CANNOT_READ = [
    (kinds.Boolean(), "yes", "must be 'true' or 'false'"),
    (kinds.Boolean(), "1", "must be 'true' or 'false'"),
    (kinds.Integer(), "5e2", "must be a whole number"),
    (kinds.Integer(), "1_000", "must be a whole number"),
    (kinds.Integer(), "\u0661", "must be a whole number"),
    (kinds.Integer(), "9" * 5000, "must be a whole number"),
    (kinds.Integer(), "", "must be a whole number"),
    (kinds.MillisecondsOrNever(), "nan", "must be a whole number"),
    (
        kinds.DeserializerKind(),
        "org.apache.kafka.common.serialization.ListDeserializer",
        "UUIDDeserializer, VoidDeserializer can be used: pass a callable",
    ),
    (kinds.DeserializerKind(), "org.example.StringDeserializer", "pass a callable"),
    (kinds.Function("(host, port)"), "x", "pass a callable (host, port)"),
    (kinds.SocketOptions(), "6,1,1", "pass a list of (level, option, value)"),
]


@pytest.mark.parametrize(("kind", "text", "says"), CANNOT_READ)
def test_invalid_text_raises(kind, text, says):
    with pytest.raises(ValueError) as caught:
        kind.from_text(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("value", [True, None, 1.5, 7, "text", [1, "a"], (True, None), {"a": 1}])
def test_safe_repr_of_plain_values(value):
    assert kinds.safe_repr(value) == repr(value)


def test_safe_repr_is_bounded_and_calls_no_other_repr():
    assert len(kinds.safe_repr("x" * 10_000)) < 100
    assert len(kinds.safe_repr(["x" * 10_000] * 1000)) < 1000
    assert kinds.safe_repr(functools.partial(len, "c4nary")) == "<partial>"
    assert kinds.safe_repr([functools.partial(len, "c4nary")]) == "[<partial>]"
    assert "c4nary" not in kinds.safe_repr("socks5://user:c4nary@host")
