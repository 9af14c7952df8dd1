"""Replay a trace and tell its story, up to a condition: then the state of the client is told, too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from .looks import Client, state_lines
from .messages import APIS, printable
from .player import Replayed, replay
from .story import Happening, Story, Teller
from .trace_file import read_trace

_LOG = logging.getLogger(__name__.partition(".")[0])


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname}: {record.getMessage()}")


@contextmanager
def _logged_to(lines: list[str]) -> Iterator[None]:
    """Put what the replayed client logs into ``lines``, and nowhere else: it was logged when the trace was written."""
    handler, before = _Lines(lines), (_LOG.level, _LOG.propagate)
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(before[0])
        _LOG.propagate = before[1]


class _Stopped(BaseException):
    """Ends a replay at the condition."""


class Telling(NamedTuple):
    """A story, how far the trace was replayed (None if it was stopped), and the state of the client at the stop."""

    story: Story
    replayed: Replayed | None
    state: tuple[str, ...]


Condition = Callable[[Happening], bool]


def tell(path: str, until: Condition | None = None) -> Telling:
    """Replay a trace, and tell what has happened in it; up to the first happening for which ``until`` is true.

    After a divergence, the rest is told from the trace alone.

    Raises:
        TraceError: the file is no trace, or has events of a wrong form.
        OSError: it cannot be read.
    """
    events = read_trace(path)
    teller, state = Teller(events), list[str]()
    happenings = teller.story.happenings
    told = 0

    def watch(place: int, client: Client) -> None:
        nonlocal told
        teller.advance(place, client)
        for one in happenings[max(0, told - 2) :]:
            if until is not None and until(one):
                state.extend(map(printable, _state(teller, one, client)))
                raise _Stopped
        told = len(happenings)

    try:
        with _logged_to(teller.logged):
            replayed: Replayed | None = replay(path, watch)
    except _Stopped:
        replayed = None
    if state:
        replayed = None
    elif replayed is not None and replayed.divergence is not None:
        teller.go_on_alone()
    teller.end()
    return Telling(teller.story, replayed, tuple(state))


def _state(teller: Teller, at: Happening, client: Client) -> Iterator[str]:
    yield f"stopped after event {at.place}, {at.at:+.4f} s: {at.words}"
    yield from teller.unfinished()
    yield from state_lines(client, teller.now)


def condition(text: str) -> Condition:
    """Return what ``--until`` asks for.

    Raises:
        ValueError: the text is no condition.
    """
    if text in ("rebalance", "assigned", "revoked"):
        return lambda one: one.kind == text
    if text == "error":
        return lambda one: one.is_error
    if text.isdecimal():
        return lambda one: one.place >= int(text)
    names = {name.lower(): name for name in APIS}
    if text.lower() in names:
        return lambda one: one.kind == "request" and one.name == names[text.lower()]
    tp, _, offset = text.rpartition(":")
    if "-" in tp and offset.isdecimal():
        return partial(_reaches, tp, int(offset))
    words = "rebalance, assigned, revoked, error, the number of an event, TOPIC-PARTITION:OFFSET"
    raise ValueError(f"{text!r} is none of {words} and a request's name ({', '.join(APIS)})")


def _reaches(name: str, offset: int, one: Happening) -> bool:
    first, end = one.moves.get(name, (1, 0))
    return first <= offset < end or first == offset == end


def line_of(one: Happening) -> str:
    """Return the line to print: number of the event, time since the beginning, words."""
    return f"{one.place:>7} {one.at:+11.4f} s  {'  ' * one.depth}{'! ' if one.is_error else ''}{one.words}"
