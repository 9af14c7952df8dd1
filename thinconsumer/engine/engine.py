"""The engine of every client: steps a list of managers, sends their requests and passes them the responses.

The engine implements :class:`thinconsumer.driver.Endpoint`. It reads no clock and does no I/O: a driver carries out
:attr:`Engine.commands` and passes received bytes to the connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..config import ClientOptions
from ..driver import Address, Command, Stream
from ..errors import KafkaError, KafkaTimeoutError
from ..network.client import NetworkClient
from ..network.connection import MANY_OBJECTS_BYTES
from ..network.metadata import Metadata
from ..network.request import Answer, Request, Target
from ..support.agenda import ALL, Agenda, ReportingKey
from ..support.calls import Call
from ..support.garbage_collection import garbage_collection_paused
from ..support.timers import Random

if TYPE_CHECKING:
    from ..sasl.login_manager import LoginManager

#: In one step of the engine, managers step again while they send requests or touch the agenda: at most so many times.
ROUNDS_MAX = 100


class Manager(Protocol):
    """Sends the requests of one task, such as fetching, and handles responses. No method blocks or calls user code.

    A manager sets alarms in the engine's agenda for when :meth:`step` is due without a response. Code that changes what
    another manager acts on touches the agenda; after a response all managers step, unless :meth:`handle` returns True.
    """

    @property
    def asker(self) -> str:
        """The name that this manager's requests carry, so that the engine passes their responses to :meth:`handle`."""

    def step(self, now: float) -> list[Request]:
        """Return the requests to send now."""

    def handle(self, answer: Answer, now: float) -> bool | None:
        """Handle the response to one of this manager's requests, or its failure.

        Returns True if the response changes the state of this manager only, so that no other manager has to step.
        """

    def restart(self, now: float) -> None:
        """Forget all requests in flight, as their connections are closed; the next step repeats those still needed."""


class ManagerParts(NamedTuple):
    """A :class:`Manager` composed of functions, for tasks that need no class of their own."""

    asker: str
    step: Callable[[float], list[Request]]
    handle: Callable[[Answer, float], bool | None] = lambda answer, now: None
    restart: Callable[[float], None] = lambda now: None


class Engine:
    """Steps the managers and the network client of one client.

    Args:
        managers: in the order in which they step; ``metadata`` steps before them unless it is among them.
        wall_time: returns seconds since the epoch, for the expiry of a login's credentials.
        agenda: the one in which the managers set their alarms.
    """

    def __init__(
        self,
        options: ClientOptions,
        random: Random,
        metadata: Metadata,
        managers: Sequence[Manager],
        wall_time: Callable[[], float],
        agenda: Agenda,
    ) -> None:
        self.commands: deque[Command] = deque()  #: For the driver: dial, hang up or resolve a name.
        #: Makes the logins of connections; None if ``security_protocol`` has no SASL.
        self.logins: LoginManager | None = None
        if options.security_protocol.startswith("SASL"):
            from ..sasl.login_manager import LoginManager  # here, since most of its imports are needed for logins only

            self.logins = LoginManager(options, random, wall_time, agenda, self.commands)
        #: What is due: managers, by their names or :data:`ALL`, routes, and the network client.
        self.agenda = agenda
        self.network = NetworkClient(options, random, self.logins, agenda, self.commands)
        self.unsent: Collection[Stream] = self.network.unsent  #: See :class:`thinconsumer.driver.Endpoint`.
        self.metadata = metadata
        self.steps = 0  #: Number of steps so far, for tests and benchmarks.
        #: Called for each response: with the time, the bytes of request and response, and the latency in ms.
        self.record_exchange: Callable[[tuple[float, ...]], None] = lambda event: None
        self._options = options
        self._random = random
        first = () if self.logins is None else (self.logins,)
        everyone = (*first, *managers) if metadata in managers else (*first, metadata, *managers)
        self._by_name: dict[Hashable, Manager] = {manager.asker: manager for manager in everyone}
        self._metadata_seen = metadata.version
        self._is_closing = False
        self._unanswered: set[Request] = set()  #: Requests that :meth:`close` has sent and that have no response yet.
        self.touch()

    @property
    def managers(self) -> Collection[Manager]:
        """The managers, in the order in which they step; none once the engine closes."""
        return () if self._is_closing else self._by_name.values()

    def add(self, manager: Manager) -> None:
        """Step ``manager`` from now on: in place of the manager with the same name, or after all others."""
        self._by_name[manager.asker] = manager
        self.touch()

    def touch(self, asker: str = ALL) -> None:
        """Make the next step run one manager, or all of them: a public call has changed the state that they act on."""
        if asker:
            self.agenda.touch(asker)
        else:
            self.agenda.join(ALL)  # with the next step, and not at once: most calls change nothing

    def step(self, now: float, later: str = "") -> bool:
        """Handle responses and send all requests that are due. Returns whether there is work for the driver's ``send``.

        If only the manager with the name ``later`` has to step, because of small responses that concern no other
        manager, its step is left to :meth:`step_touched`, before the next wait for I/O.
        """
        network = self.network
        network.polls.horizon, network.polls.read_at = network.polls.after, now
        self.steps += 1
        if self.logins is not None:
            # Before the network client: a token that has just arrived lets it dial.
            self.logins.step(now)
            network.touch_waiting()
        due = self._step_network(now, self.agenda.take(now))
        for _ in range(ROUNDS_MAX):
            is_large = False
            answers = network.answers[:]
            network.answers.clear()
            for answer in answers:
                asker = answer.request.asker
                handle = self._by_name[asker].handle
                if answer.size >= MANY_OBJECTS_BYTES:
                    is_large, handle = True, garbage_collection_paused(handle)
                due[asker if handle(answer, now) else ALL] = None
                if answer.response is not None:
                    self.record_exchange((now, answer.sent_size, answer.size, (now - answer.sent_at) * 1000))
            if ALL in self.agenda.touched:  # by a response
                due[ALL] = self.agenda.touched.pop(ALL)
            if later and later in due and len(due) == 1 and not is_large:
                self.agenda.touched.update(due)
                return bool(self.unsent or self.commands)
            has_sent = (self._step_all if is_large or ALL in due else self._step_managers)(now, due)
            touched = self.agenda.touched
            if ALL not in touched and not (has_sent and (ALL in due or touched or network.answers)):
                break  # no manager has anything to do in another round
            due.update(self._step_network(now, self.agenda.take()))
        if network.answers:
            self.agenda.touch()
        return bool(self.unsent or self.commands)

    def step_touched(self, now: float) -> None:
        """Step what was touched since the last step or left out by it. The driver's next step sends the requests.

        Nothing else is done: what has become due since the last step is due in the next one.
        """
        self.steps += 1
        due = self._step_network(now, self.agenda.take())
        if due:  # ALL, if a call has changed something since the last step
            (self._step_all if ALL in due else self._step_managers)(now, due)
        if self.network.answers:
            self.agenda.touch()

    def _step_network(self, now: float, due: dict[Hashable, None]) -> dict[Hashable, None]:
        """Step the network client and the routes in ``due``; return the names of the managers to step.

        A :class:`ReportingKey` in ``due``, or a reason to refresh metadata, adds :data:`ALL` to the names.
        """
        routes = [key for key in due if not isinstance(key, str)]
        for key in routes:
            del due[key]
        for why in self.network.step(now, routes):
            self.metadata.request_update(why)
            due[ALL] = None
        # Only now: a Fetch that is written there is composed by the time of the planner's last step. To it, a backoff
        # that ends now would still last, and the report would be lost.
        for key in routes:
            if isinstance(key, ReportingKey):
                key.report_change()
                due[ALL] = None
        return due

    def _step_managers(self, now: float, names: Collection[Hashable]) -> bool:
        """Step these managers, or for :data:`ALL` every one, and send their requests; return whether there were any."""
        requests: list[Request] = []
        for name, manager in self._by_name.items():
            if name in names or ALL in names:
                requests += manager.step(now)
        if self._metadata_seen != self.metadata.version or self.metadata.rebootstrap_reason is not None:
            self._follow_metadata(now)
        for request in requests:
            self.network.send(request, now)
        if self.agenda.touched:  # for example, if a request could not be written at once
            names = self._step_network(now, self.agenda.take())
            self.agenda.touched.update(names)  # read ``touched`` again: ``take`` has replaced the dict
        return bool(requests)

    #: With thousands of partitions, a step makes as many objects, which would cause useless garbage collections.
    _step_all = garbage_collection_paused(_step_managers)

    def is_due(self, now: float) -> bool:
        """Return whether :meth:`step` has something to do even if the driver has received nothing.

        True if there are answers to handle (a request that cannot be sent is answered at once, also between two steps),
        during an outage, which may end in any step, or if the agenda has something due.
        """
        network = self.network
        return bool(network.answers) or network.outage_since is not None or self.agenda.is_due(now)

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Handle the result of a name lookup: the addresses, or an error text."""
        if self.logins is not None:
            self.logins.resolved(host, port, addresses, error, now)
        self.network.resolved(host, port, addresses, error, now)
        if self.network.answers:  # failed requests of a route that cannot be dialled would wait for the next alarm
            self.agenda.touch()

    def drop(self, target: Target) -> None:
        """Close the connection to a target, because the broker holds back a response that is no longer needed.

        Responses come in order, so a later request on that connection would wait for the one held back.
        """
        self.network.drop(target, "it waits for the response to a request that is no longer needed")

    def restart(self, now: float) -> None:
        """Continue with new connections after an exception interrupted a step.

        All connections, queues and requests are dropped, since the interrupted step may have left them inconsistent.
        Managers keep only the state that cannot be requested from a broker again.
        """
        self.commands.clear()
        self.network = NetworkClient(self._options, self._random, self.logins, self.agenda, self.commands)
        self.network.polls.after = now
        self.unsent = self.network.unsent
        self._metadata_seen = -1
        for manager in self._by_name.values():
            manager.restart(now)
        # Remove the keys of the dropped network client and its routes. The keys of managers, and reporting keys, stay.
        self.agenda.forget(lambda key: not isinstance(key, (str, ReportingKey)))
        self.touch()

    def _follow_metadata(self, now: float) -> None:
        """Pass the nodes of new metadata to the network client, before it gets requests for them."""
        if self.metadata.rebootstrap_reason is not None:
            self.metadata.rebootstrap_reason = None
            self.network.rebootstrap(now)
        if self._metadata_seen != self.metadata.version:
            self._metadata_seen = self.metadata.version
            self.network.update_nodes(self.metadata.nodes.values(), self.metadata.cluster_id)

    def login_error(self) -> KafkaError | None:
        """Return the error to raise because requests wait for a token or other credentials; None if there is none."""
        if self.logins is None or not self.network.lacks_credentials(self.network.polls.after):
            return None
        return self.logins.error

    def obstacle(self) -> str:
        """Return the reason why calls wait: that no broker is reachable, or a non-retriable metadata error; else ""."""
        outage = self.network.outage(self.network.polls.after)
        errors = self.metadata.final_errors()
        return f"no broker reachable: {outage}" if outage else str(errors[0]) if errors else ""

    def timeout_error(self, call: Call[Any], seconds: float) -> KafkaTimeoutError:
        """Return the error for a call that timed out.

        Its text has the last failure of the call's requests; if none is known, the reason why calls wait.
        """
        known = call.last_error or next(iter(self.metadata.final_errors()), None)
        cause: KafkaError | str = known or self.obstacle() or "no answer yet"
        return KafkaTimeoutError(f"{call.what}: no result within {seconds:.3f} s; last: {cause}")

    def close(self, requests: Sequence[Request], now: float) -> bool:
        """Stop the managers and send their last ``requests``, but only to nodes with a ready connection.

        The engine connects to no other nodes: that would delay the close, and brokers evict fetch sessions by
        themselves. Returns whether :meth:`closing` has responses to wait for.
        """
        self._is_closing = True
        sent = [request for request in requests if self.network.is_ready(*request.target)]
        self._unanswered = set(sent)
        for request in sent:
            self.network.send(request, now)
        self._step_network(now, self.agenda.take(now))
        return bool(sent)

    def closing(self, now: float) -> bool:
        """Step only the connections; return whether a request that :meth:`close` has sent is still unanswered."""
        # A deadline counts as passed only if it is not after the horizon. If the horizon did not move, a deadline that
        # has passed while the program paused would be set again and again.
        self.network.polls.horizon = self.network.polls.after
        self._step_network(now, self.agenda.take(now))
        self._unanswered.difference_update(answer.request for answer in self.network.answers)
        self.network.answers.clear()
        return bool(self._unanswered)
