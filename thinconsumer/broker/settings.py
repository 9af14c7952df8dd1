"""Every setting that a topic can have: its type, what values it may have, and where its default comes from.

Owns the names and rules of Kafka's ``LogConfig`` and ``ServerTopicConfigSynonyms``, and how a setting is shown to
clients with its sources (KIP-226). What the settings mean to a log is in ``config`` and ``log``; most mean nothing here
and are kept so that programs that create topics with them get what they get from real brokers.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import IllegalArgumentError

if TYPE_CHECKING:
    from .config import BrokerConfig


class Kind(enum.IntEnum):
    """Types of settings, numbered as DescribeConfigs does."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Source(enum.IntEnum):
    """Where a value comes from, numbered as DescribeConfigs does."""

    TOPIC = 1
    DYNAMIC_DEFAULT = 3  #: Set for all brokers, in the cluster's own log.
    STATIC = 4  #: Set in a broker's properties file.
    DEFAULT = 5


class Setting(NamedTuple):
    """One setting of a topic.

    ``brokers``: what it is called in a broker's properties, with the default there, the one that counts first.
    ``least``, ``most`` bound numbers. ``words`` are those that a string, or each of a list, may be. ``check`` returns
    what is wrong with a list that none of these can judge.
    """

    name: str
    kind: Kind
    default: str
    brokers: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    check: Callable[[list[str]], str | None] | None = None
    is_shown: bool = True


class Synonym(NamedTuple):
    """A value with its name at one of its sources."""

    name: str
    value: str
    source: Source


class Entry(NamedTuple):
    """A setting as clients are shown it; ``synonyms`` are all values it has, the one that counts first."""

    setting: Setting
    value: str
    source: Source
    synonyms: tuple[Synonym, ...]


_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_BITS = {Kind.INT: 31, Kind.LONG: 63}
_LONG_MAX = str(2**63 - 1)
_REPLICA = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled(replicas: list[str]) -> str | None:
    if not replicas or replicas[0].strip() == "*" or all(_REPLICA.fullmatch(one) for one in replicas):
        return None
    return "must be '*' or a list of partition:broker"


def _row(name: str, kind: Kind, default: str, broker: str = "", **rules: object) -> Setting:
    brokers = ((broker, default),) if broker else ()
    return Setting(name, kind, default, brokers, **rules)  # type: ignore[arg-type]


_ROWS = (
    _row("cleanup.policy", Kind.LIST, "delete", "log.cleanup.policy", words=("compact", "delete")),
    _row("compression.gzip.level", Kind.INT, "-1", "compression.gzip.level", least=-1, most=9),
    _row("compression.lz4.level", Kind.INT, "9", "compression.lz4.level", least=1, most=17),
    _row(
        "compression.type", Kind.STRING, "producer", "compression.type",
        words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _row("compression.zstd.level", Kind.INT, "3", "compression.zstd.level", least=-131072, most=22),
    _row("delete.retention.ms", Kind.LONG, "86400000", "log.cleaner.delete.retention.ms", least=0),
    _row("file.delete.delay.ms", Kind.LONG, "60000", "log.segment.delete.delay.ms", least=0),
    _row("flush.messages", Kind.LONG, _LONG_MAX, "log.flush.interval.messages", least=1),
    _row("flush.ms", Kind.LONG, _LONG_MAX, least=0),
    _row("follower.replication.throttled.replicas", Kind.LIST, "", check=_throttled),
    _row("index.interval.bytes", Kind.INT, "4096", "log.index.interval.bytes", least=0),
    _row("internal.segment.bytes", Kind.INT, "", least=14, is_shown=False),
    _row("leader.replication.throttled.replicas", Kind.LIST, "", check=_throttled),
    _row("local.retention.bytes", Kind.LONG, "-2", "log.local.retention.bytes", least=-2),
    _row("local.retention.ms", Kind.LONG, "-2", "log.local.retention.ms", least=-2),
    _row("max.compaction.lag.ms", Kind.LONG, _LONG_MAX, "log.cleaner.max.compaction.lag.ms", least=1),
    _row("max.message.bytes", Kind.INT, "1048588", "message.max.bytes", least=0),
    _row("message.timestamp.after.max.ms", Kind.LONG, "3600000", "log.message.timestamp.after.max.ms", least=0),
    _row("message.timestamp.before.max.ms", Kind.LONG, _LONG_MAX, "log.message.timestamp.before.max.ms", least=0),
    _row(
        "message.timestamp.type", Kind.STRING, "CreateTime", "log.message.timestamp.type",
        words=("CreateTime", "LogAppendTime"),
    ),
    _row("min.cleanable.dirty.ratio", Kind.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", least=0, most=1),
    _row("min.compaction.lag.ms", Kind.LONG, "0", "log.cleaner.min.compaction.lag.ms", least=0),
    _row("min.insync.replicas", Kind.INT, "1", "min.insync.replicas", least=1),
    _row("preallocate", Kind.BOOLEAN, "false", "log.preallocate"),
    _row("remote.log.copy.disable", Kind.BOOLEAN, "false"),
    _row("remote.log.delete.on.disable", Kind.BOOLEAN, "false"),
    _row("remote.storage.enable", Kind.BOOLEAN, "false"),
    _row("retention.bytes", Kind.LONG, "-1", "log.retention.bytes"),
    _row("retention.ms", Kind.LONG, "604800000", least=-1)._replace(brokers=(("log.retention.hours", "168"),)),
    _row("segment.bytes", Kind.INT, "1073741824", "log.segment.bytes", least=1 << 20),
    _row("segment.index.bytes", Kind.INT, "10485760", "log.index.size.max.bytes", least=4),
    _row("segment.jitter.ms", Kind.LONG, "0", least=0),
    _row("segment.ms", Kind.LONG, "604800000", least=1),
    _row(
        "unclean.leader.election.enable", Kind.BOOLEAN, "false", "unclean.leader.election.enable"
    ),
)  # fmt: skip

#: By name, in order of names.
SETTINGS: Mapping[str, Setting] = {row.name: row for row in _ROWS}


def check(configs: Mapping[str, str]) -> None:
    """Check a topic's own settings as brokers do before they create it.

    Raises:
        IllegalArgumentError: A setting that does not exist or a value it cannot have; the words are for the client.
    """
    for name, value in configs.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise IllegalArgumentError(f"Unknown topic config name: {name}")
        wrong = _wrong(setting, value.strip())
        if wrong is not None:
            raise IllegalArgumentError(f"Invalid value {value} for configuration {name}: {wrong}")
    if configs.get("remote.storage.enable", "").lower() == "true":
        raise IllegalArgumentError("This broker has no tiered storage: remote.storage.enable cannot be true.")
    lags = [int(configs.get(f"{end}.compaction.lag.ms", SETTINGS[f"{end}.compaction.lag.ms"].default)) for end in _ENDS]
    if lags[0] > lags[1]:
        raise IllegalArgumentError(f"min.compaction.lag.ms ({lags[0]}) is above max.compaction.lag.ms ({lags[1]})")


_ENDS = ("min", "max")


def words_of(value: str) -> list[str]:
    """Return the elements of a list setting."""
    return [word.strip() for word in value.split(",")] if value.strip() else []


def shown(configs: Mapping[str, str], broker: BrokerConfig) -> list[Entry]:
    """Return all settings of a topic with their sources, in order of names."""
    return [_entry(setting, configs, broker) for setting in _ROWS if setting.is_shown or setting.name in configs]


def _entry(setting: Setting, configs: Mapping[str, str], broker: BrokerConfig) -> Entry:
    name = setting.name
    found = [Synonym(name, configs[name], Source.TOPIC)] if name in configs else []
    for broker_name, default in setting.brokers:
        own = _of_broker(broker, broker_name, default)
        if name == "min.insync.replicas":
            # Where leaders may be elected by KIP-966 the cluster's own log holds it for all brokers.
            found.append(Synonym(broker_name, own, Source.DYNAMIC_DEFAULT))
        if own != default:
            found.append(Synonym(broker_name, own, Source.STATIC))
        found.append(Synonym(broker_name, default, Source.DEFAULT))
    if name in configs or (found and found[0].source != Source.DEFAULT):
        return Entry(setting, found[0].value, found[0].source, tuple(found))
    return Entry(setting, setting.default, Source.DEFAULT, tuple(found))


def _of_broker(broker: BrokerConfig, name: str, default: str) -> str:
    value = getattr(broker, name.replace(".", "_"), default)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(setting: Setting, value: str) -> str | None:
    if setting.kind in (Kind.INT, Kind.LONG):
        return _wrong_integer(setting, value)
    if setting.kind is Kind.BOOLEAN:
        return None if value.lower() in ("true", "false") else "Expected value to be either true or false"
    if setting.kind is Kind.DOUBLE:
        try:
            return _out_of_bounds(setting, float(value))
        except ValueError:
            return "Not a number of type DOUBLE"
    words = [value] if setting.kind is Kind.STRING else words_of(value)
    if setting.words and not set(words) <= set(setting.words):
        return f"String must be one of: {', '.join(setting.words)}"
    return setting.check(words) if setting.check else None


def _wrong_integer(setting: Setting, value: str) -> str | None:
    if not _INT.fullmatch(value) or len(value) > len(_LONG_MAX) + 1:
        return f"Not a number of type {setting.kind.name}"
    number, limit = int(value), 1 << _BITS[setting.kind]
    if not -limit <= number < limit:
        return f"Not a number of type {setting.kind.name}"
    if setting.name == "compression.gzip.level" and number == 0:
        return "Value must be between 1 and 9 or equal to -1"
    return _out_of_bounds(setting, number)


def _out_of_bounds(setting: Setting, number: float) -> str | None:
    if setting.least is not None and not number >= setting.least:
        return f"Value must be at least {setting.least}"
    if setting.most is not None and number > setting.most:
        return f"Value must be no more than {setting.most}"
    return None
