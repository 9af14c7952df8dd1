"""Options of other clients: supported, accepted with one warning, or refused with a reason."""

import re
import warnings
from pathlib import Path

import pytest

from tests.pages import load
from thinconsumer.config import OPTIONS, UNSUPPORTED, ConfigurationWarning, ConsumerConfig
from thinconsumer.config.unsupported import OLDER_NAMES, find_unsupported
from thinconsumer.errors import KafkaConfigurationError

TABLES = ("Other defaults", "Accepted with one warning", "Refused")

#: Values that are not harmless, for options that check the type.
ASKS = {"metrics_enabled": False, "api_version": (2, 8), "metrics_num_samples": 3}
ASKS_ANYTHING = "c4nary"


def rows(docs, heading):
    """Return the option names in the table under this heading of docs/migrating.md."""
    page = (docs / "migrating.md").read_text(encoding="utf-8")
    section = page.split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def outcome(name, default):
    """Return the table that the option's effect belongs to, or "same"."""
    name = OLDER_NAMES.get(name, name)
    if name not in OPTIONS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                ConsumerConfig.from_options(**{name: ASKS.get(name, ASKS_ANYTHING)})
            except KafkaConfigurationError as error:
                assert f"{name} is refused: " in str(error)
                return "Refused"
        assert [warning.category for warning in caught] == [ConfigurationWarning]
        assert str(caught[0].message).startswith(f"{name} has no effect: ")
        return "Accepted with one warning"
    try:
        with warnings.catch_warnings():
            if name == "max_poll_interval_ms":  # above the session timeout it warns
                warnings.simplefilter("ignore")
            config = ConsumerConfig.from_options(**{"group_id": "g", name: default})
    except KafkaConfigurationError:
        return "Other defaults"
    return "same" if getattr(config, name) == OPTIONS[name].default else "Other defaults"


def test_every_option_of_kafka_python_has_the_same_default_or_is_listed_in_migrating(docs, kafka_python):
    """The tables of docs/migrating.md list exactly the options with another effect."""
    happened = {table: [] for table in (*TABLES, "same")}
    for name, default in kafka_python.DEFAULT_CONFIG.items():
        happened[outcome(name, default)].append(name)
    for table in TABLES:
        assert sorted(rows(docs, table)) == sorted(happened[table]), table


def test_kafka_pythons_defaults_of_unsupported_options_cause_no_warning(kafka_python):
    """Programs that spell out every default keep working."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, default in kafka_python.DEFAULT_CONFIG.items():
            if name not in OPTIONS and name != "kafka_client":
                assert ConsumerConfig.from_options(**{name: default}) == ConsumerConfig()


def test_options_without_another_origin_have_javas_names():
    lines = (Path(__file__).parent / "java-4.4.0.tsv").read_text(encoding="utf-8").splitlines()
    elsewhere = {name for names in load("generate_options").ORIGINS.values() for name in names}
    ours = {name.replace("_", ".") for name in OPTIONS if name not in elsewhere}
    assert ours <= {line.split("\t")[0] for line in lines}


@pytest.mark.parametrize(
    ("name", "near"), [("ssl.truststore.locations", "ssl.truststore.location"), ("sasl.mechansim", "sasl.mechanism")]
)
def test_a_misspelt_security_option_raises(name, near):
    """Otherwise the client would connect without the security that was asked for."""
    with pytest.raises(KafkaConfigurationError, match=re.escape(f"unknown option {name!r}; did you mean {near!r}?")):
        ConsumerConfig.from_config({name: "c4nary"})


@pytest.mark.parametrize("name", ["ssl.engine.location", "share.acknowledgement.mode"])
def test_families_of_unsupported_options_are_refused(name):
    with pytest.raises(KafkaConfigurationError, match=f"^{re.escape(name)} is refused: ") as caught:
        ConsumerConfig.from_config({name: "c4nary"})
    assert "c4nary" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_harmless_values_of_unsupported_options_are_accepted(name):
    assert name not in OPTIONS
    row = UNSUPPORTED[name]
    assert find_unsupported(name) is row
    for value in row.harmless:
        assert row.is_harmless(value)
    assert not row.is_harmless(object())


def test_harmless_values_are_accepted_as_text_but_not_the_word_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConsumerConfig.from_config({"enable.metrics.push": "False", "metrics.recording.level": "info"})
    with pytest.raises(KafkaConfigurationError, match="https.ca.location is refused"):
        ConsumerConfig.from_config({"https.ca.location": "none"})


def test_1_is_not_harmless_where_true_is():
    with pytest.warns(ConfigurationWarning, match="metrics_enabled has no effect"):
        ConsumerConfig.from_options(metrics_enabled=1)


SECRETS = (
    "sasl_plain_password", "sasl_plain_pasword", "sasl_oauth_token_provider", "sasl_jaas_config",
    "ssl_password", "ssl_key_password", "ssl_keystore_pasword", "proxy_url", "socks5_proxy", "pasword", "api_version",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_errors_and_warnings_show_no_secret(name):
    for build in (
        lambda: ConsumerConfig.from_options(**{name: "c4nary"}),
        lambda: ConsumerConfig.from_config({name.replace("_", "."): "c4nary"}),
        lambda: ConsumerConfig.from_config({name: "c4nary"}),
        lambda: ConsumerConfig.from_options(**{name.replace("_", "."): "c4nary"}),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                said = repr(build())
            except KafkaConfigurationError as error:
                said = f"{error} {error!r} {error.__cause__} {error.__context__}"
        assert "c4nary" not in said + "".join(str(warning.message) for warning in caught)
