"""A Kafka consumer in pure Python: one thread, nothing blocks, ``poll`` drives everything.

::

    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        for tp, records in consumer.poll(timeout_ms=1000).items():
            for record in records:
                print(tp, record.offset, record.value)
"""

from ._version import __version__
from .config import ConfigurationWarning
from .consumer import Consumer
from .errors import (
    AuthorizationError,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    ConcurrentAccessError,
    CorruptRecordError,
    DeserializationError,
    GroupAuthorizationFailedError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LogTruncationError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
    UnsupportedVersionError,
    WakeupError,
)
from .types import (
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

__all__ = [
    "AuthorizationError",
    "BrokerResponseError",
    "ClusterAuthorizationFailedError",
    "ConcurrentAccessError",
    "ConfigurationWarning",
    "Consumer",
    "ConsumerRecord",
    "CorruptRecordError",
    "DeserializationError",
    "GroupAuthorizationFailedError",
    "IllegalArgumentError",
    "IllegalStateError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaProtocolError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NoBrokersAvailable",
    "NoOffsetForPartitionError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "PartitionInfo",
    "RecordError",
    "SaslAuthenticationFailedError",
    "TopicAuthorizationFailedError",
    "TopicPartition",
    "UnknownTopicOrPartitionError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
    "WakeupError",
    "__version__",
]
