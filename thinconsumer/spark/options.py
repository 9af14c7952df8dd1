"""The source's options: those of Spark's own Kafka connector, by its names and with its meanings, and some it lacks.

Owns what an option means, which ones contradict each other, and what is said about those that are wrong; whatever can
be seen without a cluster is refused when the DataFrame is made, and not when a job has run for an hour. Names arrive
lower-cased and values as text: that is PySpark's doing. Knows no Spark, no cluster and no clock.

``kafka.*`` goes to the consumer's own configuration, without that prefix. After Spark's ``KafkaSourceProvider``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..config import OPTIONS as CONSUMER_OPTIONS
from ..config import ConsumerConfig, dotted
from ..config.kinds import did_you_mean
from ..errors import KafkaConfigurationError
from ..types import TopicPartition
from .offsets import EARLIEST, INT64_MAX, LATEST, Offsets, parse_assignment, parse_offsets, parse_timestamps, show

T = TypeVar("T")
KAFKA = "kafka."

# -- which partitions


class Topics(NamedTuple):
    """Every partition of these topics: ``subscribe``."""

    names: tuple[str, ...]


class TopicPattern(NamedTuple):
    """Every partition of the topics whose whole name matches: ``subscribePattern``."""

    pattern: re.Pattern[str]


class Assigned(NamedTuple):
    """Exactly these partitions: ``assign``."""

    partitions: tuple[TopicPartition, ...]


Selection = Topics | TopicPattern | Assigned

# -- from where, up to where


class Mark(NamedTuple):
    """One end of the log: -1 the latest offset, -2 the earliest."""

    offset: int


class AtOffsets(NamedTuple):
    """An offset, or a mark, for each partition."""

    offsets: Offsets


class AtTime(NamedTuple):
    """The first record at or after this time, in ms since 1970, in every partition."""

    timestamp: int


class AtTimes(NamedTuple):
    """The first record at or after a time of each partition's own."""

    timestamps: Offsets


class Committed(NamedTuple):
    """Where a consumer group has committed; the earliest offset where it has not."""

    group: str


Bound = Mark | AtOffsets | AtTime | AtTimes | Committed


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one source, checked. ``starting`` and ``ending`` are None where a default applies."""

    selection: Selection
    starting: Bound | None
    ending: Bound | None
    kafka: dict[str, str] = field(repr=False)  #: Dotted names; may hold secrets.
    given: frozenset[str]  #: Names of the options that were given, as documented.
    no_match_is_latest: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes_per_trigger: int | None = None
    max_batch_bytes: int = 1_572_864
    poll_timeout_ms: int = 120_000
    fetch_offset_num_retries: int = 3
    fetch_offset_retry_interval_ms: int = 1000
    commit_group: str | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a micro-batch may have to leave something for the next one, or wait for more."""
        return not self.given.isdisjoint(LIMITS)

    def start_of_batch(self) -> Bound:
        """Return where a batch read begins, after checking what only a batch read may not ask for."""
        starting = self.starting or Mark(EARLIEST)
        latest = [] if not isinstance(starting, AtOffsets) else _marked(starting.offsets, LATEST)
        if starting == Mark(LATEST) or latest:
            where = f" for {show(latest)}" if latest else ""
            raise KafkaConfigurationError(
                f"startingOffsets can't be latest{where} in a batch read, which would read nothing: use 'earliest', "
                "offsets, or startingTimestamp"
            )
        self._check_order(starting, self.end_of_batch())
        return starting

    def end_of_batch(self) -> Bound:
        """Return where a batch read ends, likewise."""
        ending = self.ending or Mark(LATEST)
        earliest = [] if not isinstance(ending, AtOffsets) else _marked(ending.offsets, EARLIEST)
        if ending == Mark(EARLIEST) or earliest:
            where = f" for {show(earliest)}" if earliest else ""
            raise KafkaConfigurationError(
                f"endingOffsets can't be earliest{where}, since nothing lies before it: use 'latest', offsets, or "
                "endingTimestamp"
            )
        return ending

    def start_of_stream(self) -> Bound:
        """Return where a new stream begins, after checking what only a stream may not ask for."""
        for name in sorted(self.given):
            if name.startswith("ending"):
                raise KafkaConfigurationError(
                    f"{name} is for batch reads, and a stream has no end: leave it out, or read with spark.read"
                )
        return self.starting or Mark(LATEST)

    def ignored_in_batch(self) -> list[str]:
        """Return the options given that only streams heed."""
        return sorted(self.given & {*LIMITS, "commitGroup"})

    def _check_order(self, starting: Bound, ending: Bound) -> None:
        pair: tuple[Offsets, Offsets]
        if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
            pair, names = (starting.offsets, ending.offsets), ("startingOffsets", "endingOffsets")
        elif isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
            pair = starting.timestamps, ending.timestamps
            names = "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"
        else:
            return
        start, end = pair
        if start.keys() != end.keys():
            raise KafkaConfigurationError(
                f"{names[0]} and {names[1]} have to name the same partitions; only one names "
                f"{show(start.keys() ^ end.keys())}"
            )
        for tp, offset in start.items():
            if offset > end[tp] >= 0 and offset >= 0:
                raise KafkaConfigurationError(
                    f"{show([tp])} would begin at {offset} ({names[0]}) and end before it, at {end[tp]} ({names[1]})"
                )


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Return the checked options of a source, from whatever spelling of their names.

    Raises:
        KafkaConfigurationError: with everything that is wrong, at once.
    """
    lower = {name.lower(): value for name, value in options.items()}
    kafka = {name[len(KAFKA) :]: value for name, value in lower.items() if name.startswith(KAFKA)}
    problems: list[str] = []
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, text in lower.items():
        known = NAMES.get(name)
        if known is not None:
            given[known] = text
        elif not name.startswith(KAFKA):
            problems.append(_unknown(name))
    for name, text in given.items():
        read = READERS[name]
        if read is not None:
            _try(problems, values, FIELDS[name], partial(read, text.strip(), name))
    _try(problems, values, "selection", lambda: _selection(given))
    _try(problems, values, "starting", lambda: _bound(given, STARTING))
    _try(problems, values, "ending", lambda: _bound(given, ENDING))
    problems += _contradictions(values)
    problems += _kafka_problems(kafka)
    if problems:
        raise KafkaConfigurationError(sentence(problems))
    return SourceOptions(kafka=kafka, given=frozenset(given), **values)


def consumer_config(kafka: Mapping[str, str], **ours: str) -> dict[str, str]:
    """Return what ``Consumer.from_config`` takes: the user's ``kafka.*`` options, and what the source sets itself."""
    return {**{name: value for name, value in kafka.items() if _has_effect(name)}, **ours}


def _has_effect(name: str) -> bool:
    """Whether a ``kafka.`` option means something here: no group is joined, and nothing is written.

    A writer's may be there in jobs that share their options between both; Java's consumer takes whatever it does not
    know.
    """
    if name.replace(".", "_") in CONSUMER_OPTIONS:
        return name != "group.id"
    from .write_options import only_writers  # not above: a query waits for all that its source imports

    return name not in only_writers()


# -- one option


def _boolean(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise KafkaConfigurationError(f"{name}={text!r}: write true or false")
    return text.lower() == "true"


def _positive(text: str, name: str) -> int:
    return _whole(text, name, 1)


def _whole(text: str, name: str, least: int = 0) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not least <= int(text) <= INT64_MAX:
        raise KafkaConfigurationError(f"{name}={text!r}: a whole number from {least} on is wanted")
    return int(text)


_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30, "t": 2**40}
_MILLISECONDS = {"us": 0.001, "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _bytes(text: str, name: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.lower())
    if not match or match[2] not in _BYTES or not int(match[1]):
        raise KafkaConfigurationError(f"{name}={text!r}: a size is wanted, such as 500m or 1g, or a number of bytes")
    return int(match[1]) * _BYTES[match[2]]


def _duration(text: str, name: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.lower())
    if not match or match[2] not in _MILLISECONDS:
        raise KafkaConfigurationError(f"{name}={text!r}: a duration is wanted, such as 30s or 15m, or milliseconds")
    return int(int(match[1]) * _MILLISECONDS[match[2]])


def _strategy(text: str, name: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise KafkaConfigurationError(f"{name}={text!r}: write error or latest")
    return text.lower() == "latest"


def _group(text: str, name: str) -> str:
    if not text:
        raise KafkaConfigurationError(f"{name}: the name of a consumer group is wanted")
    return text


Reader = Callable[[str, str], Any]
#: Every option there is: its documented name, the field it sets and what reads it; None for those that several make up.
_DECLARED: tuple[tuple[str, str, Reader | None], ...] = (
    ("subscribe", "selection", None),
    ("subscribePattern", "selection", None),
    ("assign", "selection", None),
    ("startingOffsets", "starting", None),
    ("startingTimestamp", "starting", None),
    ("startingOffsetsByTimestamp", "starting", None),
    ("endingOffsets", "ending", None),
    ("endingTimestamp", "ending", None),
    ("endingOffsetsByTimestamp", "ending", None),
    ("startingOffsetsByTimestampStrategy", "no_match_is_latest", _strategy),
    ("failOnDataLoss", "fail_on_data_loss", _boolean),
    ("includeHeaders", "include_headers", _boolean),
    ("minPartitions", "min_partitions", _positive),
    ("maxRecordsPerPartition", "max_records_per_partition", _positive),
    ("maxOffsetsPerTrigger", "max_offsets_per_trigger", _positive),
    ("minOffsetsPerTrigger", "min_offsets_per_trigger", _positive),
    ("maxTriggerDelay", "max_trigger_delay_ms", _duration),
    ("maxBytesPerTrigger", "max_bytes_per_trigger", _bytes),
    ("maxBatchBytes", "max_batch_bytes", _bytes),
    ("kafkaConsumer.pollTimeoutMs", "poll_timeout_ms", _positive),
    ("fetchOffset.numRetries", "fetch_offset_num_retries", _positive),
    ("fetchOffset.retryIntervalMs", "fetch_offset_retry_interval_ms", _whole),
    ("commitGroup", "commit_group", _group),
    ("groupIdPrefix", "", None),  # no group is joined, so that nothing is prefixed
    ("topic", "", None),  # a writer's, in jobs that share their options between both
)
FIELDS = {name: where for name, where, _ in _DECLARED}
READERS = {name: read for name, _, read in _DECLARED}
NAMES = {name.lower(): name for name in FIELDS}
#: What needs read limits, which PySpark has from 4.2 on.
LIMITS = frozenset({"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"})

# -- options that make up one thing

SELECTIONS = ("subscribe", "subscribePattern", "assign")
#: In the order in which they count: of those that are given the first one does, the others do nothing.
STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
COMMITTED = "committed:"


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in SELECTIONS if name in given]
    if len(chosen) != 1:
        both = f"not {' and '.join(chosen)}" if chosen else "none is given"
        raise KafkaConfigurationError(f"exactly one of {', '.join(SELECTIONS)} says what to read; {both}")
    (name,) = chosen
    text = given[name].strip()
    if name == "assign":
        return Assigned(tuple(parse_assignment(text)))
    if name == "subscribe":
        names = [topic.strip() for topic in text.split(",") if topic.strip()]
        if not names:
            raise KafkaConfigurationError("subscribe: it names no topic; write topics with commas in between")
        return Topics(tuple(sorted(set(names))))
    if not text:
        raise KafkaConfigurationError("subscribePattern: it is empty; write a regular expression for whole names")
    try:
        return TopicPattern(re.compile(text))
    except re.error as error:
        raise KafkaConfigurationError(
            f"subscribePattern={text!r}: {error}; it is read as Python's re does, which lacks some of Java's syntax"
        ) from None


def _bound(given: Mapping[str, str], names: tuple[str, str, str]) -> Bound | None:
    at_time, at_times, at_offsets = names
    if at_time in given:
        return AtTime(_whole(given[at_time].strip(), at_time))
    if at_times in given:
        return AtTimes(parse_timestamps(given[at_times].strip(), at_times))
    if at_offsets not in given:
        return None
    text = given[at_offsets].strip()
    if text.lower() in ("earliest", "latest"):
        return Mark(EARLIEST if text.lower() == "earliest" else LATEST)
    if names is STARTING and text.lower().startswith(COMMITTED):
        return Committed(_group(text[len(COMMITTED) :].strip(), f"{at_offsets}={text}"))
    if not text.startswith("{"):
        words = ["earliest", "latest"] + ["committed:GROUP"] * (names is STARTING)
        hint = did_you_mean(text, words)
        raise KafkaConfigurationError(f"{at_offsets}={text!r}: write {', '.join(words)} or JSON{hint}")
    return AtOffsets(parse_offsets(text, at_offsets))


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    least, most = values.get("min_offsets_per_trigger"), values.get("max_offsets_per_trigger")
    if least is not None and most is not None and least > most:
        return [f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: no batch could have so many"]
    return []


# -- kafka.*

_START = "the source decides where to read: set startingOffsets, which counts for a new query only"
_BINARY = "columns hold bytes: turn them into something else with DataFrame operations"
#: What the official connector refuses, too.
REFUSED = {
    "auto.offset.reset": _START,
    "key.deserializer": _BINARY,
    "value.deserializer": _BINARY,
    "enable.auto.commit": "Spark's checkpoint says what was read: to see it in Kafka as well, set commitGroup",
    "interceptor.classes": "interceptors could change what is read, and none would be called",
}


def _kafka_problems(kafka: Mapping[str, str]) -> list[str]:
    problems = [f"{KAFKA}{name} is refused: {why}" for name, why in REFUSED.items() if name in kafka]
    if not kafka.get("bootstrap.servers", "").strip():
        problems.append("kafka.bootstrap.servers is missing: the brokers to learn the cluster from, as host:port")
    try:
        ConsumerConfig.from_config(consumer_config({k: v for k, v in kafka.items() if k not in REFUSED}))
    except KafkaConfigurationError as error:
        problems.append(f"of the options that begin with kafka.: {error}")
    return problems


# -- saying it


def _try(problems: list[str], values: dict[str, Any], name: str, read: Callable[[], Any]) -> None:
    try:
        values[name] = read()
    except KafkaConfigurationError as error:
        problems.append(str(error))


def _marked(offsets: Offsets, mark: int) -> list[TopicPartition]:
    return [tp for tp, offset in offsets.items() if offset == mark]


def _unknown(name: str) -> str:
    if name == "path":
        return "load() takes no path: say what to read with subscribe, subscribePattern or assign"
    near = did_you_mean(name, NAMES)
    spelt = re.sub(r"'([^']+)'", lambda match: repr(NAMES[match[1]]), near)
    if name.replace(".", "_") in CONSUMER_OPTIONS:
        spelt = f"; did you mean {KAFKA + dotted(name)!r}?"
    return f"unknown option {name!r}{spelt}"


def sentence(problems: list[str], what: str = "options are wrong") -> str:
    """Return all problems as one message."""
    if len(problems) == 1:
        return problems[0]
    return "\n  - ".join([f"{len(problems)} {what}:", *problems])
