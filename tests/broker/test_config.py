"""Topic configs: read from Kafka's dotted names, refused with words a client understands."""

from __future__ import annotations

import pytest

from thinconsumer.broker.config import TOPIC_DEFAULTS, BrokerConfig, TopicConfig
from thinconsumer.errors import IllegalArgumentError


def test_defaults_are_kafkas():
    assert TopicConfig.parse({}) == TopicConfig()
    assert TopicConfig.parse(TOPIC_DEFAULTS) == TopicConfig()


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
    ],
)
def test_cleanup_policies(policy, compact, delete):
    config = TopicConfig.parse({"cleanup.policy": policy})
    assert (config.compact, config.delete) == (compact, delete)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
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
