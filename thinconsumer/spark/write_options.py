"""What a writer is told, options and columns, checked as Spark's own connector does, before anything is written.

Owns which options a writer has, which columns it takes and of which types, and what is said where that is wrong. Knows
no Spark: a schema comes in as names and types in Spark's spelling. After Spark's ``KafkaWriter`` and
``KafkaSourceProvider``.
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
from .options import KAFKA, NAMES, sentence

TOPIC = "topic"
#: Columns that are looked at, and what they may be. A frame may have others: they are left out.
TYPES: dict[str, tuple[str, ...]] = {
    TOPIC: ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
#: What Spark adds to the options of a stream. A source's options are let through as well: jobs share theirs.
_SPARKS = frozenset({"checkpointlocation", "queryname"})

_CLASS = "no class of yours would be called"
_BYTES = "the bytes of a column are written as they are: turn it into others with DataFrame operations"
REFUSED = {
    "transactional.id": "a transaction of Kafka's cannot be tied to a commit of Spark's, so that records are written "
    "at least once, with or without one",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "interceptor.classes": _CLASS,
    "partitioner.class": f"{_CLASS}: a column named 'partition' says where a record goes",
}
#: What is always so: the values that ask for just that, and what to say to others.
_ALWAYS = {
    "acks": (("all", "-1"), "every record is acknowledged by all replicas in sync"),
    "enable.idempotence": (("true",), "a producer that sends again always tells the broker so"),
}
#: Java's, and of no use here: records come in batches that are sent as they are, and are sent again until
#: ``delivery.timeout.ms`` is over.
WITHOUT_EFFECT = frozenset({"linger.ms", "retries"})


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What a task has to know. ``columns`` are places in the frame, by name."""

    kafka: dict[str, str] = field(repr=False)  #: Dotted names; may hold secrets.
    columns: dict[str, int]
    topic: str | None = None  #: Of all records, whatever their column says.

    def producer(self) -> ProducerSettings:
        """Return what the producer is built from."""
        return ProducerSettings.from_config(_producer_config(self.kafka))


def parse_write(options: Mapping[str, str], schema: Sequence[tuple[str, str]]) -> WriteSettings:
    """Return what a task has to know, from options in whatever spelling and the frame's columns and types.

    Raises:
        KafkaConfigurationError: with everything that is wrong, at once.
    """
    lower = {name.lower(): value for name, value in options.items()}
    kafka = {name[len(KAFKA) :]: value for name, value in lower.items() if name.startswith(KAFKA)}
    topic = lower.get(TOPIC)
    problems = [_unknown(name) for name in lower if not _is_known(name)]
    if topic is not None and not topic.strip():
        problems.append("topic: the name of a topic is wanted; leave the option out to take it from the column")
    problems += _kafka_problems(kafka)
    columns, wrong = _columns(schema, needs_topic=topic is None)
    if problems or wrong:
        raise KafkaConfigurationError(sentence([*problems, *wrong], "things are wrong"))
    return WriteSettings(kafka, columns, topic.strip() if topic is not None else None)


# -- columns


def _columns(schema: Sequence[tuple[str, str]], *, needs_topic: bool) -> tuple[dict[str, int], list[str]]:
    places: dict[str, int] = {}
    for place, (name, _) in enumerate(schema):
        if name in TYPES and name not in places:
            places[name] = place
    problems = []
    if "value" not in places:
        problems.append(f"there is no column 'value'{_columns_are(schema, 'value')}")
    if not needs_topic:
        places.pop(TOPIC, None)  # nobody looks at it, of whatever type it is
    elif TOPIC not in places:
        problems.append(
            f"there is no column 'topic', and no option 'topic' that says where to write{_columns_are(schema, TOPIC)}"
        )
    for name, place in places.items():
        kind = schema[place][1]
        if kind not in TYPES[name]:
            wanted = " or ".join(TYPES[name])
            problems.append(f"column {name!r} is of type {kind}, and has to be {wanted}: cast it")
    return places, problems


def _columns_are(schema: Sequence[tuple[str, str]], wanted: str) -> str:
    near = [name for name, _ in schema if name.lower() == wanted]
    if near:
        return f": rename {near[0]!r}, since case counts"
    return f": the columns are {', '.join(repr(name) for name, _ in schema)}" if schema else ""


# -- options


@cache
def only_writers() -> frozenset[str]:
    """Return the names of Kafka's options that are a producer's and no consumer's."""
    own = {dotted(name) for name in ProducerSettings.options()}
    return frozenset({*own, *REFUSED, *_ALWAYS, *WITHOUT_EFFECT} - {dotted(name) for name in CONSUMER_OPTIONS})


def _is_known(name: str) -> bool:
    return name.startswith(KAFKA) or name == TOPIC or name in NAMES or name in _SPARKS


def _unknown(name: str) -> str:
    if name == "path":
        return "save() and start() take no path: say where to write with the option or the column 'topic'"
    if name.replace(".", "_") in ProducerSettings.options() or name in (*REFUSED, *_ALWAYS):
        return f"unknown option {name!r}; did you mean {KAFKA + name!r}?"
    return f"unknown option {name!r}{did_you_mean(name, [TOPIC, KAFKA + 'bootstrap.servers'])}"


def _producer_config(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return what ``ProducerSettings.from_config`` takes: without a reader's options, and what is so in any case."""
    readers = {dotted(name) for name in CONSUMER_OPTIONS} - {dotted(name) for name in ProducerSettings.options()}
    left_out = {*REFUSED, *_ALWAYS, *WITHOUT_EFFECT, *readers}
    config = {name: value for name, value in kafka.items() if name not in left_out}
    # As Java's producer: whether a topic may be made is the broker's to say.
    return {"allow.auto.create.topics": "true", **config}


def _kafka_problems(kafka: Mapping[str, str]) -> list[str]:
    problems = [f"{KAFKA}{name} is refused: {why}" for name, why in REFUSED.items() if name in kafka]
    for name, (values, why) in _ALWAYS.items():
        if name in kafka and kafka[name].strip().lower() not in values:
            problems.append(f"{KAFKA}{name}={kafka[name]!r} is refused: {why}; leave it out")
    if not kafka.get("bootstrap.servers", "").strip():
        problems.append("kafka.bootstrap.servers is missing: the brokers to learn the cluster from, as host:port")
    try:
        ProducerSettings.from_config(_producer_config(kafka))
    except KafkaConfigurationError as error:
        problems.append(f"of the options that begin with kafka.: {error}")
    return problems
