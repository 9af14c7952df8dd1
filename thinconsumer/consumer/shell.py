"""Engine and driver under one roof: how a call begins, how it waits, how it ends.

Owns the order within a call and what a call promises: bounded, one user at a time, positions moved in the very last
step. Every decision about brokers, offsets and records is made elsewhere.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn, TypeVar

from ..calls import Call, run_all
from ..config import ConsumerConfig
from ..driver import Address, Driver
from ..engine import Engine
from ..errors import (
    ConcurrentAccessError,
    IllegalStateError,
    KafkaError,
    RecordError,
    WakeupError,
)
from ..failures import waits_for_user
from ..fetch.collector import Collector, Deserialize, PollResult, Records
from ..net import Guard, SelectorDriver
from ..net.resolver import Resolver
from ..partitions import Partition
from ..records.rows import deserialize
from ..types import TopicPartition
from .arguments import to_seconds
from .health import HealthMonitor
from .membership import CLOSING, Membership, make_assignors
from .metrics_recorder import handed_out, read_off
from .open_calls import OpenCalls

log = logging.getLogger(__name__)

T = TypeVar("T")
#: What a poll hands over is gathered by: the collector may be another one by then, see :meth:`Shell._rebuild_engine`.
Gather = Callable[[Collector], PollResult]

#: How long closing waits for brokers to forget fetch sessions; seconds. A Fetch that is still out delays that answer by
#: up to fetch_max_wait_ms, and a program that wants to end should not hang for it.
GOODBYE = 0.2


class Entry:
    """The beginning and end of a public call, as a context manager. What begins it runs inside the guard.

    Without that a call from a second thread would move positions under the first one's feet before it is refused.
    """

    __slots__ = ("_begin", "_guard")

    def __init__(self, guard: Guard, begin: Callable[[], None]) -> None:
        self._guard = guard
        self._begin = begin

    def __enter__(self) -> None:
        caller = sys._getframe(1)
        self._guard.enter(caller)
        try:
            self._begin()
        except BaseException:
            self._guard.leave(caller)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.leave(sys._getframe(1))


class Shell:
    """What every public method of the consumer is made of."""

    def __init__(self, config: ConsumerConfig, driver: Driver | None) -> None:
        self.config = config
        self._guard = Guard()
        self.driver = driver if driver is not None else _driver(config, self._guard)
        self.engine = Engine(config, self.driver.random, self._deserializer(), assignors=make_assignors(config))
        self.partitions = self.engine.partitions
        self.membership = Membership(self)
        #: Users' code that runs inside a call of theirs may make further calls; those run none of it.
        self.in_callback = False
        self.closed = False
        default_timeout = config.session_timeout_ms if config.group_id is not None else config.request_timeout_ms
        self.watch = HealthMonitor(default_timeout / 2000)
        self._changed = False  #: The user has changed what is wanted, and nothing has been asked yet.
        #: An exception has left a step half done: only positions can be trusted. See :meth:`_rebuild_engine`.
        self.step_interrupted = False
        #: What the last call handed over: its positions move when the next call begins, see :meth:`enter`.
        self.poll_result: PollResult | None = None
        self._entry = Entry(self._guard, self._begin)
        self.open_calls = OpenCalls()
        self._raised: dict[int, KafkaError] = {}  #: By id, errors that polls have raised and no answer has replaced.
        self._owes_records = True  #: The latest poll has raised, so that records in hand come before another error.

    # -- beginning a call

    def enter(self) -> Entry:
        """Begin a public call: check that it may run, and first of all move what the last one handed over."""
        return self._entry

    def change(self) -> Entry:
        """Begin a public call that does no I/O, but wants some: :meth:`wake_at` is now until the next step."""
        self._changed = True
        return self._entry

    def stay(self) -> Guard:
        """Begin a call that leaves what was handed over as it is: between two records of an iteration."""
        return self._guard

    def _begin(self) -> None:
        if self.closed:
            raise IllegalStateError("this consumer is closed")
        self.driver.check_process()
        if self.step_interrupted:
            self._rebuild_engine()
        self._settle()

    def _settle(self) -> None:
        poll_result = self._to_settle()
        if poll_result is not None:
            self.step_interrupted = True
            self.engine.collector.settle(poll_result)
            self.poll_result = None
            self.step_interrupted = False

    def _to_settle(self) -> PollResult | None:
        """Return what was really taken of what was handed over last."""
        poll_result = self.poll_result
        if poll_result is not None and poll_result.taken is None and (poll_result.records or poll_result.columns):
            self.partitions.in_hand = None  # a poll has returned records since
        if poll_result is not None and poll_result.taken is not None:
            if poll_result.taken:
                self.partitions.in_hand = self.engine.collector.in_hand(poll_result, poll_result.taken)
            # Noted before anything moves: what is taken counts from where the positions are now.
            poll_result = self.poll_result = self.engine.collector.first(poll_result, poll_result.taken)
        return poll_result

    def _rebuild_engine(self) -> None:
        """Start over from the positions, with nothing else kept: connections, buffers, questions under way.

        KeyboardInterrupt can strike between any two steps of any machine. To make each of them survive that would be a
        promise nobody can keep; positions move in one place, so that what is left to do is what a new consumer does.
        """
        log.info("a call was interrupted in the middle of a step: connecting anew and reading on from the positions")
        poll_result = self._to_settle()
        if poll_result is not None:
            self.engine.collector.place(poll_result)
            self.poll_result = None
        self.driver.hang_up_all()
        self.engine = Engine(self.config, self.driver.random, self._deserializer(), predecessor=self.engine)
        self.step_interrupted = False
        self._changed = True

    # -- stepping and waiting

    def wake_at(self) -> float:
        """Return when to poll next at the latest."""
        now, group = self.driver.now(), self.engine.group
        if self._changed or (group is not None and group.has_work(now)):
            return now
        if self.engine.buffer.has_ready() and (group is None or not group.held):
            return now  # while held nothing is handed out, however often one asks
        return min(self.engine.wake_at(), self.driver.wake_at())

    def turn(self, deadline: float) -> float:
        """One round: wait for I/O until ``deadline``, let everything follow from it, return the time."""
        driver, engine = self.driver, self.engine
        self.step_interrupted = True
        try:
            driver.step(engine, deadline)  # or until engine.wake_at(), as the contract has it
        except BaseException:
            self.step_interrupted = not driver.waiting
            raise
        now = driver.now()
        if engine.step(now, driver.wall_time()):
            # What is to be sent or dialled leaves before anything is decoded: the broker works while we do.
            driver.step(engine, now)
        self.step_interrupted = False
        self._changed = False
        if self.watch.step(engine, now):
            read_off(engine, now)
        # Not in the middle of users' code: a wakeup is to end poll(), and not to foil a revoked callback's last commit.
        if not self.in_callback and driver.take_wakeup():
            raise WakeupError("wakeup() was called")
        return now

    def refuse_in_callback(self, call: str) -> None:
        """Raise if users' code that runs inside another call asks for what only that call's end allows."""
        if self.in_callback:
            raise IllegalStateError(f"{call} inside a callback: note that you want it, and call it when poll() is back")

    def poll(
        self, seconds: float, limit: int, ends: Mapping[TopicPartition, int] | None = None, *, columns: bool = False
    ) -> PollResult:
        """Return up to ``limit`` records as soon as there are any; none after ``seconds``, or once at ``ends``.

        A log may end in what is never handed out, such as the end of a transaction. With ``columns`` the limit is
        bytes, and of the batch in which an end lies all comes, see :meth:`Collector.gather_columns`.
        """
        self.refuse_in_callback("reading")
        group = self.engine.group
        if not self.partitions and (group is None or not group.subscription.is_subscribed):
            raise IllegalStateError("nothing to read: subscribe() to topics or assign() partitions first")
        self.watch.polled_at = began = self.driver.now()
        self.open_calls.drop_old(began)
        self.engine.metrics.record_poll_start(began)
        self.engine.planner.batches = columns
        try:
            gather = _columns(limit, ends) if columns else _records(limit, ends)
            poll_result = self._poll(began, began + seconds, gather, ends)
        finally:
            now = self.driver.now()
            self.engine.metrics.record_poll_end(now)
            if group is not None:
                group.poll_ends()
        handed_out(self.engine, poll_result, now)
        return poll_result

    def _poll(
        self, now: float, deadline: float, gather: Gather, ends: Mapping[TopicPartition, int] | None
    ) -> PollResult:
        group = self.engine.group
        if group is not None:
            self.membership.begin_poll(now)
        now = self.turn(now)
        while True:
            if group is not None:
                # Before anything is handed out: what a callback is due for may not be ours any more.
                now = self.membership.run_callbacks(now)
            error = self._next_error(may_wait=now < deadline)
            if error is not None and not self._owes_records:
                self._raise(error)
            poll_result = PollResult() if group is not None and group.held else self._gather(gather)
            if poll_result.count:
                self._owes_records = False
                return poll_result
            if error is not None and not poll_result.moves:
                self._raise(error)
            if poll_result.moves:
                # Control batches, aborted transactions, holes: no records, and the position is past them.
                # Noted first, as a poll's result is: one that is interrupted halfway is finished by the next call.
                self.poll_result = poll_result
                self._settle()
                continue
            self._raise_outage(now)
            if now >= deadline or (ends is not None and not self.behind(ends)):
                return poll_result
            now = self.turn(deadline)

    def step_once(self, deadline: float) -> float:
        """Step as :meth:`turn` does, in calls that end something: a wakeup is for whoever calls next."""
        driver, engine = self.driver, self.engine
        self.step_interrupted = True
        driver.step(engine, deadline)
        now = driver.now()
        if engine.step(now, driver.wall_time()):
            driver.step(engine, now)
        self.step_interrupted = False
        return now

    @contextmanager
    def callback(self) -> Iterator[None]:
        """Run users' code that may call the consumer."""
        before, self.in_callback = self.in_callback, True
        try:
            with self._guard.callback():
                yield
        finally:
            self.in_callback = before

    def behind(self, ends: Mapping[TopicPartition, int]) -> list[Partition]:
        """Return the partitions that are not at these ends yet, without those that nobody reads on."""
        wanted = [p for p in self.partitions if p.tp in ends and not p.paused]
        return [p for p in wanted if not p.has_position or p.cursor.offset < ends[p.tp]]

    def _gather(self, gather: Gather) -> PollResult:
        self.step_interrupted = True
        try:
            poll_result = gather(self.engine.collector)
        except KafkaError as error:
            self.step_interrupted = False
            self._owes_records = True
            self.watch.record_failed(error, self.driver.now())
            raise
        self.step_interrupted = False
        return poll_result

    def _deserializer(self) -> Deserialize | None:
        config = self.config
        return self._deserialize if config.key_deserializer or config.value_deserializer else None

    def _deserialize(self, tp: TopicPartition, records: Records) -> tuple[Records, RecordError | None]:
        key, value = self.config.key_deserializer, self.config.value_deserializer
        # A call from in there would find a step half done, mend it, and so have these records delivered twice.
        with self._guard.busy("a deserializer"):
            return deserialize(records, key.call if key else None, value.call if value else None)

    def wait(self, call: Call[T], timeout_ms: float | None, settled: Callable[[], bool] | None = None) -> T:
        """Step until the call is settled, or ``settled`` says so; raise its error, or ``KafkaTimeoutError``."""
        seconds = self.default_timeout(timeout_ms)
        deadline = self.driver.now() + seconds
        done = settled or (lambda: call.done)
        try:
            now = self.turn(self.driver.now())
            while not done():
                if self.engine.group is not None:
                    now = self.membership.run_leader_assignment(now)
                self._raise_outage(now)
                if now >= deadline:
                    raise self.engine.timeout_error(call, seconds)
                now = self.turn(deadline)
        finally:
            call.abandoned = True
        return call.result()

    def ask(
        self,
        key: Hashable,
        ask: Callable[[], Call[T]],
        timeout_ms: float | None,
        is_valid: Callable[[Call[T]], bool] = lambda call: True,
    ) -> T:
        """Wait for an answer, which may have been asked for by an earlier call that ran out of time."""
        return self.open_calls.wait(key, ask, lambda call: self.wait(call, timeout_ms), self.driver.now(), is_valid)

    def default_timeout(self, timeout_ms: float | None) -> float:
        """Return a call's timeout in seconds, ``default_api_timeout_ms`` if it was given none."""
        return to_seconds(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def _next_error(self, *, may_wait: bool) -> KafkaError | None:
        """Return an error that no poll has raised yet: each answer that repeats one makes a new error object.

        An error that no answer will repeat is returned again, once this poll has waited for records.
        """
        errors = {id(error): error for error in self.engine.persistent_errors()}
        self._raised = {key: error for key, error in self._raised.items() if key in errors}
        for key, error in errors.items():
            if key not in self._raised:
                return error
        return None if may_wait else next(filter(waits_for_user, errors.values()), None)

    def _raise(self, error: KafkaError) -> NoReturn:
        self._owes_records = True
        self._raised[id(error)] = error
        raise error

    def _raise_outage(self, now: float) -> None:
        outage = self.engine.outage(now)
        if outage is not None:
            raise outage

    # -- ending

    def close(self, timeout_ms: float | None, *, commit: bool = True, leave_group: bool | None = None) -> None:
        """End everything; returns within ``timeout_ms``, and soon anyway. Without ``commit`` nothing is by itself."""
        self.refuse_in_callback("close()")
        seconds = CLOSING if timeout_ms is None else to_seconds(timeout_ms)
        deserializers = (self.config.key_deserializer, self.config.value_deserializer)
        ends: list[Callable[[], object]] = [self._mark_closed, *(found.close for found in deserializers if found)]
        with self._guard:
            try:
                self.driver.check_process()
            except ConcurrentAccessError:
                pass  # a forked child: the connections are the parent's to end
            else:
                if self.engine.group is not None:
                    ends.insert(0, self.membership.end_commits)
                deadline = self.driver.now() + seconds
                ends.insert(0, lambda: self._part(deadline, commit=commit, leave_group=leave_group))
            run_all(ends)

    def _mark_closed(self) -> None:
        self.closed = True
        self.driver.close()

    def _part(self, deadline: float, *, commit: bool, leave_group: bool | None) -> None:
        poll_result = self.poll_result
        if poll_result is not None and commit and not self.step_interrupted:
            self._settle()
        self.poll_result = None
        try:
            if self.engine.group is not None:
                if self.step_interrupted:
                    self._rebuild_engine()
                self.membership.close(deadline, commit=commit, leave_group=leave_group)
        finally:
            if not self.step_interrupted:
                now = self.driver.now()
                self._say_goodbye(min(deadline, now + GOODBYE))

    def _say_goodbye(self, deadline: float) -> None:
        engine, driver = self.engine, self.driver
        waiting = engine.close(driver.now())
        while waiting and driver.now() < deadline:
            driver.step(engine, deadline)
            waiting = engine.closing(driver.now())
        engine.network.close(driver.now())
        driver.step(engine, driver.now())


def _records(limit: int, ends: Mapping[TopicPartition, int] | None) -> Gather:
    return lambda collector: collector.gather(limit, ends)


def _columns(max_bytes: int, ends: Mapping[TopicPartition, int] | None) -> Gather:
    return lambda collector: collector.gather_columns(max_bytes, ends)


def _driver(config: ConsumerConfig, guard: Guard) -> Driver:
    return SelectorDriver(
        selector=config.selector,
        resolver=_guarded(config.resolver, guard) if config.resolver is not None else None,
        receive_buffer_bytes=config.receive_buffer_bytes,
        send_buffer_bytes=config.send_buffer_bytes,
        socket_options=config.socket_options,
    )


def _guarded(resolver: Resolver, guard: Guard) -> Resolver:
    def resolve(host: str, port: int) -> Sequence[Address]:
        with guard.busy("a resolver"):
            return resolver(host, port)

    return resolve
