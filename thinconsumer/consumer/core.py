"""Implement polls and waiting calls of the consumer: poll results, positions, deserializers, errors and closing.

A poll stores its result in its last statement, and the next call moves the positions past the result: an exception in
the poll therefore loses no records. The shell (:mod:`thinconsumer.engine`) steps, waits and recovers; the managers
decide about brokers, offsets and records.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ..config import ConsumerConfig
from ..driver import Address, Driver
from ..engine import Guard, Shell, Waiting, to_seconds
from ..errors import (
    ConcurrentAccessError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaError,
    RetriableDeserializationError,
)
from ..failures import waits_for_user
from ..fetch.collector import MANY_RECORDS, Form, PollResult
from ..fetch.planner import ASKER as FETCH
from ..positions.partitions import Partition
from ..records.batch import info
from ..sockets import SelectorDriver
from ..sockets.resolver import Resolver
from ..sockets.secured import broker_transport, https_transport
from ..support.calls import Call, run_all
from ..types import TopicPartition
from .deserializing import Deserializing
from .health import HealthMonitor
from .managers import ConsumerManagers
from .metrics_recorder import read_off, record_returned
from .open_calls import OpenCalls

if TYPE_CHECKING:
    from .group_callbacks import GroupCallbacks
    from .interceptors import Interceptors
    from .metric_reporters import MetricReporters
    from .metrics_view import MetricsView

log = logging.getLogger(__name__)

T = TypeVar("T")
Ends = Mapping[TopicPartition, int]

#: Default timeout of close() in seconds, as in Java.
CLOSING = 30.0
#: The next Fetch is sent only after the records of a small response are returned, if the application is expected to
#: poll again within this many seconds. Sending the Fetch first takes a third of the time from response to records.
#: After a larger response, the next Fetch is sent first: the broker collects records while the response is decoded.
PROMPT_S = 0.001
#: A poll of buffered records makes no step if the last step was less than this many seconds ago, and nothing is due: a
#: step's system calls take half as long as returning one record. Responses are received up to this much later.
STEP_EVERY_S = 0.001
#: Maximum number of polls in a row without a step, since a clock may be coarse (15 ms on Windows), or stand still in
#: tests: by such a clock, ``STEP_EVERY_S`` would not pass.
SKIPPED_STEPS_MAX = 100
#: The expected time between two polls is the last such time, but at least the previous expectation multiplied by this
#: factor. So a program that pauses for long at every tenth record is not expected to poll at once after the others.
GAP_DECAY = 0.9
#: A due health check (``self.watch.check``) waits for the next poll if that is expected at once (``PROMPT_S``), so that
#: buffered records are returned first, but only this many seconds: the application may no longer poll.
CHECK_LATER_S = 0.5
#: How long close() waits, in seconds, for brokers to answer the requests that close the fetch sessions. A broker that
#: holds a Fetch on the same connection may answer only after fetch_max_wait_ms, which would delay the program's end.
GOODBYE = 0.2
#: A poll ends after this many seconds without a record, and raises the error of a partition again, if no partition can
#: have records before the application acts: otherwise an iteration, which has no deadline, would hang without a word.
RAISE_AGAIN_S = 1.0

#: A poll that waits looks no sooner again for a record whose deserializer was not ready.
LOOK_AGAIN_S = 0.001


class ConsumerCore:
    """Implements the polls and waiting calls of the public Consumer on top of its :attr:`shell`."""

    def __init__(self, config: ConsumerConfig, driver: Driver | None) -> None:
        if config.trace and not getattr(driver, "is_recording", False):
            raise KafkaConfigurationError("only Consumer(trace=...) writes a trace, no other class, nor from_config()")
        guard = Guard()
        driver = driver if driver is not None else socket_driver(config, guard)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("records are read with: %s", ", ".join(f"{what}: {how}" for what, how in info().items()))
        self.config = config
        self.deserializing = Deserializing(self)
        self.managers = ConsumerManagers(config, driver.random, driver.wall_time, self.deserializing.function)
        self.partitions = self.managers.partitions
        self.shell = Shell(
            "consumer",
            self.managers.engine,
            driver,
            guard=guard,
            settle=self.settle,
            attend=self.attend if self.managers.group is not None else None,
            stepped=self.stepped,
        )
        self.metrics_view: MetricsView | None = None  #: Set by :func:`.view_of`.
        self.interceptors: Interceptors | None = None
        if config.interceptor_classes:
            from .interceptors import Interceptors  # on demand: few consumers have any

            self.interceptors = Interceptors(config, guard)
        self.callbacks: GroupCallbacks | None = None
        if self.managers.group is not None:
            from .group_callbacks import GroupCallbacks  # on demand, as the group itself, see ConsumerManagers

            self.callbacks = GroupCallbacks(self.shell, self.managers, self.managers.group)
            self.shell.next_callback = self.callbacks.next
            if self.interceptors is not None:
                self.managers.group.commits.on_commit = self.interceptors.on_commit
        default_timeout = config.session_timeout_ms if config.group_id is not None else config.request_timeout_ms
        self.watch = HealthMonitor(self.managers, default_timeout / 2000)
        #: The poll result that was returned last, until :meth:`settle` moves the positions past it.
        self.poll_result: PollResult | None = None
        #: The result of the last poll that returned records, and its time, until they are added to the metrics.
        self.unrecorded: tuple[PollResult, float] | None = None
        self.open_calls = OpenCalls(self.wait, driver.now)
        #: By id(): persistent errors that a poll has raised. See :meth:`_next_error` for when one is raised again.
        self._raised: dict[int, KafkaError] = {}
        #: Whether no poll has returned records since the start, or since a poll raised an error: then available records
        #: come before an error.
        self._owes_records = True
        self._stepped_at = 0.0  #: The time of the last step, taken after its wait for I/O.
        self._skipped_steps = 0  #: The number of polls without a step since the last step.
        self._returned_at = driver.now()  #: When the last poll returned or raised.
        #: The expected time in seconds from the end of a poll to the start of the next one.
        self._expected_gap = 1.0
        self._again_at = math.inf  #: When a poll that waits looks again for records.
        self.looked_at = 0.0  #: The time of the last look.
        self._is_prompt = False  #: Whether the application is expected to poll again at once, see ``PROMPT_S``.
        self.reporters: MetricReporters | None = None
        if config.metric_reporters:
            from .metric_reporters import MetricReporters  # on demand, as the interceptors

            self.reporters = MetricReporters(self)

    def settle(self) -> None:
        """Advance the positions past the last poll result: past the records that were returned to the application.

        Restarts begin with this, and most public calls, but not ``health()``, for example.
        """
        if self.unrecorded is not None:
            record_returned(self)
        poll_result = self.poll_result
        if poll_result is None:
            return
        if not poll_result.turns and not poll_result.moves:
            self.poll_result = None
            return
        if poll_result.taken is not None:
            poll_result = self._taken(poll_result)
        elif poll_result.records:
            # Records of poll(), and not of an iteration: the application processes no record of an iteration any more.
            self.partitions.in_hand = None
        interrupted, self.shell.step_interrupted = self.shell.step_interrupted, True
        self.managers.collector.settle(poll_result)
        self.poll_result = None
        self.shell.step_interrupted = interrupted
        # Only if positions move: ``moved`` may make the next step due at once. If empty polls did that, a program that
        # calls the client whenever a step is due would spin.
        if poll_result.moves:
            for gatekeeper in self.managers.gatekeepers:
                gatekeeper.moved()

    def _taken(self, poll_result: PollResult) -> PollResult:
        """Return the part of an iteration's poll result that the iteration has returned to the application."""
        taken, collector = poll_result.taken or 0, self.managers.collector
        if taken:
            self.partitions.in_hand = collector.in_hand(poll_result, taken)
        # The part is stored before any position changes. If the call were interrupted later, and the next call
        # computed the part anew from changed positions, records would be skipped or repeated.
        self.poll_result = collector.first(poll_result, taken)
        return self.poll_result

    def attend(self, now: float) -> None:
        """Record that the application calls the consumer; for polls, :meth:`.Group.polled` does so."""
        if self.managers.group is not None:
            self.managers.group.member.called(now)

    def stepped(self, now: float) -> None:
        """Note a complete step, and check the health if that is due."""
        self._stepped_at, self._skipped_steps = now, 0
        due = self.watch.check_at
        # Records that were just received are returned first; the next poll makes the check.
        if now >= due and not (self._is_prompt and self.managers.buffer.queues and now < due + CHECK_LATER_S):
            self._check(now)

    def _check(self, now: float) -> None:
        managers = self.managers
        if self.watch.check(now):
            managers.metrics.bound()
            if self.metrics_view is not None:
                self.metrics_view.publish()
                if self.reporters is not None:
                    self.reporters.update()
            stats = None if managers.group is None else managers.group.member.stats
            read_off(managers.metrics, managers.engine.network, stats, now)

    def poll(self, seconds: float, limit: int, ends: Ends | None = None, form: Form = Form.ROWS) -> PollResult:
        """Return up to ``limit`` records as soon as there are any; only for a shell that blocks.

        Returns an empty result after ``seconds``, or once all positions are at ``ends``: a log may end with offsets
        without records, such as a transaction marker. In other forms than rows the limit is in bytes, and batches are
        returned whole, see :meth:`Collector.gather_columns` and :meth:`Collector.gather_raw`.
        """
        # ``polling`` has the same statements, with waits: one generator for both would make a poll of one record 4 %
        # slower.
        now, shell, callbacks = self._begin_poll(form), self.shell, self.callbacks
        deadline, later = now + seconds, FETCH if self._is_prompt else ""
        try:
            skips_step = bool(self.managers.buffer.queues) and self._may_skip_step(now)
            if not skips_step:
                now = shell.run_due(deadline if self._may_wait_at_once(now) else now, later=later)
            while True:
                # First, since no record may be returned after on_partitions_revoked was called for its partition.
                if callbacks is not None and callbacks.note_poll(now):
                    now = shell.complete(callbacks.run(now))
                poll_result = self._look(now, deadline, limit, ends, form)
                if poll_result.count:
                    break
                if skips_step:  # the buffer has no record to return after all
                    skips_step, now = False, shell.run_due(now, later=later)
                elif now >= deadline or (ends is not None and not self.behind(ends)):
                    break
                else:
                    if self._raised and self._is_blocked():
                        deadline = min(deadline, now + RAISE_AGAIN_S)
                    until, self._again_at = min(deadline, self._again_at), math.inf
                    now = shell.run_due(until, later=later)
        finally:
            self._returned_at = self.managers.metrics.poll_ended = shell.driver.now()
            if self.managers.group is not None:
                self.managers.group.away = None
        if poll_result.count:
            self.unrecorded = poll_result, self._returned_at
        return poll_result

    def polling(
        self, seconds: float, limit: int, ends: Ends | None = None, form: Form = Form.ROWS
    ) -> Waiting[PollResult]:
        """Do the same as :meth:`poll`, for any shell."""
        if self.shell.blocks:
            return self.poll(seconds, limit, ends, form)
        now, shell, callbacks = self._begin_poll(form), self.shell, self.callbacks
        deadline, later = now + seconds, FETCH if self._is_prompt else ""
        try:
            skips_step = bool(self.managers.buffer.queues) and self._may_skip_step(now)
            if not skips_step:
                until = deadline if self._may_wait_at_once(now) else now
                now = shell.run_due(until if until <= now else (yield until), later=later)
            while True:
                if callbacks is not None and callbacks.note_poll(now):
                    now = yield from callbacks.run(now)
                poll_result = self._look(now, deadline, limit, ends, form)
                if poll_result.count:
                    break
                if skips_step:
                    skips_step, now = False, shell.run_due(now, later=later)
                elif now >= deadline or (ends is not None and not self.behind(ends)):
                    break
                else:
                    if self._raised and self._is_blocked():
                        deadline = min(deadline, now + RAISE_AGAIN_S)
                    until, self._again_at = min(deadline, self._again_at), math.inf
                    now = shell.run_due((yield until), later=later)
        finally:
            self._returned_at = self.managers.metrics.poll_ended = shell.driver.now()
            if self.managers.group is not None:
                self.managers.group.away = None
        if poll_result.count:
            self.unrecorded = poll_result, self._returned_at
        return poll_result

    def _begin_poll(self, form: Form) -> float:
        """Note that a poll begins; return the time."""
        managers, group = self.managers, self.managers.group
        if self.shell.in_callback:
            self.shell.refuse_in_callback("reading")
        if not self.partitions.assigned and not managers.is_subscribed:
            raise IllegalStateError("nothing to read: subscribe() to topics or assign() partitions first")
        self.watch.polled_at = began = self.shell.driver.now()
        self._expected_gap = max(GAP_DECAY * self._expected_gap, began - self._returned_at)
        self._is_prompt = self._expected_gap < PROMPT_S
        if self.open_calls.kept:
            self.open_calls.drop_old(began)
        managers.metrics.record_poll_start(began)
        managers.planner.batches = form is not Form.ROWS
        managers.planner.has_numpy = managers.collector.chunk_decoder.has_numpy
        if group is not None:
            group.poll_begins(began)
        if self._is_prompt and began >= self.watch.check_at:
            self._check(began)
        return began

    def _look(self, now: float, deadline: float, limit: int, ends: Ends | None, form: Form) -> PollResult:
        """Return the records that a poll can return now, if any, or raise the error that it has to raise."""
        group = self.managers.group
        self.looked_at = now
        while True:
            errors = self.managers.errors()
            error = self._next_error(errors, may_wait=now < deadline) if errors or self._raised else None
            if error is not None and not self._owes_records:
                self._raise(error)
            is_unconfirmed = group is not None and group.member.withholds(may_wait=now < deadline)
            poll_result = PollResult() if is_unconfirmed else self._gather(limit, ends, form)
            if poll_result.count:
                self._owes_records = False
                return poll_result
            if error is not None and not poll_result.moves:
                self._raise(error)
            if not poll_result.moves:
                self._raise_outage(now)
                return poll_result
            # The positions move past batches without records to return (control batches, aborted transactions,
            # compaction). The result is stored first: if settle is interrupted, the next call completes it.
            self.poll_result = poll_result
            self.settle()

    def _may_skip_step(self, now: float) -> bool:
        """Return whether a poll may look for buffered records before it steps (``STEP_EVERY_S``); count it if so."""
        if now >= self._stepped_at + STEP_EVERY_S or self._skipped_steps >= SKIPPED_STEPS_MAX:
            return False
        if now >= self.watch.check_at or self.managers.engine.is_due(now):
            return False
        if self.managers.errors() or self.shell.driver.woken:
            return False
        self._skipped_steps += 1
        return True

    def _may_wait_at_once(self, now: float) -> bool:
        """Step what was touched; return whether the poll can then wait for I/O first.

        It can if no record, error, callback or step is due now.
        """
        engine = self.managers.engine
        if engine.agenda.touched:
            self.shell.step_touched()
        if engine.is_due(now) or self.managers.buffer.queues or self.managers.errors():
            return False
        return self.callbacks is None or self.callbacks.next(now, every=True) is None

    def behind(self, ends: Ends) -> list[Partition]:
        """Return the partitions whose position is before the given end, or is not known yet, without paused ones."""
        whole = self.managers.whole_topics
        # Also those that metadata hide for now: without them, a read to the end would miss records without an error.
        gone = () if whole is None else whole.gone.values()
        wanted = [p for p in chain(self.partitions, gone) if p.tp in ends and not p.paused]
        return [p for p in wanted if not p.has_position or p.cursor.offset < ends[p.tp]]

    def _gather(self, limit: int, ends: Ends | None, form: Form) -> PollResult:
        collector = self.managers.collector
        not_ready: set[TopicPartition] | None = None
        while True:
            self.shell.step_interrupted = True
            try:
                if form is Form.COLUMNS:
                    poll_result = collector.gather_columns(limit, ends)
                elif form is Form.RAW:
                    poll_result = collector.gather_raw(limit)
                else:
                    is_large = limit >= MANY_RECORDS and self.deserializing.function is None
                    poll_result = (collector.gather_many if is_large else collector.gather)(limit, ends)
            except KafkaError as error:
                self.shell.step_interrupted = False
                if not isinstance(error, RetriableDeserializationError):
                    self._owes_records = True
                    self.watch.record_failed(error, self.shell.driver.now())
                    raise
                again_at = max(error.again_at, self.looked_at + LOOK_AGAIN_S)
                self._again_at = min(self._again_at, again_at)
                # The partition is the last in turn now: once it comes again, the poll has looked at all others.
                not_ready = not_ready or set()
                if error.partition in not_ready:
                    poll_result = PollResult()
                    break
                not_ready.add(error.partition)
                if error.tried_at == self.looked_at:
                    self.watch.record_failed(error, self.looked_at)
            else:
                break
        if not poll_result.moves and self.managers.buffer.queues:
            self.managers.planner.make_room()
        self.shell.step_interrupted = False
        return poll_result

    def wait(self, call: Call[T], timeout_ms: float | None, settled: Callable[[], bool] | None = None) -> Waiting[T]:
        """Step until ``settled()`` is true (default: the call is done), and return the call's result.

        Raises the call's error, or ``KafkaTimeoutError``.
        """
        seconds = self.default_timeout(timeout_ms)
        try:
            if settled is not None and settled():
                return call.result()
            if not (yield from self.shell.wait_until(settled or (lambda: call.done), seconds, self.while_waiting)):
                raise self.managers.engine.timeout_error(call, seconds)
        finally:
            call.abandoned = True
        return call.result()

    def while_waiting(self, now: float) -> Waiting[float]:
        """Do the work of a waiting call between two steps; return the time.

        Runs the callbacks that a rebalance waits for. Raises an error if no broker was reachable for
        ``bootstrap_timeout_ms``, or if a broker has rejected the Metadata request.
        """
        now = yield from self.shell.run_callbacks(now, every=False)
        if (error := self.managers.metadata.refresh_error) is not None:
            raise error
        self._raise_outage(now)
        return now

    def default_timeout(self, timeout_ms: float | None) -> float:
        """Return a call's timeout in seconds; ``default_api_timeout_ms`` for None."""
        return to_seconds(timeout_ms, self.config.default_api_timeout_ms)

    def _next_error(self, errors: dict[int, KafkaError], *, may_wait: bool) -> KafkaError | None:
        """Return the error that this poll must raise, or None.

        An error that no poll has raised yet comes first; if the broker reports an error again, that is a new object. An
        error after which nothing is requested until the application acts is raised by each poll, but only after the
        poll has waited for records of other partitions (``may_wait`` is False).
        """
        self._raised = {key: error for key, error in self._raised.items() if key in errors}
        for key, error in errors.items():
            if key not in self._raised:
                return error
        return None if may_wait else next(filter(waits_for_user, errors.values()), None)

    def _is_blocked(self) -> bool:
        """Return whether no record can come before the application acts: all partitions are paused or have errors."""
        return any(map(waits_for_user, self.managers.errors().values())) and all(
            p.paused or (p.error is not None and waits_for_user(p.error)) for p in self.partitions
        )

    def _raise(self, error: KafkaError) -> NoReturn:
        self._owes_records = True
        self._raised[id(error)] = error
        raise error

    def _raise_outage(self, now: float) -> None:
        if self.managers.engine.network.outage_since is not None and (outage := self.managers.outage(now)) is not None:
            raise outage

    def close(self, timeout_ms: float | None, *, commit: bool = True, leave_group: bool | None = None) -> Waiting[None]:
        """Leave the group and close everything; see :meth:`Consumer.close`. The caller enters the shell's guard."""
        shell = self.shell
        shell.refuse_in_callback("close()")
        seconds = CLOSING if timeout_ms is None else to_seconds(timeout_ms)
        ends: list[Callable[[], object]] = [shell.close, *self.deserializing.closes()]
        if self.interceptors is not None:
            ends.append(self.interceptors.close)
        if self.reporters is not None:
            self.reporters.begin_close()
            ends.append(self.reporters.close)
        raised: BaseException | None = None
        try:
            try:
                shell.driver.check_process()
            except ConcurrentAccessError:
                pass  # in a forked child, the connections belong to the parent
            else:
                if self.callbacks is not None:
                    ends.insert(0, self.callbacks.end_commits)
                deadline = shell.driver.now() + seconds
                yield from self._leave(deadline, commit=commit, leave_group=leave_group)
        except BaseException as error:  # noqa: BLE001 - raised below, after everything is closed
            raised = error
        run_all(ends, raised)

    def _leave(self, deadline: float, *, commit: bool, leave_group: bool | None) -> Waiting[None]:
        shell = self.shell
        if commit and not shell.step_interrupted:
            self.settle()
        self.poll_result = None
        try:
            if self.callbacks is not None:
                if shell.step_interrupted:
                    shell.recover()
                yield from self.callbacks.close(deadline, commit=commit, leave_group=leave_group)
        finally:
            if not shell.step_interrupted:
                yield from self._say_goodbye(min(deadline, shell.driver.now() + GOODBYE))

    def _say_goodbye(self, deadline: float) -> Waiting[None]:
        engine, driver = self.managers.engine, self.shell.driver
        goodbyes = self.managers.planner.close(driver.now(), engine.network.is_ready)
        if self.managers.telemetry is not None:
            record_returned(self)
            goodbyes += self.managers.telemetry.close(driver.now())
        waiting = engine.close(goodbyes, driver.now())
        if waiting:
            driver.send(engine)  # even if no time is left to wait for the responses
        while waiting and driver.now() < deadline:
            driver.step(engine, deadline if self.shell.blocks else (yield deadline))
            waiting = engine.closing(driver.now())
        if engine.network.any_open():  # if none is open, a step would open a selector for nothing
            engine.network.close(driver.now())
            driver.step(engine, driver.now())


def socket_driver(config: ConsumerConfig, guard: Guard) -> Driver:
    """Return the driver over sockets that the options describe. ``guard`` is that of the consumer's calls."""
    return SelectorDriver(
        transport=broker_transport(config),
        https=https_transport(config),
        selector=config.selector,
        resolver=_guarded(config.resolver, guard) if config.resolver is not None else None,
        receive_buffer_bytes=config.receive_buffer_bytes,
        send_buffer_bytes=config.send_buffer_bytes,
        socket_options=config.socket_options,
    )


def _guarded(resolver: Resolver, guard: Guard) -> Resolver:
    def resolve(host: str, port: int) -> Sequence[Address]:
        with guard.running("a resolver"):
            return resolver(host, port)

    return resolve
