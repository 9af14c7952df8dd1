"""The options of the small clients: the consumer's own declarations, rules and hints."""

import pytest

from thinconsumer.config import OPTIONS, ClientOptions
from thinconsumer.errors import KafkaConfigurationError


def test_each_option_is_the_consumers():
    for name, option in ClientOptions.options().items():
        assert option is OPTIONS[name]
        assert getattr(ClientOptions.from_options(), name) == option.default


@pytest.mark.parametrize("name", ["group_id", "fetch_min_bytes", "auto_offset_reset", "resolver"])
def test_what_only_a_consumer_has_is_unknown_here(name):
    with pytest.raises(KafkaConfigurationError, match=f"unknown option '{name}'"):
        ClientOptions.from_options(**{name: OPTIONS[name].default})


def test_rules_hold_and_those_about_reading_do_not_meddle():
    assert ClientOptions.from_options(request_timeout_ms=300).request_timeout_ms == 300
    assert ClientOptions.from_options(receive_message_max_bytes=2000).receive_message_max_bytes == 2000
    with pytest.raises(KafkaConfigurationError, match="connections_max_idle_ms"):
        ClientOptions.from_options(request_timeout_ms=5000, connections_max_idle_ms=4000)
    assert ClientOptions.from_options(retry_backoff_ms=5000).retry_backoff_max_ms == 5000
    with pytest.raises(KafkaConfigurationError, match="the first grows up to the second"):
        ClientOptions.from_options(retry_backoff_ms=10, retry_backoff_max_ms=5)


def test_dotted_names_and_text():
    options = ClientOptions.from_config({"bootstrap.servers": "a:1,b:2", "request.timeout.ms": "777"})
    assert options.bootstrap_servers == (("a", 1), ("b", 2))
    assert options.request_timeout_ms == 777
    with pytest.raises(KafkaConfigurationError, match=r"did you mean 'client\.id'"):
        ClientOptions.from_config({"client.ids": "x"})
