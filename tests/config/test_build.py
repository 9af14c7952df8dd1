"""Building a config: names, suggestions, all problems in one error, and where warnings point to."""

import pickle
import warnings

import pytest

from thinconsumer.config import ConsumerConfig, HostPort
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


def test_the_spelling_of_the_other_constructor_raises_and_is_corrected():
    assert error_of(ConsumerConfig.from_options, **{"group.id": "g"}) == (
        "unknown option 'group.id'; did you mean 'group_id'? (dotted names go to from_config)"
    )
    assert error_of(ConsumerConfig.from_options, **{"grup.id": "g"}) == (
        "unknown option 'grup.id'; did you mean 'group_id'? (dotted names go to from_config)"
    )
    assert error_of(ConsumerConfig.from_config, {"group_id": "g"}) == (
        "unknown option 'group_id'; did you mean 'group.id'?"
    )


def test_one_error_names_all_problems():
    message = error_of(
        ConsumerConfig.from_options,
        max_poll_records=True,
        auto_offset_reset="earlest",
        ssl_cafile="/no/such/ca.pem",
        grup_id="g",
        bootstrap_servers="host:x",
    )
    first, *rest = message.splitlines()
    assert first == "5 options are wrong:"
    assert [line.split(":")[0].split(" is ")[0] for line in rest] == [
        "  - max_poll_records=True",
        "  - auto_offset_reset='earlest'",
        "  - ssl_cafile='/no/such/ca.pem'",
        "  - unknown option 'grup_id'; did you mean 'group_id'?",
        "  - bootstrap_servers='host",
    ]


def test_rules_are_checked_only_if_all_values_are_valid():
    """Otherwise the error would name the default of the invalid option."""
    message = error_of(ConsumerConfig.from_options, session_timeout_ms="60000", heartbeat_interval_ms=50000)
    assert message == "session_timeout_ms='60000': must be a whole number, not str"


def test_only_from_config_takes_text():
    assert ConsumerConfig.from_config({"max.poll.records": "7"}).max_poll_records == 7
    assert ConsumerConfig.from_config({"max.poll.records": 7}).max_poll_records == 7
    assert "must be a whole number" in error_of(ConsumerConfig.from_options, max_poll_records="7")


def test_none_is_valid_only_where_it_is_the_default():
    assert ConsumerConfig.from_options(group_id=None, value_deserializer=None) == ConsumerConfig()
    assert error_of(ConsumerConfig.from_options, client_id=None) == "client_id=None: must be a str, not NoneType"


@pytest.mark.parametrize("given", [None, [("group.id", "g")], {1: 2}])
def test_from_config_requires_a_mapping_of_names(given):
    assert "must be a mapping" in error_of(ConsumerConfig.from_config, given)


def test_cls_is_an_unknown_option_and_no_type_error():
    assert "unknown option 'cls'" in error_of(ConsumerConfig.from_options, cls=1)


def test_warnings_point_to_the_line_that_built_the_config():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ConsumerConfig.from_options(api_version=(2, 8))
        ConsumerConfig.from_config({"api.version": "2.8"})
    assert [warning.filename for warning in caught] == [__file__, __file__]


def test_an_invalid_config_causes_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error_of(ConsumerConfig.from_options, api_version=(2, 8), xyzzy=1)


def test_a_config_can_be_pickled_and_is_immutable():
    config = ConsumerConfig.from_options(bootstrap_servers="a,b:1", value_deserializer=len)
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.bootstrap_servers == (HostPort("a", 9092), HostPort("b", 1))
    with pytest.raises(AttributeError):
        config.group_id = "g"
    with pytest.raises((AttributeError, TypeError)):
        config.grup_id = "g"


@pytest.mark.parametrize("value", [10**5000, -(10**5000), [10**5000]], ids=["above", "below", "in a list"])
def test_a_number_that_python_does_not_write_is_refused_in_words(value):
    with pytest.raises(KafkaConfigurationError, match="fetch.min.bytes=.*too many digits"):
        ConsumerConfig.from_config({"bootstrap.servers": "b:1", "fetch.min.bytes": value})
