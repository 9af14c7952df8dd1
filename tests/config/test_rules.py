"""Rules between options, and defaults that depend on other options."""

import warnings

import pytest

from thinconsumer.config import ConfigurationWarning, ConsumerConfig
from thinconsumer.config.rules import BELOW, CLASSIC_ONLY, INITIAL_AND_MAXIMUM, NOT_ABOVE
from thinconsumer.errors import KafkaConfigurationError


def login_for(pair):
    """Return the options without which a pair of options has no effect, and causes a warning."""
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"} if pair[0].startswith("sasl_") else {}


#: For each rule: options that just satisfy it, and a change that breaks it.
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
    ("fetch_min_bytes", "fetch_max_bytes"): ({"fetch_min_bytes": 10, "fetch_max_bytes": 10}, {"fetch_min_bytes": 11}),
    ("fetch_min_bytes", "max_buffered_bytes"): (
        {"fetch_min_bytes": 70000, "max_buffered_bytes": 70000},
        {"fetch_min_bytes": 70001},
    ),
    **{pair: ({**login_for(pair), pair[0]: 20, pair[1]: 20}, {pair[0]: 21}) for pair in INITIAL_AND_MAXIMUM},
    ("receive_message_max_bytes", "fetch_max_bytes"): (
        {"receive_message_max_bytes": 3000, "fetch_max_bytes": 1000, "max_partition_fetch_bytes": 2000},
        {"receive_message_max_bytes": 2999},
    ),
    ("group_instance_id", "group_id"): ({"group_instance_id": "i", "group_id": "g"}, {"group_id": None}),
}


def test_every_rule_has_a_case():
    assert {*BELOW, *NOT_ABOVE} <= set(EDGES)


@pytest.mark.parametrize("pair", EDGES, ids="-".join)
def test_a_broken_rule_names_both_options(pair):
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


def test_one_error_names_all_broken_rules():
    with pytest.raises(KafkaConfigurationError) as caught:
        ConsumerConfig.from_options(heartbeat_interval_ms=50000, fetch_max_wait_ms=40000, group_instance_id="i")
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize(("first", "longest"), INITIAL_AND_MAXIMUM)
def test_the_default_of_a_backoff_pair_adapts_to_the_given_option(first, longest):
    """A program may set only one of the two options."""
    login = login_for((first, longest))
    config = ConsumerConfig.from_options(**login, **{first: 50000})
    assert (getattr(config, first), getattr(config, longest)) == (50000, 50000)
    config = ConsumerConfig.from_options(**login, **{longest: 7})
    assert (getattr(config, first), getattr(config, longest)) == (7, 7)
    config = ConsumerConfig.from_options(**login, **{first: 8})
    assert getattr(config, longest) == getattr(ConsumerConfig(), longest)


def test_the_response_limit_grows_with_the_fetch_limits_unless_it_was_given():
    """Otherwise a larger fetch_max_bytes alone would close connections at large responses."""
    grown = ConsumerConfig.from_options(fetch_max_bytes=200_000_000)
    assert grown.receive_message_max_bytes == 200_000_000 + 1048576
    assert ConsumerConfig.from_options(fetch_max_bytes=2**31 - 1).receive_message_max_bytes == 2**31 - 1
    assert ConsumerConfig.from_options(fetch_max_bytes=1000).receive_message_max_bytes == 100_000_000


def test_max_partition_fetch_bytes_replaces_the_default_of_batches_fetch_bytes():
    assert ConsumerConfig().batches_fetch_bytes == 4_000_000
    for given in (10_000, 10_000_000):
        assert ConsumerConfig.from_options(max_partition_fetch_bytes=given).batches_fetch_bytes == given
    both = ConsumerConfig.from_options(max_partition_fetch_bytes=10_000, batches_fetch_bytes=20_000)
    assert (both.max_partition_fetch_bytes, both.batches_fetch_bytes) == (10_000, 20_000)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 4 << 20),
        ({"max_partition_fetch_bytes": 1000}, 4 << 20),
        ({"max_partition_fetch_bytes": 6 << 20}, 24 << 20),
        ({"fetch_min_bytes": 8 << 20}, 32 << 20),
        ({"max_buffered_bytes": 1 << 20}, 1 << 20),
        ({"max_buffered_bytes": 256 << 20}, 256 << 20),
    ],
)
def test_four_responses_of_a_node_are_held_unless_max_buffered_bytes_says_otherwise(given, expected):
    assert ConsumerConfig.from_options(**given).node_bytes == expected


def warnings_of(**options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_options(**options)
    assert {warning.category for warning in caught} <= {ConfigurationWarning}
    return [str(warning.message) for warning in caught]


def test_a_poll_interval_above_the_session_timeout_warns_and_names_the_remedy():
    (message,) = warnings_of(group_id="g", max_poll_interval_ms=300000, session_timeout_ms=10000)
    assert "max_poll_interval_ms=300000 is above session_timeout_ms=10000" in message
    assert "10 s after" in message
    assert "raise session_timeout_ms to 300000" in message
    assert "Consumer.drive()" in message


def test_a_default_or_shorter_poll_interval_does_not_warn():
    assert warnings_of(group_id="g", session_timeout_ms=10000) == []
    assert warnings_of(group_id="g", session_timeout_ms=10000, max_poll_interval_ms=10000) == []


def test_group_options_without_a_group_cause_one_warning():
    (message,) = warnings_of(session_timeout_ms=10000, max_poll_interval_ms=300000, enable_auto_commit=True)
    assert message == (
        "without group_id, these options have no effect: session_timeout_ms, max_poll_interval_ms, enable_auto_commit"
    )


def test_group_options_that_are_switched_off_do_not_warn():
    assert warnings_of(enable_auto_commit=False, group_instance_id=None, group_id=None) == []


#: An option of the classic protocol, and the words of the error about it with ``group_protocol="consumer"``.
CLASSIC = {
    "session_timeout_ms": (45000, "the broker's group.consumer.session.timeout.ms applies"),
    "heartbeat_interval_ms": (3000, "the broker's group.consumer.heartbeat.interval.ms applies"),
    "partition_assignment_strategy": (("range", "cooperative-sticky"), "its assignor with group_remote_assignor"),
}


@pytest.mark.parametrize("name", CLASSIC_ONLY)
def test_options_of_the_classic_protocol_are_refused_with_the_other_one_even_if_they_have_the_default(name):
    value, instead = CLASSIC[name]
    given = {"group_id": "g", "group_protocol": "consumer", name: value}
    with pytest.raises(KafkaConfigurationError, match=rf"^{name} is an option of the classic protocol\. .*{instead}"):
        ConsumerConfig.from_options(**given)
    with pytest.raises(KafkaConfigurationError, match=rf"^{name.replace('_', '.')} is an option.*group.protocol="):
        ConsumerConfig.from_config({key.replace("_", "."): value for key, value in given.items()})


@pytest.mark.parametrize("name", CLASSIC_ONLY)
def test_options_of_the_classic_protocol_are_noted_for_the_automatic_choice(name):
    config = ConsumerConfig.from_options(group_id="g", group_protocol="auto", **{name: CLASSIC[name][0]})
    assert config.classic_options == (name,)
    assert ConsumerConfig.from_options(group_id="g", group_protocol="auto", client_id="c").classic_options == ()
    assert config == ConsumerConfig.from_options(group_id="g", group_protocol="auto")


def test_the_assignor_of_the_broker_needs_a_protocol_in_which_the_broker_assigns():
    options = {"group_id": "g", "group_remote_assignor": "range"}
    with pytest.raises(KafkaConfigurationError, match="^group_remote_assignor has no effect with group_protocol="):
        ConsumerConfig.from_options(**options)
    for protocol in ("consumer", "auto"):
        assert ConsumerConfig.from_options(**options, group_protocol=protocol).group_remote_assignor == "range"


def test_a_long_poll_interval_is_compared_with_the_session_of_the_broker():
    with pytest.warns(
        ConfigurationWarning, match=r"default of the broker's group\.consumer\.session\.timeout\.ms, 45000"
    ):
        ConsumerConfig.from_options(group_id="g", group_protocol="consumer", max_poll_interval_ms=60_000)
