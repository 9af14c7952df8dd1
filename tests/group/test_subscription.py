"""The user's subscription: topics, a pattern or manually assigned partitions, never two of them."""

import random
import re

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.group.listener import RebalanceListener
from thinconsumer.group.subscription import Mode, SubscribedTopics, UserSubscription
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import PartitionInfo, SubscriptionPattern


def topic(name, partitions=1, internal=False):
    found = TopicMetadata(name)
    found.internal = internal
    found.partitions = {n: PartitionInfo(name, n, 1, 0, (1,), (1,), ()) for n in range(partitions)}
    return found


KNOWN = {
    name: topic(name, internal=name.startswith("_"))
    for name in ("orders", "orders-eu", "my-orders", "__consumer_offsets")
}


def subscribed(subscription, internal=False, known=KNOWN):
    metadata = Metadata(ConsumerConfig(), random.Random(1), Agenda())
    metadata.topics = known
    return SubscribedTopics(subscription, metadata, internal=internal)


def test_subscribed_topics_need_not_exist():
    subscription = UserSubscription()
    subscription.subscribe(["orders", "later", "orders"], None, None)
    assert subscribed(subscription).names() == {"orders", "later"}
    assert subscription.mode is Mode.TOPICS and subscription.is_subscribed


@pytest.mark.parametrize(
    ("pattern", "internal", "wanted"),
    [
        ("orders", False, {"orders"}),
        ("orders.*", False, {"orders", "orders-eu"}),
        (".*orders", False, {"orders", "my-orders"}),
        (re.compile("ORDERS", re.IGNORECASE), False, {"orders"}),
        (".*", False, {"orders", "orders-eu", "my-orders"}),
        (".*", True, set(KNOWN)),
        ("nothing", False, set()),
    ],
)
def test_a_pattern_matches_whole_names_as_in_java(pattern, internal, wanted):
    subscription = UserSubscription()
    subscription.subscribe((), pattern, None)
    assert subscribed(subscription, internal).names() == wanted


@pytest.mark.parametrize(
    ("exclude", "wanted"),
    [
        (".*-eu", {"orders", "my-orders"}),
        ("eu", {"orders", "orders-eu", "my-orders"}),
        (re.compile("ORDERS|MY-.*", re.IGNORECASE), {"orders-eu"}),
        (".*", set()),
    ],
)
def test_excluded_topics_are_those_whose_whole_name_matches(exclude, wanted):
    subscription = UserSubscription()
    subscription.subscribe((), ".*", None, exclude)
    assert subscribed(subscription).names() == wanted
    assert {name for name in KNOWN if subscribed(subscription).may_have(name)} == wanted
    subscription.subscribe((), ".*", None)
    assert subscribed(subscription).names() == {"orders", "orders-eu", "my-orders"}
    subscription.subscribe((), ".*", None, exclude)
    subscription.clear()
    subscription.subscribe(["orders-eu"], None, None)
    assert subscribed(subscription).names() == {"orders-eu"}


@pytest.mark.parametrize(
    ("topics", "pattern", "exclude", "reason"),
    [
        (["orders"], None, "o.*", "needs a pattern"),
        ((), SubscriptionPattern("orders.*"), ".*-eu", "RE2 has no negative lookahead"),
        ((), "orders.*", SubscriptionPattern(".*-eu"), "RE2 has no negative lookahead"),
        ((), "orders.*", "(", "no regular expression"),
        ((), "orders.*", 7, "no regular expression"),
        ((), "orders.*", b"x", "matches bytes"),
        ((), b"orders.*", None, "matches bytes"),
        ((), re.compile(b"orders.*"), None, "matches bytes"),
    ],
)
def test_an_exclusion_that_cannot_be_applied_raises_at_once(topics, pattern, exclude, reason):
    subscription = UserSubscription()
    with pytest.raises(IllegalArgumentError, match=reason):
        subscription.subscribe(topics, pattern, None, exclude)
    assert subscription.mode is Mode.NONE and subscription.version == 0


def test_a_deleted_topic_matches_no_pattern():
    subscription = UserSubscription()
    subscription.subscribe((), ".*", None)
    assert subscribed(subscription, known={"orders": TopicMetadata("orders")}).names() == set()


@pytest.mark.parametrize(
    ("topics", "pattern"),
    [
        ([], None),
        (["a"], "a"),
        ("orders", None),
        (["a b"], None),
        ([""], None),
        ([".."], None),
        ([7], None),
        (["x" * 250], None),
        ((), "("),
        ((), 7),
    ],
)
def test_illegal_subscriptions_raise_at_once(topics, pattern):
    subscription = UserSubscription()
    with pytest.raises(IllegalArgumentError):
        subscription.subscribe(topics, pattern, None)
    assert subscription.mode is Mode.NONE and subscription.version == 0


def test_a_listener_without_a_required_method_raises_at_once():
    with pytest.raises(IllegalArgumentError, match="on_partitions_revoked"):
        UserSubscription().subscribe(["a"], None, type("Half", (), {"on_partitions_assigned": print})())


def test_subscription_and_manual_assignment_do_not_mix():
    subscription = UserSubscription()
    subscription.subscribe(["a"], None, RebalanceListener())
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        subscription.assign()
    subscription.subscribe((), "b", None)
    assert (subscription.topics, subscription.listener) == (frozenset(), None)
    subscription.clear()
    subscription.assign()
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        subscription.subscribe(["a"], None, None)
    assert subscription.mode is Mode.MANUAL
    assert subscription.version == 4


def test_a_pattern_for_the_broker_is_kept_as_text_and_matched_by_nothing_here():
    subscription = UserSubscription()
    subscription.subscribe((), SubscriptionPattern("orders.*"), None)
    assert subscription.mode is Mode.BROKER_PATTERN and subscription.is_subscribed
    assert subscription.regex == "orders.*" and subscription.pattern is None
    assert subscribed(subscription, True).names() == set()
    subscription.subscribe(["orders"], None, None)
    assert subscription.regex is None and subscription.mode is Mode.TOPICS


@pytest.mark.parametrize("pattern", ["", None, 3, b"a", "a" * 32_768, "\ud800"])
def test_a_pattern_for_the_broker_has_to_fit_into_a_request(pattern):
    with pytest.raises(IllegalArgumentError):
        UserSubscription().subscribe((), SubscriptionPattern(pattern), None)


def test_topics_and_a_pattern_for_the_broker_exclude_each_other():
    with pytest.raises(IllegalArgumentError, match="not both"):
        UserSubscription().subscribe(["t"], SubscriptionPattern("t"), None)


def test_a_pattern_is_matched_again_when_a_topic_appears():
    metadata, subscription = Metadata(ConsumerConfig(), random.Random(1), Agenda()), UserSubscription()
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
