"""What managers hand to connections and get back: a request that knows who asked and why, and its one answer.

Every :class:`Request` given to the links gets exactly one :class:`Answer`: the decoded response, or an error (the
connection failed, the deadline passed, the broker speaks no common version). Whoever asked keeps no timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..wire import Message


class Target(NamedTuple):
    """Where a request goes: a node's id, and which of the connections to it.

    Fetches go over a connection of their own (channel ``"fetch"``), and so will what is said to a coordinator: brokers
    answer each connection strictly in order, and behind a long poll a heartbeat or a question would wait.
    """

    node_id: int
    channel: str = ""


#: Any broker that can answer now: the least loaded ready connection, else a known node, else a bootstrap server.
ANY_NODE = Target(-1)


@dataclass(slots=True, eq=False)
class Request:
    """One thing asked of one broker.

    ``build`` makes the message when it is written, for the version agreed on with that broker, so that what it says
    (positions, generations, session epochs) is true at that moment and not when it was queued.
    """

    asker: str  #: The manager that asked; with the API it names the handler of the answer.
    api: type[Message]  #: The request's class; its ``RESPONSE`` is what comes back.
    target: Target
    build: Callable[[int], Message]
    deadline: float  #: Absolute, for queueing, connecting and answering together; monotonic seconds.
    context: Any = None  #: The asker's own: cursors, sessions, what to do next.
    min_version: int = 0
    #: Highest version to use; called when the request is written. A request that needs names, for one, must stay
    #: below the versions that know only topic ids while an id is unknown.
    max_version: Callable[[], int] | None = None
    #: Seconds for which the broker may hold the answer back on purpose, as it does with a long poll. A connection that
    #: took most of the time until the deadline would else never be given enough for one.
    held_back: float = 0.0


@dataclass(slots=True, eq=False)
class Answer:
    """What became of a request: a ``response`` or an ``error``, never both."""

    request: Request
    node_id: int  #: Who answered or should have; -1 for a bootstrap server whose id is not known.
    version: int = -1  #: Of the message sent; -1 when it was never sent.
    response: Any = None  #: An instance of ``request.api.RESPONSE``.
    error: KafkaError | None = None
    #: Bytes of the response frame. Slices of it (records) keep all of it in memory, so this is what they cost.
    size: int = 0
    sent_at: float = -1.0  #: When the request was written, if the answer is a response.
    sent_size: int = 0  #: Bytes of the request.
