"""A Kafka consumer in pure Python: one thread, nothing blocks, ``poll`` drives everything.

::

    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        for tp, records in consumer.poll(timeout_ms=1000).items():
            for record in records:
                print(tp, record.offset, record.value)
"""

from . import errors
from ._version import __version__
from .assignors import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .config import ConfigurationWarning
from .consumer import Consumer, Health, HealthState
from .errors import *  # noqa: F403 - all that errors.__all__ names
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
    "ClusterView",
    "ConfigurationWarning",
    "Consumer",
    "ConsumerRecord",
    "GroupMember",
    "GroupMetadata",
    "Health",
    "HealthState",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionAssignor",
    "PartitionInfo",
    "RebalanceListener",
    "RebalanceProtocol",
    "Subscription",
    "TopicPartition",
    "__version__",
]
__all__ += errors.__all__
