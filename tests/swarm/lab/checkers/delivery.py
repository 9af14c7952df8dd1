"""Checks that members get records only of partitions that they own by their SyncGroup responses and callbacks."""

from collections.abc import Collection
from dataclasses import dataclass

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, Checker, Member, Records, SimReader, by_reader

from .views import Views


@dataclass(eq=False)
class DeliveryChecker(Checker):
    """Checks that polled records are of partitions in the member's last SyncGroup response.

    A partition's records may come only between its on_partitions_assigned and on_partitions_revoked (or _lost).
    """

    views: Views
    _owned: dict[SimReader, set[TopicPartition]] = by_reader(set)

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """Note that partitions are not owned any more when on_partitions_revoked or on_partitions_lost is called."""
        if what != ASSIGNED:
            self._owned[member] -= set(tps)

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """Note that partitions are owned after on_partitions_assigned has returned without an error."""
        if what == ASSIGNED and error is None:
            self._owned[member] |= set(tps)

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        view = self.views.of.get(reader)
        if view is None:
            return
        if view.is_doubted:
            self.accuse(f"{reader} got records after it had been away for more than its session timeout until"
                        f" {view.doubted_since:.3f}: no response has confirmed its membership since")  # fmt: skip
        for tp in records:
            name = f"{tp.topic}-{tp.partition}"
            if tp not in self._owned[reader]:
                self.accuse(f"{reader} got records of {name}, for which on_partitions_assigned has not returned")
            elif view.expelled:
                self.accuse(f"{reader} got records of {name} after its membership ended: {view.expelled}")
            elif tp not in view.share:
                self.accuse(f"{reader} got records of {name}, which its last SyncGroup response did not assign to it")
