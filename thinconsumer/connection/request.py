"""Requests that managers pass to the network client, and answers that they get back.

Every :class:`Request` gets exactly one :class:`Answer`: the decoded response, or an error (the connection failed, the
deadline passed, the broker supports no common version). The manager that sent the request needs no timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..wire import Message


class Target(NamedTuple):
    """Where a request goes: the id of a node, and one of the connections to it.

    Fetches go over a connection of their own (channel ``"fetch"``), and so do JoinGroup and SyncGroup: a broker answers
    the requests of one connection in order, and behind a long poll a heartbeat or Metadata request would wait.
    """

    node_id: int
    channel: str = ""


#: Any broker that can answer now: the least loaded ready connection, else a known node, else a bootstrap server.
ANY_NODE = Target(-1)


@dataclass(slots=True, eq=False)
class Request:
    """One request to one broker.

    ``build`` makes the message when it is written, for the negotiated version: its positions, generations and session
    epochs are then those of that moment, and not of the moment when the request was queued.
    """

    asker: str  #: The manager that sent it and handles the answer.
    api: type[Message]  #: The request's class; the response is an instance of its ``RESPONSE``.
    target: Target
    build: Callable[[int], Message]
    deadline: float  #: Absolute, for queueing, connecting and answering together; monotonic seconds.
    context: Any = None  #: For the manager: cursors, sessions, callbacks.
    min_version: int = 0
    #: Returns the highest version to use, when the request is written. While the id of a topic is unknown, for example,
    #: the request must use a version with topic names.
    max_version: Callable[[], int] | None = None
    #: Seconds for which the broker may hold the answer back on purpose (a long poll). They extend the deadline of a
    #: request that waited long for its connection, which would otherwise time out before the broker answers.
    held_back: float = 0.0


@dataclass(slots=True, eq=False)
class Answer:
    """The result of a request: a ``response`` or an ``error``, never both."""

    request: Request
    node_id: int  #: The node that the request went to; -1 for a bootstrap server: its id is unknown.
    version: int = -1  #: Of the message sent; -1 when it was never sent.
    response: Any = None  #: An instance of ``request.api.RESPONSE``.
    error: KafkaError | None = None
    #: Bytes of the response frame. A slice of it (records) keeps the whole frame in memory.
    size: int = 0
    sent_at: float = -1.0  #: When the request was written, if the answer is a response.
    sent_size: int = 0  #: Bytes of the request.
