"""Broker and topic configs: parsing of Kafka's dotted names, and errors for clients."""

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.config import TOPIC_DEFAULTS, BrokerConfig, TopicConfig
from thinconsumer_testing.broker.topic_configs import validate_topic_configs


def test_defaults_are_kafkas():
    assert TopicConfig.parse({}) == TopicConfig()
    assert TopicConfig.parse(TOPIC_DEFAULTS) == TopicConfig()
    validate_topic_configs(TOPIC_DEFAULTS)
    assert BrokerConfig.of({}) == BrokerConfig()
    config = BrokerConfig.of({"num.partitions": "3", "auto_create_topics_enable": "false", "replication_s": 0.5})
    assert (config.num_partitions, config.auto_create_topics_enable, config.replication_s) == (3, False, 0.5)


@pytest.mark.parametrize("name", ["num_partitions", "max_connections", "fetch_max_bytes", "replication_s"])
def test_numbers_below_their_minimum_are_rejected(name):
    """However it is built; with a time of -1 s or nan the broker would hang."""
    for make in (lambda value: BrokerConfig(**{name: value}), lambda value: BrokerConfig.of({name: value})):
        with pytest.raises(IllegalArgumentError, match=name):
            make(-1)
    with pytest.raises(IllegalArgumentError, match="replication_s"):
        BrokerConfig(replication_s=float("nan"))


def test_configs_of_the_authorizer_are_checked():
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = BrokerConfig.of({"authorizer.class.name": standard, "super.users": "User:a;User:b"})
    assert (config.authorizer_class_name, config.super_users) == (standard, "User:a;User:b")
    assert config.allow_everyone_if_no_acl_found is False
    for name, value in (("authorizer.class.name", "com.example.Mine"), ("super.users", "admin")):
        with pytest.raises(IllegalArgumentError, match=f"configuration {name}"):
            BrokerConfig.of({name: value})


def test_topic_configs_take_precedence_over_broker_configs():
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
    ("name", "value"), [("message.timestamp.type", "Sometime"), ("min.insync.replicas", "0"), ("segment.bytes", "13")]
)
def test_invalid_values_are_rejected_with_name_and_value(name, value):
    with pytest.raises(IllegalArgumentError, match=f"Invalid value {value} for configuration {name}"):
        TopicConfig.parse({name: value})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.partition": 3}, "did you mean 'num.partitions'"),
        ({"num.partitions": "many"}, "Invalid value 'many' for configuration num.partitions"),
        ({"auto.create.topics.enable": "perhaps"}, "auto.create.topics.enable"),
        ({"num.partitions": None}, "num.partitions"),
    ],
)
def test_invalid_broker_configs_are_rejected(settings, words):
    with pytest.raises(IllegalArgumentError, match=words):
        BrokerConfig.of(settings)
