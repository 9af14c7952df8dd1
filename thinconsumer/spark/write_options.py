"""Check a writer's options and columns before the first row, as Spark's ``KafkaWriter`` and ``KafkaSourceProvider`` do.

A schema is passed as pairs of a name and Spark's name of the type, so that PySpark is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ..config import OPTIONS as CONSUMER_OPTIONS
from ..config import dotted
from ..config.kinds import did_you_mean
from ..errors import KafkaConfigurationError
from ..produce import ProducerSettings
from .options import KAFKA, NAMES, OBJECTS, SECURITY_NAMES, join_problems, kafka_problems, split_options

TOPIC = "topic"
#: The types that each column may have; other columns of a DataFrame are ignored.
TYPES: dict[str, tuple[str, ...]] = {
    TOPIC: ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
#: Options of Spark itself, which it passes to a stream writer.
_SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})

_CLASS = "Java classes cannot be loaded"
_BYTES = "columns are written as bytes: convert them with DataFrame operations"
REFUSED = {
    "transactional.id": "a Kafka transaction cannot be tied to Spark's commit, so records are written at least once",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "interceptor.classes": _CLASS,
    "partitioner.class": f"{_CLASS}: set the column 'partition'",
    **OBJECTS,
}
#: Options that accept a single value: the spellings of that value, and the reason for refusing any other.
_FIXED = {
    "acks": (("all", "-1"), "every record is acknowledged by all replicas in sync"),
    "enable.idempotence": (("true",), "idempotence keeps repeated requests from writing records twice"),
}
#: Options without effect: batches are sent at once, and repeated until ``delivery.timeout.ms`` has passed.
_IGNORED = ("linger.ms", "retries")
#: Producer options that are checked here and not passed to the producer.
_NOT_PASSED_ON = frozenset({*REFUSED, *_FIXED, *_IGNORED})


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The settings of a write task. ``columns`` has the position of each column by name."""

    #: The ``kafka.*`` options under Kafka's dotted names, without that prefix. Values may be secrets: not in repr().
    kafka: dict[str, str] = field(repr=False)
    columns: dict[str, int]
    topic: str | None = None  #: Topic of all records, overrides the column.

    def producer(self) -> ProducerSettings:
        """Return the settings of the producer."""
        return ProducerSettings.from_config(_producer_config(self.kafka))


def parse_write(options: Mapping[str, str], schema: Sequence[tuple[str, str]]) -> WriteSettings:
    """Return a write task's settings from options (names are not case-sensitive) and the schema's (name, type) pairs.

    Raises:
        KafkaConfigurationError: names all problems.
    """
    lower, kafka = split_options(options)
    topic = lower.get(TOPIC)
    problems = [_unknown(name) for name in lower if not _is_known(name)]
    if topic is not None and not topic.strip():
        problems.append("topic: it is empty; write a name, or leave the option out to use the column 'topic'")
    for name, (values, why) in _FIXED.items():
        if name in kafka and kafka[name].strip().lower() not in values:
            problems.append(f"{KAFKA}{name}={str(kafka[name])!r} is refused: {why}; leave it out")
    problems += kafka_problems(kafka, REFUSED, lambda rest: ProducerSettings.from_config(_producer_config(rest)))
    columns, wrong = _columns(schema, needs_topic=topic is None)
    if problems or wrong:
        raise KafkaConfigurationError(join_problems([*problems, *wrong], "options or columns are wrong"))
    return WriteSettings(kafka, columns, topic.strip() if topic is not None else None)


def _columns(schema: Sequence[tuple[str, str]], *, needs_topic: bool) -> tuple[dict[str, int], list[str]]:
    places: dict[str, int] = {}
    for place, (name, _) in enumerate(schema):
        if name in TYPES and name not in places:
            places[name] = place
    problems = []
    if "value" not in places:
        problems.append(f"there is no column 'value'{_columns_are(schema, 'value')}")
    if not needs_topic:
        places.pop(TOPIC, None)  # the option 'topic' overrides the column, so the column's type does not matter
    elif TOPIC not in places:
        problems.append(f"there is neither a column nor an option 'topic'{_columns_are(schema, TOPIC)}")
    for name, place in places.items():
        kind = schema[place][1]
        if kind not in TYPES[name]:
            wanted = " or ".join(TYPES[name])
            problems.append(f"column {name!r} is of type {kind}, but must be {wanted}: cast it")
    return places, problems


def _columns_are(schema: Sequence[tuple[str, str]], wanted: str) -> str:
    near = [name for name, _ in schema if name.lower() == wanted]
    if near:
        return f": rename {near[0]!r}, names are case-sensitive"
    return f": the columns are {', '.join(repr(name) for name, _ in schema)}" if schema else ""


@cache
def exclusive_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return two sets: names of Kafka's options that only producers have, and that only consumers have."""
    consumers, producers = (frozenset(map(dotted, names)) for names in (CONSUMER_OPTIONS, ProducerSettings.options()))
    return (producers | _NOT_PASSED_ON) - consumers, consumers - producers


def _is_known(name: str) -> bool:
    return name == TOPIC or name in NAMES or name in _SPARK_OPTIONS


def _unknown(name: str) -> str:
    if name == "path":
        return "save() and start() take no path: set the option or the column 'topic'"
    is_kafkas = name in SECURITY_NAMES or name.replace(".", "_") in ProducerSettings.options() or name in _NOT_PASSED_ON
    if is_kafkas:
        return f"unknown option {name!r}; did you mean {KAFKA + name!r}?"
    return f"unknown option {name!r}{did_you_mean(name, [TOPIC, KAFKA + 'bootstrap.servers'])}"


def _producer_config(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the producer's configuration without consumer options: jobs use the same ones for reading and writing."""
    left_out = _NOT_PASSED_ON | exclusive_names()[1]
    config = {name: value for name, value in kafka.items() if name not in left_out}
    # As with Java's producer, a Metadata request for a missing topic asks for its creation, and the broker's option
    # auto.create.topics.enable decides whether it is created.
    return {"allow.auto.create.topics": "true", **config}
