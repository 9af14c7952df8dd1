"""The names of a subscription are computed again only when metadata or the subscription has changed."""

import random

from thinconsumer.config import ConsumerConfig
from thinconsumer.group.subscribed_topics import SubscribedTopics
from thinconsumer.group.subscription import UserSubscription
from thinconsumer.metadata import Metadata, TopicMetadata
from thinconsumer.types import PartitionInfo


def test_a_pattern_is_matched_again_when_a_topic_appears():
    metadata, subscription = Metadata(ConsumerConfig(), random.Random(1)), UserSubscription()
    topics = SubscribedTopics(subscription, metadata, internal=False)
    subscription.subscribe((), "a.*", None)
    assert topics.names() == frozenset()
    found = {0: PartitionInfo("ab", 0, 1, 0, (), (), ())}
    metadata.topics["ab"] = TopicMetadata("ab", partitions=found)
    assert topics.names() == frozenset()  # the version of the metadata has not changed
    metadata.version += 1
    first = topics.names()
    assert first == {"ab"} and topics.names() is first
    subscription.subscribe(["x"], None, None)
    assert topics.names() == {"x"}
