"""Topic configs: read from Kafka's dotted names, refused with words a client understands."""

from __future__ import annotations

import pytest

from thinconsumer.broker.config import TOPIC_DEFAULTS, BrokerConfig, TopicConfig
from thinconsumer.errors import IllegalArgumentError


def test_defaults_are_kafkas():
    assert TopicConfig.parse({}) == TopicConfig()
    assert TopicConfig.parse(TOPIC_DEFAULTS) == TopicConfig()


@pytest.mark.parametrize("name", ["num_partitions", "max_connections", "fetch_max_bytes", "replication_s"])
def test_numbers_below_what_makes_sense_are_refused(name):
    """However it is made; a broker that waits for -1 s, or for nan, hangs where nobody looks."""
    for make in (lambda value: BrokerConfig(**{name: value}), lambda value: BrokerConfig.of({name: value})):
        with pytest.raises(IllegalArgumentError, match=name):
            make(-1)
    with pytest.raises(IllegalArgumentError, match="replication_s"):
        BrokerConfig(replication_s=float("nan"))


def test_what_a_topic_says_goes_before_what_the_broker_says():
    broker = BrokerConfig(message_max_bytes=5000, min_insync_replicas=2, unclean_leader_election_enable=True)
    config = TopicConfig.parse({"min.insync.replicas": "3"}, broker)
    assert (config.max_message_bytes, config.min_insync_replicas, config.unclean_leader_election) == (5000, 3, True)


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
        ("", False, False),
    ],
)
def test_cleanup_policies(policy, compact, delete):
    config = TopicConfig.parse({"cleanup.policy": policy})
    assert (config.compact, config.delete) == (compact, delete)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "Sometime"),
        ("retention.ms", "-2"),
        ("retention.bytes", "many"),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "13"),
        ("unclean.leader.election.enable", "maybe"),
    ],
)
def test_nonsense_is_refused_by_name_and_value(name, value):
    with pytest.raises(IllegalArgumentError, match=f"Invalid value {value} for configuration {name}"):
        TopicConfig.parse({name: value})


def test_an_unknown_name_is_refused():
    with pytest.raises(IllegalArgumentError, match=r"Unknown topic config name: retention\.hours"):
        TopicConfig.parse({"retention.hours": "1"})


def test_broker_settings_are_read_by_kafkas_names():
    told = {"num.partitions": "3", "auto_create_topics_enable": "false", "replication_s": 0.5}
    config = BrokerConfig.of(told)
    assert (config.num_partitions, config.auto_create_topics_enable, config.replication_s) == (3, False, 0.5)
    assert BrokerConfig.of({}) == BrokerConfig()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.partition": 3}, "did you mean 'num.partitions'"),
        ({"num.partitions": "many"}, "Invalid value 'many' for configuration num.partitions"),
        ({"auto.create.topics.enable": "perhaps"}, "auto.create.topics.enable"),
        ({"num.partitions": None}, "num.partitions"),
    ],
)
def test_broker_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(IllegalArgumentError, match=words):
        BrokerConfig.of(settings)
