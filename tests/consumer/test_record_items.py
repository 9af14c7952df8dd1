"""A record is a plain named tuple with kafka-python's 13 items, on every path, whatever was read before."""

import copy
import dataclasses
import json
import operator
import pickle

import pytest
from kafka.consumer.fetcher import ConsumerRecord as PlainRecord

from thinconsumer import ConsumerRecord, TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.encoded_headers import USE

T0 = TopicPartition("t", 0)
HEADERS = [(("trace", b"0123"), ("none", None)), (), (("trace", b"4567"), ("none", None)), (("\xe4", b""),)]
COUNT = 700  # more than a poll returns as a list

READS = {
    "item": lambda record: record[8],
    "attribute": lambda record: record.headers,
    "unpacking": lambda record: [*record][8],
    "slice": lambda record: record[7:9][1],
    "json": lambda record: json.dumps(record, default=repr),
    "nothing": lambda record: None,
}


@dataclasses.dataclass
class Holder:
    """Its ``asdict`` rebuilds each named tuple in it from the items."""

    record: ConsumerRecord


def written(number, *, headers=True):
    key = b"k%d" % number if number % 3 else None
    value = b'{"order": %d}' % number if number % 5 else None
    return NewRecord(value, key, HEADERS[number % 4] if headers else (), 1_700_000_000_000 + number)


def plain(number, *, deserialized=False, headers=True):
    """Return what kafka-python's record of these fields is."""
    value, key, headers, timestamp, _ = written(number, headers=headers)
    sizes = [-1 if data is None else len(data) for data in (key, value)]
    of_headers = sum(len(name.encode()) + len(data or b"") for name, data in headers) if headers else -1
    if deserialized and value is not None:
        value = json.loads(value)
    return PlainRecord("t", 0, 0, number, timestamp, 0, key, value, headers, None, *sizes, of_headers)


def check(record, expected):
    assert record[8] is record.headers
    assert len(record) == len(expected) == 13 and record._fields == expected._fields == record.__match_args__
    assert tuple(record) == (*record,) == tuple(expected) and [*reversed(record)] == [*reversed(expected)]
    topic, *_, header_size = record
    assert (topic, header_size) == (expected.topic, expected.serialized_header_size)
    assert record.topic_partition == T0 and type(record.topic_partition) is TopicPartition
    assert [getattr(record, name) for name in expected._fields] == list(expected)
    assert (record[3:9], record[-1], record[10]) == (expected[3:9], expected[-1], expected[10])
    assert json.dumps(record, default=repr) == json.dumps(expected, default=repr)
    assert record._asdict() == expected._asdict() and record._field_defaults == expected._field_defaults
    items = tuple(expected)
    assert record == expected and record == items and items == record
    assert (record != expected, record != items, items != record) == (False, False, False)
    assert hash(record) == hash(expected) and repr(record) == repr(expected)
    assert record <= expected and record >= expected and not record < expected and not record > expected
    assert record.headers in record and record.index(record.headers) == 8 and record.count(None) == expected.count(None)
    assert operator.add(record, (1,)) == (*items, 1) and operator.add((1,), record) == (1, *items)
    assert record * 2 == 2 * record == 2 * items
    changes = {"value": 1, "headers": (), "checksum": 7}
    changed = record._replace(**changes)
    assert changed == expected._replace(**changes) and isinstance(changed, ConsumerRecord) and changed.checksum == 7
    assert ConsumerRecord._make(expected) == record == ConsumerRecord(*expected) == ConsumerRecord(**expected._asdict())
    with pytest.raises(ValueError, match="nothing"):
        record._replace(nothing=1)
    match record:
        case (ConsumerRecord(_, _, _, offset),) | ConsumerRecord(offset=offset):
            assert offset == expected.offset
    assert record.__replace__(**changes) == changed  # what copy.replace calls since Python 3.13
    copies = pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record), type(record)(*record)
    for again in (*copies, dataclasses.asdict(Holder(record))["record"]):
        assert type(again) is ConsumerRecord and again == expected and repr(again) == repr(expected)
        assert again[8] is again.headers


@pytest.fixture(params=["numpy", "rows"])
def make(world, request):
    """Return a function that makes a consumer of a topic with records of any headers, or without headers."""

    def consumer(headers=True, **options):
        w = world()
        for begin in range(0, COUNT, 35):
            records = [written(number, headers=headers) for number in range(begin, begin + 35)]
            w.cluster.append_batch(T0, build_batch(records))
        found = w.consumer(**options)
        decoder = found._reader.managers.collector.chunk_decoder
        decoder.has_numpy, decoder.together_min = request.param == "numpy", 1
        return found

    return consumer


@pytest.fixture(params=[False, True], ids=["encoded", "decoded"])
def headers_are_common(request, monkeypatch):
    """Let the next headers be decoded when they are read, or with the records."""
    monkeypatch.setattr(USE, "reads", 0)
    monkeypatch.setattr(USE, "groups_left", 1000 if request.param else 0)


def all_of(consumer, limit):
    found = []
    while len(found) < COUNT:
        found.extend(consumer.poll(60_000, max_records=limit)[T0])
    return found


@pytest.mark.parametrize("read", READS)
@pytest.mark.usefixtures("headers_are_common")
def test_items_do_not_depend_on_what_was_read_before(make, read):
    records = all_of(make(), 500)
    for number in (0, 1, 2, 3, 5, 15, 699):
        READS[read](records[number])
        check(records[number], plain(number))


@pytest.mark.usefixtures("headers_are_common")
@pytest.mark.parametrize("headers", [True, False])
def test_items_of_a_sequence_that_builds_its_records_anew(make, headers):
    [records] = make(headers=headers).poll(60_000, max_records=COUNT).values()
    assert len(records) == COUNT
    for number, record in enumerate(records):
        if number % 50 < 4:
            check(record, plain(number, headers=headers))
    check(records[698], plain(698, headers=headers))
    check(pickle.loads(pickle.dumps(records))[3], plain(3, headers=headers))


@pytest.mark.usefixtures("headers_are_common")
def test_items_of_deserialized_records(make):
    records = all_of(make(value_deserializer=json.loads), 100)
    for number in (0, 1, 2, 3, 15, 699):
        expected = plain(number, deserialized=True)
        record = records[number]
        check(record._replace(value=None), expected._replace(value=None))  # a dict has no hash
        assert record[8] is record.headers and tuple(record) == tuple(expected) and record == expected


@pytest.mark.usefixtures("headers_are_common")
def test_items_of_rows_of_columns_and_of_raw_batches(make):
    pytest.importorskip("numpy")
    [columns] = make().poll_batches(60_000).values()
    [raw] = make().poll_raw(60_000).values()
    for rows in (columns.rows(), [record for batch in raw for record in batch.decode()]):
        for number in (0, 1, 2, 3, 15, 34):
            check(rows[number], plain(number))


def test_items_of_an_iteration(make):
    consumer = make()
    for number in range(20):
        check(next(consumer), plain(number))
