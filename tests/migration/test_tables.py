"""The tables know every option, name and method of the consumers of the three libraries: none is skipped silently."""

import inspect
import pkgutil
import re

import aiokafka
import kafka
import pytest

import thinconsumer.compat.aiokafka
import thinconsumer.compat.kafka
from tests.config.test_other_clients import CONFLUENT, LIBRDKAFKA, PRODUCERS
from thinconsumer import Consumer, errors
from thinconsumer.config import OPTIONS, ConsumerConfig
from thinconsumer.config.unsupported import ALIASES, OLDER_NAMES
from thinconsumer.migration import confluent, peers
from thinconsumer.migration.scan import of_option

CANARY = "c4nary"
AIOKAFKA = [name for name in inspect.signature(aiokafka.AIOKafkaConsumer).parameters if name != "topics"]


def is_same(package, name):
    """Return whether the compatible consumer takes this option, or ``from_config`` this dotted name."""
    if package == "confluent_kafka":
        return name.replace(".", "_") in OPTIONS or ALIASES.get(name) in OPTIONS
    return OLDER_NAMES.get(name, name) in OPTIONS or name in peers.PEERS[package].known


def test_every_option_is_the_same_or_has_advice():
    """In one test: there are 290 options."""
    version_2 = ("api_version_auto_timeout_ms", "legacy_iterator", "sock_chunk_bytes", "sock_chunk_buffer_count")
    names = {
        "kafka": (*kafka.KafkaConsumer.DEFAULT_CONFIG, *version_2),
        "aiokafka": AIOKAFKA,
        "confluent_kafka": (*LIBRDKAFKA, *PRODUCERS, *CONFLUENT),
    }
    for package, name in ((package, name) for package, all_names in names.items() for name in all_names):
        advice = of_option(package, name, object())
        if advice is None:
            assert is_same(package, name), name
        else:
            has_more = name in (*confluent.OPTIONS, *peers.AIOKAFKA.options)
            assert has_more or not is_same(package, name), name
            assert len(advice.instead) > 5 and "object object" not in advice.why, name


def test_secrets_are_not_in_the_advice():
    for name in LIBRDKAFKA:
        kind = OPTIONS[own].kind if (own := ALIASES.get(name, name.replace(".", "_"))) in OPTIONS else None
        advice = of_option("confluent_kafka", name, CANARY)
        if kind is None or kind.is_secret:
            assert CANARY not in str(advice), name


def test_harmless_values_need_no_change():
    for name, default in kafka.KafkaConsumer.DEFAULT_CONFIG.items():
        if name not in ("kafka_client",):
            assert of_option("kafka", name, default) is None, name
    for name in ("queued.min.messages", "enable.partition.eof", "enable.auto.offset.store"):
        value = {"true": True, "false": False}.get(LIBRDKAFKA[name], LIBRDKAFKA[name])
        assert of_option("confluent_kafka", name, value) is None


def test_values_are_checked_in_the_units_of_the_other_library():
    assert of_option("confluent_kafka", "queued.max.messages.kbytes", 1024) is None
    assert "must be a whole number" in of_option("confluent_kafka", "session.timeout.ms", "soon").why
    assert "must be" in of_option("kafka", "max_poll_records", "500").why
    assert of_option("kafka", "ssl_cafile", "/no/such/file") is None  # files are of another machine
    assert of_option("confluent_kafka", "schema.registry.url", "x") == confluent.REGISTRY


def test_every_public_attribute_of_the_compatible_consumers_exists():
    for theirs, ours in (
        (kafka.KafkaConsumer, thinconsumer.compat.kafka.KafkaConsumer),
        (aiokafka.AIOKafkaConsumer, thinconsumer.compat.aiokafka.AIOKafkaConsumer),
    ):
        lacking = {name for name in dir(theirs) if name[0].islower() and not hasattr(ours, name)}
        assert lacking == set()


def test_the_names_of_the_compatible_modules_exist_in_both():
    for peer, theirs in ((peers.KAFKA_PYTHON, kafka), (peers.AIOKAFKA, aiokafka)):
        compat = __import__(peer.compat, fromlist=["x"])
        assert set(peer.names) == {name for name in compat.__all__ if name[0].isupper()}
        for room, names in {"structs": peer.structs, **peer.others}.items():
            module = __import__(f"{peer.compat}.{room}", fromlist=["x"])
            assert all(hasattr(module, name) for name in names)
        assert peer.consumer in peer.names and hasattr(theirs, peer.consumer)


def test_what_has_no_effect_in_the_compatible_aiokafka_has_advice():
    from thinconsumer.compat.aiokafka.options import WITHOUT_EFFECT

    assert set(WITHOUT_EFFECT) - {"api_version"} == set(peers.AIOKAFKA.options) - {"loop"}


def test_every_name_and_method_of_confluent_kafka_is_known():
    theirs = pytest.importorskip("confluent_kafka")
    aio = pytest.importorskip("confluent_kafka.aio")

    def public(owner):
        return {name for name in dir(owner) if not name.startswith("_")}

    assert public(theirs) - {"aio", "schema_registry", "admin"} <= set(confluent.NAMES)
    for consumer in (theirs.Consumer, theirs.DeserializingConsumer, aio.AIOConsumer):
        assert public(consumer) <= {*confluent.METHODS}
    assert public(theirs.Message) <= set(confluent.OF_MESSAGES)
    assert all(hasattr(theirs.KafkaError, code) for code in confluent.CODES)


def test_the_advice_names_only_what_exists():
    for name, advice in {**confluent.CODES, **confluent.NAMES}.items():
        words = "" if advice is None else advice.instead
        for error in (word for word in words.replace("thinconsumer.", " ").split() if word.endswith("Error")):
            assert hasattr(errors, error), name
    for name, advice in confluent.METHODS.items():
        assert advice is not None or hasattr(Consumer, name)


def test_the_advice_names_only_what_can_be_imported():
    tables = [confluent.NAMES, confluent.METHODS, confluent.OPTIONS, confluent.CODES, peers.AIOKAFKA.advice]
    words = [f"{one.instead} {one.why}" for table in tables for one in table.values() if one is not None]
    names = set(re.findall(r"thinconsumer(?:\.\w+)+", " ".join([*words, confluent.REGISTRY.instead])))
    assert {"thinconsumer.aio.AsyncConsumer", "thinconsumer.deserializers", "thinconsumer.PartitionAssignor"} <= names
    for name in names:
        pkgutil.resolve_name(name)
    pkgutil.resolve_name("thinconsumer.deserializers:confluent")
    config = {"group.id": "g", "value.deserializer": len, "isolation.level": "read_committed"}
    assert ConsumerConfig.from_config(config).isolation_level == "read_committed"
