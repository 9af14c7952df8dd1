"""The outage of all brokers of a client: its start, its causes, and its log lines.

Each line names all brokers. Lines about single connections and automatic commits are not repeated meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..driver import host_and_port
from ..failures import GRACE, OutageLog
from ..support.lazy_dataclass import dataclass
from ..types import Node
from .route import NO_BROKER, BrokerRoute

_ADVERTISED = "{} (node {} advertises this address: check advertised.listeners of that broker)"
_BOOTSTRAP_ONLY = "answers, but no address that its metadata names can be reached"


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which requests wait and no broker answers."""

    #: Start in monotonic seconds, moved forward by the time in which the application did not poll: only time in which
    #: the client could have received a response counts.
    since: float
    causes: dict[str, str]  #: The text of the last failure by ``host:port``.

    def __str__(self) -> str:
        return "; ".join(f"{name}: {cause}" for name, cause in self.causes.items())


def causes_of(
    servers: Iterable[tuple[str, int]],
    nodes: Iterable[Node],
    routes: Sequence[BrokerRoute],
    now: float,
    *,
    only_bootstrap_answers: bool,
) -> dict[str, str]:
    """Return the last failure by ``host:port``: of the bootstrap servers, then of the cluster's nodes."""
    causes = {}
    for host, port in servers:
        name = host_and_port(host, port)
        causes[name] = _failure(name, routes) or (
            _BOOTSTRAP_ONLY if only_bootstrap_answers else _state(name, routes, now)
        )
    for node in nodes:
        name = host_and_port(node.host, node.port)
        cause = _failure(name, routes) or _state(name, routes, now)
        causes[name] = _ADVERTISED.format(cause, node.node_id) if only_bootstrap_answers else cause
    return causes


def _failure(name: str, routes: Sequence[BrokerRoute]) -> str:
    return next((route.cause for route in routes if route.name == name and route.cause), "")


def _state(name: str, routes: Sequence[BrokerRoute], now: float) -> str:
    return next((route.describe(now) for route in routes if route.name == name), "not tried yet")


def log_outage(log: OutageLog, now: float, outage: Callable[[], Outage]) -> None:
    """Log, ``GRACE`` seconds after the outage has begun and then ever more rarely, that no broker can be reached."""
    log.failed(
        NO_BROKER, now, lambda: f"no broker can be reached: {outage()}", subject=NO_BROKER, grace=GRACE, attempts=0
    )


def log_end(log: OutageLog, now: float, *, is_answered: bool) -> None:
    """End the outage in the log: with a line if a broker answers, without one if no request waits any more."""
    if not log.has(NO_BROKER):
        return
    if is_answered:
        log.recovered(NO_BROKER, now, "a broker answers again")
    else:
        log.forget(NO_BROKER)
