"""A writer's options and columns: meanings of the official connector, and error messages."""

import pickle

import pytest

from thinconsumer import KafkaConfigurationError
from thinconsumer.spark.writing import parse_write

BASE = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
HEADERS = "array<struct<key:string,value:binary>>"
ALL = [("topic", "string"), ("key", "binary"), ("value", "string"), ("headers", HEADERS), ("partition", "int")]
VALUE = [("value", "binary")]


def refused(options, schema=VALUE) -> str:
    with pytest.raises(KafkaConfigurationError) as error:
        parse_write(options, schema)
    return str(error.value)


def test_columns_are_found_by_name_in_any_order():
    found = parse_write({**BASE, "topic": " a "}, [("offset", "bigint"), *reversed(ALL)])
    assert found.topic == "a"
    assert found.columns == {"partition": 1, "headers": 2, "value": 3, "key": 4}
    without = {"kafka.bootstrap.servers": "h:1"}
    assert parse_write(without, ALL).columns["topic"] == 0
    assert parse_write(without, ALL).topic is None


def test_the_topic_option_overrides_a_column_of_any_type():
    assert parse_write(BASE, [("topic", "int"), ("value", "string")]).columns == {"value": 1}


def test_the_first_of_two_columns_with_one_name_is_used():
    assert parse_write(BASE, [("value", "string"), ("value", "int")]).columns == {"value": 0}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([("key", "string")], "there is no column 'value': the columns are 'key'"),
        ([("Value", "string")], "there is no column 'value': rename 'Value', names are case-sensitive"),
        ([], "there is no column 'value'"),
        ([("value", "int")], "column 'value' is of type int, but must be string or binary: cast it"),
        ([*VALUE, ("key", "void")], "column 'key' is of type void, but must be string or binary: cast it"),
        ([*VALUE, ("partition", "bigint")], "column 'partition' is of type bigint, but must be int: cast it"),
        (
            [*VALUE, ("headers", "map<string,binary>")],
            "column 'headers' is of type map<string,binary>, but must be array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_columns_that_cannot_be_written_are_refused(schema, words):
    assert words in refused(BASE, schema)


def test_a_topic_column_or_option_is_required():
    servers = {"kafka.bootstrap.servers": "h:1"}
    assert "neither a column nor an option 'topic'" in refused(servers)
    assert "column 'topic' is of type int" in refused(servers, [*VALUE, ("topic", "int")])
    assert "topic: it is empty" in refused({**BASE, "topic": "  "})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("kafka.transactional.id", "x", "records are written at least once"),
        ("kafka.key.serializer", "x", "convert them with DataFrame operations"),
        ("kafka.value.serializer", "x", "convert them with DataFrame operations"),
        ("kafka.partitioner.class", "x", "set the column 'partition'"),
        ("kafka.interceptor.classes", "x", "Java classes cannot be loaded"),
        ("kafka.acks", "1", "kafka.acks='1' is refused: every record is acknowledged by all replicas in sync"),
        ("kafka.enable.idempotence", "false", "kafka.enable.idempotence='false' is refused"),
        ("kafka.security.protocol", "SASL", "security.protocol='SASL': must be one of"),
        ("kafka.ssl.truststore.location", "/x", "the file cannot be read: No such file"),
        ("kafka.compression.type", "brotli", "compression.type"),
        ("kafka.compresion.type", "lz4", "did you mean 'compression.type'?"),
        ("kafka.bootstrap.servers", "", "kafka.bootstrap.servers is missing"),
        ("path", "/tmp/x", "save() and start() take no path"),
        ("topics", "x", "did you mean 'topic'?"),
        ("batch.size", "10", "did you mean 'kafka.batch.size'?"),
        ("acks", "all", "did you mean 'kafka.acks'?"),
    ],
)
def test_unsupported_options_are_refused_with_the_reason(name, text, words):
    message = refused({**BASE, name: text})
    assert words in message
    assert "secret" not in message


def test_all_problems_are_reported_at_once():
    message = refused({"kafka.acks": "0", "kafka.transactional.id": "x"}, [("key", "int")])
    assert message.startswith("6 options or columns are wrong:\n  - ")
    for word in ("acks", "transactional", "bootstrap", "'value'", "'topic'", "'key'"):
        assert word in message


def test_kafka_options_configure_the_producer():
    given = {
        "Kafka.Compression.Type": "lz4",
        "kafka.acks": "-1",
        "kafka.enable.idempotence": "TRUE",
        "kafka.batch.size": "20000",
        "kafka.linger.ms": "5",
        "kafka.retries": "3",
    }
    settings = parse_write({**BASE, **given}, VALUE).producer()
    assert (settings.compression_type, settings.batch_size) == ("lz4", 20_000)
    assert settings.bootstrap_servers == (("localhost", 9092),)


def test_the_broker_decides_whether_topics_are_created_unless_the_option_forbids_it():
    assert parse_write(BASE, VALUE).producer().allow_auto_create_topics is True
    never = {**BASE, "kafka.allow.auto.create.topics": "false"}
    assert parse_write(never, VALUE).producer().allow_auto_create_topics is False


def test_reader_and_stream_options_are_ignored():
    given = {
        "subscribe": "a",
        "startingOffsets": "earliest",
        "kafka.group.id": "g",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "5",
        "checkpointLocation": "/c",
        "queryName": "q",
    }
    assert parse_write({**BASE, **given}, VALUE).producer().client_id


def test_settings_can_be_pickled_and_their_repr_contains_no_secrets():
    found = parse_write({**BASE, "kafka.client.id": "hidden"}, ALL)
    assert pickle.loads(pickle.dumps(found)) == found
    assert "hidden" not in repr(found)
