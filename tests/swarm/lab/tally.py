"""Counts the events of a run: a run in which no fault or rebalance happened would pass without proving anything."""

from collections import Counter
from dataclasses import dataclass, field

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchResponse
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from thinconsumer_testing.simulation.checkers.base import Checker, Records, SimReader
from thinconsumer_testing.simulation.truth import Truth

#: The names under which the error codes of partitions in Fetch responses are counted.
_NAMES = {
    Code.OFFSET_OUT_OF_RANGE: "out_of_range",
    Code.NOT_LEADER_OR_FOLLOWER: "not_leader",
    Code.FENCED_LEADER_EPOCH: "fenced",
    Code.UNKNOWN_LEADER_EPOCH: "unknown_epoch",
}


@dataclass(eq=False)
class Tally(Checker):
    """Counts events; records no violations."""

    counts: Counter[str] = field(default_factory=Counter, init=False)

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        self.counts["polls_with_records"] += 1

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        counts = self.counts
        if isinstance(response, OffsetForLeaderEpochResponse):
            counts["validations"] += 1
        elif isinstance(response, FetchResponse):
            counts["fetches"] += 1
            counts["session_errors"] += response.error_code != 0
            for topic in response.responses:
                for data in topic.partitions:
                    if data.error_code:
                        counts[_NAMES.get(Code(data.error_code), "other_fetch_errors")] += 1

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        self.counts["truncations"] += 1
