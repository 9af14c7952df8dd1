"""What options demand of each other."""

from __future__ import annotations

import warnings

import pytest

from thinconsumer.config import ConfigurationWarning, ConsumerConfig
from thinconsumer.config.rules import BELOW, GROWS_TO
from thinconsumer.errors import KafkaConfigurationError

#: For each rule: options that just obey it, and the one change that breaks it.
EDGES = {
    ("heartbeat_interval_ms", "session_timeout_ms"): (
        {"heartbeat_interval_ms": 5999, "session_timeout_ms": 6000, "group_id": "g"},
        {"heartbeat_interval_ms": 6000},
    ),
    ("fetch_max_wait_ms", "request_timeout_ms"): (
        {"fetch_max_wait_ms": 999, "request_timeout_ms": 1000},
        {"fetch_max_wait_ms": 1000},
    ),
    ("request_timeout_ms", "connections_max_idle_ms"): (
        {"request_timeout_ms": 999, "connections_max_idle_ms": 1000},
        {"request_timeout_ms": 1000},
    ),
    ("fetch_min_bytes", "fetch_max_bytes"): (
        {"fetch_min_bytes": 10, "fetch_max_bytes": 10},
        {"fetch_min_bytes": 11},
    ),
    ("fetch_min_bytes", "max_buffered_bytes"): (
        {"fetch_min_bytes": 70000, "max_buffered_bytes": 70000},
        {"fetch_min_bytes": 70001},
    ),
    **{pair: ({pair[0]: 20, pair[1]: 20}, {pair[0]: 21}) for pair in GROWS_TO},
    ("receive_message_max_bytes", "fetch_max_bytes"): (
        {"receive_message_max_bytes": 3000, "fetch_max_bytes": 1000, "max_partition_fetch_bytes": 2000},
        {"receive_message_max_bytes": 2999},
    ),
    ("group_instance_id", "group_id"): ({"group_instance_id": "i", "group_id": "g"}, {"group_id": None}),
}


def test_each_rule_has_its_edge_below():
    assert {(rule.smaller, rule.larger) for rule in BELOW} | set(GROWS_TO) <= set(EDGES)


@pytest.mark.parametrize("pair", EDGES, ids="-".join)
def test_a_rule_holds_up_to_its_edge_and_names_both_sides_beyond(pair):
    obeys, breaks = EDGES[pair]
    ConsumerConfig.from_options(**obeys)
    wrong = {**obeys, **breaks}
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_options(**wrong)
    assert "\n" not in str(caught.value)
    for name in pair:
        assert name in str(caught.value)
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_config({name.replace("_", "."): value for name, value in wrong.items()})
    for name in pair:
        assert name.replace("_", ".") in str(caught.value)


def test_pain_A5_a_heartbeat_as_long_as_the_session_is_refused_with_the_figures():
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_options(group_id="g", heartbeat_interval_ms=3000, session_timeout_ms=3000)
    assert str(caught.value).startswith(
        "heartbeat_interval_ms=3000 must be below session_timeout_ms=3000: the session "
    )


def test_all_broken_rules_are_said_at_once():
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_options(heartbeat_interval_ms=50000, fetch_max_wait_ms=40000, group_instance_id="i")
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize(("first", "longest"), GROWS_TO)
def test_the_wait_that_was_not_given_gives_way(first, longest):
    """Programs know one of the two knobs; Java and kafka-python set the other as well."""
    config = ConsumerConfig.from_options(**{first: 50000})
    assert (getattr(config, first), getattr(config, longest)) == (50000, 50000)
    config = ConsumerConfig.from_options(**{longest: 7})
    assert (getattr(config, first), getattr(config, longest)) == (7, 7)
    config = ConsumerConfig.from_options(**{first: 8})
    assert getattr(config, longest) == getattr(ConsumerConfig(), longest)


def test_the_response_limit_grows_with_the_fetch_limits_unless_it_was_given():
    """As in kafka-python; otherwise a larger fetch_max_bytes alone would close every connection."""
    grown = ConsumerConfig.from_options(fetch_max_bytes=200_000_000)
    assert grown.receive_message_max_bytes == 200_000_000 + 1048576
    assert ConsumerConfig.from_options(fetch_max_bytes=2**31 - 1).receive_message_max_bytes == 2**31 - 1
    assert ConsumerConfig.from_options(fetch_max_bytes=1000).receive_message_max_bytes == 100_000_000


def test_what_one_partition_may_bring_counts_for_batches_too_if_that_is_all_that_was_said():
    assert ConsumerConfig().batches_fetch_bytes == 4_000_000
    for given in (10_000, 10_000_000):
        assert ConsumerConfig.from_options(max_partition_fetch_bytes=given).batches_fetch_bytes == given
    both = ConsumerConfig.from_options(max_partition_fetch_bytes=10_000, batches_fetch_bytes=20_000)
    assert (both.max_partition_fetch_bytes, both.batches_fetch_bytes) == (10_000, 20_000)


def warnings_of(**options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_options(**options)
    assert {warning.category for warning in caught} <= {ConfigurationWarning}
    return [str(warning.message) for warning in caught]


def test_a_poll_interval_above_the_session_warns_once_in_numbers_and_names_the_remedy():
    (message,) = warnings_of(group_id="g", max_poll_interval_ms=300000, session_timeout_ms=10000)
    assert "max_poll_interval_ms=300000 is above session_timeout_ms=10000" in message
    assert "10 s after" in message
    assert "raise session_timeout_ms to 300000" in message
    assert "Consumer.drive()" in message


def test_a_poll_interval_that_nobody_set_or_that_fits_does_not_warn():
    assert warnings_of(group_id="g", session_timeout_ms=10000) == []
    assert warnings_of(group_id="g", session_timeout_ms=10000, max_poll_interval_ms=10000) == []


def test_group_options_without_a_group_warn_once_together():
    (message,) = warnings_of(session_timeout_ms=10000, max_poll_interval_ms=300000, enable_auto_commit=True)
    assert message == (
        "without group_id there is no group: no effect of session_timeout_ms, max_poll_interval_ms, enable_auto_commit"
    )


def test_switching_a_group_option_off_without_a_group_is_fine():
    assert warnings_of(enable_auto_commit=False, group_instance_id=None, group_id=None) == []
