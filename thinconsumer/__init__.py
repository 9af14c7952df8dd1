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
from .assignors import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .config import ConfigurationWarning
from .consumer import Consumer, Health, HealthState
from .errors import (
    AuthorizationError,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    CommitFailedError,
    ConcurrentAccessError,
    CorruptRecordError,
    DeserializationError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupError,
    GroupMaxSizeReachedError,
    IllegalArgumentError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    InvalidAssignmentError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LogTruncationError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RecordError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
    UnsupportedVersionError,
    WakeupError,
)
from .group import RebalanceListener
from .member import GroupMember
from .types import (
    ClusterView,
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

__all__ = [
    "Assignment",
    "AuthorizationError",
    "BrokerResponseError",
    "ClusterAuthorizationFailedError",
    "ClusterView",
    "CommitFailedError",
    "ConcurrentAccessError",
    "ConfigurationWarning",
    "Consumer",
    "ConsumerRecord",
    "CorruptRecordError",
    "DeserializationError",
    "FencedInstanceIdError",
    "GroupAuthorizationFailedError",
    "GroupError",
    "GroupMaxSizeReachedError",
    "GroupMember",
    "GroupMetadata",
    "Health",
    "HealthState",
    "IllegalArgumentError",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidAssignmentError",
    "InvalidGroupIdError",
    "InvalidSessionTimeoutError",
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
    "PartitionAssignor",
    "PartitionInfo",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordError",
    "SaslAuthenticationFailedError",
    "Subscription",
    "TopicAuthorizationFailedError",
    "TopicPartition",
    "UnknownTopicOrPartitionError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
    "WakeupError",
    "__version__",
]
