"""Run a consumer again with the events of a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from .. import errors
from ..consumer import Consumer
from ..driver import Endpoint
from ..errors import KafkaConfigurationError, RecordError, RetriableDeserializationError
from ..fetch.collector import Collector, Move, PollResult
from ..types import TopicPartition
from .arguments import decoded, same_result
from .checkpoint import Built, CheckpointReader, roots_of
from .logins import STAND_INS, ReplayedMechanism, replay_logins
from .recording import CALLS
from .replay_driver import Cut, Divergence, Events, ReplayDriver, TraceEnd
from .trace_file import TraceError, read_trace

#: The exceptions of client and replay if events have values of other types or sizes than a client has written.
_WRONG_FORM = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError,
    AssertionError, StopIteration, KafkaConfigurationError,
)  # fmt: skip


class Replayed(NamedTuple):
    """How far a trace was replayed, and where the client did something else."""

    events: int  #: How many events of the trace were done.
    requests: int  #: How many requests the client has written, each the same as in the trace.
    records: int  #: How many records polls have returned.
    calls: int  #: How many public calls were made.
    divergence: Divergence | None  #: Where the client did something else than the trace has; None if nowhere.
    recorded_by: str  #: The version that has written the trace.


#: Called before each step and each call, with the number of the next event and the client; it must not call the client.
Watch = Callable[[int, "Consumer[Any, Any]"], object]


def replay(path: str, watch: Watch | None = None) -> Replayed:
    """Run the client over a trace, up to its end, or to where the client does something else.

    Raises:
        TraceError: the file is no trace, or has events of a wrong form.
        OSError: it cannot be read.
    """
    events = Events(read_trace(path))
    try:
        begin = events.take("trace")[1]
        options, has_callback, by = begin["options"], begin["callback"], begin["thinconsumer"]
    except (LookupError, TypeError) as error:
        raise TraceError(f"{path} has no head: {error!r}") from error
    except (TraceEnd, Divergence):
        raise TraceError(f"{path} has no events") from None
    player = _Player(events, watch)
    try:
        player.run(options, has_callback)
    except (TraceEnd, Divergence):
        pass
    except _WRONG_FORM as error:
        raise TraceError(f"event {events.place} of {path} has a wrong form: {error!r}") from error
    return Replayed(events.place, events.requests, player.records, player.calls, events.first, by)


class UserError(Exception):
    """Stands for an exception of user code; its name is that of the exception."""


class _Player:
    def __init__(self, events: Events, watch: Watch | None) -> None:
        self.records = 0
        self.calls = 0
        self._events = events
        self._watch = watch
        self._iterator: Iterator[Any] = iter(())  #: The last one of ``read_to_end``.
        self._iterators: dict[int, Iterator[Any]] = {}  #: Those that were resumed, by their numbers.
        self._consumer: Consumer[Any, Any]
        self._built: Built

    def run(self, options: dict[str, Any], has_callback: bool) -> None:
        """Make the consumer, and then the calls of the trace."""
        if has_callback:
            options = {**options, "default_offset_commit_callback": self._user("callback")}
        try:
            if self._events.begins_with_checkpoint:
                raise Cut
            self._make(options, _WatchedDriver(self._events, self._look))
            self._events.take("built")
        except Cut:  # also if Ctrl-C has struck before the first block was written
            self._restore(options)
        while True:
            try:
                self._go_on()
            except Cut:
                self._consumer._shell.closed = True
                self._restore(options)
            except BaseException:
                self._consumer._shell.closed = True
                raise

    def _make(self, options: dict[str, Any], driver: ReplayDriver) -> None:
        if str(options.get("security_protocol", "")).startswith("SASL"):
            options = {**options, **STAND_INS}
        with warnings.catch_warnings():  # those about the options came when the trace was made
            warnings.simplefilter("ignore")
            self._consumer = Consumer(driver=driver, **options)
        if self._consumer._reader.managers.engine.logins is not None:
            replay_logins(self._consumer._reader.managers.engine.logins, self._events)
        self._built = Built({**roots_of(self._consumer), "consumer": self._consumer})
        self._replace_collector(self._consumer._reader.managers.collector)
        iteration: Any = self._consumer._iteration
        iteration.listed = lambda poll_result: [None] * poll_result.count

    def _restore(self, options: dict[str, Any]) -> None:
        """Make a consumer with the state of the next checkpoint."""
        _, nodes, unfinished = self._events.go_on_at_checkpoint()
        driver = _WatchedDriver(self._events, self._look, is_built=False)
        self._make(options, driver)
        roots = CheckpointReader(nodes, self._built, self._stand_in).read()
        if roots["reader"] is not self._consumer._reader:
            raise TraceError("a checkpoint is of another client")
        numbered = (roots["streams"], unfinished, roots["alarms"])
        driver.restore(*({int(number): each for number, each in kind.items()} for kind in numbered))

    def _stand_in(self, kind: str, methods: list[str] | None) -> Any:
        if kind == "mechanism" and methods is not None:
            return ReplayedMechanism(methods[0], tuple(methods[1:]), self._events)
        return self._user(kind) if methods is None else _Listener({name: self._user(name) for name in methods})

    def _look(self) -> None:
        if self._watch is not None:
            self._watch(self._events.place, self._consumer)

    def _go_on(self) -> Any:
        """Do what comes between two steps; return the event if it is another one."""
        self._look()
        event = self._events.take()
        kind = event[0] if isinstance(event, list) else ""
        if kind == "call":
            self.calls += 1
            self._call(event[1], event[2], event[3])
        elif kind == "taken":
            self._consumer._iteration.poll_result.taken = event[1]
        elif kind == "resume":
            next(self._iterators.setdefault(event[1], self._iterator), None)
        elif kind == "done":
            return event
        else:
            raise self._events.divergence(event, "the call has returned", back=1)
        return None

    def _call(self, name: str, given: list[Any], named: dict[str, Any]) -> None:
        if name not in CALLS and name != "read_to_end":
            raise TraceError(f"a trace calls {name}()")
        arguments = [decoded(each) for each in given]
        options = {key: decoded(each) for key, each in named.items()}
        if name == "subscribe":
            self._put_listener(arguments, options)
        if name == "commit_async":
            arguments[1] = None if arguments[1] is None else self._user("callback")
        try:
            result = getattr(self._consumer, name)(*arguments, **options)
        except UserError as error:
            self._events.same("raise", str(error))
        except Exception as error:
            event = self._events.peek()
            if event != ["raise", type(error).__name__]:
                raise self._events.divergence(event, type(error).__name__) from error
            self._events.take()
        else:
            if name == "read_to_end":
                self._iterator = result
            self._check_result(result)

    def _check_result(self, result: Any) -> None:
        try:
            event = self._events.peek()
        except TraceEnd:
            return
        if isinstance(event, list) and event[0] == "return":
            if event[1] is not None and not same_result(event[1], result):
                raise self._events.divergence(event[1], result)
            self._events.take()

    def _put_listener(self, arguments: list[Any], options: dict[str, Any]) -> None:
        names = arguments[2] if len(arguments) > 2 else options.get("listener")
        listener = None if names is None else _Listener({name: self._user(name) for name in names})
        if len(arguments) > 2:
            arguments[2] = listener
        else:
            options["listener"] = listener

    def _user(self, kind: str) -> Callable[..., None]:
        """Return what stands for user code: it makes the calls that the user code has made."""

        def call(*arguments: Any) -> None:
            self._events.same("user", kind)
            while (event := self._go_on()) is None:
                pass
            if event[1] is not None:
                raise UserError(event[1])

        return call

    def _replace_collector(self, collector: Collector) -> None:
        stand_in: Any = collector
        gather = partial(self._gather, collector)
        for name in ("gather", "gather_many", "gather_columns", "gather_raw"):
            setattr(stand_in, name, gather)
        stand_in.first = self._first

    def _gather(self, collector: Collector, limit: int, ends: object = None) -> PollResult:
        """Return the poll result of the trace: of the batches that the client has buffered."""
        managers = self._consumer._reader.managers
        event = self._events.take()
        kind = event[0] if isinstance(event, list) else ""
        if kind == "numpy":
            collector.chunk_decoder.has_numpy = bool(event[1])
            event = self._events.take()
            kind = event[0] if isinstance(event, list) else ""
        if kind not in ("found", "bad"):
            raise self._events.divergence(event, "a poll looks into the buffer", back=1)
        for partition in list(managers.buffer.queues):  # of which the poll has dropped stale batches first
            if event[1] is not None and partition.tp == tuple(event[1]):
                managers.buffer.head(partition)
        for partition in list(managers.buffer.queues)[: event[2]]:
            collector._may_gather(partition)
        if kind == "bad":
            self._raise_bad(collector, *event[3])
        result = PollResult()
        result.count = event[3]
        for topic, number, index, *move in event[4]:
            queue = managers.buffer.queue(managers.partitions.require(TopicPartition(topic, number)))
            if index >= len(queue):
                found = f"{len(queue)} responses buffered of {topic}-{number}"
                raise self._events.divergence(event, found, back=1)
            result.moves.append(_move(queue[index], move))
            if result.moves[-1].adds:
                result.records[queue[index].partition.tp] = ()  # the client asks whether a poll has returned any
        result.turns = [managers.partitions.require(TopicPartition(*tp)) for tp in event[5]]
        self.records += result.count
        return result

    def _raise_bad(
        self, collector: Collector, name: str, topic: str, number: int, offset: int, after: int, *retry: float
    ) -> None:
        managers = self._consumer._reader.managers
        partition = managers.partitions.require(TopicPartition(topic, number))
        fetched = managers.buffer.head(partition)
        if fetched is None:
            raise self._events.divergence(name, f"nothing is buffered of {topic}-{number}", back=1)
        error = _error(name, partition.tp, offset, after)
        if isinstance(error, RetriableDeserializationError):
            error.tried_at, error.retry_after_ms = retry
        try:
            collector._raise(fetched, error)
        finally:
            error.next_offset = after

    def _first(self, poll_result: PollResult, count: int) -> PollResult:
        event = self._events.take("first")
        if event[1] != count:
            raise self._events.divergence(event, count, back=1)
        part = PollResult()
        part.moves = [_move(poll_result.moves[index].fetched, move) for index, *move in event[2]]
        part.count = sum(move.adds for move in part.moves)
        part.turns = list(dict.fromkeys(move.fetched.partition for move in part.moves))
        return part


class _WatchedDriver(ReplayDriver):
    """Calls a function before each step."""

    def __init__(self, events: Events, look: Callable[[], None], *, is_built: bool = True) -> None:
        super().__init__(events, is_built=is_built)
        self._look = look

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        self._look()
        return super().step(endpoint, deadline)


class _Listener:
    def __init__(self, methods: dict[str, Callable[..., None]]) -> None:
        self.__dict__.update(methods)


def _move(fetched: Any, move: list[Any]) -> Move:
    adds, chunk, record, offset, epoch, begin = move
    # The client cuts off decoded batches by their number, so that there have to be as many.
    fetched.chunks.extend([None] * (chunk - len(fetched.chunks)))
    return Move(fetched, adds, chunk, record, offset, epoch, (begin[0], begin[1]))


def _error(name: str, tp: TopicPartition, offset: int, next_offset: int) -> RecordError:
    """Return an error of a poll without its text, which may show a record."""
    kind = getattr(errors, name, RecordError)
    if not (isinstance(kind, type) and issubclass(kind, RecordError)):
        kind = RecordError
    error: RecordError = kind.__new__(kind)
    RecordError.__init__(error, "as in the trace", tp, offset, next_offset)
    return error
