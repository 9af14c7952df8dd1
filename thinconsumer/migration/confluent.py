"""What becomes of the names, calls and errors of confluent-kafka: tables of advice.

Each advice is what to write instead, and why. None stands for a name that means the same here.
"""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """A replacement of a name, and the reason for it, which may be empty."""

    instead: str
    why: str = ""


_ERRORS_ARE_RAISED = "errors are exceptions of the call; poll() goes on after one that it has raised"
_CONSUMER = Advice("thinconsumer.Consumer")
_ASYNC = Advice("thinconsumer.aio.AsyncConsumer", "its calls are the same, and awaited")
_NO_OFFSET = "a partition has no offset: pass {tp: offset} to commit(), and call seek(tp, offset)"

#: The classes whose objects are consumers, and what replaces each.
CONSUMERS: dict[str, Advice] = {
    "Consumer": _CONSUMER,
    "DeserializingConsumer": _CONSUMER,
    "AvroConsumer": _CONSUMER,
    "AIOConsumer": _ASYNC,
    "AsyncDeserializingConsumer": _ASYNC,
}

#: Names of ``confluent_kafka`` that programs import for a consumer. None: it is used with other clients only.
NAMES: dict[str, Advice | None] = {
    **CONSUMERS,
    "Message": Advice("thinconsumer.ConsumerRecord", "what were methods are attributes: record.value"),
    "Messages": Advice("a list of thinconsumer.ConsumerRecord"),
    "TopicPartition": Advice("thinconsumer.TopicPartition", "it has a topic and a partition, and no offset"),
    "KafkaException": Advice("thinconsumer.KafkaError", "the base of all errors here"),
    "KafkaError": Advice(
        "a class of thinconsumer.errors for each code", "errors are told apart by their class, or by error.code"
    ),
    "OFFSET_BEGINNING": Advice("seek_to_beginning(tp)", "offsets have no special numbers"),
    "OFFSET_END": Advice("seek_to_end(tp)", "offsets have no special numbers"),
    "OFFSET_STORED": Advice("leave it out", "a partition begins at its committed offset"),
    "OFFSET_INVALID": Advice("None", "committed() returns None for a partition without a committed offset"),
    "TIMESTAMP_NOT_AVAILABLE": Advice("-1", "record.timestamp_type is the broker's number"),
    "TIMESTAMP_CREATE_TIME": Advice("0", "record.timestamp_type is the broker's number"),
    "TIMESTAMP_LOG_APPEND_TIME": Advice("1", "record.timestamp_type is the broker's number"),
    "ThrottleEvent": Advice("leave it out", "metrics() has fetch-throttle-time-avg and -max"),
    "SerializerError": Advice("thinconsumer.DeserializationError", "the exception is its __cause__"),
    "ConsumeError": Advice("thinconsumer.KafkaError"),
    "KeyDeserializationError": Advice("thinconsumer.DeserializationError", "its field is 'key'"),
    "ValueDeserializationError": Advice("thinconsumer.DeserializationError", "its field is 'value'"),
    **dict.fromkeys(
        (
            "AcknowledgeType", "ConcurrentModificationException", "ConsumerGroupState",
            "ConsumerGroupTopicPartitions", "ConsumerGroupType", "DeserializingShareConsumer", "ElectionType",
            "IllegalStateException", "IsolationLevel", "Node", "Producer", "SerializingProducer", "ShareConsumer",
            "TopicCollection", "TopicPartitionInfo", "Uuid", "avro", "cimpl", "consistent", "deserializing_consumer",
            "deserializing_share_consumer", "error", "fnv1a", "libversion", "murmur2", "os", "serialization",
            "serializing_producer", "version",
        )
    ),
}  # fmt: skip

#: The methods of consumers.
METHODS: dict[str, Advice | None] = {
    "assignment": None,
    "close": None,
    "unsubscribe": None,
    "assign": Advice(
        "assign(partitions) without offsets, then seek(tp, offset) for each",
        "in a rebalance listener no call is needed: partitions begin at their committed offsets",
    ),
    "incremental_assign": Advice(
        "leave it out; seek(tp, offset) sets a position", "the partitions of a rebalance are assigned without a call"
    ),
    "incremental_unassign": Advice("leave it out", "the partitions of a rebalance are revoked without a call"),
    "unassign": Advice("unsubscribe()", "in a rebalance listener leave it out: partitions are revoked without a call"),
    "cluster_id": Advice("confluent_kafka.admin.AdminClient", "this consumer does not show the cluster's id"),
    "commit": Advice(
        "commit_async(record), which does not wait, or commit(record), which does; also with {tp: next_offset}",
        "commit() there does not wait, unless asynchronous=False is given",
    ),
    "committed": Advice(
        "committed(tp), an offset or None; committed(tp, other_tp), a dict of them", "partitions have no offset"
    ),
    "consume": Advice(
        "poll(1000, max_records=100), a dict of records by partition",
        "timeouts are milliseconds; it returns as soon as there are records: repeat it if a batch has to be full",
    ),
    "consumer_group_metadata": Advice(
        "group_metadata()", "confluent-kafka's producer does not take it: transactions need a consumer of its own kind"
    ),
    "get_watermark_offsets": Advice("beginning_offsets([tp])[tp] and end_offsets([tp])[tp]"),
    "list_topics": Advice("topics() and partitions_for_topic(topic)"),
    "memberid": Advice("group_metadata().member_id"),
    "offsets_for_times": Advice(
        "offsets_for_times({tp: timestamp_ms}), a dict of results, None where there is no such record",
        "partitions have no offset",
    ),
    "pause": Advice("pause(*partitions)"),
    "resume": Advice("resume(*partitions)"),
    "poll": Advice(
        "for record in consumer: ..., or poll(1000), a dict of records by partition",
        "timeouts are milliseconds, so poll(1.0) is poll(1000); poll() does not wait; a call returns several records",
    ),
    "position": Advice("position(tp), an offset", "partitions have no offset"),
    "seek": Advice("seek(tp, offset)", "partitions have no offset"),
    "set_sasl_credentials": Advice("build a new consumer", "user and password are options of the constructor"),
    "store_offsets": Advice(
        "commit_async(record) with enable.auto.commit=False",
        "automatic commits cover what earlier polls returned, never what you still have in hand",
    ),
    "subscribe": None,
}

#: The arguments of ``subscribe``; other ones are the same.
CALLBACKS: dict[str, Advice] = {
    name: Advice(
        f"subscribe(topics, listener=...) with a method on_partitions_{what}", "see thinconsumer.RebalanceListener"
    )
    for name, what in {"on_assign": "assigned", "on_revoke": "revoked", "on_lost": "lost"}.items()
}
PATTERN = Advice('subscribe(pattern="orders.*")', "a pattern has an argument of its own, and matches whole names")

_ATTRIBUTE = Advice("an attribute: record.topic, record.partition, record.offset, record.key, record.value")
_UNCHANGED = Advice("a new value", "records do not change")

#: The methods of messages.
OF_MESSAGES: dict[str, Advice | None] = {
    "error": Advice("leave it out", f"no record has an error: {_ERRORS_ARE_RAISED}"),
    **dict.fromkeys(
        ("topic", "partition", "offset", "leader_epoch", "key", "value", "deserialized_key", "deserialized_value"),
        _ATTRIBUTE,
    ),
    "headers": Advice("record.headers", "a tuple of pairs, empty if there are none"),
    "timestamp": Advice("record.timestamp, in milliseconds", "the type is record.timestamp_type"),
    **dict.fromkeys(("set_error", "set_headers", "set_key", "set_topic", "set_value"), _UNCHANGED),
    "latency": None,  # of what a producer has written
    "delivery_count": None,  # of share groups
}

#: Codes of ``KafkaError`` that consumers' programs compare with.
CODES: dict[str, Advice] = {
    "_PARTITION_EOF": Advice("leave it out", "no record marks an end: read_to_end() stops there, and lag() is 0 there"),
    "_ALL_BROKERS_DOWN": Advice(
        "except NoBrokersAvailable", "raised after bootstrap_timeout_ms; the next poll() tries again"
    ),
    "_TRANSPORT": Advice("leave it out", "connections are made again without an error"),
    "_TIMED_OUT": Advice("except KafkaTimeoutError"),
    "_MAX_POLL_EXCEEDED": Advice("leave it out", "the next poll() joins the group again"),
    "_ASSIGNMENT_LOST": Advice("on_partitions_lost() of the listener"),
    "_AUTO_OFFSET_RESET": Advice("except NoOffsetForPartitionError"),
    "_LOG_TRUNCATION": Advice("except LogTruncationError"),
    "_AUTHENTICATION": Advice("except SaslAuthenticationFailedError"),
    "_SSL": Advice("except SslAuthenticationFailedError"),
    "_NO_OFFSET": Advice("leave it out", "commit() without anything to commit is no error"),
    "_KEY_DESERIALIZATION": Advice("except DeserializationError", "its field is 'key'"),
    "_VALUE_DESERIALIZATION": Advice("except DeserializationError", "its field is 'value'"),
    "_ASSIGN_PARTITIONS": Advice("on_partitions_assigned() of the listener"),
    "_REVOKE_PARTITIONS": Advice("on_partitions_revoked() of the listener"),
    "OFFSET_OUT_OF_RANGE": Advice("except OffsetOutOfRangeError"),
    "UNKNOWN_TOPIC_OR_PART": Advice("except UnknownTopicOrPartitionError"),
    "_UNKNOWN_TOPIC": Advice("except UnknownTopicOrPartitionError"),
    "_UNKNOWN_PARTITION": Advice("except UnknownTopicOrPartitionError"),
    "TOPIC_AUTHORIZATION_FAILED": Advice("except TopicAuthorizationFailedError"),
    "GROUP_AUTHORIZATION_FAILED": Advice("except GroupAuthorizationFailedError"),
    "ILLEGAL_GENERATION": Advice("except CommitFailedError"),
    "UNKNOWN_MEMBER_ID": Advice("except CommitFailedError"),
    "REBALANCE_IN_PROGRESS": Advice("except RebalanceInProgressError"),
    "FENCED_INSTANCE_ID": Advice("except FencedInstanceIdError"),
    "_FENCED": Advice("except FencedInstanceIdError"),
}
#: Any other code.
OTHER_CODE = Advice("the class of the error, or its code and retriable", "docs/errors.md has a table of both")
PARTITION_WITH_OFFSET = Advice("TopicPartition(topic, partition)", _NO_OFFSET)
PARTITION_OF_TOPIC = Advice("TopicPartition(topic, partition) for each of partitions_for_topic(topic)")

#: Options with more to say than that they are accepted, and those of the package's own helpers.
OPTIONS: dict[str, Advice] = {
    f"{field}.deserializer": Advice(
        f'confluent(deserializer, "{field}") of thinconsumer.deserializers',
        "deserializers here get bytes, or (topic, headers, data); this one calls confluent-kafka's with their context",
    )
    for field in ("key", "value")
}
#: Keywords of ``AIOConsumer``.
OPTIONS |= dict.fromkeys(("executor", "max_workers"), Advice("leave it out", "no thread is used"))
#: The options of ``AvroConsumer`` that begin so.
REGISTRY_PREFIX = "schema.registry."
REGISTRY = Advice(
    '"value.deserializer": confluent(AvroDeserializer(registry)), with confluent of thinconsumer.deserializers',
    "the consumer itself asks no schema registry",
)
#: Options whose default differs so that a program that leaves them out reads other records.
DEFAULTS: dict[str, Advice] = {
    "isolation.level": Advice(
        'add "isolation.level": "read_committed"', "the default here is read_uncommitted, as in Java"
    )
}
