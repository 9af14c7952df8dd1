"""The source's options: those of Spark's own Kafka connector (``KafkaSourceProvider``), and a few more.

``load()`` checks all that depends neither on the cluster nor on the kind of read (batch or stream). PySpark passes
names in lower case and all values as text. ``kafka.*`` options, without that prefix, configure the consumer. Some of
them are secrets, and some name files, which Spark's driver and every executor read from their own disks.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ..config import OPTIONS as CONSUMER_OPTIONS
from ..config import ConsumerConfig, Secret, SecurityOptions, dotted
from ..config.kinds import Boolean, Choice, Integer, Kind, Text, did_you_mean
from ..config.security_kinds import ExistingFile
from ..config.unsupported import ALIASES
from ..config.values import INT64_MAX
from ..errors import KafkaConfigurationError
from ..support.lazy_dataclass import dataclass, declared_fields, field
from ..types import TopicPartition
from .offsets import EARLIEST, LATEST, Offsets, parse_assignment, parse_offsets, parse_timestamps, partition_names
from .order import OrderOptions, without_order

KAFKA = "kafka."

#: The kind of each TLS and SASL option, by its name with dots, and by librdkafka's name if that differs.
SECURITY_NAMES: dict[str, Kind] = {dotted(name): one.kind for name, one in SecurityOptions.options().items()}
SECURITY_NAMES |= {
    alias: SECURITY_NAMES[dotted(name)] for alias, name in ALIASES.items() if dotted(name) in SECURITY_NAMES
}
_FILES = frozenset(name for name, kind in SECURITY_NAMES.items() if isinstance(kind, ExistingFile))
_KINDS = {dotted(name): option.kind for name, option in CONSUMER_OPTIONS.items()} | SECURITY_NAMES
_NOT_SECRET = frozenset(name for name, kind in _KINDS.items() if not kind.is_secret)

_NO_OBJECTS = "Spark passes options as text, not as objects"
_CONTEXT = f"{_NO_OBJECTS}: set ssl.truststore.location, ssl.keystore.location and other ssl.* options"
_PROVIDER = (
    f"{_NO_OBJECTS}: set sasl.oauthbearer.token.endpoint.url, with sasl.oauthbearer.client.credentials.client.id and "
    "client.secret"
)
#: Options that take a Python object, and the advice to give.
OBJECTS = {"ssl.context": _CONTEXT, "sasl.oauth.token.provider": _PROVIDER, "oauth_cb": _PROVIDER}


class Selection(NamedTuple):
    """The option ``subscribe``, ``subscribePattern`` or ``assign``, whichever is set; the other fields are None."""

    names: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: tuple[TopicPartition, ...] | None = None

    def matches(self, tp: TopicPartition) -> bool:
        """Return whether a partition is selected: by its topic's name, or with ``assign`` also by its number."""
        if self.pattern is not None:
            return self.pattern.fullmatch(tp.topic) is not None
        return tp.topic in self.names if self.names is not None else tp in (self.partitions or ())


class AtOffsets(NamedTuple):
    """A bound of a read: an offset for each partition, or one for all of them; -1 is the latest, -2 the earliest."""

    offsets: Offsets | int


class AtTimes(NamedTuple):
    """A bound of a read: the first record at or after a time (ms since the epoch), one per partition or one for all."""

    times: Offsets | int


class AtCommitted(NamedTuple):
    """A bound of a read: a group's committed offsets, and for partitions without one the earliest offset."""

    group: str


Bound = AtOffsets | AtTimes | AtCommitted
Reader = Callable[[str, str], Any]


def _reader(kind: Kind) -> Reader:
    def read(text: str, name: str) -> Any:
        try:
            return kind.parse(kind.from_text(text))
        except ValueError as error:
            raise KafkaConfigurationError(f"{name}={text!r}: {error}") from None

    return read


_boolean = _reader(Boolean())
_whole = _reader(Integer(at_most=INT64_MAX))
_positive = _reader(Integer(at_least=1, at_most=INT64_MAX))
_group = _reader(Text(may_be_empty=False))


def _with_unit(units: Mapping[str, float], least: int, form: str) -> Reader:
    def read(text: str, name: str) -> int:
        match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.lower())
        if not match or match[2] not in units or int(match[1]) < least:
            raise KafkaConfigurationError(f"{name}={text!r}: write {form}")
        return int(int(match[1]) * units[match[2]])

    return read


_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30, "t": 2**40}
_MILLISECONDS = {"us": 0.001, "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_bytes = _with_unit(_BYTES, 1, "a size such as 500m or 1g, or a number of bytes")
_duration = _with_unit(_MILLISECONDS, 0, "a duration such as 30s or 15m, or milliseconds")


def _option(name: str, read: Reader, default: Any = None) -> Any:
    """Declare a field of :class:`SourceOptions` that the option with this documented name sets; ``read`` parses it."""
    return field(default=default, metadata={"name": name, "read": read})


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The checked options of one source. ``starting`` and ``ending`` are None if they are not set."""

    selection: Selection
    starting: Bound | None
    ending: Bound | None
    #: The ``kafka.*`` options by name, without that prefix. ``repr`` does not show them, since some are secrets.
    kafka: dict[str, str] = field(repr=False)
    given: frozenset[str]  #: Documented names of the options that the user set, other than ``kafka.*``.
    #: "error", or "latest" to begin at the end of a log without a record at or after the starting timestamp.
    no_match: str = _option("startingOffsetsByTimestampStrategy", _reader(Choice(("error", "latest"))), "error")
    fail_on_data_loss: bool = _option("failOnDataLoss", _boolean, True)
    include_headers: bool = _option("includeHeaders", _boolean, False)
    min_partitions: int | None = _option("minPartitions", _positive)
    max_records_per_partition: int | None = _option("maxRecordsPerPartition", _positive)
    max_offsets_per_trigger: int | None = _option("maxOffsetsPerTrigger", _positive)
    min_offsets_per_trigger: int | None = _option("minOffsetsPerTrigger", _positive)
    max_trigger_delay_ms: int = _option("maxTriggerDelay", _duration, 15 * 60_000)
    max_bytes_per_trigger: int | None = _option("maxBytesPerTrigger", _bytes)
    max_batch_bytes: int = _option("maxBatchBytes", _bytes, 1_572_864)
    poll_timeout_ms: int = _option("kafkaConsumer.pollTimeoutMs", _positive, 120_000)
    fetch_offset_num_retries: int = _option("fetchOffset.numRetries", _positive, 3)
    fetch_offset_retry_interval_ms: int = _option("fetchOffset.retryIntervalMs", _whole, 1000)
    commit_group: str | None = _option("commitGroup", _group)
    order: OrderOptions = OrderOptions()  #: The options of the module ``order``.

    @property
    def is_limited(self) -> bool:
        """Whether the user set an option that limits the size of micro-batches or delays them."""
        return not self.given.isdisjoint(LIMITS)

    def batch_start(self) -> Bound:
        """Return where a batch read starts, or raise ``KafkaConfigurationError`` if it cannot start or end as set."""
        starting = self.starting or AtOffsets(EARLIEST)
        _refuse(starting, LATEST, "startingOffsets can't be latest", "use 'earliest', offsets, or startingTimestamp")
        self._check_order(starting, self.batch_end())
        return starting

    def batch_end(self) -> Bound:
        """Return where a batch read ends, or raise ``KafkaConfigurationError`` if it cannot end there."""
        ending = self.ending or AtOffsets(LATEST)
        _refuse(ending, EARLIEST, "endingOffsets can't be earliest", "use 'latest', offsets, or endingTimestamp")
        return ending

    def stream_start(self) -> Bound:
        """Return where a new stream starts, or raise ``KafkaConfigurationError`` if an option sets an end."""
        for name in sorted(self.given):
            if name.startswith("ending"):
                raise KafkaConfigurationError(
                    f"{name} is for batch reads only, since a stream has no end: leave it out, or read with spark.read"
                )
        return self.starting or AtOffsets(LATEST)

    def ignored_in_batch(self) -> list[str]:
        """Return the names of set options that affect only streams."""
        return sorted(self.given & {*LIMITS, "commitGroup"})

    def _check_order(self, starting: Bound, ending: Bound) -> None:
        start, end = starting[0], ending[0]
        if type(starting) is not type(ending) or not isinstance(start, dict) or not isinstance(end, dict):
            return
        suffix = "ByTimestamp" if isinstance(starting, AtTimes) else ""
        first, last = f"startingOffsets{suffix}", f"endingOffsets{suffix}"
        if start.keys() != end.keys():
            names = partition_names(start.keys() ^ end.keys())
            raise KafkaConfigurationError(f"{first} and {last} must name the same partitions; only one names {names}")
        for tp, offset in start.items():
            if offset > end[tp] >= 0:
                where = f"at {offset} ({first}), after its end at {end[tp]} ({last})"
                raise KafkaConfigurationError(f"reading {partition_names([tp])} would begin {where}")


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Return the checked options of a source; names are not case-sensitive.

    Raises:
        KafkaConfigurationError: names all problems.
    """
    lower, kafka = split_options(options)
    problems: list[str] = []
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, text in lower.items():
        known = NAMES.get(name)
        if known is not None:
            given[known] = text
        else:
            problems.append(_unknown(name))
        if known in _FIELDS:
            where, read = _FIELDS[known]
            _try(problems, values, where, partial(read, text.strip(), known))
    _try(problems, values, "selection", lambda: _selection(given))
    _try(problems, values, "starting", lambda: _bound(given, STARTING))
    _try(problems, values, "ending", lambda: _bound(given, ENDING))
    problems += _contradictions(values)
    configs: list[ConsumerConfig] = []
    problems += kafka_problems(
        kafka, REFUSED, lambda rest: configs.append(ConsumerConfig.from_config(_effective(rest)))
    )
    if problems:
        raise KafkaConfigurationError(join_problems(problems))
    (config,) = configs
    return SourceOptions(kafka=kafka, given=frozenset(given), order=OrderOptions.of(config), **values)


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return two dicts of options by name in lower case: those without the prefix ``kafka.``, and those with it.

    The names in the second dict lack the prefix, and its ``repr`` does not show secrets.
    """
    lower = {name.lower(): value for name, value in options.items()}
    kafka = {name[len(KAFKA) :]: value for name, value in lower.items() if name.startswith(KAFKA)}
    return {name: value for name, value in lower.items() if not name.startswith(KAFKA)}, hidden(kafka)


def hidden(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options such that ``repr`` shows neither secrets nor values of unknown names, which may be misspelt.

    Error trackers record local variables of tasks, and with them these options.
    """
    return {name: text if name in _NOT_SECRET else Secret(text) for name, text in kafka.items()}


@contextmanager
def errors_name_host(kafka: Mapping[str, str]) -> Iterator[None]:
    """Name this host in configuration errors if ``kafka`` names files: on another host, the path is another file."""
    try:
        yield
    except KafkaConfigurationError as error:
        if _FILES.isdisjoint(kafka) and "keytab" not in kafka.get("sasl.jaas.config", "").lower():
            raise
        raise KafkaConfigurationError(f"on host {platform.node()!r}: {error}") from None


def consumer_config(kafka: Mapping[str, str], **own: str) -> dict[str, str]:
    """Return a consumer's configuration: the user's options for consumers, without those of ``order``, and ``own``."""
    return {**without_order(_effective(kafka)), **own}


def _effective(kafka: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in kafka.items() if _has_effect(name)}


def _has_effect(name: str) -> bool:
    """Return whether to pass a ``kafka.*`` option to the consumer, which refuses unknown options.

    Options that only producers have are left out: jobs pass the same options for reading and writing. ``group.id`` is
    left out, too, since the source joins no group.
    """
    if name in SECURITY_NAMES:
        return True
    if name.replace(".", "_") in CONSUMER_OPTIONS:
        return name != "group.id"
    from .writing import exclusive_names  # on demand: importing the producer delays the start of a query

    return name not in exclusive_names()[0]


SELECTIONS = ("subscribe", "subscribePattern", "assign")
#: In order of precedence: the first option that is set counts.
STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
#: Options without effect: of group membership, and of the writer.
IGNORED = ("groupIdPrefix", "topic")
#: The field and the parser of each option that sets a field of :class:`SourceOptions` by itself.
_FIELDS: dict[str, tuple[str, Reader]] = {
    one.metadata["name"]: (where, one.metadata["read"])
    for where, one in declared_fields(SourceOptions).items()
    if one.metadata
}
#: The documented names of all options, by their names in lower case.
NAMES = {name.lower(): name for name in (*SELECTIONS, *STARTING, *ENDING, *_FIELDS, *IGNORED)}
#: Options that need PySpark's read limits (4.2 or newer).
LIMITS = frozenset({"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"})


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in SELECTIONS if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none"
        raise KafkaConfigurationError(f"set exactly one of {', '.join(SELECTIONS)}, not {found}")
    (name,) = chosen
    text = given[name].strip()
    if name == "assign":
        return Selection(partitions=tuple(parse_assignment(text)))
    if name == "subscribe":
        names = [topic.strip() for topic in text.split(",") if topic.strip()]
        if not names:
            raise KafkaConfigurationError("subscribe: it names no topic; write topics separated by commas")
        return Selection(names=tuple(sorted(set(names))))
    if not text:
        raise KafkaConfigurationError(
            "subscribePattern: it is empty; write a regular expression that matches whole names"
        )
    try:
        return Selection(pattern=re.compile(text))
    except re.error as error:
        raise KafkaConfigurationError(
            f"subscribePattern={text!r}: {error}; Python's re parses it, which lacks some of Java's syntax"
        ) from None


def _bound(given: Mapping[str, str], names: tuple[str, str, str]) -> Bound | None:
    at_time, at_times, at_offsets = names
    if at_time in given:
        return AtTimes(_whole(given[at_time].strip(), at_time))
    if at_times in given:
        return AtTimes(parse_timestamps(given[at_times].strip(), at_times))
    if at_offsets not in given:
        return None
    text = given[at_offsets].strip()
    if text.lower() in ("earliest", "latest"):
        return AtOffsets(EARLIEST if text.lower() == "earliest" else LATEST)
    if names is STARTING and text.lower().startswith("committed:"):
        return AtCommitted(_group(text.partition(":")[2].strip(), f"{at_offsets}={text}"))
    if not text.startswith("{"):
        words = ["earliest", "latest"] + ["committed:GROUP"] * (names is STARTING)
        hint = did_you_mean(text, words)
        raise KafkaConfigurationError(f"{at_offsets}={text!r}: write {', '.join(words)} or JSON{hint}")
    return AtOffsets(parse_offsets(text, at_offsets))


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    least, most = values.get("min_offsets_per_trigger"), values.get("max_offsets_per_trigger")
    if least is None or most is None or least <= most:
        return []
    return [f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: no batch would be large enough"]


_START = "set startingOffsets instead; a query that has a checkpoint goes on from there"
_BINARY = "columns hold bytes: convert them with DataFrame operations"
#: Options that are refused, and the advice to give: those that Spark's own connector refuses, and :data:`OBJECTS`.
REFUSED = {
    "auto.offset.reset": _START,
    "key.deserializer": _BINARY,
    "value.deserializer": _BINARY,
    "enable.auto.commit": "progress is kept in Spark's checkpoint; set commitGroup to commit it for a group too",
    "interceptor.classes": "interceptors are not supported",
    **OBJECTS,
}


def kafka_problems(
    kafka: Mapping[str, str], refused: Mapping[str, str], check: Callable[[dict[str, str]], object]
) -> list[str]:
    """Return what is wrong with ``kafka.*`` options: those in ``refused``, missing bootstrap servers, and the error
    that ``check`` raises for the options that are not refused.
    """
    problems = [f"{KAFKA}{name} is refused: {why}" for name, why in refused.items() if name in kafka]
    if not kafka.get("bootstrap.servers", "").strip():
        problems.append("kafka.bootstrap.servers is missing: name one or more brokers as host:port")
    try:
        with errors_name_host(kafka):
            check({name: value for name, value in kafka.items() if name not in refused})
    except KafkaConfigurationError as error:
        problem = f"kafka.* options: {error}"
        # The message may advise to pass an object, which Spark cannot do.
        advice = {text for name, text in OBJECTS.items() if name in problem or name.replace(".", "_") in problem}
        problems.append("; ".join([problem, *sorted(advice)]))
    return problems


def _try(problems: list[str], values: dict[str, Any], name: str, read: Callable[[], Any]) -> None:
    try:
        values[name] = read()
    except KafkaConfigurationError as error:
        problems.append(str(error))


def _refuse(bound: Bound, offset: int, problem: str, advice: str) -> None:
    """Raise if a bound is ``offset`` (earliest or latest) for all partitions or for some."""
    named = bound.offsets if isinstance(bound, AtOffsets) else {}
    found = [] if isinstance(named, int) else [tp for tp, one in named.items() if one == offset]
    if found or named == offset:
        where = f" for {partition_names(found)}" if found else ""
        raise KafkaConfigurationError(f"{problem}{where} in a batch read, which would find no records: {advice}")


def _unknown(name: str) -> str:
    if name == "path":
        return "load() takes no path: set subscribe, subscribePattern or assign"
    near = did_you_mean(name, NAMES)
    spelt = re.sub(r"'([^']+)'", lambda match: repr(NAMES[match[1]]), near)
    if name in SECURITY_NAMES:
        spelt = f"; did you mean {KAFKA + name!r}?"
    elif name.replace(".", "_") in CONSUMER_OPTIONS:
        spelt = f"; did you mean {KAFKA + dotted(name)!r}?"
    return f"unknown option {name!r}{spelt}"


def join_problems(problems: list[str], what: str = "options are wrong") -> str:
    """Return all problems as one message; if there are several, it begins with their number and ``what``."""
    if len(problems) == 1:
        return problems[0]
    return "\n  - ".join([f"{len(problems)} {what}:", *problems])
