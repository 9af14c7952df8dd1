"""Values that confluent-kafka's serializers have written through a schema registry are read back.

The registry is a small one made for these tests (registry.py), the broker is the embedded one.
"""

import asyncio
import json
import pickle
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from datetime import datetime, timezone

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry")

from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from thinconsumer import DeserializationError
from thinconsumer.aio import AsyncConsumer
from thinconsumer.deserializers import AvroDeserializer, confluent
from thinconsumer.workers import Workers, WorkerSettings

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ORDERS = [{"id": n, "item": f"item {n}" if n % 2 else None, "at": NOON} for n in range(5)]
JSON_ORDER = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def new_client(registry):
    """Return a function that makes a client, which knows no schema."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(SchemaRegistryClient({"url": registry.url, "timeout": 5, "max.retries": 0}))


@pytest.fixture
def client(new_client):
    return new_client()


@pytest.fixture
def avro(client, topic):
    """Return a function that serializes an order."""
    serializer = confluent_avro.AvroSerializer(client, json.dumps(ORDER))
    return lambda order: serializer(order, SerializationContext(topic.name, MessageField.VALUE, []))


@pytest.fixture
def confluents(new_client):
    return confluent(confluent_avro.AvroDeserializer(new_client()))


@pytest.fixture
def own(registry):
    return AvroDeserializer(over_http(registry))


@pytest.fixture(params=["confluents", "own"])
def either(request):
    return request.getfixturevalue(request.param)


def over_http(registry):
    """Return a function that returns the schema of an id."""

    def get(number):
        try:
            with urllib.request.urlopen(f"{registry.url}/schemas/ids/{number}", timeout=5) as answer:
                return json.load(answer)["schema"]
        except urllib.error.HTTPError as error:
            error.close()  # its connection, which would be open for as long as the error is kept
            raise

    return get


def values(records):
    return [record.value for record in records]


def test_avro(registry, topic, avro, confluents, own):
    topic.produce(*map(avro, ORDERS), (b"k", None, []))
    assert values(topic.read(6, value_deserializer=confluents)) == [*ORDERS, None]
    assert values(topic.read(6, value_deserializer=own)) == [*ORDERS, None]
    assert registry.requests["GET /schemas/ids/1"] == 2


def test_json_schema(registry, topic, client):
    serialize = confluent_json.JSONSerializer(json.dumps(JSON_ORDER), client)
    context = SerializationContext(topic.name, MessageField.VALUE, [])
    topic.produce(*(serialize({"id": n}, context) for n in range(5)))
    deserializer = confluent_json.JSONDeserializer(None, schema_registry_client=client)
    assert values(topic.read(5, value_deserializer=confluent(deserializer))) == [{"id": n} for n in range(5)]


def protobuf_order():
    """Return a class of messages, as protoc makes it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(name="item", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def test_protobuf(registry, topic, client):
    about = {"use.deprecated.format": False}
    order = protobuf_order()
    serialize = confluent_protobuf.ProtobufSerializer(order, client, about)
    context = SerializationContext(topic.name, MessageField.VALUE, [])
    messages = [order(id=n, item=f"item {n}") for n in range(5)]
    topic.produce(*(serialize(each, context) for each in messages))
    deserializer = confluent(confluent_protobuf.ProtobufDeserializer(order, about, client))
    assert values(topic.read(5, value_deserializer=deserializer)) == messages


def test_a_schemas_id_in_a_header(topic, client, confluents):
    serializer = confluent_avro.AvroSerializer(
        client, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    headers = [("trace", b"1")]
    value = serializer(ORDERS[1], SerializationContext(topic.name, MessageField.VALUE, headers))
    topic.produce((None, value, headers))
    (record,) = topic.read(1, value_deserializer=confluents)
    assert record.value == ORDERS[1]
    assert [name for name, _ in record.headers] == ["trace", "__value_schema_id"]


def test_the_context_has_topic_field_and_headers(topic):
    def show(data, context):
        return data, context.topic, context.field, context.headers

    topic.produce((b"k", b"v", [("a", b"1"), ("b", None)]))
    (record,) = topic.read(1, key_deserializer=confluent(show, "key"), value_deserializer=confluent(show))
    headers = [("a", b"1"), ("b", None)]
    assert record.key == (b"k", topic.name, MessageField.KEY, headers)
    assert record.value == (b"v", topic.name, MessageField.VALUE, headers)


def test_an_outage_loses_no_record_and_lets_polls_end_in_time(registry, topic, avro, either):
    topic.produce(*map(avro, ORDERS))
    with topic.consumer(value_deserializer=either, on_bad_record="skip") as consumer:
        for registry.status, registry.delay in ((500, 0.0), (401, 0.0), (0, 1.0)):
            before, read = registry.requests.total(), []
            while not read and (registry.status == 0 or registry.requests.total() < before + 2):
                began = time.monotonic()
                read = [record.value for rows in consumer.poll(50).values() for record in rows]
                assert time.monotonic() - began < 0.8
        assert read == ORDERS


def test_a_registry_that_is_not_there_is_no_bad_record(registry, topic, avro):
    topic.produce(*map(avro, ORDERS))
    port = registry.url
    registry.url = "http://127.0.0.1:1"
    deserializer = AvroDeserializer(lambda number: over_http(registry)(number))
    with topic.consumer(value_deserializer=deserializer, on_bad_record="skip") as consumer:
        assert consumer.poll(300) == {}
        assert "a schema cannot be looked up" in consumer.health().reason
        registry.url = port
        assert len(consumer.poll(10_000)) == 1


def test_a_slow_registry_does_not_hold_up_the_event_loop(registry, topic, avro, confluents):
    topic.produce(*map(avro, ORDERS))
    registry.delay = 1.0
    longest = 0.0

    async def tick():
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    async def main():
        ticking = asyncio.create_task(tick())
        try:
            async with topic.consumer(AsyncConsumer, value_deserializer=confluents) as consumer:
                found = await consumer.poll(10_000)
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
        return [record.value for rows in found.values() for record in rows]

    assert asyncio.run(main()) == ORDERS
    assert longest < 0.8


def test_a_schema_that_does_not_exist_is_a_bad_record(topic, avro, either):
    topic.produce(avro(ORDERS[0]), b"\0\0\0\0\x63" + avro(ORDERS[0])[5:], b"no prefix", avro(ORDERS[1]))
    bad = []
    records = topic.read(2, value_deserializer=either, on_bad_record=bad.append)
    assert (values(records), [error.offset for error in bad]) == (ORDERS[:2], [1, 2])
    assert all(type(error) is DeserializationError for error in bad)


def test_a_reader_schema(registry, topic, avro):
    topic.produce(*map(avro, ORDERS))
    fields = [{"name": "id", "type": "double"}, {"name": "more", "type": "string", "default": "none"}]
    deserializer = AvroDeserializer(over_http(registry), {"type": "record", "name": "Order", "fields": fields})
    records = topic.read(5, value_deserializer=deserializer)
    assert values(records) == [{"id": float(n), "more": "none"} for n in range(5)]


def test_workers_wait_for_schemas(registry, topic, avro, confluents):
    topic.produce(*map(avro, ORDERS))
    registry.status = 503
    done = []

    def handle(record):
        done.append(record.value)

    options = {"group_id": topic.name, "enable_auto_commit": False, "value_deserializer": confluents}
    settings = WorkerSettings(pool="threads", concurrency=4, attempts=1, order="none")
    with topic.consumer(**options) as consumer, Workers(consumer, handle, settings) as workers:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            workers.wait(min(workers.step(), until))
        registry.status = 0
        while len(done) < 5:
            workers.wait(workers.step())
        assert workers.health().failures == 0
    assert sorted(each["id"] for each in done) == list(range(5))


def read_with(schema, data, *reader_schema):
    deserializer = AvroDeserializer({9: schema}.__getitem__, *reader_schema)
    deserializer._lookups._start = lambda run: run()
    return deserializer(b"\0\0\0\0\x09" + data)


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ('"string"', b"\x06abc", "abc"),
        ('"bytes"', b"abc", b"abc"),
        ({"type": "bytes"}, b"abc", b"abc"),
        ({"type": "array", "items": "int"}, b"\x04\x02\x04\0", [1, 2]),
        ('["null", "long"]', b"\x02\x06", 3),
    ],
)
def test_schemas_that_are_no_records(schema, data, value):
    assert read_with(schema, data) == value


@pytest.mark.parametrize(
    ("schema", "data", "error", "text"),
    [
        ('"string"', b"\x06ab", Exception, None),
        ('"string"', b"\x06abcd", ValueError, "1 bytes follow the value of schema 9"),
        ("no JSON", b"\x06abc", ValueError, None),
        ('{"type": "unknown"}', b"", Exception, "unknown"),
    ],
)
def test_values_of_other_schemas_are_bad(schema, data, error, text):
    with pytest.raises(error, match=text):
        read_with(schema, data)


def test_data_without_the_prefix_are_bad():
    for prefix in (b"", b"\0\0\0\0", b"\1\0\0\0\x09"):
        with pytest.raises(ValueError, match="no value of a Confluent serializer"):
            AvroDeserializer(dict.get)(prefix)


def test_schemas_of_other_kinds_or_with_references_are_refused(client):
    for text, about in (("to others", {"references": [1]}), ("of JSON", {"schema_type": "JSON"})):
        schema = type("Schema", (), {"schema_str": '"string"', **about})()
        with pytest.raises(ValueError, match=text):
            read_with(schema, b"\0")


def test_wrong_arguments_are_errors():
    async def later(data, context):
        pass

    for call, text in (
        (lambda: confluent(later), "asynchronous"),
        (lambda: confluent(len, "header"), "'key' or 'value'"),
        (lambda: confluent(3), "callable"),
        (lambda: AvroDeserializer(3), "get_schema"),
        (lambda: AvroDeserializer(len, cache_size=0), "at least 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=text):
            call()


def test_it_can_be_sent_to_worker_processes():
    twin = pickle.loads(pickle.dumps(AvroDeserializer(json.loads, '"string"')))
    twin._lookups._start = lambda run: run()
    with pytest.raises(TypeError):
        twin(b"\0\0\0\0\x09")


def test_without_the_packages_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka.serialization", None)
    with pytest.raises(ImportError, match=r"thinconsumer\[avro\]"):
        AvroDeserializer(len)
    with pytest.raises(ImportError, match=r"thinconsumer\[schema-registry\]"):
        confluent(len)
