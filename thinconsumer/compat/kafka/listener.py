"""kafka-python's base class of rebalance listeners, and the adapter that calls one with values of its classes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ... import group, types
from ..peer_types import KAFKA_PYTHON
from .structs import partition_of

__all__ = ["ConsumerRebalanceListener"]

if TYPE_CHECKING:
    ConsumerRebalanceListener = group.RebalanceListener
else:
    ConsumerRebalanceListener = KAFKA_PYTHON.find(
        "consumer.subscription_state.ConsumerRebalanceListener", group.RebalanceListener
    )


class ConvertingListener:
    """Has the methods of a user's listener, and calls them with partitions of kafka-python's class."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Callable[[Collection[types.TopicPartition]], Any]:
        method = getattr(self._listener, name)

        def call(partitions: Collection[types.TopicPartition]) -> Any:
            return method({*map(partition_of, partitions)})

        return call
