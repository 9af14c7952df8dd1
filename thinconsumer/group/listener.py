"""The listeners for rebalances, and for keys that move between partitions; and the functions that call them."""

from collections.abc import Collection
from typing import Any

from ..types import TopicPartition

__all__ = ["PartitionKeyRebalanceListener", "RebalanceListener"]


class RebalanceListener:
    """React to rebalances: subclass it and pass an instance to ``subscribe``; any object with these methods will do.

    The methods run inside ``poll`` (and ``close`` and ``unsubscribe``), on the caller's thread, and may call the
    consumer's ``position``, ``committed``, ``commit``, ``seek``, ``pause`` and ``resume``. ``poll`` raises their
    exceptions. The next poll repeats a failed ``on_partitions_assigned``, and returns no record of these partitions
    before it has succeeded; the other two methods are not repeated. An ``async def`` method is rejected.

    Under an eager protocol every rebalance revokes and assigns all partitions. Under a cooperative one (KIP-429) the
    callbacks get only the changes: ``on_partitions_assigned`` is called even if no partition was added,
    ``on_partitions_revoked`` only if some are revoked.
    """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """Prepare for new partitions. They start at their committed offsets, unless you ``seek`` here."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """Commit what you have processed: after this call other members may own these partitions."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """Drop state kept for partitions that this member has lost: other members may read them, and commits fail.

        Unless overridden, it calls :meth:`on_partitions_revoked`.
        """
        return self.on_partitions_revoked(lost)


class PartitionKeyRebalanceListener(RebalanceListener):
    """React to keys that move between partitions, when partitions are added or deleted.

    Pass an instance to ``subscribe``; any object with these methods will do. They run inside ``poll``, as those of
    :class:`RebalanceListener`. ``poll`` raises their exceptions, and the next poll repeats the call.
    """

    def on_partition_keys_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """Load state for keys that these partitions have inherited. Polls return the keys' records after this call."""

    def on_partition_keys_maybe_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """Store state, and commit: after this call another partition may inherit keys of these partitions, and another
        member may read that partition.
        """


def call_key_listener(listener: Any, event: str, partitions: Collection[TopicPartition]) -> None:
    """Call the callback for ``event`` ("assigned" or "maybe_revoked"), if there is a listener that has it."""
    callback = getattr(listener, f"on_partition_keys_{event}", None)
    if callback is not None and partitions:
        callback(set(partitions))


def call_listener(listener: Any, event: str, partitions: Collection[TopicPartition]) -> None:
    """Call the callback for ``event`` ("assigned", "revoked" or "lost"), if there is a listener.

    A listener written for kafka-python has no ``on_partitions_lost``: call ``on_partitions_revoked`` instead.
    """
    if listener is not None:
        if event == "lost" and not hasattr(listener, "on_partitions_lost"):
            event = "revoked"
        getattr(listener, f"on_partitions_{event}")(set(partitions))
