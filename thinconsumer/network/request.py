"""Requests that managers pass to the network client, and answers that they get back.

Unless the engine restarts, every :class:`Request` gets exactly one :class:`Answer`, a decoded response or an error: the
manager that sent it needs no timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..support.lazy_dataclass import dataclass
from ..wire import Message


class Target(NamedTuple):
    """The destination of a request: a node, and the channel that selects one of the connections to it.

    A broker answers the requests of one connection in order. Requests that it may hold back have connections of their
    own, so that other requests do not wait behind them: Fetch (``"fetch"``, ``"fetch-2"``), JoinGroup, SyncGroup and
    heartbeats (``"group"``), LeaveGroup behind a JoinGroup (``"leave"``), and Produce (``"produce"``).
    """

    node_id: int
    channel: str = ""


#: The target of a request that any broker can answer.
ANY_NODE = Target(-1)


@dataclass(slots=True, eq=False)
class Request:
    """One request to one broker."""

    asker: str  #: The name of the manager that has sent the request and handles its answer.
    api: type[Message]  #: The request's message class; its attribute ``RESPONSE`` is the class of the response.
    target: Target
    #: Returns the message for the negotiated version; called when the request is written, so that positions,
    #: generations and session epochs are current.
    build: Callable[[int], Message]
    #: The monotonic time by which the answer must arrive; the time for queueing and connecting counts, too. The
    #: connection may extend the deadline, for example while the broker throttles.
    deadline: float
    #: Data that the manager needs to handle the answer, such as the cursors that a Fetch was built from.
    context: Any = None
    min_version: int = 0
    #: Returns the highest version that the request may use now; called when the request is written. A Fetch, for
    #: example, must use a version with topic names while a topic's id is unknown.
    max_version: Callable[[], int] | None = None
    #: Seconds for which the broker may hold back the response, as in a long poll. Even a request that has waited long
    #: for its connection gets at least this much time for its answer, or it would time out before the broker answers.
    max_wait: float = 0.0


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request that is not written yet."""

    request: Request
    queued_at: float
    deadline: float  #: The request's deadline, plus the time after ``queued_at`` for which the broker throttles.


@dataclass(slots=True, eq=False)
class Answer:
    """The result of a request: a ``response`` or an ``error``, never both."""

    request: Request
    #: Node id of the broker; -1 for a bootstrap server, whose node id is unknown, and for a request for ``ANY_NODE``
    #: that was sent to no broker.
    node_id: int
    version: int = -1  #: The version in which the request was sent; -1 if it was not sent.
    response: Any = None  #: The decoded response, an instance of ``request.api.RESPONSE``; None if there is an error.
    error: KafkaError | None = None
    #: Size of the response frame in bytes. Records are slices of the frame and keep all of it in memory.
    size: int = 0
    sent_at: float = -1.0  #: When the request was written, in monotonic seconds; -1 for an error.
    sent_size: int = 0  #: Bytes of the request without its size field; 0 for an error.
