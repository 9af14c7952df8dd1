"""Fetch sessions (KIP-227): say only what changed since the last request to this node.

Owns, per node, what the broker's session holds as we last told it. A session is strictly sequential: one request out,
its answer, the next. A partition that an incremental request does not mention is fetched again from where it was last
told, so a changed offset must be mentioned and an unwanted partition forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..timers import Retry
from ..types import TopicPartition

#: Session epochs with a meaning of their own: open (and close the one named), and no session at all.
INITIAL_EPOCH = 0
FIRST_INCREMENTAL_EPOCH = 1
FINAL_EPOCH = -1
NO_SESSION = 0


class WantedPartition(NamedTuple):
    """What one partition is asked for: all that a session remembers about it."""

    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: bytes


class Plan(NamedTuple):
    """What one request says."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, WantedPartition]
    forget: Mapping[TopicPartition, WantedPartition]


@dataclass(slots=True)
class FetchSession:
    """What one node's session holds, and the one request that may be out."""

    retry: Retry  #: In flight or not, and the backoff after failures.
    incremental: bool  #: Whether sessions are wanted at all.
    reserved: int = 0  #: Bytes the outstanding request may bring.
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    uses_ids: bool = False
    fruitless: int = 0  #: Answers in a row that brought no records.
    turn: int = 0  #: Requests made so far: which partition comes first in the next one.
    held: dict[TopicPartition, WantedPartition] = field(default_factory=dict)

    def plan(self, wanted: Mapping[TopicPartition, WantedPartition], *, sessions: bool, uses_ids: bool) -> Plan:
        """Return what to say so that the node fetches exactly ``wanted``, and take it as said."""
        if not (sessions and self.incremental):
            self.held = dict(wanted)
            return Plan(NO_SESSION, FINAL_EPOCH, wanted, {})
        if uses_ids != self.uses_ids:
            # Names and ids cannot be mixed in one session: epoch 0 with the old id closes it and opens another.
            self.epoch = INITIAL_EPOCH
            self.uses_ids = uses_ids
        if self.epoch == INITIAL_EPOCH:
            self.held = dict(wanted)
            return Plan(self.session_id, INITIAL_EPOCH, wanted, {})
        held = self.held
        # A topic that came back under a new id is another topic to the broker: forget the old one by its old id. Not by
        # name: brokers add before they forget, so that would remove the new one.
        forget = {
            tp: old
            for tp, old in held.items()
            if tp not in wanted or (uses_ids and wanted[tp].topic_id != old.topic_id)
        }
        send = {tp: new for tp, new in wanted.items() if held.get(tp) != new}
        self.held = dict(wanted)
        return Plan(self.session_id, self.epoch, send, forget)

    def answered(self, session_id: int) -> None:
        """Take the session of a successful answer: a new one, the old one going on, or none (the broker's cache was
        full, or this request had asked for none)."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            # 2^31 - 1 is followed by 1: 0 and -1 have meanings of their own.
            self.epoch = 1 if self.epoch >= 0x7FFFFFFF or session_id != self.session_id else self.epoch + 1
        self.session_id = session_id

    def reset(self, *, keep_id: bool = False) -> None:
        """Start over with a full request; ``keep_id`` also closes the old session on the broker with it."""
        self.epoch = INITIAL_EPOCH
        self.held = {}
        if not keep_id:
            self.session_id = NO_SESSION
