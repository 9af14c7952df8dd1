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
    """The destination of a request: a node, and the channel that selects one of the connections to it.

    Fetch has a connection of its own (channel ``"fetch"``), and so have JoinGroup and SyncGroup: a broker answers the
    requests of one connection in order, so a heartbeat or Metadata request would wait for the end of a long poll.
    """

    node_id: int
    channel: str = ""


#: Any broker that can answer now: the least loaded ready connection, else a known node, else a bootstrap server.
ANY_NODE = Target(-1)


@dataclass(slots=True, eq=False)
class Request:
    """One request to one broker.

    ``build`` returns the message for the negotiated version. It is called when the request is written, so that
    positions, generations and session epochs that have changed since it was queued are current.
    """

    asker: str  #: The manager that sent it and handles the answer.
    api: type[Message]  #: The request's class; the response is an instance of its ``RESPONSE``.
    target: Target
    build: Callable[[int], Message]
    deadline: float  #: Monotonic time by which the request must be answered, queueing and connecting included.
    context: Any = None  #: The manager's own data for handling the answer, such as cursors.
    min_version: int = 0
    #: Returns the highest version to use; called when the request is written. While the id of a topic is unknown, the
    #: request must use a version with topic names.
    max_version: Callable[[], int] | None = None
    #: Seconds for which the broker may delay the response of a long poll. A request that waited long for its connection
    #: gets at least this long, or it would time out before the broker answers.
    held_back: float = 0.0


@dataclass(slots=True, eq=False)
class Answer:
    """The result of a request: a ``response`` or an ``error``, never both."""

    request: Request
    node_id: int  #: The node of the request; -1 for a bootstrap server, whose id is unknown.
    version: int = -1  #: Version of the message; -1 if it was not sent.
    response: Any = None  #: An instance of ``request.api.RESPONSE``.
    error: KafkaError | None = None
    #: Bytes of the response frame. A slice of it (records) keeps the whole frame in memory.
    size: int = 0
    sent_at: float = -1.0  #: When the request was written (monotonic seconds), if the answer is a response.
    sent_size: int = 0  #: Bytes of the request without its size field; 0 if it has no response.
