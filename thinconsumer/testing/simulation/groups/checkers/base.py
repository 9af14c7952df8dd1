"""What checkers of groups are told besides, and by whom.

A :class:`GroupChecker` knows what members say and learn on the wire, at their own end of it, what their listeners hear
and what their applications have processed. It never looks into a client or a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .....types import ConsumerRecord, TopicPartition
from .....wire import Message
from ...checkers import Checker, Reader
from ..client_tap import Sent

#: The three things that a listener hears.
ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"


@dataclass(eq=False, slots=True)
class Member(Reader):
    """One life of one member of a group, by what it was built with."""

    group: str = ""
    instance_id: str | None = None
    cooperative: bool = False  #: By its list of assignors: all of them can be.
    session_timeout_s: float = 0.0
    max_poll_interval_s: float = 0.0


class GroupChecker(Checker):
    """Told of all that a :class:`Checker` is told of, and of this."""

    # -- on the wire, at the member's end

    def dialled(self, member: Member, line: int, host: str, port: int) -> None:
        """It opens connection ``line``."""

    def said(self, member: Member, line: int, sent: Sent, before: Sequence[Sent]) -> None:
        """It has written a request to connection ``line``, on which those ``before`` are unanswered."""

    def learned(self, member: Member, line: int, sent: Sent, response: Message) -> None:
        """An answer about groups has come to it."""

    def cut_off(self, member: Member, line: int) -> None:
        """Connection ``line`` is over, as far as it knows."""

    # -- at its interface

    def attends(self, member: Member, polls: bool) -> None:
        """It calls its consumer: ``poll``, or something else that keeps it alive."""

    def attended(self, member: Member) -> None:
        """That call is over."""

    def subscribed(self, member: Member, topics: Collection[str] | None) -> None:
        """It wants these topics, None: those that match a pattern."""

    def parts(self, member: Member) -> None:
        """It is about to close its consumer, or to unsubscribe."""

    def hears(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """Its listener is called: one of ASSIGNED, REVOKED and LOST."""

    def heard(self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None) -> None:
        """Its listener has returned, or raised."""

    def processed(self, member: Member, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Its application is through with these."""

    # -- of the run

    def calmed(self) -> None:
        """All faults are over."""


GROUP_EVENTS = tuple(name for name in vars(GroupChecker) if not name.startswith("_"))


class Panel:
    """Tells checkers of groups what only they want to hear; the rest they are told by the jury."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[..., None]]] = {event: [] for event in GROUP_EVENTS}

    def add(self, checker: GroupChecker) -> None:
        """Let one more listen."""
        for event, listeners in self._listeners.items():
            if getattr(type(checker), event) is not getattr(GroupChecker, event):
                listeners.append(getattr(checker, event))

    def tell(self, event: str, *what: Any) -> None:
        """Tell all of an event, one of :class:`GroupChecker`'s own methods, with its arguments."""
        for listener in self._listeners[event]:
            listener(*what)


def names(tps: Collection[TopicPartition]) -> str:
    """Return partitions in words, in an order of their own."""
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(tps)) or "nothing"
