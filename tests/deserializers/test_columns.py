"""Arrow arrays of JSON and Avro values: the same as value by value, also where values are bad."""

import json
import random

import pytest

from thinconsumer import DeserializerNotReadyError, KafkaTimeoutError
from thinconsumer.deserializers import JSONDeserializer, LongDeserializer
from thinconsumer.deserializers.columns import deserialized_array, json_array

pa = pytest.importorskip("pyarrow")

ORDER = pa.struct(
    [
        ("id", pa.int64()),
        ("amount", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("customer", pa.struct([("name", pa.string())])),
    ]
)
ORDERS = [
    {"id": n, "amount": n / 2, "tags": ["ä", "b\n"][: n % 3], "customer": {"name": f"name {n}"} if n % 2 else None}
    for n in range(100)
]
#: No JSON, none of an order, or more than one value; the last ones could be taken for values beside their neighbours.
BAD = [
    b"", b" ", b"{", b"}", b'"', b"1", b"[]", b'{"id": "x"}', b'{"id": 1.5}', b'{"id": 99999999999999999999}', b"\xff",
    b'{"customer": {"name": "\xff"}}', b'{"customer": {"name": "\\ud800"}}', b'{"id": 1, "id": 2}', b"NaN",
    b'{"id": 1}{"id": 2}', b'{"id": 1}\n{"id": 2}', b'{"id": 1}}\n{"v":{"id": 2}', b'{"tags": ["a', b'b"]}',
]  # fmt: skip


def column(values, kind=None):
    return pa.array(values, kind or pa.binary())


@pytest.mark.parametrize("kind", ["binary", "string", "large_binary", "binary_view"])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_values_are_those_of_each_value(kind, indent):
    values = [json.dumps(order, indent=indent).encode() for order in ORDERS]
    values.insert(7, None)
    found = json_array(column(values).cast(getattr(pa, kind)()), ORDER)
    assert found.type == ORDER
    assert found.to_pylist() == [*ORDERS[:7], None, *ORDERS[7:]]
    assert found.equals(deserialized_array(column(values), JSONDeserializer(), ORDER))


def test_missing_fields_are_null_and_others_are_left_out():
    found = json_array(column([b'{"id": 1, "more": [{}]}', b"{}", b"null"]), ORDER)
    empty = dict.fromkeys(("id", "amount", "tags", "customer"))
    assert found.to_pylist() == [{**empty, "id": 1}, empty, None]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_value_is_named_or_null_and_changes_no_other(bad):
    values = [json.dumps(order).encode() for order in ORDERS]
    values[41] = bad
    with pytest.raises(ValueError, match="value 41: "):
        json_array(column(values), ORDER)
    assert json_array(column(values), ORDER, "null").to_pylist() == [*ORDERS[:41], None, *ORDERS[42:]]


@pytest.mark.parametrize("seed", range(6))
def test_bad_values_beside_each_other_do_not_mix(seed):
    draw = random.Random(seed)
    values, expected = [], []
    for order in ORDERS:
        bad = draw.random() < 0.5
        values.append(draw.choice(BAD) if bad else json.dumps(order).encode())
        expected.append(None if bad else order)
    assert json_array(column(values), ORDER, "null").to_pylist() == expected


def test_deep_values_do_no_harm():
    deep = b'{"more": ' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    assert json_array(column([deep, b'{"id": 1}']), ORDER)[1]["id"].as_py() == 1


def test_no_values_and_chunks_and_slices():
    values = pa.chunked_array([column([b'{"id": 0}', b'{"id": 1}'])[1:], column([b'{"id": 2}'])])
    assert [each["id"] for each in json_array(values, ORDER).to_pylist()] == [1, 2]
    for empty in (column([]), pa.chunked_array([], pa.binary())):
        assert json_array(empty, ORDER).equals(pa.nulls(0, ORDER))
        assert deserialized_array(empty, len, pa.int64()).equals(pa.nulls(0, pa.int64()))


def test_types_that_cannot_be_read_are_errors():
    with pytest.raises(NotImplementedError):
        json_array(column([b"{}"]), pa.map_(pa.string(), pa.int64()), "null")
    for call in (lambda: json_array(column([]), ORDER, "skip"), lambda: deserialized_array(column([]), len, ORDER, 1)):
        with pytest.raises(ValueError, match="'raise' or 'null'"):
            call()


def test_any_deserializer():
    values = column([bytes(8), None, b"short"])
    with pytest.raises(ValueError, match="value 2: .*expects 8 bytes"):
        deserialized_array(values, LongDeserializer(), pa.int64())
    assert deserialized_array(values, LongDeserializer(), pa.int64(), "null").to_pylist() == [0, None, None]


def test_a_deserializer_that_is_not_ready_is_waited_for():
    calls = []

    def slow(data):
        calls.append(data)
        if len(calls) < 4:
            raise DeserializerNotReadyError("schema 7", 1)
        return len(data)

    assert deserialized_array(column([b"abc"]), slow, pa.int64(), "null").to_pylist() == [3]
    calls.clear()
    with pytest.raises(KafkaTimeoutError, match="schema 7"):
        deserialized_array(column([b"abc"]), slow, pa.int64(), "null", timeout_ms=0)
