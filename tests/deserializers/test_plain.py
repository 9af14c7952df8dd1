"""Deserializers read what Java's serializers write.

The bytes were written by the serializers of kafka-clients 4.3.0 for the values beside them.
"""

import json
import math
import sys
from uuid import UUID

import pytest

from thinconsumer import Consumer, DeserializationError, TopicPartition
from thinconsumer.deserializers import (
    BooleanDeserializer,
    DoubleDeserializer,
    FloatDeserializer,
    IntegerDeserializer,
    JSONDeserializer,
    ListDeserializer,
    LongDeserializer,
    ShortDeserializer,
    StringDeserializer,
    UUIDDeserializer,
    VoidDeserializer,
)
from thinconsumer.testing import MemoryCluster

AN_ID = UUID("123e4567-e89b-12d3-a456-426614174000")
ID_BYTES = "31323365343536372d653839622d313264332d613435362d343236363134313734303030"

BY_JAVA = [
    (StringDeserializer(), "5ac3bc7269636820e282ac20f09f9880", "Zürich € 😀"),
    (StringDeserializer("utf-16"), "feff005a00fc00720069006300680020d83dde00", "Zürich 😀"),
    (StringDeserializer(), "", ""),
    (IntegerDeserializer(), "00000000", 0),
    (IntegerDeserializer(), "fffffffe", -2),
    (IntegerDeserializer(), "7fffffff", 2**31 - 1),
    (IntegerDeserializer(), "80000000", -(2**31)),
    (LongDeserializer(), "ffffffffffffffff", -1),
    (LongDeserializer(), "0000011f71fb04cb", 1234567890123),
    (LongDeserializer(), "7fffffffffffffff", 2**63 - 1),
    (LongDeserializer(), "8000000000000000", -(2**63)),
    (ShortDeserializer(), "ffff", -1),
    (ShortDeserializer(), "0102", 258),
    (ShortDeserializer(), "8000", -(2**15)),
    (DoubleDeserializer(), "3ff8000000000000", 1.5),
    (DoubleDeserializer(), "400921fb54442d18", math.pi),
    (DoubleDeserializer(), "fff0000000000000", -math.inf),
    (DoubleDeserializer(), "0000000000000001", 5e-324),
    (FloatDeserializer(), "3fc00000", 1.5),
    (FloatDeserializer(), "c0100000", -2.25),
    (FloatDeserializer(), "7f800000", math.inf),
    (BooleanDeserializer(), "01", True),
    (BooleanDeserializer(), "00", False),
    (UUIDDeserializer(), ID_BYTES, AN_ID),
    (ListDeserializer(IntegerDeserializer()), "0000000001000000010000000300000001fffffffd", [1, None, -3]),
    (ListDeserializer(IntegerDeserializer()), "000000000000000000", []),
    (
        ListDeserializer(StringDeserializer()),
        "01000000040000000161ffffffff0000000000000003626364",
        ["a", None, "", "bcd"],
    ),
    (ListDeserializer(UUIDDeserializer()), f"00000000010000000100000002{ID_BYTES}", [AN_ID, None]),
    (
        ListDeserializer(ListDeserializer(ShortDeserializer())),
        "01000000020000000b000000000000000001000100000009000000000000000000",
        [[1], []],
    ),
]


@pytest.mark.parametrize(("deserializer", "data", "value"), BY_JAVA)
def test_what_java_has_written_is_read(deserializer, data, value):
    found = deserializer(bytes.fromhex(data))
    assert (found, type(found)) == (value, type(value))


def test_nan_and_a_negative_zero_are_read():
    assert math.isnan(DoubleDeserializer()(bytes.fromhex("7ff8000000000000")))
    assert math.isnan(FloatDeserializer()(bytes.fromhex("7fc00000")))
    assert str(DoubleDeserializer()(bytes.fromhex("8000000000000000"))) == "-0.0"


def test_text_that_is_none_is_replaced_as_in_java_or_an_error():
    assert StringDeserializer()(b"\xffA") == "\ufffdA"
    with pytest.raises(UnicodeDecodeError):
        StringDeserializer(errors="strict")(b"\xffA")
    with pytest.raises(LookupError, match="utf-88"):
        StringDeserializer("utf-88")


@pytest.mark.parametrize(
    ("deserializer", "data"),
    [
        (IntegerDeserializer(), "000000"),
        (IntegerDeserializer(), "0000000000"),
        (LongDeserializer(), ""),
        (BooleanDeserializer(), "02"),
        (BooleanDeserializer(), "0101"),
        (UUIDDeserializer(), "3132"),
        (VoidDeserializer(), "00"),
        *(
            (ListDeserializer(IntegerDeserializer()), data[:n])
            for _, data, _ in BY_JAVA[-5:-4]
            for n in range(0, 42, 2)
        ),
        (ListDeserializer(StringDeserializer()), "01000000040000000161ffffffff00000000000000036263"),
        (ListDeserializer(StringDeserializer()), "01000000000000000000"),  # a byte too many
        (ListDeserializer(StringDeserializer()), "0200000000"),
        (ListDeserializer(StringDeserializer()), "017fffffff"),  # entries that are not there
        (ListDeserializer(StringDeserializer()), "0100000001fffffffe"),
        (ListDeserializer(IntegerDeserializer()), "007fffffff00000000"),
        (ListDeserializer(IntegerDeserializer()), "00ffffffff00000000"),
    ],
)
def test_other_data_are_an_error(deserializer, data):
    with pytest.raises(ValueError):
        deserializer(bytes.fromhex(data))


def test_json_is_read_by_orjson_or_without_it(monkeypatch):
    data = '{"name": "Zürich", "amounts": [1, 2.5, null, true]}'.encode()
    value = {"name": "Zürich", "amounts": [1, 2.5, None, True]}
    assert JSONDeserializer()(data) == value
    monkeypatch.setitem(sys.modules, "orjson", None)
    without = JSONDeserializer()
    assert without(data) == value
    assert without(b"18446744073709551616") == 2**64 == JSONDeserializer(json.loads)(b"18446744073709551616")
    for each in (without, JSONDeserializer(json.loads)):
        with pytest.raises(ValueError):
            each(b"{")


def test_orjson_is_used_where_it_is_installed():
    orjson = pytest.importorskip("orjson")
    with pytest.raises(orjson.JSONDecodeError):
        JSONDeserializer()(b"NaN")


def test_nulls_stay_none_and_other_sizes_are_bad_records():
    cluster = MemoryCluster(1, {"t": 1})
    cluster.produce("t", [bytes(3) + b"\7", None, b"seven"])
    with Consumer(
        driver=cluster.driver(), bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest",
        key_deserializer=StringDeserializer(), value_deserializer=IntegerDeserializer(),
    ) as consumer:  # fmt: skip
        consumer.assign([TopicPartition("t", 0)])
        assert [(r.key, r.value) for r in consumer.poll(1000)[TopicPartition("t", 0)]] == [(None, 7), (None, None)]
        with pytest.raises(DeserializationError, match="expects 4 bytes, not 5"):
            consumer.poll(1000)
