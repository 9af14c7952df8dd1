"""All connections of one client: chooses the broker for a request, dials and redials, and reports outages.

There is one route per target (a node and one of the channels to it), and one per bootstrap server in use.

* A request for a node waits for the route to that node. When an attempt to connect fails, the request gets that error
  at once; a request sent during the backoff waits for the next attempt. A request for a node that metadata does not
  name gets an error at once.
* A request for ``ANY_NODE`` goes to the least loaded ready node. While none is ready, it waits until its deadline at
  most. Known nodes are dialled, the longest untried first; so are bootstrap servers if no node is known or, with
  ``metadata_recovery_strategy="rebootstrap"``, if the last attempts to all nodes have failed (KIP-899). After a second
  without success another node is dialled in parallel, so that a dead host in the list delays the request by a second
  and not by a timeout.

A deadline takes effect only if I/O was polled after it: a program that polls once a minute must get the responses that
arrived in between, not timeouts. For the same reason an outage counts only the time in which the client is stepped.

Follows Java's ``NetworkClient`` and ``ClusterConnectionStates``; KIP-144, KIP-219, KIP-601, KIP-899, KIP-1102,
KIP-1242.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from ..config import ClientOptions
from ..config.proxy import Proxy
from ..driver import Address, Command, host_and_port
from ..errors import KafkaConnectionError, KafkaTimeoutError
from ..failures import GRACE
from ..support.agenda import Agenda
from ..support.lazy_dataclass import dataclass
from ..support.timers import NEVER, Backoff, Random
from ..types import Node
from .addresses import AddressBook
from .authenticate import Logins, NoLogins
from .connection import Connection, ConnectionSettings
from .negotiate import Ranges, api_name
from .request import ANY_NODE, Answer, QueuedRequest, Request, Target
from .route import NO_BROKER, SLOW_ATTEMPT, BrokerRoute, RouteContext
from .states import RouteState

log = logging.getLogger(__name__)

#: If a node has sent nothing for this many seconds while a request to it is in flight, it may be stopped, and a further
#: request would wait for its timeout: requests for ``ANY_NODE`` are then sent to other nodes, if one is reachable. With
#: default options, brokers delay the response to a Fetch for less than this.
SILENT = 2.0
#: An outage ends after this many seconds in which no request waited for a connection. Shorter gaps belong to the
#: outage: the components that send requests pause for up to a second before they repeat one.
UNWANTED = 5.0
_ADVERTISED = "{} (node {} advertises this address: check advertised.listeners of that broker)"
_BOOTSTRAP_ONLY = "answers, but no address that its metadata names can be reached"


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which requests wait and no broker answers."""

    #: Start in monotonic seconds, moved forward by the time in which the application did not poll: only time in which
    #: the client could have received a response counts.
    since: float
    causes: dict[str, str]  #: By ``host:port``: the text of the last failure, or else the state.

    def __str__(self) -> str:
        return "; ".join(f"{name}: {cause}" for name, cause in self.causes.items())


class NetworkClient:
    """The connections of one client: takes requests, and returns answers and commands for the driver."""

    def __init__(
        self,
        options: ClientOptions,
        random: Random,
        logins: Logins | None = None,
        agenda: Agenda | None = None,
        commands: deque[Command] | None = None,
    ) -> None:
        """Alarms of ``agenda`` have a route as key, or, for ``ANY_NODE``, this client. The driver gets ``commands``."""
        commands = deque() if commands is None else commands
        self._logins = logins or NoLogins()
        settings = ConnectionSettings(
            options.client_id,
            options.receive_message_max_bytes,
            options.max_in_flight_requests_per_connection,
            options.connections_max_idle_ms / 1000,
            options.security_protocol,
            self._logins.new_login,
        )
        self._shared = RouteContext(
            settings,
            Backoff(options.reconnect_backoff_ms / 1000, options.reconnect_backoff_max_ms / 1000),
            Backoff(
                options.socket_connection_setup_timeout_ms / 1000, options.socket_connection_setup_timeout_max_ms / 1000
            ),
            random,
            commands,
            _address_book(options, commands),
            self._logins,
            agenda=agenda if agenda is not None else Agenda(),
        )
        self.answers = self._shared.answers  #: Answers that the engine has not taken yet.
        #: The connections with bytes to send that the driver has not got yet.
        self.unsent: Collection[Connection] = self._shared.unsent
        self._random = random
        self._servers = list(dict.fromkeys((host, port) for host, port in options.bootstrap_servers))
        self._rebootstraps = options.metadata_recovery_strategy == "rebootstrap"
        self._checks_cluster = self._rebootstraps and options.metadata_cluster_check_enable
        self._cache = settings.api_versions_cache
        self._nodes: dict[int, Node] = {}
        self._routes: dict[Target, BrokerRoute] = {}
        self._bootstrap: dict[tuple[str, int], BrokerRoute] = {}
        self._leaving: list[BrokerRoute] = []
        self._any: deque[QueuedRequest] = deque()
        self._agenda = self._shared.agenda
        self._alarm = self._agenda.alarm(self)  #: When requests for ``ANY_NODE`` are due.
        self.polls = self._shared.polls
        self._closed = False
        self.outage_since: float | None = None  #: When the current :class:`Outage` began; None without one.
        self._wanted_at = -NEVER  #: When a request was last waiting for a connection.
        #: Whether a bootstrap server has answered requests, but no node has answered since at its advertised address.
        self._only_bootstrap_answers = False

    def send(self, request: Request, now: float) -> None:
        """Write a request if its connection is ready, else queue it.

        Each request gets one answer: an error at once if its node is unknown or the client is closed.
        """
        target = request.target
        route = self._routes.get(target)
        if route is not None and not self._closed and route.write(request, now):
            return
        if self._closed:
            self._refuse(request, "the client is closed")
        elif target == ANY_NODE:
            self._any.append(QueuedRequest(request, now, request.deadline))
            self._alarm.touch()
        elif target.node_id in self._nodes:
            self._route(target).send(request, now)
        else:
            self._refuse(request, f"node {target.node_id} is not known")

    def connect(self, target: Target, now: float) -> None:
        """Begin to connect to a known node for a request that follows, unless a connection exists or a backoff runs."""
        if self._closed or target.node_id not in self._nodes:
            return
        route = self._route(target)
        if route.connection is None and not route.is_connecting:
            route.step(now, wanted=True)

    def touch_waiting(self) -> None:
        """Make all waiting requests due: there may be credentials now."""
        for route in self._shared.waiting:
            self._agenda.touch(route)
        if self._any:
            self._alarm.touch()

    def step(self, now: float, due: Collection[object]) -> list[str]:
        """Step the routes in ``due`` (the agenda's keys that are due), and serve the requests for any node.

        Returns reasons to refresh metadata, as the leaders may have changed.
        """
        since, self.polls.after = self.polls.after, now
        if not (due or self._any or self._leaving or self._shared.waiting or self.outage_since is not None):
            return []
        if self.outage_since is not None:
            # If this step is late, the application has not polled in between: that time does not count.
            late = now - max(since, self._agenda.due_at)
            self.outage_since = min(now, self.outage_since + max(0.0, late))
        for route in due:
            if isinstance(route, BrokerRoute):
                route.step(now)
        if self._leaving:
            self._leaving = [route for route in self._leaving if not route.has_left()]
        reasons = self._follow_misrouted(now)
        self._alarm.clear()
        if self._any:
            self._serve_any(now)
        reasons += self._doubts(now)
        self._update_outage(now)
        return reasons

    def _follow_misrouted(self, now: float) -> list[str]:
        """Start from the bootstrap servers again if another broker has the address of a node (KIP-1242).

        At most once for each response with metadata: a bootstrap server that kept answering so would be asked without
        a pause otherwise.
        """
        is_misrouted, self._shared.is_misrouted = self._shared.is_misrouted, False
        if not is_misrouted or self._cache.cluster_id is None:
            return []
        self.rebootstrap(now)
        return ["another broker has got the address of a node"]

    def _doubts(self, now: float) -> list[str]:
        """Return a reason to refresh metadata for each route whose node may have moved, or may lead nothing any more.

        A slow attempt to connect counts before it has failed: it may take two connection setup timeouts, and until then
        a client with a dead leader would not look for the new leader.
        """
        lost, self._shared.lost = self._shared.lost, []

        def is_doubtful(route: BrokerRoute) -> bool:
            has_trouble = not route.is_ready and (route.failures > 0 or route.is_slow(now))
            return route in lost or (bool(route.queue) and (has_trouble or route.lacks_credentials(now)))

        return [f"node {r.node_id}: {r.describe(now)}" for r in self._routes.values() if is_doubtful(r)]

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Dial the addresses of a host, or fail the attempts that wait for them with the error."""
        self._shared.book.resolved(host, port, addresses, error)
        for route in self._all_routes():
            if route.state is RouteState.RESOLVING:
                route.step(now)

    def update_nodes(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        """Replace the nodes, and the id of their cluster, with those of the metadata.

        Connections to a node that has another address now are closed; those to a node that is missing now, once they
        have no request in flight.
        """
        self._nodes = {node.node_id: node for node in nodes}
        self._cache.cluster_id = cluster_id if self._checks_cluster else None
        self._alarm.touch()
        for target, route in list(self._routes.items()):
            node = self._nodes.get(target.node_id)
            if node is None:
                self._retire(self._routes.pop(target), f"node {target.node_id} is gone from the metadata")
            elif (node.host, node.port) != (route.host, route.port):
                log.info("node %d moved from %s to %s:%s", node.node_id, route.name, node.host, node.port)
                route.move_to(node.host, node.port, f"node {node.node_id} moved to {node.host}:{node.port}")
        if self._nodes:
            self._adopt_bootstrap()

    def drop(self, target: Target, why: str) -> None:
        """Close the connection to a target, because the answer to its long-running request is not needed any more.

        Requests queued or in flight on it get an error; the next request dials again.
        """
        # If metadata does not name the node any more, its route is in ``_leaving``.
        found = [route for route in self._leaving if (route.node_id, route.channel) == target]
        if target in self._routes:
            found.append(self._routes.pop(target))
        for route in found:
            log.debug("%s: closing the connection: %s", route.name, why)
            route.abort(route.error(why))

    def rebootstrap(self, now: float) -> None:
        """Forget the cluster and all its connections; start from the bootstrap servers again (KIP-1102)."""
        log.info("starting from the bootstrap servers again")
        self._nodes.clear()
        self._cache.cluster_id = None
        error = KafkaConnectionError("connection closed: starting from the bootstrap servers again")
        for route in self._all_routes():
            route.abort(error)
            self._shared.book.failed(route.host, route.port)
        self._routes.clear()
        self._bootstrap.clear()
        self._leaving.clear()

    def _adopt_bootstrap(self) -> None:
        """Use each ready connection to a bootstrap server for the node that has the same address and no connection yet.

        Close the other connections to bootstrap servers once they have no request in flight.
        """
        node_at = {(node.host, node.port): node for node in self._nodes.values()}
        for place, route in self._bootstrap.items():
            node = node_at.get(place)
            known = None if node is None else self._routes.get(Target(node.node_id))
            connection = route.connection if route.is_ready else None
            if node is None or connection is None or (known is not None and known.connection is not None):
                self._retire(route, "the bootstrap server is not needed any more")
                continue
            route.node_id = connection.node_id = node.node_id
            if known is not None:
                route.queue.extend(known.queue)
                known.queue.clear()
                self._shared.waiting[route] = None
                self._agenda.touch(route)
                known.close(None)
            self._routes[Target(node.node_id)] = route
        self._bootstrap.clear()

    def _retire(self, route: BrokerRoute, why: str) -> None:
        route.leave(why)
        self._leaving.append(route)

    def is_ready(self, node_id: int, channel: str = "") -> bool:
        """Return whether the channel's connection to the node is ready, and lacks no credentials to log in again."""
        route = self._routes.get(Target(node_id, channel))
        return route is not None and route.is_ready and not route.lacks_credentials(self.polls.after)

    def ranges_of(self, node_id: int) -> Ranges:
        """Return the version ranges that a node has told over a ready connection; none without such a connection."""
        for channel in ("", "fetch"):
            route = self._routes.get(Target(node_id, channel))
            if route is not None and route.is_ready and route.connection is not None:
                return route.connection.ranges
        return {}

    def any_ready(self) -> bool:
        return any(route.is_ready for route in self._all_routes())

    def any_open(self) -> bool:
        """Return whether any connection exists or is being made."""
        return any(not c.has_ended for route in self._all_routes() for c in route.connections())

    def lacks_credentials(self, now: float) -> bool:
        """Return whether a request waits because there are no valid credentials to log in with."""
        if self._logins.may_dial():
            return False
        routes = self._all_routes()
        if any(route.queue and route.lacks_credentials(now) for route in routes):
            return True
        return bool(self._any) and all(route.lacks_credentials(now) for route in routes)

    def connection_counts(self) -> tuple[int, int]:
        """Return how many connections were ever ready for requests, and how many are now."""
        return self._shared.opened, sum(route.is_ready for route in self._all_routes())

    def in_flight(self, target: Target) -> int:
        """Return how many requests for the target have no answer; for ``ANY_NODE``, how many wait for a broker."""
        if target == ANY_NODE:
            return len(self._any)
        route = self._routes.get(target)
        return 0 if route is None else route.load

    def outage(self, now: float) -> Outage | None:
        """Return the outage under way, if there is one, with its causes until now."""
        if self.outage_since is None:
            return None
        return Outage(self.outage_since, self._causes(now))

    def acknowledge_outage(self, now: float) -> None:
        """Restart the outage at ``now``, as its error was just raised: the next error follows a full timeout later."""
        if self.outage_since is not None:
            self.outage_since = now

    def __repr__(self) -> str:
        now = self.polls.after
        parts = [f"{self._label(route)} {route.describe(now)}" for route in self._all_routes()]
        if self._any:
            parts.append(f"{len(self._any)} requests for any node queued")
        if self.outage_since is not None:
            parts.append(f"no broker reachable for {now - self.outage_since:.1f} s")
        state = "closed" if self._closed else f"{len(self._nodes)} nodes known"
        return f"<NetworkClient {'; '.join([state, *parts])}>"

    def close(self, now: float) -> None:
        """Answer all requests and hang up. A request sent afterwards is answered with an error at once."""
        self._closed = True
        error = KafkaConnectionError("connection closed: the client is closing")
        for route in self._all_routes():
            route.abort(error)
        for waiting in self._any:
            self.answers.append(Answer(waiting.request, -1, error=error))
        self._any.clear()
        self._alarm.clear()
        self.outage_since = None

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
        self.answers.append(Answer(request, request.target.node_id, error=error))

    def _serve_any(self, now: float) -> None:
        self._expire_any()
        while self._any and (route := self._least_loaded(now)) is not None:
            route.queue.append(self._any.popleft())
            route.step(now)
        if not self._any:
            return
        for waiting in self._any:
            self._alarm.set_earlier(waiting.deadline)
        candidates = self._candidates()
        self._answer_login_errors(candidates, now)
        usable = [route for route in candidates if route.is_ready and not route.lacks_credentials(now)]
        responsive = [route for route in usable if not self._is_silent(route, now)]
        if not responsive:
            self._dial_one_more(candidates, now)
        # Otherwise a responsive node can take the requests later: after its throttling, whose end is an alarm of its
        # route, or if it logs in again or has the maximum of requests in flight, after its next response.

    def _least_loaded(self, now: float) -> BrokerRoute | None:
        candidates = self._candidates()
        able = [route for route in candidates if route.can_send(now)]
        responsive = [route for route in able if not self._is_silent(route, now)]
        if not responsive and any(not route.is_ready and not route.unreachable for route in candidates):
            # All connected nodes may be stopped, but there is another one to connect to, which may be healthy: wait.
            return None
        return min(responsive or able, key=lambda r: (r.node_id < 0, r.load, self._random.random()), default=None)

    def _is_silent(self, route: BrokerRoute, now: float) -> bool:
        """Return whether any connection to the node got nothing for ``SILENT`` s with a request in flight, or broke.

        A connection that broke counts until ``route`` receives something. A stopped broker is noticed on the connection
        for Fetch, while the one for other requests is idle. A Metadata request sent on the idle connection, to find the
        new leader, would wait for another timeout.
        """
        same = [r for r in self._routes.values() if r.node_id == route.node_id] if route.node_id >= 0 else [route]
        received_at = route.connection.received_at if route.connection is not None else -NEVER
        return any(
            other.broken_at > received_at
            or (other.connection is not None and other.connection.silent_for(now) > SILENT)
            for other in same
        )

    def _candidates(self) -> list[BrokerRoute]:
        """Return the routes for ``ANY_NODE``: those to all nodes, and those to bootstrap servers if these are in use.

        Bootstrap servers come into use if no node is known, or if no node is reachable and the option
        ``metadata_recovery_strategy`` is "rebootstrap".
        """
        routes = [self._route(Target(node_id)) for node_id in self._nodes]
        if not routes or (self._rebootstraps and all(route.unreachable for route in routes)):
            for host, port in self._servers:
                if (host, port) not in self._bootstrap:
                    self._bootstrap[host, port] = BrokerRoute(self._shared, host, port)
        return routes + list(self._bootstrap.values())

    def _dial_one_more(self, candidates: list[BrokerRoute], now: float) -> None:
        """Connect to one more candidate, unless an attempt to connect is younger than ``SLOW_ATTEMPT`` seconds."""
        begun = [route.started_at for route in candidates if route.is_connecting]
        slow_at = max(begun) + SLOW_ATTEMPT if begun else now
        if now < slow_at:
            if len(begun) < len(candidates):
                self._alarm.set_earlier(slow_at)
            return
        free = [route for route in candidates if route.state is RouteState.DISCONNECTED]
        if not free:
            return  # at the end of a route's backoff, a step is due
        route = min(free, key=lambda route: (route.node_id < 0, route.started_at, self._random.random()))
        route.step(now, wanted=True)
        if len(candidates) > 1:
            self._alarm.set_earlier(now + SLOW_ATTEMPT)

    def _expire_any(self) -> None:
        horizon = self.polls.horizon
        late = [waiting for waiting in self._any if waiting.deadline <= horizon]
        for waiting in late:
            self._any.remove(waiting)
            causes = Outage(0.0, self._causes(horizon))
            text = (
                f"{api_name(waiting.request.api)} could not be sent to any broker within "
                f"{waiting.deadline - waiting.queued_at:.1f} s ({causes})"
            )
            self.answers.append(Answer(waiting.request, -1, error=KafkaTimeoutError(text)))

    def _answer_login_errors(self, candidates: list[BrokerRoute], now: float) -> None:
        """Fail requests for ``ANY_NODE`` after a rejected login: other brokers would reject it, too.

        They also fail with the error because of which there are no credentials to log in with, unless a connection from
        before is ready and need not log in again.
        """
        is_usable = any(route.is_ready and not route.lacks_credentials(now) for route in candidates)
        error = None if is_usable else self._logins.take_error()
        for route in candidates:
            error, route.login_error = route.login_error or error, None
        if error is not None:
            while self._any:
                self.answers.append(Answer(self._any.popleft().request, -1, error=error))

    def _update_outage(self, now: float) -> None:
        routes = self._all_routes()
        wanted = bool(self._any or [route for route in routes if route.queue])
        working = [route.node_id for route in routes if route.is_working and not route.lacks_credentials(now)]
        node_answers, bootstrap_answers = max(working, default=-1) >= 0, min(working, default=0) < 0
        if wanted:
            self._wanted_at = now
        self._only_bootstrap_answers = not node_answers and (self._only_bootstrap_answers or bootstrap_answers)
        # Once metadata has named nodes, a bootstrap server that answers ends no outage: the addresses that the nodes
        # advertise may be unreachable.
        is_working = node_answers or (bootstrap_answers and not self._nodes)
        if is_working or (not wanted and now > self._wanted_at + UNWANTED):
            self.outage_since = None
            if is_working:
                self._shared.outages.recovered(NO_BROKER, now, "a broker answers again")
            else:
                self._shared.outages.forget(NO_BROKER)
        elif wanted and self.outage_since is None:
            self.outage_since = now
        if self.outage_since is not None:

            def text() -> str:
                return f"no broker can be reached: {Outage(now, self._causes(now))}"

            self._shared.outages.failed(NO_BROKER, now, text, subject=NO_BROKER, grace=GRACE, attempts=0)

    def _causes(self, now: float) -> dict[str, str]:
        """Return the last failure, else the state, by ``host:port``: of the bootstrap servers, then of the nodes."""
        only_bootstrap_answers = self._only_bootstrap_answers and bool(self._nodes)
        routes = self._all_routes()

        def cause_of(name: str, other: str = "") -> str:
            found = [route for route in routes if route.name == name]
            cause = next((route.cause for route in found if route.cause), other)
            return cause or next((route.describe(now) for route in found), "not tried yet")

        names = [host_and_port(*server) for server in self._servers]
        causes = {name: cause_of(name, _BOOTSTRAP_ONLY if only_bootstrap_answers else "") for name in names}
        for node in self._nodes.values():
            name = host_and_port(node.host, node.port)
            cause = cause_of(name)
            causes[name] = _ADVERTISED.format(cause, node.node_id) if only_bootstrap_answers else cause
        return causes

    def _label(self, route: BrokerRoute) -> str:
        who = f"node {route.node_id}" if route.node_id >= 0 else "bootstrap"
        channel = f" ({route.channel})" if route.channel else ""
        return f"{who}{channel} {route.name}"


def _address_book(options: ClientOptions, commands: deque[Command]) -> AddressBook:
    if options.proxy_url is None:
        return AddressBook(commands)
    from .proxied_addresses import ProxiedAddressBook  # on demand, since few clients have a proxy

    return ProxiedAddressBook(commands, Proxy.parse(options.proxy_url))
