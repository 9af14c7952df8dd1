"""Topic configs: allowed values and sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.config import BrokerConfig, TopicConfig
from thinconsumer_testing.broker.topic_configs import (
    TOPIC_CONFIGS,
    ConfigSource,
    describe_topic_configs,
    validate_topic_configs,
)

ACCEPTED = {
    "cleanup.policy": ["compact , delete", ""],
    "retention.ms": ["-1"],
    "retention.bytes": [" 77 ", "+77"],
    "segment.bytes": ["1048576"],
    "internal.segment.bytes": ["100"],
    "unclean.leader.election.enable": ["TRUE"],
    "min.cleanable.dirty.ratio": ["0.7"],
    "compression.type": ["zstd"],
    "compression.gzip.level": ["-1"],
    "follower.replication.throttled.replicas": ["*", "0:1,1:2", ""],
    "enable.ordered.delivery": ["True"],  # not Kafka's
}
REJECTED = {
    "cleanup.policy": ["shred"],
    "retention.ms": ["-2", "", "1e3", "1_000", "99999999999999999999", "9" * 100_000],
    "max.message.bytes": ["2147483648"],
    "segment.bytes": ["1048575"],
    "unclean.leader.election.enable": ["1"],
    "min.cleanable.dirty.ratio": ["1.1", "nan", "much"],
    "compression.type": ["brotli"],
    "compression.gzip.level": ["0"],
    "follower.replication.throttled.replicas": ["x"],
    "remote.storage.enable": ["true"],
    "enable.ordered.delivery": ["yes"],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_values_match_kafka(name):
    for value in ACCEPTED[name]:
        validate_topic_configs({name: value})


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_values_match_kafka(name):
    for value in REJECTED[name]:
        with pytest.raises(IllegalArgumentError, match=name.replace(".", r"\.")):
            validate_topic_configs({name: value})


def test_unknown_names_are_rejected():
    with pytest.raises(IllegalArgumentError, match="Unknown topic config name: message.format.version"):
        validate_topic_configs({"message.format.version": "3.0"})


def test_min_compaction_lag_above_max_is_rejected():
    validate_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(IllegalArgumentError, match="above"):
        validate_topic_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_topic_value_precedes_its_synonyms():
    entries = {
        entry.setting.name: entry for entry in describe_topic_configs({"cleanup.policy": "compact"}, BrokerConfig())
    }
    own = entries["cleanup.policy"]
    assert (own.value, own.source) == ("compact", ConfigSource.TOPIC)
    assert own.synonyms == (
        ("cleanup.policy", "compact", ConfigSource.TOPIC),
        ("log.cleanup.policy", "delete", ConfigSource.DEFAULT),
    )
    assert entries["segment.ms"].source == ConfigSource.DEFAULT
    assert entries["segment.ms"].synonyms == ()
    assert "internal.segment.bytes" not in entries
    described = describe_topic_configs({"internal.segment.bytes": "100"}, BrokerConfig(message_max_bytes=5000))
    entries = {entry.setting.name: entry for entry in described}
    assert "internal.segment.bytes" in entries
    assert list(entries) == sorted(entries)
    assert (entries["max.message.bytes"].value, entries["max.message.bytes"].source) == ("5000", ConfigSource.STATIC)
    # With eligible leader replicas Kafka keeps this config as a cluster-wide default.
    assert entries["min.insync.replicas"].source == ConfigSource.DYNAMIC_DEFAULT


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=20))
def test_any_input_raises_typed_errors_only(name, value):
    try:
        validate_topic_configs({name: value})
    except IllegalArgumentError:
        return
    # Any accepted config must be usable by a log.
    TopicConfig.parse({name: value})


def test_ordered_delivery_is_shown_only_where_it_is_set():
    """Kafka has no such config, and clients list the configs of a topic."""
    name = "enable.ordered.delivery"
    assert name not in {entry.setting.name for entry in describe_topic_configs({}, BrokerConfig())}
    (entry,) = [one for one in describe_topic_configs({name: "true"}, BrokerConfig()) if one.setting.name == name]
    assert (entry.value, entry.source) == ("true", ConfigSource.TOPIC)
    assert TopicConfig.parse({name: "TRUE"}).ordered_delivery
    assert not TopicConfig.parse({}).ordered_delivery
