"""A Kafka consumer in pure Python. Calls such as ``poll`` do all its I/O, in the caller's thread.

::

    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        for tp, records in consumer.poll(timeout_ms=1000).items():
            for record in records:
                print(tp, record.offset, record.value)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import errors
from ._version import __version__
from .config import ConfigurationWarning, dead_letter
from .consumer import Consumer, Health, HealthState, MemberHealth
from .errors import *  # noqa: F403 - all that errors.__all__ names
from .fetch.record_sequence import RecordSequence
from .types import (
    ClusterView,
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    SubscriptionPattern,
    TopicPartition,
)

if _TYPE_CHECKING:
    from .assignors import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
    from .consumer.interceptors import ConsumerInterceptor
    from .group import PartitionKeyRebalanceListener, RebalanceListener
    from .member import GroupMember
    from .records.raw_batch import RawBatch

__all__ = [
    "Assignment",
    "ClusterView",
    "ConfigurationWarning",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "GroupMember",
    "GroupMetadata",
    "Health",
    "HealthState",
    "MemberHealth",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionAssignor",
    "PartitionInfo",
    "PartitionKeyRebalanceListener",
    "RawBatch",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordSequence",
    "Subscription",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "dead_letter",
]
__all__ += errors.__all__

#: The modules of names that many applications do not need: each is imported when one of its names is first used.
_MODULES = {
    "Assignment": ".assignors",
    "ConsumerInterceptor": ".consumer.interceptors",
    "GroupMember": ".member",
    "GroupMetadata": ".assignors",
    "PartitionAssignor": ".assignors",
    "PartitionKeyRebalanceListener": ".group",
    "RawBatch": ".records.raw_batch",
    "RebalanceListener": ".group",
    "RebalanceProtocol": ".assignors",
    "Subscription": ".assignors",
}


def __getattr__(name: str) -> object:
    if name in ("assignors", "member"):  # these modules are attributes without an import, too
        return _import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_MODULES[name], __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
