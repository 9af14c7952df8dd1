"""Every topic config: its type, its allowed values, and the broker config that its default comes from.

Owns the names and rules of Kafka's ``LogConfig`` and ``ServerTopicConfigSynonyms``, and how a config is described with
its sources (KIP-226). The effect of configs on a log is in ``config`` and ``log``. Most configs have no effect here;
they are accepted because programs that create topics with them expect the validation of real brokers.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.errors import IllegalArgumentError

if TYPE_CHECKING:
    from .config import BrokerConfig


class ConfigType(enum.IntEnum):
    """Config types, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(enum.IntEnum):
    """Where a config value comes from, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_DEFAULT = 3  #: The cluster-wide dynamic default, kept in the metadata log.
    STATIC = 4  #: Set in a broker's properties file.
    DEFAULT = 5


class ConfigKey(NamedTuple):
    """One topic config.

    ``broker_name`` is the broker config from which a topic takes the value if it does not set its own, "" for none.
    ``default`` is Kafka's default of the topic config, ``broker_default`` that of the broker config, "" if it is the
    same. ``minimum`` and ``maximum`` bound numbers. ``allowed_values`` are those of a string, or of each element of a
    list. ``check`` returns the error in the elements of a list, or None. ``is_public`` is False for internal configs
    that DescribeConfigs returns only if the topic sets them.
    """

    name: str
    kind: ConfigType
    default: str
    broker_name: str = ""
    broker_default: str = ""
    minimum: float | None = None
    maximum: float | None = None
    allowed_values: tuple[str, ...] = ()
    check: Callable[[list[str]], str | None] | None = None
    is_public: bool = True


class ConfigSynonym(NamedTuple):
    """One of the values that a config has at its sources, as DescribeConfigs lists them (KIP-226). ``name`` is the
    config's name at this source: a broker config may have another name than the topic config.
    """

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A config as DescribeConfigs shows it; ``synonyms`` has the values of all sources, highest precedence first."""

    setting: ConfigKey
    value: str
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]


_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_BITS = {ConfigType.INT: 31, ConfigType.LONG: 63}
_LONG_MAX = str(2**63 - 1)
_REPLICA = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled(replicas: list[str]) -> str | None:
    if not replicas or replicas[0].strip() == "*" or all(_REPLICA.fullmatch(one) for one in replicas):
        return None
    return "must be '*' or a list of partition:broker"


_CONFIG_KEYS = (
    ConfigKey("cleanup.policy", ConfigType.LIST, "delete", "log.cleanup.policy", allowed_values=("compact", "delete")),
    ConfigKey("compression.gzip.level", ConfigType.INT, "-1", "compression.gzip.level", minimum=-1, maximum=9),
    ConfigKey("compression.lz4.level", ConfigType.INT, "9", "compression.lz4.level", minimum=1, maximum=17),
    ConfigKey(
        "compression.type", ConfigType.STRING, "producer", "compression.type",
        allowed_values=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey("compression.zstd.level", ConfigType.INT, "3", "compression.zstd.level", minimum=-131072, maximum=22),
    ConfigKey("delete.retention.ms", ConfigType.LONG, "86400000", "log.cleaner.delete.retention.ms", minimum=0),
    # Real brokers have no such config (KIP-253), so DescribeConfigs shows it only for topics that set it.
    ConfigKey("enable.ordered.delivery", ConfigType.BOOLEAN, "false", is_public=False),
    ConfigKey("file.delete.delay.ms", ConfigType.LONG, "60000", "log.segment.delete.delay.ms", minimum=0),
    ConfigKey("flush.messages", ConfigType.LONG, _LONG_MAX, "log.flush.interval.messages", minimum=1),
    ConfigKey("flush.ms", ConfigType.LONG, _LONG_MAX, minimum=0),
    ConfigKey("follower.replication.throttled.replicas", ConfigType.LIST, "", check=_throttled),
    ConfigKey("index.interval.bytes", ConfigType.INT, "4096", "log.index.interval.bytes", minimum=0),
    ConfigKey("internal.segment.bytes", ConfigType.INT, "", minimum=14, is_public=False),
    ConfigKey("leader.replication.throttled.replicas", ConfigType.LIST, "", check=_throttled),
    ConfigKey("local.retention.bytes", ConfigType.LONG, "-2", "log.local.retention.bytes", minimum=-2),
    ConfigKey("local.retention.ms", ConfigType.LONG, "-2", "log.local.retention.ms", minimum=-2),
    ConfigKey("max.compaction.lag.ms", ConfigType.LONG, _LONG_MAX, "log.cleaner.max.compaction.lag.ms", minimum=1),
    ConfigKey("max.message.bytes", ConfigType.INT, "1048588", "message.max.bytes", minimum=0),
    ConfigKey(
        "message.timestamp.after.max.ms", ConfigType.LONG, "3600000", "log.message.timestamp.after.max.ms", minimum=0,
    ),
    ConfigKey(
        "message.timestamp.before.max.ms", ConfigType.LONG, _LONG_MAX, "log.message.timestamp.before.max.ms", minimum=0,
    ),
    ConfigKey(
        "message.timestamp.type", ConfigType.STRING, "CreateTime", "log.message.timestamp.type",
        allowed_values=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", minimum=0, maximum=1,
    ),
    ConfigKey("min.compaction.lag.ms", ConfigType.LONG, "0", "log.cleaner.min.compaction.lag.ms", minimum=0),
    ConfigKey("min.insync.replicas", ConfigType.INT, "1", "min.insync.replicas", minimum=1),
    ConfigKey("preallocate", ConfigType.BOOLEAN, "false", "log.preallocate"),
    ConfigKey("remote.log.copy.disable", ConfigType.BOOLEAN, "false"),
    ConfigKey("remote.log.delete.on.disable", ConfigType.BOOLEAN, "false"),
    ConfigKey("remote.storage.enable", ConfigType.BOOLEAN, "false"),
    ConfigKey("retention.bytes", ConfigType.LONG, "-1", "log.retention.bytes"),
    ConfigKey("retention.ms", ConfigType.LONG, "604800000", "log.retention.hours", "168", minimum=-1),
    ConfigKey("segment.bytes", ConfigType.INT, "1073741824", "log.segment.bytes", minimum=1 << 20),
    ConfigKey("segment.index.bytes", ConfigType.INT, "10485760", "log.index.size.max.bytes", minimum=4),
    ConfigKey("segment.jitter.ms", ConfigType.LONG, "0", minimum=0),
    ConfigKey("segment.ms", ConfigType.LONG, "604800000", minimum=1),
    ConfigKey("unclean.leader.election.enable", ConfigType.BOOLEAN, "false", "unclean.leader.election.enable"),
)  # fmt: skip

#: All topic configs by name, in alphabetical order.
TOPIC_CONFIGS: Mapping[str, ConfigKey] = {row.name: row for row in _CONFIG_KEYS}


def validate_topic_configs(configs: Mapping[str, str]) -> None:
    """Validate a new topic's configs as brokers do; raise IllegalArgumentError with the message for the client."""
    for name, value in configs.items():
        check_topic_config(name, value, TOPIC_CONFIGS.get(name))
    if configs.get("remote.storage.enable", "").lower() == "true":
        raise IllegalArgumentError("This broker has no tiered storage: remote.storage.enable cannot be true.")
    lag_names = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    lags = [int(configs.get(name, TOPIC_CONFIGS[name].default)) for name in lag_names]
    if lags[0] > lags[1]:
        raise IllegalArgumentError(f"min.compaction.lag.ms ({lags[0]}) is above max.compaction.lag.ms ({lags[1]})")


def check_topic_config(name: str, value: str, setting: ConfigKey | None) -> None:
    """Raise IllegalArgumentError if ``setting`` is None (an unknown config), or if the value breaks its rules."""
    if setting is None:
        raise IllegalArgumentError(f"Unknown topic config name: {name}")
    wrong = _value_error(setting, value.strip())
    if wrong is not None:
        raise IllegalArgumentError(f"Invalid value {value} for configuration {name}: {wrong}")


def parse_list(value: str) -> list[str]:
    return [word.strip() for word in value.split(",")] if value.strip() else []


def describe_topic_configs(configs: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """Return a topic's configs with their sources, in alphabetical order: public ones, and others that are set."""
    return [
        _entry(setting, configs, broker) for setting in _CONFIG_KEYS if setting.is_public or setting.name in configs
    ]


def _entry(setting: ConfigKey, configs: Mapping[str, str], broker: BrokerConfig) -> ConfigEntry:
    name = setting.name
    found = [ConfigSynonym(name, configs[name], ConfigSource.TOPIC)] if name in configs else []
    if setting.broker_name:
        broker_name, default = setting.broker_name, setting.broker_default or setting.default
        value = getattr(broker, broker_name.replace(".", "_"), default)
        own = str(value).lower() if isinstance(value, bool) else str(value)
        if name == "min.insync.replicas":
            # In Kafka with eligible leader replicas (KIP-966), the controller stores min.insync.replicas as a
            # cluster-wide dynamic default, so DescribeConfigs also shows this source.
            found.append(ConfigSynonym(broker_name, own, ConfigSource.DYNAMIC_DEFAULT))
        if own != default:
            found.append(ConfigSynonym(broker_name, own, ConfigSource.STATIC))
        found.append(ConfigSynonym(broker_name, default, ConfigSource.DEFAULT))
    if name in configs or (found and found[0].source != ConfigSource.DEFAULT):
        return ConfigEntry(setting, found[0].value, found[0].source, tuple(found))
    return ConfigEntry(setting, setting.default, ConfigSource.DEFAULT, tuple(found))


def _value_error(setting: ConfigKey, value: str) -> str | None:
    if setting.kind in (ConfigType.INT, ConfigType.LONG):
        return _integer_error(setting, value)
    if setting.kind is ConfigType.BOOLEAN:
        return None if value.lower() in ("true", "false") else "Expected value to be either true or false"
    if setting.kind is ConfigType.DOUBLE:
        try:
            return _bounds_error(setting, float(value))
        except ValueError:
            return "Not a number of type DOUBLE"
    allowed_values = [value] if setting.kind is ConfigType.STRING else parse_list(value)
    if setting.allowed_values and not set(allowed_values) <= set(setting.allowed_values):
        return f"String must be one of: {', '.join(setting.allowed_values)}"
    return setting.check(allowed_values) if setting.check else None


def _integer_error(setting: ConfigKey, value: str) -> str | None:
    if not _INT.fullmatch(value) or len(value) > len(_LONG_MAX) + 1:
        return f"Not a number of type {setting.kind.name}"
    number, limit = int(value), 1 << _BITS[setting.kind]
    if not -limit <= number < limit:
        return f"Not a number of type {setting.kind.name}"
    if setting.name == "compression.gzip.level" and number == 0:
        return "Value must be between 1 and 9 or equal to -1"
    return _bounds_error(setting, number)


def _bounds_error(setting: ConfigKey, number: float) -> str | None:
    if setting.minimum is not None and not number >= setting.minimum:
        return f"Value must be at least {setting.minimum}"
    if setting.maximum is not None and number > setting.maximum:
        return f"Value must be no more than {setting.maximum}"
    return None
