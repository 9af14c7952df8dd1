"""Run the engine and driver of one client in public calls: begin, wait, run user code and end.

The shell guarantees for every public call: one call at a time, bounded waits, no callback inside a step, and recovery
from an exception that interrupted a step. A client adds its own behaviour as callables; see :class:`Shell`.
"""

from __future__ import annotations

import logging
import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from ..driver import Driver
from ..errors import IllegalArgumentError, IllegalStateError, WakeupError
from ..support.shown import shown
from .engine import Engine
from .guard import Guard

if TYPE_CHECKING:
    from ..network.request import Target
    from ..sasl.login_manager import LoginManager

log = logging.getLogger(__name__)

C = TypeVar("C", bound="BaseClient")
T = TypeVar("T")

#: A call that may have to wait, and its result. If the shell blocks (:attr:`Shell.blocks`), the call yields nothing:
#: its steps wait. Else it yields the latest time of its next step, and is sent the time when that step is made; or it
#: yields a coroutine of user code that has to be complete before it goes on.
Waiting: TypeAlias = Generator["float | Awaitable[None]", float, T]


class ListenerPendingError(BaseException):
    """Ends a callback that has begun a coroutine, see :attr:`Shell.coroutines`: it is called again after the coroutine.

    No ``Exception``, since it is no failure of the callback.
    """


def to_seconds(timeout_ms: object, default_ms: float | None = None) -> float:
    """Return a user's timeout in seconds; ``default_ms`` for None, if given.

    Raises:
        IllegalArgumentError: ``timeout_ms`` is not a number of milliseconds from 0 on.
    """
    given = default_ms if timeout_ms is None else timeout_ms
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given >= 0:
        raise IllegalArgumentError(f"a timeout is a number of milliseconds from 0 on, not {shown(given)}")
    return given / 1000 if given < sys.float_info.max else math.inf


class UserCallback(NamedTuple):
    """User code that is due: a listener, an assignor or a commit callback."""

    run: Callable[[], bool]  #: Runs the user code; returns whether another callback may be due now.
    #: Whether to step before the next callback, since this one may have queued requests that must be sent first.
    then_step: bool = True


class Shell:
    """Runs the public calls of a client: begins them, steps the engine and the driver, runs user code. Owns the driver.

    Args:
        name: the client's name in errors: ``"consumer"``.
        settle: called when a call begins, and before the engine restarts: moves the positions past the records that the
            last call returned.
        attend: called with the time before each step of :meth:`run_once`, to record that the application is still
            making calls. Callers of :meth:`run_due` record this themselves.
        stepped: called with the time after each complete step.
        next_callback: returns the next user code that is due at a time. Its second argument is False inside calls other
            than poll: then it returns only callbacks that block the group's rebalance.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        driver: Driver,
        *,
        guard: Guard | None = None,
        settle: Callable[[], None] = lambda: None,
        attend: Callable[[float], object] | None = None,
        stepped: Callable[[float], None] = lambda now: None,
        next_callback: Callable[[float, bool], UserCallback | None] = lambda now, every: None,
    ) -> None:
        self.engine = engine
        self.driver = driver
        self.closed = False
        #: Whether a callback is running inside a public call. Calls that the callback makes run no further callbacks.
        self.in_callback = False
        #: Whether an exception interrupted a step, so queues and connections may be inconsistent. See :meth:`recover`.
        self.step_interrupted = False
        #: The guard of calls that do not move the positions past the last poll result, such as ``health()``, or a step
        #: within an iteration.
        self.guard = guard if guard is not None else Guard()
        #: Whether steps wait for I/O. False if an event loop waits: then calls yield instead, see :data:`Waiting`.
        self.blocks = True
        #: Coroutines that callbacks have begun, until :meth:`run_coroutines` has them completed.
        self.coroutines: deque[Awaitable[None]] = deque()
        self.before_close: Callable[[], None] = lambda: None  #: Called before the descriptors are closed.
        self._name = name
        self._settle = settle
        self._attend = attend
        self.stepped = stepped
        self.next_callback = next_callback
        self._entry = self.guard.entry(self.begin, engine.touch)
        #: The guard of a public call, as from :meth:`enter`, but not all managers step after the call.
        self.quiet_entry = self.guard.entry(self.begin, None)

    def enter(self) -> Guard:
        """Return the guard of a public call, for a ``with`` block. All managers step after it, see Engine.touch."""
        return self._entry

    def change(self) -> Guard:
        """Return the guard of a public call that only changes state, such as a seek.

        Until the next step, :meth:`wake_at` returns the current time.
        """
        self.engine.agenda.touch()  # first: Ctrl-C at the end of the call must not prevent the touch
        return self._entry

    def leave_waits_to_loop(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Let an event loop wait for I/O. ``begin`` and ``end`` are called by each public call, see :class:`Guard`."""
        self.blocks = False
        self._entry = self.guard.entry(begin, end)
        self.quiet_entry = self.guard.entry(begin, None)

    def begin(self) -> None:
        """Check that a call may run, recover from an interrupted step, and move the positions past the last result."""
        if self.closed:
            raise IllegalStateError(f"this {self._name} is closed")
        self.driver.check_process()
        if self.step_interrupted:
            self.recover()
        else:
            self._settle()

    def recover(self) -> None:
        """Close all connections and restart the engine after an exception interrupted a step.

        KeyboardInterrupt can be raised after any call inside a step, and at many of these points the queues and state
        machines are not consistent. Only the state that cannot be requested from a broker again is kept: positions,
        topic ids, epochs, pending calls.
        """
        log.info("an exception interrupted the last call: the %s opens new connections", self._name)
        self._settle()
        self.driver.hang_up_all()
        self.engine.restart(self.driver.now())
        self.step_interrupted = False

    def refuse_in_callback(self, call: str) -> None:
        """Raise ``IllegalStateError`` if the public method ``call`` was called by user code inside another call."""
        if self.in_callback:
            raise IllegalStateError(f"{call} is not allowed inside a callback: do it after poll() has returned")

    def wake_at(self) -> float:
        """Return when to call the client again at the latest, in the driver's monotonic seconds."""
        now = self.driver.now()
        is_due = self.step_interrupted or self.next_callback(now, True) is not None
        return now if is_due else self.step_at(now)

    def step_at(self, now: float) -> float:
        """Return when the next step is due at the latest if there is no I/O; callbacks that are due do not count."""
        engine = self.engine
        has_work = engine.network.answers or engine.commands or engine.unsent
        return now if has_work else max(now, engine.agenda.next())

    @staticmethod
    def complete(waiting: Waiting[T]) -> T:
        """Run a call of a shell that blocks to its end; return its result."""
        try:
            next(waiting)
        except StopIteration as end:
            result: T = end.value
            return result
        raise IllegalStateError("this call waits in an event loop: await it")

    def run_once(self, deadline: float, *, may_wake: bool = True) -> float:
        """Wait for I/O, at most until ``deadline``, then step all managers once; return the time.

        A caller that has changed what managers act on touches the engine before, or the wait may be too long. With
        ``may_wake=False``, as in close() and unsubscribe(), a wakeup does not end this call but the next one.

        Raises:
            WakeupError: ``wakeup()`` was called.
        """
        if self._attend is not None:
            self._attend(self.driver.now())
        return self.run_due(deadline, may_wake=may_wake, everything=True)

    def step_touched(self) -> None:
        """Step what was touched since the last step or left out by it. The driver's next step sends the requests."""
        self.step_interrupted = True
        self.engine.step_touched(self.driver.now())
        if not self.blocks and self.engine.unsent:
            # An event loop waits before that step: the requests would stay for a turn of all tasks of the loop.
            self.driver.send(self.engine)
        self.step_interrupted = False

    def connect(self, target: Target) -> None:
        """Begin to connect to a target for a request that follows, while other requests wait for their responses."""
        self.step_interrupted = True
        self.engine.network.connect(target, self.driver.now())
        self.step_interrupted = False

    def run_due(self, deadline: float, *, may_wake: bool = True, everything: bool = False, later: str = "") -> float:
        """Do the same as :meth:`run_once`, but step only managers that are due or touched, and do not call ``attend``.

        With ``everything``, all managers step after the wait. ``later`` is passed to :meth:`Engine.step`.
        """
        driver, engine = self.driver, self.engine
        if engine.logins is not None and not self.guard.refuses_user_code:
            self._get_credentials(engine.logins)
        if engine.agenda.touched:
            self.step_touched()
        self.step_interrupted = True
        try:
            is_called = driver.step(engine, deadline)
        except BaseException:
            self.step_interrupted = not driver.waiting
            raise
        now = driver.now()
        if everything:
            engine.touch()
        if not is_called and not engine.is_due(now):
            engine.network.polls.after = engine.network.polls.read_at = now
        elif engine.step(now, later):
            # Send the new requests now: brokers can process them while the call decodes records. Do not receive: that
            # would cost a system call, and only the next step would handle the responses.
            driver.send(engine)
        self.step_interrupted = False
        self.stepped(now)
        # A wakeup makes poll() raise, but not a call inside a callback that poll() runs: on_partitions_revoked() must
        # be able to commit.
        if driver.woken and may_wake and not self.in_callback:
            driver.woken = False
            raise WakeupError("wakeup() was called")
        return now

    def _get_credentials(self, logins: LoginManager) -> None:
        """Call the provider of tokens or AWS keys, if they are due: between two steps, as it may block or be user code.

        An exception of the provider is reported to ``logins``, which retries after a backoff and raises it in a poll
        only if no valid token or keys are left.
        """
        while (provider := logins.provider_call(self.driver.now())) is not None:
            try:
                with self.guard.running("a token provider"):
                    returned = provider()
            except Exception as error:  # noqa: BLE001 - user code may raise anything
                logins.provider_failed(error, self.driver.now())
            else:
                logins.provided(returned, self.driver.now())
            self.engine.touch()
            self.engine.network.touch_waiting()

    def wait_until(
        self,
        done: Callable[[], bool],
        seconds: float,
        between: Callable[[float], Waiting[float]] | None = None,
        *,
        may_wake: bool = True,
    ) -> Waiting[bool]:
        """Step, at least once, until ``done()`` is true or ``seconds`` have passed; return whether ``done()`` is true.

        Until then ``between`` runs with the time after each step. It may itself step, and returns the new time.
        """
        deadline = self.driver.now() + seconds
        now = self.run_once(self.driver.now(), may_wake=may_wake)
        while not done():
            if between is not None:
                now = yield from between(now)
            if now >= deadline:
                return False
            now = self.run_once(deadline if self.blocks else (yield deadline), may_wake=may_wake)
        return True

    @property
    def lacks_credentials(self) -> bool:
        """Whether requests wait for credentials: then it is in vain to wait for the last requests of a member."""
        return self.engine.login_error() is not None

    def wait_to_leave(self, done: Callable[[], bool], seconds: float) -> Waiting[bool]:
        """Wait as :meth:`wait_until`, but only while there are credentials for the request to leave."""
        return self.wait_until(lambda: done() or self.lacks_credentials, seconds, may_wake=False)

    def run_callbacks(self, now: float, *, every: bool = True) -> Waiting[float]:
        """Run the user code that is due, with steps in between; return the time. User code's exceptions propagate.

        ``every`` is passed to ``next_callback``. Inside a callback nothing is run.
        """
        while not self.in_callback:
            due = self.next_callback(now, every)
            if due is None:
                break
            try:
                with self.callback():
                    goes_on = due.run()
            except ListenerPendingError:
                goes_on = True
            self.engine.touch()
            if self.coroutines:
                yield from self.run_coroutines()
            if not goes_on:
                break
            if due.then_step:
                now = self.run_once(self.driver.now())
        return now

    def run_coroutines(self) -> Waiting[None]:
        """Have the coroutines completed that callbacks have begun."""
        while self.coroutines:
            yield self.coroutines.popleft()

    @contextmanager
    def callback(self) -> Iterator[None]:
        """Mark the block as user code that may call this client."""
        before, self.in_callback = self.in_callback, True
        try:
            with self.guard.running("a callback", may_call=True):
                yield
        finally:
            self.in_callback = before

    def close(self) -> None:
        """Close all connections and the driver."""
        self.closed = True
        self.before_close()
        self.driver.close()


class BaseClient(ABC):
    """Common methods of all clients except the consumer. Each subclass creates the shell in ``_shell``."""

    _shell: Shell

    @abstractmethod
    def close(self) -> None:
        """Close the connections. A second call does nothing."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wake_at(self) -> float:
        """Return when to poll again at the latest, in ``time.monotonic()`` seconds (or those of a custom driver)."""
        return self._shell.wake_at()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is I/O to do; raise ``io.UnsupportedOperation`` if none."""
        return self._shell.driver.fileno()
