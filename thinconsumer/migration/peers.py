"""What becomes of the names and options of kafka-python and aiokafka, whose consumers ``thinconsumer.compat`` has."""

from __future__ import annotations

from typing import NamedTuple

from .confluent import Advice

_ERRORS = "errors"


class CompatibleLibrary(NamedTuple):
    """A library with a module here that has its consumer under its names."""

    package: str
    consumer: str  #: The class that programs construct.
    compat: str
    names: frozenset[str]  #: The names that ``compat`` itself has.
    structs: frozenset[str]  #: Those of ``compat.structs``.
    others: dict[str, frozenset[str]]  #: Those of further modules of ``compat``.
    advice: dict[str, Advice]  #: Names that are to be replaced by something else.
    options: dict[str, Advice]  #: Options that are to be left out or replaced.
    known: frozenset[str]  #: Options that ``compat`` takes besides those of this package.


_SERIALIZERS = frozenset({"Serializer", "Deserializer", "DefaultSerializer", "JsonSerializer"})
_GONE = Advice("KafkaConsumer", "kafka-python has not had it since version 2")

KAFKA_PYTHON = CompatibleLibrary(
    "kafka",
    "KafkaConsumer",
    "thinconsumer.compat.kafka",
    frozenset(
        {
            "KafkaConsumer", "ConsumerRebalanceListener", "TopicPartition", "OffsetAndMetadata",
            "ConsumerGroupMetadata", "IsolationLevel", *_SERIALIZERS,
        }
    ),
    frozenset({"ConsumerRecord", "MemberState", "OffsetAndTimestamp"}),
    {"serializer": _SERIALIZERS},
    {"SimpleConsumer": _GONE, "MultiProcessConsumer": _GONE},
    {
        **dict.fromkeys(
            ("legacy_iterator", "sock_chunk_bytes", "sock_chunk_buffer_count"),
            Advice("leave it out", "it has no effect"),
        ),
    },
    frozenset({"api_version_auto_timeout_ms"}),
)  # fmt: skip

AIOKAFKA = CompatibleLibrary(
    "aiokafka",
    "AIOKafkaConsumer",
    "thinconsumer.compat.aiokafka",
    frozenset(
        {
            "AIOKafkaConsumer", "ConsumerRebalanceListener", "ConsumerRecord", "OffsetAndMetadata",
            "OffsetAndTimestamp", "TopicPartition",
        }
    ),
    frozenset(),
    {"abc": frozenset({"AbstractTokenProvider"})},
    {
        "AbstractPartitionAssignor": Advice(
            "thinconsumer.PartitionAssignor", "it is given more, and aiokafka's subclasses are refused"
        )
    },
    {
        "loop": Advice("leave it out", "the running event loop is used"),
        "rebalance_timeout_ms": Advice("leave it out", "the coordinator waits for max_poll_interval_ms"),
        "consumer_timeout_ms": Advice("leave it out", "it waits for responses, and looks for none at intervals"),
    },
    frozenset(),
)  # fmt: skip

PEERS = {peer.package: peer for peer in (KAFKA_PYTHON, AIOKAFKA)}

#: What every program with a consumer in a group has to know, once.
HEARTBEATS = Advice(
    "poll() at least every session_timeout_ms (45 s by default), or work inside `with consumer.keep_alive():`",
    "no thread sends heartbeats: they are sent inside calls",
)
DESERIALIZERS = Advice(
    "except DeserializationError, with your exception as its __cause__; skip(error) passes the record",
    "an exception of a deserializer is not raised as it is; and no deserializer is called with None",
)
PRIVATE = Advice("a public call", "attributes that begin with _ are not there")
ASYNC_LISTENER = Advice("plain functions", "a listener with async methods is refused")
RAW_METRICS = Advice("metrics()", "raw=True is refused")
UNSUBSCRIBE = Advice("await commit() before it", "what was consumed is not committed later")
