"""Fetch sessions (KIP-227): send only what changed since the last Fetch to a node.

A session mirrors, per node, the partitions that the broker's session holds. It is strictly sequential: one request in
flight at a time. If an incremental request omits a partition, the broker reads it from the offset last sent. So each
changed offset must be sent, and a partition no longer wanted must be listed as forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..lazy_dataclass import dataclass, field
from ..timers import Retry
from ..types import TopicPartition

#: Session epochs: 0 opens a session, -1 requests none; both close the session with the id in the request.
INITIAL_EPOCH = 0
FIRST_INCREMENTAL_EPOCH = 1
FINAL_EPOCH = -1
NO_SESSION = 0


class WantedPartition(NamedTuple):
    """The fields of one partition that a fetch session keeps from one Fetch to the next."""

    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: bytes


class Plan(NamedTuple):
    """The session fields of one request: partitions to add or update, and to forget."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, WantedPartition]
    forget: Mapping[TopicPartition, WantedPartition]


@dataclass(slots=True)
class FetchSession:
    """The fetch session with one node, and its request in flight, if any."""

    retry: Retry  #: Whether a request is in flight, and the backoff after failures.
    incremental: bool  #: The option ``enable_incremental_fetch_sessions``.
    reserved: int = 0  #: Maximum response bytes of the request in flight.
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    uses_ids: bool = False
    fruitless: int = 0  #: Number of consecutive responses without records.
    turn: int = 0  #: Number of requests built so far; selects the first partition of the next one.
    held: dict[TopicPartition, WantedPartition] = field(default_factory=dict)

    def plan(self, wanted: Mapping[TopicPartition, WantedPartition], *, sessions: bool, uses_ids: bool) -> Plan:
        """Return the session fields with which the node fetches exactly ``wanted``, and record them as sent."""
        if not (sessions and self.incremental):
            self.held = dict(wanted)
            return Plan(NO_SESSION, FINAL_EPOCH, wanted, {})
        if uses_ids != self.uses_ids:
            # A session uses either topic names or topic ids. Epoch 0 with the old session id closes it and opens
            # another.
            self.epoch = INITIAL_EPOCH
            self.uses_ids = uses_ids
        if self.epoch == INITIAL_EPOCH:
            self.held = dict(wanted)
            return Plan(self.session_id, INITIAL_EPOCH, wanted, {})
        held = self.held
        # A recreated topic has a new id, and the deleted topic is forgotten by its old id. Brokers add partitions,
        # then forget others, so forgetting by name would remove the new topic.
        forget = {
            tp: old
            for tp, old in held.items()
            if tp not in wanted or (uses_ids and wanted[tp].topic_id != old.topic_id)
        }
        send = {tp: new for tp, new in wanted.items() if held.get(tp) != new}
        self.held = dict(wanted)
        return Plan(self.session_id, self.epoch, send, forget)

    def answered(self, session_id: int) -> None:
        """Take the session id of a successful response: a new id, the same one, or 0 for no session (the broker's cache
        is full, or the request asked for none)."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            # The epoch wraps from 2^31 - 1 to 1, since 0 and -1 are reserved.
            self.epoch = 1 if self.epoch >= 0x7FFFFFFF or session_id != self.session_id else self.epoch + 1
        self.session_id = session_id

    def reset(self, *, keep_id: bool = False) -> None:
        """Make the next Fetch a full one; with ``keep_id``, that Fetch also closes the old session on the broker."""
        self.epoch = INITIAL_EPOCH
        self.held = {}
        if not keep_id:
            self.session_id = NO_SESSION
