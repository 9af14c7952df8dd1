"""From what the user wrote to a config: names, suggestions, all problems at once, warnings at the user's line."""

from __future__ import annotations

import pickle
import warnings

import pytest

from thinconsumer.config import ConsumerConfig, HostPort, dotted
from thinconsumer.errors import KafkaConfigurationError


def error_of(build, *args, **options):
    with pytest.raises(KafkaConfigurationError) as caught:
        build(*args, **options)
    return str(caught.value)


def test_an_unknown_option_is_an_error_with_the_nearest_name():
    assert error_of(ConsumerConfig.from_options, fetch_max_byte=1) == (
        "unknown option 'fetch_max_byte'; did you mean 'fetch_max_bytes'?"
    )
    assert error_of(ConsumerConfig.from_config, {"fetch.max.byte": 1}) == (
        "unknown option 'fetch.max.byte'; did you mean 'fetch.max.bytes'?"
    )
    assert error_of(ConsumerConfig.from_options, xyzzy=1) == "unknown option 'xyzzy'"


def test_the_other_spelling_is_an_error_that_tells_the_right_one():
    assert error_of(ConsumerConfig.from_options, **{"group.id": "g"}) == (
        "unknown option 'group.id'; did you mean 'group_id'? (dotted names go to from_config)"
    )
    assert error_of(ConsumerConfig.from_options, **{"grup.id": "g"}) == (
        "unknown option 'grup.id'; did you mean 'group_id'? (dotted names go to from_config)"
    )
    assert error_of(ConsumerConfig.from_config, {"group_id": "g"}) == (
        "unknown option 'group_id'; did you mean 'group.id'?"
    )


def test_everything_wrong_is_said_at_once():
    message = error_of(
        ConsumerConfig.from_options,
        max_poll_records=True,
        auto_offset_reset="earlest",
        ssl_cafile="ca.pem",
        grup_id="g",
        bootstrap_servers="host:x",
    )
    first, *rest = message.splitlines()
    assert first == "5 options are wrong:"
    assert [line.split(":")[0].split(" is ")[0] for line in rest] == [
        "  - max_poll_records=True",
        "  - auto_offset_reset='earlest'",
        "  - ssl_cafile",
        "  - unknown option 'grup_id'; did you mean 'group_id'?",
        "  - bootstrap_servers='host",
    ]


def test_rules_are_not_judged_while_values_are_unreadable():
    """The default that stands in for the unreadable value would be blamed."""
    message = error_of(ConsumerConfig.from_options, session_timeout_ms="60000", heartbeat_interval_ms=50000)
    assert message == "session_timeout_ms='60000': must be a whole number, not str"


def test_text_is_for_dotted_names_only():
    assert ConsumerConfig.from_config({"max.poll.records": "7"}).max_poll_records == 7
    assert ConsumerConfig.from_config({"max.poll.records": 7}).max_poll_records == 7
    assert "must be a whole number" in error_of(ConsumerConfig.from_options, max_poll_records="7")


def test_none_stands_only_for_options_whose_default_it_is():
    assert ConsumerConfig.from_options(group_id=None, value_deserializer=None) == ConsumerConfig()
    assert error_of(ConsumerConfig.from_options, client_id=None) == "client_id=None: must be a str, not NoneType"


@pytest.mark.parametrize("given", [None, [("group.id", "g")], {1: 2}])
def test_what_is_no_mapping_of_names_is_refused(given):
    assert "must be a mapping" in error_of(ConsumerConfig.from_config, given)


def test_an_option_called_cls_or_self_is_unknown_and_not_a_type_error():
    assert "unknown option 'cls'" in error_of(ConsumerConfig.from_options, cls=1)


def test_pain_E9_the_new_group_protocol_is_refused_with_a_clear_sentence():
    assert error_of(ConsumerConfig.from_options, group_id="g", group_protocol="consumer") == (
        "group_protocol='consumer': refused: the new group protocol (KIP-848) is not supported yet; "
        "leave it out or write 'classic'"
    )


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "ssl"])
def test_a_security_protocol_we_lack_is_refused_and_never_ignored(protocol):
    message = error_of(ConsumerConfig.from_options, security_protocol=protocol)
    assert message.startswith(f"security_protocol={protocol!r}: refused: ")
    assert "not supported yet" in message


def test_pain_H2_a_wrong_server_is_named():
    message = error_of(ConsumerConfig.from_options, bootstrap_servers=["good:9092", "bad:port"])
    assert "'bad:port': the port must be a number from 1 to 65535" in message


def test_warnings_point_to_the_line_that_built_the_config():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_options(api_version=(2, 8))
        ConsumerConfig.from_config({"api.version": "2.8"})
    assert [warning.filename for warning in caught] == [__file__, __file__]


def test_nothing_is_warned_about_when_the_config_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error_of(ConsumerConfig.from_options, api_version=(2, 8), xyzzy=1)


def test_the_config_survives_pickling_and_cannot_be_changed():
    config = ConsumerConfig.from_options(bootstrap_servers="a,b:1", value_deserializer=len)
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.bootstrap_servers == (HostPort("a", 9092), HostPort("b", 1))
    with pytest.raises(AttributeError):
        config.group_id = "g"
    with pytest.raises((AttributeError, TypeError)):
        config.grup_id = "g"


def test_dotted_names():
    assert dotted("fetch_max_wait_ms") == "fetch.max.wait.ms"
