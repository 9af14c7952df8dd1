"""What users hear of a rebalance: the listener's three calls, with deltas that match what is owned (``seeds/004``)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..types import TopicPartition

__all__ = ["RebalanceListener"]


class RebalanceListener:
    """Subclass it and pass an instance to ``subscribe``; any object with these methods will do.

    All three run inside ``poll`` (and ``close`` and ``unsubscribe``), on the caller's thread, and may call the
    consumer's ``position``, ``committed``, ``commit``, ``seek``, ``pause`` and ``resume``. What they raise comes out of
    ``poll``: a failed ``on_partitions_assigned`` is called again by the next poll, and no record of these partitions
    comes before it has succeeded; the other two run once.

    Under an eager protocol every rebalance revokes all and assigns all. Under a cooperative one (KIP-429) both get
    only what changes: ``on_partitions_assigned`` is called even when that is nothing, ``on_partitions_revoked`` is not.
    """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """These are new. Their positions are the committed ones, unless you ``seek`` here."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """These go elsewhere after this call. They are still yours: commit what you have processed."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """These are not yours any more, and others may read them already; a commit would fail.

        Unless overridden, it calls :meth:`on_partitions_revoked`.
        """
        self.on_partitions_revoked(lost)


def hear_assigned(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Tell the listener, if there is one, what is new."""
    if listener is not None:
        listener.on_partitions_assigned(set(partitions))


def hear_revoked(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Tell the listener, if there is one, what goes."""
    if listener is not None:
        listener.on_partitions_revoked(set(partitions))


def hear_lost(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Tell the listener, if there is one, what is gone. kafka-python's listeners know only "revoked"."""
    if listener is not None:
        getattr(listener, "on_partitions_lost", listener.on_partitions_revoked)(set(partitions))
