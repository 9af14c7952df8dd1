"""A consumer that records its public calls, the user code that they run, and what its polls find."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

from .._version import __version__
from ..config import ConsumerConfig
from ..consumer import Consumer
from ..consumer.consumer import TRACE_VARIABLE
from ..consumer.core import socket_driver
from ..consumer.group_calls import LISTENER_METHODS, CommitCallback
from ..driver import Driver
from ..engine import Guard
from ..errors import KafkaConfigurationError, RecordError, RetriableDeserializationError
from ..fetch.buffer import Buffer
from ..fetch.collector import Collector, PollResult
from ..positions.partitions import Partition
from ..support.imports import variable
from .arguments import encoded, methods_of, without_iterators
from .checkpoint import Built, CheckpointWriter, User, roots_of
from .logins import MECHANISMS, RecordingMechanism, record_logins
from .recorder import RecordingDriver, RecordingFrames
from .trace_file import Short, TraceWriter, new_id, numbered

R = TypeVar("R")
log = logging.getLogger(__name__)

#: The public methods that are recorded; the others are not about the client's state, or are recorded below.
CALLS = (
    "poll", "poll_batches", "poll_raw", "drive", "wake_at", "position", "unsubscribe", "commit", "committed", "topics",
    "partitions_for_topic", "beginning_offsets", "end_offsets", "offsets_for_times", "bootstrap", "close", "assign",
    "assignment", "skip", "seek", "seek_to_beginning", "seek_to_end", "pause", "resume", "paused", "highwater", "lag",
    "health", "metrics", "bootstrap_connected", "subscribe", "subscription", "enforce_rebalance", "commit_async",
    "group_metadata", "__next__",
)  # fmt: skip
#: Calls of which the trace has no result: the collector records what polls return, the others are only looked at.
WITHOUT_RESULT = ("poll", "poll_batches", "poll_raw", "health", "metrics", "group_metadata", "__next__", "wake_at")
_poll = Consumer.poll
_FOUND = int(Short.FOUND)
#: Options that are in no trace: a replay has the results of what they do.
_LEFT_OUT = (
    "key_deserializer", "value_deserializer", "on_bad_record", "default_offset_commit_callback", "selector", "resolver",
    "socket_options", "proxy_url", "socks5_proxy", "interceptor_classes", "metric_reporters", "trace",
)  # fmt: skip


class RecordingConsumer(Consumer[Any, Any]):
    """A :class:`Consumer` that writes a trace of itself to a file, for :func:`.replay`.

    ``Consumer(trace="file")`` makes one. The trace has no key, value or header of a record, and no metadata of a
    commit. Its last part is kept: once the file has half of ``trace_bytes_max`` bytes, its name gets ``.1`` appended,
    and the trace goes on in a new one. Existing files are replaced.

    Raises:
        KafkaConfigurationError: the options are not valid, or ask for a login by tokens or tickets, or an assignor of
            the user's own: no trace can be made of those.
    """

    def __init__(self, *topics: str, driver: Driver | None = None, **options: Any) -> None:
        config = ConsumerConfig.from_options(**options)
        path = config.trace or numbered(variable(TRACE_VARIABLE) or "consumer.trace")
        refused = _refused(config, options)
        try:
            writer = None if refused else TraceWriter(path, config.trace_bytes_max)
        except (OSError, ValueError) as error:
            refused, writer = f"no trace can be written to {path}: {error}", None
        if writer is None:
            if config.trace:
                raise KafkaConfigurationError(refused)
            log.warning("%s: %s", TRACE_VARIABLE, refused)  # a variable of the environment must not end a program
            self.__class__ = Consumer  # type: ignore[assignment]
            Consumer.__init__(self, *topics, driver=driver, **options)
            return
        self._trace, options["trace"] = writer, path
        # The state of pushed metrics is in no checkpoint, and their size depends on the codec's version.
        options["enable_metrics_push"] = False
        callback = config.default_offset_commit_callback
        self._about: dict[str, Any] = {
            "thinconsumer": __version__, "python": sys.version.split()[0], "options": _plain(options, config),
            "callback": callback is not None, "trace": new_id(), "segment": 0,
        }  # fmt: skip
        writer.add(["trace", self._about])
        if callback is not None:
            options["default_offset_commit_callback"] = self._user("callback", callback)
        config = ConsumerConfig.from_options(**options)
        self._last_poll: tuple[Any, ...] | None = None  #: The arguments of the last call if it was a poll.
        real = driver if driver is not None else socket_driver(config, Guard())
        self._clock = real.now
        self._recorder = RecordingDriver(real, writer)
        self._set_up(config, self._recorder, ())
        if self._reader.managers.engine.logins is not None:
            record_logins(self._reader.managers.engine.logins, writer)
        self._built = Built({**roots_of(self), "consumer": self})
        self._in_user_code = 0
        self._iterations = 0  #: How many of ``read_to_end`` have begun.
        self._iterators = 0  #: How many of ``read_to_end`` go on: a replay cannot begin in the middle of one.
        self._stands_for: dict[int, tuple[Any, User]] = {}
        self._visits = _record_collector(self._reader.managers.collector, self._reader.managers.buffer, writer)
        writer.add(["built"])
        if topics:
            self.subscribe(topics)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True) -> Any:
        """Return records as :meth:`Consumer.poll`; a poll like the last call is recorded as one number."""
        given = timeout_ms, max_records, update_offsets
        if given != self._last_poll or self._trace.wants_checkpoint or self._shell.guard.refuses():
            return self._call("poll", super().poll, *given)
        if self._iteration.poll_result.taken:
            self._note_taken()
        try:
            self._trace.add_call()
            return _poll(self, timeout_ms, max_records, update_offsets)
        except BaseException as error:
            self._trace.add_failure("raise", error)
            raise

    def __next__(self) -> Any:
        """Return the next record as :meth:`Consumer.__next__`; only calls that poll or step are recorded."""
        iteration = self._iteration
        poll_result = iteration.poll_result
        taken = poll_result.taken or 0
        # As Consumer.__next__, but by a clock reading that is not recorded: else each record would be an event.
        if (
            poll_result is not self._reader.poll_result
            or taken >= poll_result.count
            or self._shell.step_interrupted
            or self._clock() >= iteration.drive_at
        ):
            return self._call("__next__", super().__next__)
        record = iteration.records[taken]
        poll_result.taken = taken + 1
        return record

    def read_to_end(self, timeout_ms: float | None = None) -> Iterator[Any]:
        """Yield the records up to the end, as :meth:`Consumer.read_to_end`."""
        records = self._call("read_to_end", super().read_to_end, timeout_ms)
        self._iterators += 1
        self._iterations = number = self._iterations + 1
        try:
            while True:
                self._trace.add(["resume", number])
                try:
                    record = next(records)
                except StopIteration:
                    return
                yield record
        finally:
            self._iterators -= 1

    def keep_alive(self) -> Any:
        """Raise: a signal handler's steps between two bytecodes are in no trace."""
        raise KafkaConfigurationError("a consumer that records a trace has no keep_alive(): call drive()")

    def stop_trace(self) -> None:
        """Write no more events, until :meth:`start_trace`. What was written stays in the file."""
        self._trace.flush()
        self._trace.is_on = False

    def start_trace(self) -> None:
        """Go on with the trace in a new file, from the next call on."""
        self._trace.discard()
        self._trace.is_on = self._trace.wants_checkpoint = self._trace.has_gap = True

    def commit_async(self, offsets: Any = None, callback: CommitCallback | None = None) -> None:
        """Queue a commit as :meth:`Consumer.commit_async`; the call of ``callback`` is recorded."""
        told = callback if callback is None or not callable(callback) else self._user("callback", callback)
        self._call("commit_async", super().commit_async, offsets, told)

    def _unassign(self) -> None:
        Consumer.unsubscribe(self)  # a part of assign([]), which is recorded

    def _checked(self, listener: Any) -> Any:
        checked = super()._checked(listener)
        return checked if checked is None else _RecordingListener(checked, self._user)

    def _user(self, kind: str, function: Callable[..., R]) -> Callable[..., R]:
        """Return a function that calls user code, and records when it begins and ends."""

        def call(*arguments: Any) -> R:
            self._trace.add(["user", kind])
            self._in_user_code += 1
            try:
                result = function(*arguments)
            except BaseException as error:
                self._note_taken()
                self._trace.add_failure("done", error)
                raise
            finally:
                self._in_user_code -= 1
            self._note_taken()
            self._trace.add(["done", None])
            return result

        call.kind = kind  # type: ignore[attr-defined]
        return call

    def _call(self, name: str, method: Callable[..., R], *given: Any, **named: Any) -> R:
        if self._shell.guard.refuses():  # one of another thread, or of a deserializer: it is no part of the trace
            with self._shell.guard:
                pass
            return method(*given, **named)
        arguments = [without_iterators(each) for each in given]
        options = {key: without_iterators(each) for key, each in named.items()}
        if self._trace.wants_checkpoint and not self._in_user_code and not self._iterators and self._recorder.may_begin:
            self._begin_segment()
        self._note_taken()
        self._last_poll = None
        shown = [encoded(each) for each in arguments]
        if name == "subscribe" and len(arguments) > 2:
            shown[2] = _argument("listener", arguments[2])
        named = {key: _argument(key, each) for key, each in options.items()}
        try:
            self._trace.add(["call", name, shown, named])
            self._last_poll = given if name == "poll" else None
            result = method(*arguments, **options)
        except BaseException as error:
            self._trace.add_failure("raise", error)
            if name == "close" and isinstance(error, Exception):
                self._trace.close()
            raise
        # After a poll nothing more is done: an exception such as KeyboardInterrupt would lose its records.
        if name not in WITHOUT_RESULT:
            self._trace.add(["return", None if name == "read_to_end" else encoded(result)])
        if name == "close":
            self._trace.close()
        return result

    def _begin_segment(self) -> None:
        """Write a checkpoint, from which a replay can begin; in a new file if the last one is full."""
        if not self._trace.is_on:
            self._trace.wants_checkpoint = False
            return
        roots: dict[str, Any] = roots_of(self)
        recorder = self._recorder
        roots["alarms"] = {str(number): each.alarm for number, each in recorder.live_alarms.items()}
        roots["streams"] = {str(each.number): each.stream for each in recorder.streams.values()}
        unfinished = {str(each.number): each.unfinished for each in recorder.streams.values()}
        try:
            nodes = CheckpointWriter(self._built, self._stand_in).write(roots)
            self._trace.begin_segment(self._about, ["checkpoint", nodes, unfinished])
        except Exception as error:  # noqa: BLE001 - no call fails since its trace does
            self._trace.fail(error)
        self._visits.forget()

    def _stand_in(self, value: Any) -> Any:
        """Return what a checkpoint has in place of an object of the recorder."""
        if isinstance(value, RecordingFrames):
            return value.frames
        if not isinstance(value, (FunctionType, _RecordingListener, RecordingMechanism)):
            return value
        if id(value) not in self._stands_for:
            if isinstance(value, _RecordingListener):
                user = User("listener", [*vars(value)])
            elif isinstance(value, RecordingMechanism):
                user = User("mechanism", [value.name, *value.options])
            elif hasattr(value, "kind"):
                user = User(value.kind, None)
            else:
                return value
            self._stands_for[id(value)] = value, user
        return self._stands_for[id(value)][1]

    def _note_taken(self) -> None:
        """Record how many records an iteration has returned, if it goes on."""
        taken = self._iteration.poll_result.taken
        if taken and self._reader.poll_result is self._iteration.poll_result:
            self._trace.add(["taken", taken])


def _argument(name: str, value: Any) -> Any:
    return methods_of(value, LISTENER_METHODS) if name == "listener" and value is not None else encoded(value)


class _RecordingListener:
    """Has the methods of a user's listener; their calls are recorded."""

    def __init__(self, listener: Any, user: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        for name in methods_of(listener, LISTENER_METHODS):
            setattr(self, name, user(name, getattr(listener, name)))


def _refused(config: ConsumerConfig, options: Mapping[str, Any]) -> str:
    """Return why no trace can be made of a consumer with these options; empty if one can."""
    assignors = options.get("partition_assignment_strategy") or ()
    if not isinstance(assignors, str) and not all(isinstance(each, str) for each in assignors):
        return "a trace needs assignors that are named: an assignor of your own is not recorded"
    if config.security_protocol.startswith("SASL") and config.sasl_mechanism not in MECHANISMS:
        return f"a trace can have logins with {', '.join(MECHANISMS)}, not {config.sasl_mechanism}"
    return ""


def _plain(options: Mapping[str, Any], config: ConsumerConfig) -> dict[str, Any]:
    """Return the options that a replay needs: without secrets, objects, and what only the driver uses."""
    used = {k: v for k, v in options.items() if k not in _LEFT_OUT and not k.startswith(("ssl_", "sasl_"))}
    if config.security_protocol.startswith("SASL"):  # both may come from other options
        used |= {"security_protocol": config.security_protocol, "sasl_mechanism": config.sasl_mechanism}
    return {name: value for name, value in used.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _record_collector(collector: Collector, buffer: Buffer, trace: TraceWriter) -> _Visits:
    """Record which batches polls return: a replay cannot decode them."""
    visits = _Visits(collector, buffer, trace)
    for name in ("gather", "gather_many", "gather_columns", "gather_raw"):
        setattr(collector, name, visits.recorded(getattr(collector, name)))
    collector.first = partial(_first, collector.first, trace)  # type: ignore[method-assign]
    return visits


class _Visits:
    """Records each look of a poll into the buffer: how many partitions it has looked at, and what it has found."""

    def __init__(self, collector: Collector, buffer: Buffer, trace: TraceWriter) -> None:
        self._collector = collector
        self._buffer = buffer
        self._trace = trace
        self._may_gather = collector._may_gather
        self._decoder = collector.chunk_decoder
        self._has_numpy = self._decoder.has_numpy
        self._is_inside = False
        self._visited = 0
        #: The result of the last poll, if it is of the first response of one partition; else an empty one.
        self._before = PollResult()
        self._visited_before = 0
        collector._may_gather = self._visit  # type: ignore[method-assign]

    def forget(self) -> None:
        """Record the next result in full."""
        self._before = PollResult()
        self._is_inside = False  # Ctrl-C may have left it

    def _visit(self, partition: Partition) -> bool:
        self._visited += 1
        return self._may_gather(partition)

    def recorded(self, gather: Callable[..., PollResult]) -> Callable[..., PollResult]:
        """Return a function that gathers, and records what was found; of a call inside another, nothing."""

        def call(*limits: Any) -> PollResult:
            if self._is_inside:
                return gather(*limits)
            overdue = self._collector._overdue
            try:
                self._is_inside, self._visited = True, 0
                result = gather(*limits)
            except BaseException as error:
                self._note_numpy()
                self._failed(error, overdue)
                raise
            finally:
                self._is_inside = False
            self._note_numpy()
            if overdue is not None or not self._is_one_later(result):
                self._found(result, overdue)
            return result

        return call

    def _note_numpy(self) -> None:
        """Record whether numpy is installed, once the first batch was decoded: the sizes of Fetches depend on it."""
        if self._decoder.has_numpy is not self._has_numpy:
            self._has_numpy = self._decoder.has_numpy
            self._trace.add(["numpy", self._has_numpy])

    def _is_one_later(self, result: PollResult) -> bool:
        """Record a result that is the one before, one record later, as one number; return False if it is not."""
        before = self._before
        if len(before.moves) != 1 or len(result.moves) != 1 or self._visited != self._visited_before:
            return False
        (move,), ((fetched, _, chunk, record, offset, epoch, _),) = result.moves, before.moves
        if (
            move[1:] != (1, chunk, record + 1, offset + 1, epoch, (chunk, record))
            or move.fetched is not fetched
            or result.turns != before.turns
            or self._buffer.queues[fetched.partition][0] is not fetched
        ):
            return False
        self._trace.short(_FOUND)
        self._before = result
        return True

    def _found(self, result: PollResult, overdue: Any) -> None:
        """Record the moves and turns of a result."""
        moves = []
        for move in result.moves:
            partition = move.fetched.partition
            index = next(n for n, one in enumerate(self._buffer.queues[partition]) if one is move.fetched)
            moves.append([*partition.tp, index, *move[1:]])
        is_first = len(moves) == 1 and moves[0][2] == 0
        self._before, self._visited_before = result if is_first else PollResult(), self._visited
        turns = [[*partition.tp] for partition in result.turns]
        self._trace.add(["found", _tp(overdue), self._visited, result.count, moves, turns])

    def _failed(self, error: BaseException, overdue: Any) -> None:
        if isinstance(error, RecordError):
            about = [type(error).__name__, *error.partition, error.offset, error.next_offset]
            if isinstance(error, RetriableDeserializationError):
                about += [error.tried_at, error.retry_after_ms]
            self._trace.add(["bad", _tp(overdue), self._visited, about])
        else:
            self._trace.add_failure("cut", error)


def _tp(overdue: Any) -> list[Any] | None:
    return None if overdue is None else [*overdue.partition.tp]


def _first(first: Callable[..., PollResult], trace: TraceWriter, poll_result: PollResult, count: int) -> PollResult:
    """Take the first records of a poll result, and record the moves past them."""
    part = first(poll_result, count)
    whole = [move.fetched for move in poll_result.moves]
    trace.add(["first", count, [[whole.index(move.fetched), *move[1:]] for move in part.moves]])
    return part


def _recorded(name: str) -> Callable[..., Any]:
    method = getattr(Consumer, name)

    def call(self: RecordingConsumer, *arguments: Any, **options: Any) -> Any:
        return self._call(name, partial(method, self), *arguments, **options)

    call.__name__, call.__doc__ = name, method.__doc__
    return call


for _name in CALLS:
    if _name not in RecordingConsumer.__dict__:
        setattr(RecordingConsumer, _name, _recorded(_name))
