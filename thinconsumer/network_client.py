"""All connections of one consumer: whom to dial, for which request, when again, and what to say when nobody answers.

Owns the routes: one per target (a node and a channel to it) and one per bootstrap server in use. What goes where:

* A request for a node waits for that node's route. When its attempt to connect fails, the request is answered with that
  error at once; one sent during the backoff waits for the next attempt. A node that metadata does not name is an error.
* ``ANY_NODE`` goes to the least loaded ready node. While there is none it waits, until its deadline, for the first one:
  known nodes are dialled, the longest untried first, and bootstrap servers too when no node is known or all of them
  have failed since they last worked (KIP-899). While an attempt has not succeeded within a second the next one begins
  beside it, so that one dead host in the list costs a second and not a timeout.

A Ctrl-C can strike anywhere in here. What was asked is therefore on a list of its own until it is answered: a call that
was interrupted is noticed by the next one, which starts over with new connections and answers what fell through.

Deadlines pass only up to the time when I/O was last looked at: a caller that stays away for a minute must find the
answers that arrived meanwhile, not their absence. For the same reason an outage is counted in attended time.

Follows Java's ``NetworkClient`` and ``ClusterConnectionStates``; KIP-144, KIP-219, KIP-601, KIP-899, KIP-1102.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .connection.authenticate import NewLogin
from .connection.connection import Connection, ConnectionSettings
from .connection.negotiate import Ranges, api_name, common_range
from .connection.options import ConnectionOptions
from .connection.request import ANY_NODE, Answer, Request, Target
from .connection.route import HEDGE, BrokerRoute, QueuedRequest, RouteContext
from .connection.states import RouteState
from .driver import Address, Command, Hangup
from .errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from .timers import NEVER, Backoff, Random
from .types import Node
from .wire import Message

log = logging.getLogger(__name__)

#: A ready node that has left a request unanswered for this long, in seconds, is asked only if there is no other: it may
#: be stopped, and whatever is asked next would wait for a timeout. Long polls are shorter by default.
SILENT = 2.0
#: An outage ends, too, when nothing was wanted for this long, in seconds; managers pause up to a second between tries.
UNWANTED = 5.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Nothing can be reached although something is wanted."""

    since: float  #: Monotonic seconds, moved by the time that nobody stepped.
    causes: dict[str, str]  #: By ``host:port``, what happened there last.

    def __str__(self) -> str:
        return "; ".join(f"{name}: {cause}" for name, cause in self.causes.items())


class NetworkClient:
    """Connections of one consumer. Send requests, step, take the answers and the commands for the driver."""

    def __init__(self, options: ConnectionOptions, random: Random, new_login: NewLogin | None = None) -> None:
        settings = ConnectionSettings(
            options.client_id,
            options.receive_message_max_bytes,
            options.max_in_flight_requests_per_connection,
            options.connections_max_idle_ms / 1000,
            new_login,
        )
        self._shared = RouteContext(
            settings,
            Backoff(options.reconnect_backoff_ms / 1000, options.reconnect_backoff_max_ms / 1000),
            Backoff(
                options.socket_connection_setup_timeout_ms / 1000,
                options.socket_connection_setup_timeout_max_ms / 1000,
            ),
            random,
        )
        self._random = random
        self._servers = list(dict.fromkeys((host, port) for host, port in options.bootstrap_servers))
        self._rebootstraps = options.metadata_recovery_strategy == "rebootstrap"
        self._nodes: dict[int, Node] = {}
        self._routes: dict[Target, BrokerRoute] = {}
        self._bootstrap: dict[tuple[str, int], BrokerRoute] = {}
        self._leaving: list[BrokerRoute] = []
        self._any: deque[QueuedRequest] = deque()
        self._any_wake = NEVER
        self._stepped_at = -NEVER
        self._due_at = -NEVER  #: The next deadline as of then, during an outage.
        self._attended_at = -NEVER
        self._horizon = -NEVER
        self._dirty = False
        self._inside = False  #: In a call; found true at the beginning of one, the call before was interrupted.
        self._closed = False
        self.outage_since: float | None = None  #: See :class:`Outage`; None while there is none.
        self._wanted_at = -NEVER

    # -- requests and answers

    def send(self, request: Request, now: float) -> None:
        """Take a request; it gets exactly one answer. The next :meth:`step` writes it, if that can be."""
        self._enter()
        self._shared.unanswered[request] = None
        self._dirty = True
        target = request.target
        if self._closed:
            self._refuse(request, "this consumer's connections are closed")
        elif target == ANY_NODE:
            self._any.append(QueuedRequest(request, now, request.deadline))
        elif target.node_id in self._nodes:
            self._route(target).send(request, now)
        else:
            self._refuse(request, f"node {target.node_id} is not known")
        self._inside = False

    def take_answers(self) -> list[Answer]:
        """Return the answers there are, and forget them."""
        answers, self._shared.answers = self._shared.answers, []
        return answers

    def take_refresh_reasons(self, now: float) -> list[str]:
        """Return why the cluster may look otherwise by now: nodes whose connection just broke by itself, and those that
        requests wait for and that cannot be reached. Asking only when an attempt fails would take as long as a dead
        host's silence: two setup timeouts.
        """
        lost, self._shared.lost = self._shared.lost, []
        return [
            f"node {route.node_id}: {route.describe(now)}"
            for route in self._routes.values()
            if (route.queue and not route.ready and (route.failures or route.is_slow(now))) or (lost and route in lost)
        ]

    def step(self, now: float) -> None:
        """Let everything happen that can: deadlines, idle limits, dialling, writing."""
        self._enter()
        try:
            self._step(now)
        except Exception:
            self._inside = False  # a bug in what builds a message; the link has dealt with it
            raise
        self._inside = False

    def _step(self, now: float) -> None:
        self._attend(now)
        for route in self._all_routes():
            route.step(now, self._horizon)
        self._leaving = [route for route in self._leaving if not route.has_left()]
        self._serve_any(now)
        self._find_lost()
        self._judge_outage(now)
        self._stepped_at = now
        self._dirty = False
        if self.outage_since is not None:
            self._due_at = self._due(self._all_routes())

    def wake_at(self) -> float:
        """Return when :meth:`step`, or the driver, has something to do even if nothing comes."""
        if self._dirty or self._shared.answers or self._has_commands():
            return self._stepped_at
        routes = self._all_routes()
        for route in routes:
            if route.has_news:
                return self._stepped_at  # what has come, and nobody has looked at, would else wait for a deadline
        return self._due(routes)

    def _due(self, routes: Iterable[BrokerRoute]) -> float:
        due = self._any_wake
        for route in routes:
            # An idle link's moment is hours away, but every step asks every route: the loop is written out.
            if (moment := route.wake_at()) < due:
                due = moment
        return due

    # -- the driver's side

    def wants_driver(self) -> bool:
        """Return whether there is something to dial, look up, hang up or send that no driver has been told of."""
        return self._has_commands() or any(r.connection is not None and r.connection.unsent for r in self._all_routes())

    def _has_commands(self) -> bool:
        return bool(self._shared.commands) or self._shared.book.has_command(self._stepped_at)

    def take_commands(self) -> list[Command]:
        """Return what the driver shall do, in order, and forget it. The driver looks at its I/O after this."""
        self._enter()
        self._attended_at = self._stepped_at
        commands = self._shared.commands
        for command in commands:
            if isinstance(command, Hangup) and isinstance(command.stream, Connection):
                command.stream.hung_up()
        resolve = self._shared.book.take_command(self._stepped_at)
        if resolve is not None:
            commands.append(resolve)
        self._inside = False
        self._shared.commands = []
        return commands

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the resolver's answer, and dial."""
        self._enter()
        self._shared.book.resolved(host, port, addresses, error)
        for route in self._all_routes():
            if route.state is RouteState.RESOLVING:
                route.step(now, self._horizon)
        self._due_at = min(self._due_at, self._due(self._all_routes()))
        self._inside = False

    # -- what the cluster looks like

    def update_nodes(self, nodes: Iterable[Node]) -> None:
        """Take the nodes that metadata names now. One that moved loses its connections, one that is gone drains."""
        self._enter()
        self._nodes = {node.node_id: node for node in nodes}
        self._follow_nodes()
        self._inside = False

    def _follow_nodes(self) -> None:
        self._dirty = True
        for target, route in list(self._routes.items()):
            node = self._nodes.get(target.node_id)
            if node is None:
                self._let_go(self._routes.pop(target), f"node {target.node_id} is gone from the metadata")
            elif (node.host, node.port) != (route.host, route.port):
                log.info("node %d moved from %s to %s:%s", node.node_id, route.name, node.host, node.port)
                route.move_to(node.host, node.port, f"node {node.node_id} moved to {node.host}:{node.port}")
        if self._nodes:
            self._adopt_bootstrap()

    def drop(self, target: Target, why: str) -> None:
        """End the connection to a target: something that nobody waits for any more is parked on it.

        What is queued or in flight there is answered with an error; the next request dials anew.
        """
        # The node may have gone from the metadata since: then its connection only waits for what is parked there.
        found = [route for route in self._leaving if (route.node_id, route.channel) == target]
        if target in self._routes:
            found.append(self._routes.pop(target))
        if not found:
            return
        self._enter()
        for route in found:
            log.debug("%s: ending the connection, since %s", route.name, why)
            words = f"{route.name}: {why}"
            error = KafkaConnectionError(words, host=route.host, port=route.port, node_id=route.node_id)
            route.refuse(error)
            route.close(error)
        self._dirty = True
        self._inside = False

    def rebootstrap(self, now: float) -> None:
        """Forget the cluster and all its connections; start from the bootstrap servers again (KIP-1102)."""
        log.info("starting from the bootstrap servers again")
        self._enter()
        self._nodes.clear()
        error = KafkaConnectionError("connection closed: starting from the bootstrap servers again")
        for route in self._all_routes():
            route.refuse(error)
            route.close(error)
            self._shared.book.failed(route.host, route.port)
        self._routes.clear()
        self._bootstrap.clear()
        self._leaving.clear()
        self._dirty = True
        self._inside = False

    def _adopt_bootstrap(self) -> None:
        """Keep a bootstrap connection as that of the node that lives there; let go of the others."""
        homes = {(node.host, node.port): node for node in self._nodes.values()}
        for place, route in self._bootstrap.items():
            node = homes.get(place)
            known = None if node is None else self._routes.get(Target(node.node_id))
            if node is None or not route.ready or (known is not None and known.connection is not None):
                self._let_go(route, "a bootstrap server is not needed any more")
                continue
            route.adopt(node.node_id)
            if known is not None:
                route.queue.extend(known.queue)
                known.queue.clear()
                known.close(None)
            self._routes[Target(node.node_id)] = route
        self._bootstrap.clear()

    def _let_go(self, route: BrokerRoute, why: str) -> None:
        route.leave(why)
        self._leaving.append(route)

    # -- what others want to know

    def negotiated(self, node_id: int, api: type[Message]) -> tuple[int, int] | None:
        """Return the lowest and highest version of an API that the node and we speak; None while that is unknown."""
        for target, route in self._routes.items():
            if target.node_id == node_id and route.ready and route.connection is not None:
                ranges: Ranges = route.connection.ranges
                return common_range(api, ranges)
        return None

    def ready(self, node_id: int, channel: str = "") -> bool:
        """Return whether a connection to the node takes requests right now."""
        route = self._routes.get(Target(node_id, channel))
        return route is not None and route.ready

    def any_ready(self) -> bool:
        """Return whether any broker takes requests right now."""
        return any(route.ready for route in self._all_routes())

    def any_open(self) -> bool:
        """Return whether any connection exists or is being made."""
        return any(route.connection is not None and not route.connection.over for route in self._all_routes())

    def connections(self) -> tuple[int, int]:
        """Return how many connections were ever ready for requests, and how many are now."""
        return self._shared.opened, sum(route.ready for route in self._all_routes())

    def in_flight(self, target: Target) -> int:
        """Return how many requests for the target have no answer yet, written or not."""
        if target == ANY_NODE:
            return len(self._any)
        route = self._routes.get(target)
        return 0 if route is None else route.load

    def outage(self, now: float) -> Outage | None:
        """Return since when nothing can be reached although something is wanted, and why; None when that is not so."""
        if self.outage_since is None:
            return None
        return Outage(self.outage_since, {name: self._cause(name, now) for name in self._names()})

    def acknowledge_outage(self, now: float) -> None:
        """Start the outage's clock again: the user has been told."""
        if self.outage_since is not None:
            self.outage_since = now

    def __repr__(self) -> str:
        now = self._stepped_at
        ways = [f"{self._label(route)} {route.describe(now)}" for route in self._all_routes()]
        if self._any:
            ways.append(f"{len(self._any)} requests for any node queued")
        if self.outage_since is not None:
            ways.append(f"nothing reachable for {now - self.outage_since:.1f} s")
        state = "closed" if self._closed else f"{len(self._nodes)} nodes known"
        return f"<Links {state}{''.join(f'; {way}' for way in ways)}>"

    # -- the end

    def close(self, now: float) -> None:
        """Answer everything and hang up. Whatever is sent afterwards is answered at once."""
        self._enter()
        self._closed = True
        error = KafkaConnectionError("connection closed: the consumer is closing")
        for route in self._all_routes():
            route.refuse(error)
            route.close(error)
        for waiting in self._any:
            self._shared.answer(Answer(waiting.request, -1, error=error))
        self._any.clear()
        self._find_lost()
        self._any_wake = NEVER
        self.outage_since = None
        self._inside = False

    # -- inside: what a Ctrl-C leaves behind

    def _enter(self) -> None:
        """Begin a call; mend what the one before has left if it never ended."""
        if self._inside:
            log.warning("a call was interrupted in the middle of its work: starting over with new connections")
            error = KafkaConnectionError("connection closed: the last call was interrupted in the middle of its work")
            for route in self._all_routes():
                route.start_over(error)
            self._shared.book.start_over()
            self._any = deque(waiting for waiting in self._any if waiting.request in self._shared.unanswered)
            self._follow_nodes()
            self._find_lost()
        self._inside = True

    def _find_lost(self) -> None:
        """Answer what is neither queued nor in flight nor answered, which only a Ctrl-C can bring about."""
        unanswered = self._shared.unanswered
        if len(unanswered) == len(self._any) + sum(route.holds for route in self._all_routes()):
            return
        held = {waiting.request for waiting in self._any}
        for route in self._all_routes():
            held.update(route.requests())
        error = KafkaConnectionError("the call that dealt with this request was interrupted")
        for request in [request for request in unanswered if request not in held]:
            self._shared.answer(Answer(request, request.target.node_id, error=error))

    # -- inside

    def _all_routes(self) -> list[BrokerRoute]:
        return [*self._routes.values(), *self._bootstrap.values(), *self._leaving]

    def _route(self, target: Target) -> BrokerRoute:
        route = self._routes.get(target)
        if route is None:
            node = self._nodes[target.node_id]
            route = self._routes[target] = BrokerRoute(self._shared, node.host, node.port, node.node_id, target.channel)
        return route

    def _refuse(self, request: Request, why: str) -> None:
        error = KafkaConnectionError(why, node_id=request.target.node_id)
        self._shared.answer(Answer(request, request.target.node_id, error=error))

    def _attend(self, now: float) -> None:
        """Note how far deadlines may pass, and for how long nobody has stepped us although we wanted it."""
        self._horizon = max(self._horizon, self._attended_at)
        if self.outage_since is not None:
            # As it was: what has come in since has given the connections more time, which nobody has used yet.
            late = now - (self._stepped_at if self._dirty else max(self._stepped_at, self._due_at))
            self.outage_since = min(now, self.outage_since + max(0.0, late))

    # -- inside: any node

    def _serve_any(self, now: float) -> None:
        self._any_wake = NEVER
        if not self._any:
            return
        self._expire_any()
        while self._any and (route := self._least_loaded(now)) is not None:
            route.queue.append(self._any.popleft())
            route.step(now, self._horizon)
        if not self._any:
            return
        self._any_wake = min(waiting.deadline for waiting in self._any)
        candidates = self._candidates()
        self._tell_login_errors(candidates)
        lively = [route for route in candidates if route.ready and not self._silent(route, now)]
        ready = [route.connection.muted_until for route in lively if route.connection]
        if ready:
            # All are muted or full; what is full wakes us by itself.
            self._any_wake = min([self._any_wake, *(until for until in ready if until > now)])
        else:
            self._any_wake = min(self._any_wake, self._dial_one_more(candidates, now))

    def _least_loaded(self, now: float) -> BrokerRoute | None:
        candidates = self._candidates()
        able = [route for route in candidates if route.connection is not None and route.connection.can_send(now)]
        lively = [route for route in able if not self._silent(route, now)]
        if not lively and any(not route.ready and not route.unreachable for route in candidates):
            return None  # better dial one that may be well
        return min(lively or able, key=lambda r: (r.node_id < 0, r.load, self._random.random()), default=None)

    def _silent(self, route: BrokerRoute, now: float) -> bool:
        """Return whether its broker owes an answer for suspiciously long, over this connection or another, or has not
        been heard of over this one since another broke.

        A stopped broker shows on the connection that Fetches go over, and not on the one that is free for questions:
        asked there for the new leader, it would cost a second timeout.
        """
        same = [r for r in self._routes.values() if r.node_id == route.node_id] if route.node_id >= 0 else [route]
        heard_at = route.connection.heard_at if route.connection is not None else -NEVER
        return any(
            r.broken_at > heard_at or (r.connection is not None and r.connection.silent_for(now) > SILENT) for r in same
        )

    def _candidates(self) -> list[BrokerRoute]:
        """Return the routes that may serve any request: of all nodes, and of bootstrap servers when those fail."""
        routes = [self._route(Target(node_id)) for node_id in self._nodes]
        if not routes or (self._rebootstraps and all(route.unreachable for route in routes)):
            for host, port in self._servers:
                if (host, port) not in self._bootstrap:
                    self._bootstrap[host, port] = BrokerRoute(self._shared, host, port)
        return routes + list(self._bootstrap.values())

    def _dial_one_more(self, candidates: list[BrokerRoute], now: float) -> float:
        """Dial the next candidate if it is time; return when to look again."""
        begun = max((route.started_at for route in candidates if route.under_way), default=-NEVER)
        if now < begun + HEDGE:
            idle = any(not route.under_way for route in candidates)
            return begun + HEDGE if idle else NEVER
        free = [route for route in candidates if route.state is RouteState.DISCONNECTED]
        if not free:
            # An ended backoff turns into DISCONNECTED only when its route is stepped, which has just been done.
            ends = [route.not_before for route in candidates if route.state is RouteState.BACKING_OFF]
            return min(ends, default=NEVER)
        route = min(free, key=lambda route: (route.node_id < 0, route.started_at, self._random.random()))
        route.step(now, self._horizon, wanted=True)
        return now + HEDGE if len(candidates) > 1 else NEVER

    def _expire_any(self) -> None:
        late = [waiting for waiting in self._any if waiting.deadline <= self._horizon]
        for waiting in late:
            self._any.remove(waiting)
            causes = "; ".join(f"{name}: {self._cause(name, self._horizon)}" for name in self._names())
            words = (
                f"{api_name(waiting.request.api)} could not be sent to any broker within "
                f"{waiting.deadline - waiting.queued_at:.1f} s ({causes})"
            )
            self._shared.answer(Answer(waiting.request, -1, error=KafkaTimeoutError(words)))

    def _tell_login_errors(self, candidates: list[BrokerRoute]) -> None:
        """Answer requests for any node with a refused login: it is the same everywhere, and retrying hides it."""
        error: KafkaError | None = None
        for route in candidates:
            error, route.login_error = route.login_error or error, None
        if error is not None:
            while self._any:
                self._shared.answer(Answer(self._any.popleft().request, -1, error=error))

    # -- inside: the outage

    def _judge_outage(self, now: float) -> None:
        wanted = bool(self._any) or any(route.queue for route in self._all_routes())
        if wanted:
            self._wanted_at = now
        if self.any_ready() or (not wanted and now > self._wanted_at + UNWANTED):
            self.outage_since = None
        elif wanted and self.outage_since is None:
            self.outage_since = now

    def _names(self) -> list[str]:
        """Return the places that a user wants to hear of: the configured ones, then the cluster's own."""
        places = [*self._servers, *((node.host, node.port) for node in self._nodes.values())]
        return list(dict.fromkeys(_name(host, port) for host, port in places))

    def _cause(self, name: str, now: float) -> str:
        words = "not tried yet"
        for route in self._all_routes():
            if route.name == name:
                if route.cause:
                    return route.cause
                words = route.describe(now)
        return words

    def _label(self, route: BrokerRoute) -> str:
        who = f"node {route.node_id}" if route.node_id >= 0 else "bootstrap"
        channel = f" ({route.channel})" if route.channel else ""
        return f"{who}{channel} {route.name}"


def _name(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


__all__ = ["NetworkClient", "Outage"]
