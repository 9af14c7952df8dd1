"""Every consumer option of librdkafka and of Java's client is taken, translated, or explained."""

import re
import warnings
from pathlib import Path

import pytest

from thinconsumer import Consumer
from thinconsumer.config import OPTIONS, UNSUPPORTED, ClientOptions, ConfigurationWarning, ConsumerConfig
from thinconsumer.config.other_clients import EXPLAINED, EXPLAINED_PREFIXES, NEAREST
from thinconsumer.config.unsupported import ALIASES, UNSUPPORTED_PREFIXES
from thinconsumer.config.values import INT64_MAX
from thinconsumer.errors import KafkaConfigurationError
from thinconsumer.produce import ProducerSettings

HERE = Path(__file__).parent


def rows(name):
    """Return the rows of a data file, without the comments."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


JAVA = dict(rows("java-4.4.0.tsv"))
LIBRDKAFKA = {name: default for name, scope, default in rows("librdkafka-2.16.0.tsv") if scope != "P"}
PRODUCERS = [name for name, scope, _ in rows("librdkafka-2.16.0.tsv") if scope == "P"]
#: Names of confluent-kafka (Python) that are not in librdkafka's list.
CONFLUENT = {"logger", "default.topic.config", "on_commit", "on_assign", "on_revoke", "on_lost"}
CANARY = "c4nary"
SERIALIZATION = "org.apache.kafka.common.serialization."

#: Names whose default in the other client causes an error or a warning, and why.
LOUD = {
    "builtin.features": "the list of another library",
    "enable.metrics.push": "true in both clients",
    "max.poll.interval.ms": "longer than the session, in which heartbeats need calls",
    "sasl.kerberos.kinit.cmd": "librdkafka's default runs a program",
    "sasl.kerberos.principal": "without SASL",
    "sasl.mechanism": "without SASL",
    "sasl.mechanisms": "without SASL",
    "ssl.keystore.type": "JKS",
    "ssl.truststore.type": "JKS",
}


def effect(name, value, build=ConsumerConfig.from_config):
    """Return "taken", "no effect" or "refused", and the text of the error or warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            build({"group.id": "g", name: value} if name != "group.id" else {name: value})
        except KafkaConfigurationError as error:
            return ("refused" if f"{name} is refused: " in str(error) else "taken"), str(error)
    text = "".join(str(one.message) for one in caught)
    return ("no effect" if f"{name} has no effect: " in text else "taken"), text


def test_the_lists_are_whole():
    """Their sizes as counted in the two clients."""
    assert (len(LIBRDKAFKA), len(PRODUCERS), len(JAVA)) == (163, 30, 126)
    assert {"queued.max.messages.kbytes", "enable.partition.eof", "auto.offset.reset"} <= set(LIBRDKAFKA)
    assert {"metadata.cluster.check.enable", "bootstrap.resolve.timeout.ms"} <= set(JAVA)


@pytest.mark.parametrize("name", sorted({*LIBRDKAFKA, *JAVA, *CONFLUENT}))
def test_every_option_is_taken_or_explained(name):
    what, text = effect(name, CANARY)
    assert "unknown option" not in text
    assert CANARY not in text or what == "taken"
    is_ours = name.replace(".", "_") in OPTIONS or ALIASES.get(name) in OPTIONS
    assert is_ours is (what == "taken"), text
    if not is_ours:
        assert re.fullmatch(rf"{re.escape(name)} (is refused|has no effect): .{{20,}}", text), text
        assert "`" not in text


@pytest.mark.parametrize("name", PRODUCERS)
def test_options_of_producers_are_explained(name):
    text = effect(name, CANARY)[1]
    assert "unknown option" not in text
    assert text.startswith(f"{name} is refused: it is an option of producers") or name in {*JAVA, "request.timeout.ms"}


@pytest.mark.parametrize("options", [LIBRDKAFKA, JAVA], ids=["librdkafka", "java"])
def test_defaults_of_the_other_clients_cause_no_error(options):
    """Programs that spell out each default keep working."""
    loud = {name: effect(name, default)[1] for name, default in options.items() if default and name not in LOUD}
    assert {name: text for name, text in loud.items() if text} == {}


@pytest.mark.parametrize(
    ("name", "value", "option", "ours"),
    [
        ("queued.max.messages.kbytes", "65536", "max_buffered_bytes", 64 << 20),
        ("queued.max.messages.kbytes", 1024, "max_buffered_bytes", 1 << 20),
        ("metadata.broker.list", "a:1,b:2", "bootstrap_servers", (("a", 1), ("b", 2))),
        ("topic.metadata.refresh.interval.ms", "5000", "metadata_max_age_ms", 5000),
        ("topic.metadata.refresh.interval.ms", -1, "metadata_max_age_ms", INT64_MAX),
        ("bootstrap.resolve.timeout.ms", "7000", "bootstrap_timeout_ms", 7000),
        ("bootstrap.resolve.timeout.ms", "0", "bootstrap_timeout_ms", OPTIONS["bootstrap_timeout_ms"].default),
        ("socket.timeout.ms", 45000, "request_timeout_ms", 45000),
        ("socket.send.buffer.bytes", 0, "send_buffer_bytes", None),
        ("socket.receive.buffer.bytes", "65536", "receive_buffer_bytes", 65536),
        ("connections.max.idle.ms", 0, "connections_max_idle_ms", float("inf")),
        ("connections.max.idle.ms", "-1", "connections_max_idle_ms", float("inf")),
        ("max.in.flight", "7", "max_in_flight_requests_per_connection", 7),
        ("fetch.wait.max.ms", "10", "fetch_max_wait_ms", 10),
        ("fetch.message.max.bytes", "2097152", "max_partition_fetch_bytes", 2 << 20),
        ("auto.commit.enable", "false", "enable_auto_commit", False),
        ("auto.offset.reset", "smallest", "auto_offset_reset", "earliest"),
        ("auto.offset.reset", "beginning", "auto_offset_reset", "earliest"),
        ("auto.offset.reset", "LARGEST", "auto_offset_reset", "latest"),
        ("auto.offset.reset", "end", "auto_offset_reset", "latest"),
        ("auto.offset.reset", "error", "auto_offset_reset", "none"),
        ("partition.assignment.strategy", "range,roundrobin", "partition_assignment_strategy", ("range", "roundrobin")),
        (
            "partition.assignment.strategy",
            JAVA["partition.assignment.strategy"],
            "partition_assignment_strategy",
            ("range", "cooperative-sticky"),
        ),
        ("value.deserializer", f"{SERIALIZATION}ByteArrayDeserializer", "value_deserializer", None),
        ("metadata.cluster.check.enable", "false", "metadata_cluster_check_enable", False),
        ("max.poll.interval.ms", "40000", "max_poll_interval_ms", 40000),
        ("isolation.level", "read_committed", "isolation_level", "read_committed"),
        ("security.protocol", "plaintext", "security_protocol", "PLAINTEXT"),
        ("group.protocol", "consumer", "group_protocol", "consumer"),
    ],
)  # fmt: skip
def test_values_are_translated_with_their_unit(name, value, option, ours):
    config = ConsumerConfig.from_config({"group.id": "g", name: value})
    found = getattr(config, option)
    assert (str(found) if option == "auto_offset_reset" else found) == ours


def test_javas_deserializers_decode_as_they_do():
    names = {"key.deserializer": "StringDeserializer", "value.deserializer": "LongDeserializer"}
    config = ConsumerConfig.from_config({name: SERIALIZATION + kind for name, kind in names.items()})
    assert config.key_deserializer.function("é".encode() + b"\xff") == "é\N{REPLACEMENT CHARACTER}"
    assert config.value_deserializer.function(bytes(7) + b"\7") == 7


def test_errors_show_the_given_unit_and_ours():
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_config({"queued.max.messages.kbytes": "1"})
    assert str(caught.value) == "queued.max.messages.kbytes='1', as max.buffered.bytes=1024: must be at least 65536"
    with pytest.raises(KafkaConfigurationError, match=r"max\.buffered\.bytes"):
        ConsumerConfig.from_config({"queued.max.messages.kbytes": "64", "fetch.min.bytes": "70000"})


@pytest.mark.parametrize("value", ["", "x", "1.5", "-1", "9" * 20, 10**40, True, None, 1.5, ()], ids=repr)
def test_a_wrong_value_of_a_translated_option_is_an_error(value):
    with pytest.raises(KafkaConfigurationError, match=r"^queued\.max\.messages\.kbytes="):
        ConsumerConfig.from_config({"queued.max.messages.kbytes": value})


def test_an_alias_and_its_option_cannot_both_be_given():
    with pytest.raises(KafkaConfigurationError, match="same option: give one of them"):
        ConsumerConfig.from_config({"socket.timeout.ms": "5000", "request.timeout.ms": "5000"})


def test_python_names_of_other_clients_are_corrected_and_not_taken():
    for theirs, ours in ALIASES.items():
        name = theirs.replace(".", "_")
        if name not in OPTIONS:
            with pytest.raises(KafkaConfigurationError, match=f"unknown option {name!r}; did you mean {ours!r}?"):
                ConsumerConfig.from_options(**{name: "1"})
    with pytest.raises(KafkaConfigurationError, match="set enable_auto_commit to false"):
        ConsumerConfig.from_options(enable_auto_offset_store=False)


@pytest.mark.parametrize("options", [ClientOptions, ProducerSettings])
def test_a_client_without_the_option_does_not_take_its_alias(options):
    with pytest.raises(KafkaConfigurationError, match="unknown option 'queued.max.messages.kbytes'"):
        options.from_config({"queued.max.messages.kbytes": "65536"})
    assert options.from_config({"socket.timeout.ms": "45000"}).request_timeout_ms == 45000


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("partition.eof.enabled", "; no poll returns an end of a partition: read_to_end() yields the records up to it"),
        ("prefetch.size", "; did you mean 'max.buffered.bytes'?"),
        ("consumer.queue.limit", "; did you mean 'max.buffered.bytes'?"),
        ("number.of.records", "; did you mean 'max.poll.records'?"),
        ("broker.hosts", "; did you mean 'bootstrap.servers'?"),
        ("zookeeper.connect", "; did you mean 'bootstrap.servers'?"),
        ("offsets.store.manually", " is refused: it is an option of brokers or topics: set it there"),
        ("worker.threads", "; there is no thread in the background"),
        ("telemetry.interval", "; call metrics() for the figures"),
        # The spelling counts if it is very similar, or if no word of the name has a meaning.
        ("max.buffered.byte", "; did you mean 'max.buffered.bytes'?"),
        ("receive.bufer.bytes", "; did you mean 'receive.buffer.bytes'?"),
        ("sesion.timeout", "; did you mean 'session.timeout.ms'?"),
        ("fetch.max.byte", "; did you mean 'fetch.max.bytes'?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_name_gets_the_nearest_meaning(name, hint):
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_config({name: CANARY})
    text = str(caught.value)
    assert text.startswith((f"unknown option {name!r}{hint}", f"{name}{hint}"))
    assert hint or text == f"unknown option {name!r}"


def test_the_sentences_name_only_what_exists():
    table = {**UNSUPPORTED, **UNSUPPORTED_PREFIXES, **EXPLAINED, **EXPLAINED_PREFIXES}
    for name, row in table.items():
        for option in re.findall(r"`(\w+)`", row.reason):
            assert option in OPTIONS, name
        for method in re.findall(r"(\w+)\(", row.reason):
            assert hasattr(Consumer, method) or method in {"store_offsets", "getLogger", "setLevel"}, name
    assert set(NEAREST.values()) <= {*OPTIONS, *EXPLAINED}


def test_every_row_is_about_an_option_of_another_client():
    known = {name.replace(".", "_") for name in (*LIBRDKAFKA, *JAVA, *CONFLUENT)}
    assert set(EXPLAINED) <= known
    assert not set(EXPLAINED) & {*OPTIONS, *UNSUPPORTED}


def test_a_properties_file_of_java_and_a_dict_of_confluent_kafka_are_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        java = ConsumerConfig.from_config(
            {
                "bootstrap.servers": "a:9092",
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "key.deserializer": f"{SERIALIZATION}StringDeserializer",
                "value.deserializer": f"{SERIALIZATION}ByteArrayDeserializer",
                "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
                "metadata.cluster.check.enable": "true",
                "bootstrap.resolve.timeout.ms": "0",
            }
        )
        confluent = ConsumerConfig.from_config(
            {
                "bootstrap.servers": "a:9092",
                "group.id": "g",
                "auto.offset.reset": "smallest",
                "enable.partition.eof": False,
                "enable.auto.offset.store": True,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 131072,
                "socket.keepalive.enable": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "error_cb": None,
            }
        )
    assert java.partition_assignment_strategy == confluent.partition_assignment_strategy == ("cooperative-sticky",)
    assert confluent.max_buffered_bytes == 128 << 20
    with pytest.warns(
        ConfigurationWarning, match="queued.min.messages has no effect: reading ahead is limited in bytes"
    ):
        ConsumerConfig.from_config({"queued.min.messages": 1000})
