"""What checkers are told, and by whom.

A :class:`Checker` knows what readers asked for and got at their public interface, what brokers saw on the wire, and
what is true of the logs. It never looks into a client or a broker. The :class:`Jury` tells each what it wants to hear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....types import ConsumerRecord, TopicPartition
from ....wire import Message

if TYPE_CHECKING:
    from ..truth import Truth

Records = Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]


@dataclass(eq=False, slots=True)
class Reader:
    """One life of one consumer, by what it was built with. A crash ends it; who comes after it is another."""

    name: str
    life: int = 0
    read_committed: bool = False
    policy: str = "latest"  #: ``auto_offset_reset``
    max_poll_records: int = 500
    max_buffered_bytes: int = 1 << 26
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}/{self.life}" if self.life else self.name


class Checker:
    """Told of everything; a subclass overrides what it is interested in, and accuses."""

    def __init__(self, accuse: Callable[[str], None], truth: Callable[[TopicPartition], Truth | None]) -> None:
        self.accuse = accuse
        self.truth = truth  #: The partition's truth, None while there is no such partition.

    # -- at the reader's interface

    def started(self, reader: Reader) -> None:
        """A consumer was built."""

    def ended(self, reader: Reader) -> None:
        """A consumer was closed, or has crashed."""

    def assigned(self, reader: Reader, tps: Sequence[TopicPartition]) -> None:
        """``assign()`` returned."""

    def sought(self, reader: Reader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """``seek()`` returned; ``epoch`` is that of the record before, if it was given."""

    def reset(self, reader: Reader, tp: TopicPartition, to_end: bool) -> None:
        """``seek_to_beginning()`` or ``seek_to_end()`` returned."""

    def paused(self, reader: Reader, tps: Iterable[TopicPartition], on: bool) -> None:
        """``pause()`` or ``resume()`` returned."""

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """``poll()`` returned records, of at most ``limit`` that were allowed."""

    def positioned(self, reader: Reader, tp: TopicPartition, offset: int) -> None:
        """``position()`` returned."""

    def raised(self, reader: Reader, error: Exception) -> None:
        """A call raised."""

    def buffered(self, reader: Reader, size: int) -> None:
        """So many bytes of answers are kept by the consumer."""

    # -- on the wire

    def requested(self, client: str, node: int, request: Message, now: float) -> None:
        """A node begins to work on a request."""

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """A node has answered."""

    def in_flight(self, client: str, label: str, api_key: int, count: int) -> None:
        """So many requests of an API are unanswered on one connection."""

    # -- in the logs

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """What was committed from an offset on is being lost, by an unclean election that begins this epoch.

        The truth still has it. Where whoever began the epoch had been deposed before, it will keep it; but that leader
        tells its readers the same.
        """

    # -- the end

    def finish(self) -> None:
        """The run is over."""


EVENTS = tuple(name for name, found in vars(Checker).items() if callable(found) and not name.startswith("_"))


class Jury:
    """Tells every checker what it wants to hear."""

    def __init__(self, checkers: Iterable[Checker] = ()) -> None:
        self.checkers: list[Checker] = []
        self._listeners: dict[str, list[Callable[..., None]]] = {event: [] for event in EVENTS}
        for checker in checkers:
            self.add(checker)

    def add(self, checker: Checker) -> None:
        """Let one more listen."""
        self.checkers.append(checker)
        for event, listeners in self._listeners.items():
            if getattr(type(checker), event) is not getattr(Checker, event):
                listeners.append(getattr(checker, event))

    def tell(self, event: str, *what: Any) -> None:
        """Tell all of an event, one of :class:`Checker`'s methods, with its arguments."""
        for listener in self._listeners[event]:
            listener(*what)
