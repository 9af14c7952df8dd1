"""ConsumerRecord objects and deserializers."""

import pickle
from types import SimpleNamespace
from typing import get_args

import pytest
from kafka.consumer.fetcher import ConsumerRecord as Theirs

from thinconsumer.config.values import Deserializer
from thinconsumer.records import rows
from thinconsumer.records.columns import Columns
from thinconsumer.types import ConsumerRecord

HEADERS = (("trace", b"\x01"), ("tenant", None))


def record(key: object = b"key", value: object = b"value", headers: object = HEADERS, **more: object) -> ConsumerRecord:
    return ConsumerRecord("t", 1, 7, 42, 1_700_000_000_000, 0, key, value, headers, **more)


@pytest.fixture
def built() -> list[ConsumerRecord]:
    columns = Columns(range(10, 13), [1, 2, 3], [b"a", None, b""], [None, b"x", b"yy"], [(), HEADERS, ()])
    return rows.build("t", 4, 9, 1, columns)


def test_records_have_every_field_of_kafka_pythons(built):
    for name in Theirs._fields:
        assert hasattr(built[0], name)
    first, second, third = built
    assert type(first) is ConsumerRecord
    assert (first.topic, first.partition, first.leader_epoch, first.offset) == ("t", 4, 9, 10)
    assert (second.timestamp, second.timestamp_type, second.checksum) == (2, 1, None)
    assert [r.key for r in built] == [b"a", None, b""]
    assert [r.value for r in built] == [None, b"x", b"yy"]
    assert [r.headers for r in built] == [(), HEADERS, ()]
    assert (third.serialized_key_size, third.serialized_value_size, third.serialized_header_size) == (0, 2, -1)
    assert (first.serialized_value_size, second.serialized_key_size) == (-1, -1)
    assert second.serialized_header_size == len("trace") + 1 + len("tenant")


@pytest.mark.parametrize(
    ("start", "offsets"), [(0, [10, 11, 12]), (10, [10, 11, 12]), (11, [11, 12]), (13, []), (99, [])]
)
def test_records_before_the_position_are_left_out(start, offsets):
    """A Fetch from the middle of a batch returns all of it."""
    columns = Columns([10, 11, 12], [0] * 3, [None] * 3, [b"v"] * 3, [()] * 3)
    assert [r.offset for r in rows.build("t", 0, 0, 0, columns, start)] == offsets


def test_record_is_true_and_its_repr_has_all_fields():
    assert record(None, None, ())
    assert repr(record()) == (
        "ConsumerRecord(topic='t', partition=1, leader_epoch=7, offset=42, timestamp=1700000000000, timestamp_type=0, "
        "key=b'key', value=b'value', headers=(('trace', b'\\x01'), ('tenant', None)), checksum=None, "
        "serialized_key_size=3, serialized_value_size=5, serialized_header_size=12)"
    )


def test_record_cannot_be_changed():
    with pytest.raises(AttributeError):
        record().value = b""  # type: ignore[misc]
    with pytest.raises(AttributeError):
        record().note = b""  # type: ignore[attr-defined]


def test_record_takes_fields_by_kafka_pythons_names():
    """Users build records in their tests."""
    theirs = Theirs("t", 1, 7, 42, 1, 0, "k", "v", [("h", b"1")], None, 3, 5, 2)
    ours = ConsumerRecord(**theirs._asdict())
    for name in set(Theirs._fields) - {"headers"}:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.headers == (("h", b"1"),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("one", [record(), record().with_key_value("k", {"v": 1})], ids=["raw", "deserialized"])
def test_record_survives_pickling(one, protocol):
    again = pickle.loads(pickle.dumps(one, protocol))
    assert type(again) is ConsumerRecord
    assert again == one
    assert again.serialized_value_size == one.serialized_value_size == 5


def test_deserialized_record_keeps_its_serialized_sizes():
    changed = record().with_key_value("k", None)
    assert (changed.key, changed.value, changed.headers, changed.offset) == ("k", None, HEADERS, 42)
    assert (changed.serialized_key_size, changed.serialized_value_size) == (3, 5)
    twice = changed.with_key_value(1, b"many more bytes")
    assert (twice.serialized_key_size, twice.serialized_value_size) == (3, 5)
    assert record(None, None).with_key_value(0, 0).serialized_key_size == -1


def test_record_is_generic_for_type_checkers():
    assert get_args(ConsumerRecord[str, bytes]) == (str, bytes)


def with_headers(function):
    return Deserializer.adapt(SimpleNamespace(deserialize=function))


def test_deserializers_get_topic_and_headers_and_no_nulls(built):
    seen = []

    def value_of(topic, headers, data):
        seen.append((topic, headers, data))
        return data.decode()

    done, error = rows.deserialize(built, None, with_headers(value_of))
    assert error is None
    assert [r.value for r in done] == [None, "x", "yy"]
    assert [r.key for r in done] == [b"a", None, b""]
    assert seen == [("t", HEADERS, b"x"), ("t", (), b"yy")]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("where", [0, 3, 6])
@pytest.mark.parametrize("error", [ValueError, StopIteration])
@pytest.mark.parametrize("kind", ["data", "topic", "headers"])
def test_the_first_record_that_fails_is_the_error_and_those_before_it_are_returned(kind, error, where, nulls):
    """``map`` and ``next`` take a StopIteration for the end of the records: none may be lost."""

    def decode(*arguments):
        if arguments[-1].endswith(b"%d" % where):
            raise error
        return arguments[-1].decode()

    deserializer = {
        "data": Deserializer.adapt(decode),
        "topic": Deserializer.adapt(SimpleNamespace(deserialize=lambda topic, data: decode(data))),
        "headers": with_headers(lambda topic, headers, data: decode(data)),
    }[kind]
    values = [None if nulls and n % 2 and n != where else b"v%d" % n for n in range(7)]
    columns = Columns([*range(7)], [0] * 7, [b"k%d" % (n + 2) for n in range(7)], values, [()] * 7)
    records = rows.build("t", 4, 9, 0, columns)
    done, found = rows.deserialize(records, None, deserializer)
    assert [r.value for r in done] == [value and value.decode() for value in values[:where]]
    assert (found.field, found.offset, found.value) == ("value", where, values[where])
    done, found = rows.deserialize(records, deserializer, deserializer)
    first = min(where, max(where - 2, 0) if where >= 2 else 7)
    assert [r.key for r in done] == [f"k{n + 2}" for n in range(first)]
    assert (found.field, found.offset) == ("key" if where >= 2 else "value", first)
