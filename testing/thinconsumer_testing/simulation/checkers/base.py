"""The events of a simulated run that checkers receive, and the class that passes them on.

A :class:`Checker` sees the calls of applications to their consumer and the results, the requests and responses, and the
committed contents of the logs. Of the insides of clients and brokers it sees only the size of a client's buffer. The
:class:`Jury` passes each event to the checkers that override its method. A *reader* is one consumer from its
construction to its close or crash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer.wire import Message

if TYPE_CHECKING:
    from ..client_tap import SentRequest
    from ..truth import Truth

Records = Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]

#: The three callbacks of a rebalance listener.
ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"


@dataclass(eq=False, slots=True)
class SimReader:
    """One consumer from its construction to its close or crash, with the settings it was built with."""

    name: str
    life: int = 0
    read_committed: bool = False
    policy: str = "latest"  #: The option ``auto_offset_reset``.
    max_poll_records: int = 500
    max_buffered_bytes: int = 1 << 26
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}/{self.life}" if self.life else self.name


@dataclass(eq=False, slots=True)
class Member(SimReader):
    """A reader that is a member of a group."""

    group: str = ""
    instance_id: str | None = None
    cooperative: bool = False  #: Whether cooperative-sticky is the member's only assignor.
    uses_broker_pattern: bool = False  #: Whether it subscribes by a regular expression that the broker evaluates.
    session_timeout_s: float = 0.0
    max_poll_interval_s: float = 0.0


@dataclass(eq=False)
class Checker:
    """Receives events, one method each; a subclass overrides those it needs, and records violations by ``accuse``."""

    accuse: Callable[[str], None]
    truth: Callable[[TopicPartition], Truth | None]  #: Returns a partition's committed contents; None if unknown.
    now: Callable[[], float] = field(default=lambda: 0.0, kw_only=True)  #: Returns the virtual time in seconds.

    def started(self, reader: SimReader) -> None:
        """A consumer was built."""

    def ended(self, reader: SimReader) -> None:
        """A consumer was closed, or has crashed."""

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        """``assign(tps)`` returned, or ``tps`` is the new assignment of a group member."""

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """``seek()`` returned, or a group member has read its committed offset.

        ``epoch`` is the leader epoch of the record before ``offset``, or -1.
        """

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        """``seek_to_beginning()`` returned, or, with ``to_end``, ``seek_to_end()``."""

    def paused(self, reader: SimReader, tps: Iterable[TopicPartition], on: bool) -> None:
        """``pause()`` returned (if ``on`` is true), or ``resume()``."""

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        """``poll()`` returned records; ``limit`` is the most records that it was allowed to return."""

    def positioned(self, reader: SimReader, tp: TopicPartition, offset: int) -> None:
        """``position(tp)`` returned ``offset``."""

    def raised(self, reader: SimReader, error: Exception) -> None:
        """A call of the consumer raised this error."""

    def polled(self, reader: SimReader, buffered: int) -> None:
        """``poll()`` returned, with records or without; the consumer keeps ``buffered`` bytes of Fetch responses."""

    def call_began(self, member: Member, polls: bool) -> None:
        """The application calls ``poll`` (if ``polls``), or another method that steps the consumer."""

    def call_ended(self, member: Member) -> None:
        """The call that :meth:`call_began` reported has returned or raised."""

    def subscribed(self, member: Member, topics: Collection[str] | None) -> None:
        """``subscribe()`` returned; ``topics`` is None if it got a pattern."""

    def closing(self, member: Member) -> None:
        """The application is about to call ``close`` or ``unsubscribe`` of this member."""

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """A rebalance callback was called: ``what`` is ASSIGNED, REVOKED or LOST."""

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """A rebalance callback has returned, or raised ``error``."""

    def processed(self, member: Member, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """The application has processed these records."""

    def connection_opened(self, member: Member, line: int, host: str, port: int) -> None:
        """The client begins to connect to an address; ``line`` is the number of the connection in later events."""

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        """The client wrote a request to a connection on which the requests ``before`` are unanswered."""

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        """The client has read a response of one of :data:`.client_tap.DECODED_APIS`."""

    def response_received(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        """A response has arrived that :meth:`response_read` reports later. The client has not acted on it yet."""

    def connection_closed(self, member: Member, line: int) -> None:
        """The client closed a connection, or noticed that it was lost."""

    def requested(self, client: str, node: int, request: Message, now: float) -> None:
        """A broker begins to handle a request."""

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """A broker has answered a request."""

    def closed_by_broker(self, why: str) -> None:
        """A broker has closed a connection because of a request that it does not admit, or because of invalid bytes."""

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """An unclean election, which begins ``epoch``, is about to lose the committed records from ``offset`` on.

        ``truth`` still has these records during the call. If a newer epoch has begun already, the leader of
        ``epoch`` is a deposed one: ``truth`` keeps the records, but this leader answers readers as if they were lost.
        """

    def faults_ended(self) -> None:
        """No fault is active from now on."""

    def finish(self) -> None:
        """The run is over."""


def by_reader(factory: Callable[[], Any]) -> Any:
    """Declare a field of a checker: a dict with one value per reader, which ``factory`` creates."""
    return field(default_factory=lambda: defaultdict(factory), init=False)


EVENTS = tuple(name for name, found in vars(Checker).items() if callable(found) and not name.startswith("_"))


class Jury:
    """Passes each event to the checkers that override its method, in the order in which they were added."""

    def __init__(self, checkers: Iterable[Checker] = ()) -> None:
        self.checkers: list[Checker] = []
        self._listeners: dict[str, list[Callable[..., None]]] = {event: [] for event in EVENTS}
        for checker in checkers:
            self.add(checker)

    def add(self, checker: Checker) -> None:
        """Pass events to this checker from now on, after the checkers added before."""
        self.checkers.append(checker)
        for event, listeners in self._listeners.items():
            if getattr(type(checker), event) is not getattr(Checker, event):
                listeners.append(getattr(checker, event))

    def tell(self, event: str, *what: Any) -> None:
        """Pass an event to the checkers: the name of a method of :class:`Checker`, and the method's arguments."""
        for listener in self._listeners[event]:
            listener(*what)


def names(tps: Collection[TopicPartition]) -> str:
    """Return the names of partitions for a message, sorted; "nothing" if there are none."""
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(tps)) or "nothing"
