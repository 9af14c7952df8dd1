"""Step the engine in the handler of an interval timer's signal, while a block of the program works: ``keep_alive``.

The handler runs between any two bytecodes of the main thread, so also in the middle of an import, of a log line, or of
a call of some consumer. It does nothing where the interrupted code may be at work on what a step uses, and a step in it
never logs, imports, raises, or calls code of the program.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from contextlib import AbstractContextManager
from functools import partial
from threading import get_ident, main_thread
from types import FrameType, TracebackType
from weakref import ref

from ..errors import ConcurrentAccessError, IllegalStateError
from ..support.garbage_collection import garbage_collection_paused
from ..support.held_logs import HeldLogs
from ..support.imports import import_uninterrupted
from ..support.interval_timer import IntervalTimer
from .core import ConsumerCore

log = logging.getLogger(__name__)

#: Seconds between two steps, unless these cost too much.
PERIOD_S = 0.2
#: After steps that took a time on the processor, at least so many times that time is left to the block.
REST = 200
#: How often at least, for each interval between two heartbeats: REST does not delay heartbeats.
STEPS_PER_HEARTBEAT = 3
#: How many calls of functions a step may be deep. With less room, it would end with RecursionError, and the next call
#: would have to open new connections.
DEPTH = 150
#: No step interrupts the code of these packages, except that of the modules after them, which only call the client.
PACKAGES, OUTSIDE = {"thinconsumer", "thinconsumer_testing"}, ("thinconsumer.cli.", "thinconsumer.spark.")
#: The modules that a step imports on demand, beside what :meth:`ConsumerManagers.prepare` imports.
ON_DEMAND = ("dataclasses", "encodings.idna", "ipaddress", "thinconsumer.sockets.cares_lookup")
#: Advice in errors, where a block is not possible.
INSTEAD = "call drive() now and then, let another process do the work, or use AsyncConsumer and run_in_executor"


class KeepAlive(AbstractContextManager[None]):
    """The block of :meth:`.Consumer.keep_alive`."""

    def __init__(self, core: ConsumerCore) -> None:
        self.core = core
        self.frame: FrameType | None = None  #: The code that the block is part of.

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        if self.frame is not None:
            raise IllegalStateError("this keep_alive() block has begun already: call keep_alive() for another one")
        if _is_in_call(frame, ()):
            raise IllegalStateError(f"keep_alive() is not possible inside another call of a consumer: {INSTEAD}")
        _begin(self.core)
        try:
            _keeper.add(self)
            self.frame = frame
        except BaseException as error:
            self.__exit__()
            if isinstance(error, IllegalStateError):
                raise IllegalStateError(f"keep_alive() is not possible: {error}; {INSTEAD}") from None
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        try:
            _keeper.remove(self)
        except BaseException:  # Ctrl-C
            _keeper.remove(self)
            raise
        self.frame = None


def _begin(core: ConsumerCore) -> None:
    """Step the engine, and prepare it for steps in a signal handler."""
    shell = core.shell
    with shell.guard:
        if shell.closed:
            raise IllegalStateError("this consumer is closed")
        shell.driver.check_process()
        if shell.step_interrupted:
            shell.recover()
        now = shell.driver.now()
        for name in ON_DEMAND:
            import_uninterrupted(name)
        core.managers.prepare(now)
        core.attend(now)
        shell.run_due(now, may_wake=False)


def _is_in_call(frame: FrameType | None, blocks: tuple[FrameType | None, ...]) -> bool:
    """Return whether the stack from ``frame`` has code of a client, or, above ``blocks``, of an import in progress.

    While a module is imported, a step could need a lock of it: ``import_uninterrupted`` would wait for ever. Code of a
    client may also be below a block: the block of a generator that a deserializer of another consumer goes on with.
    """
    may_import = not blocks
    while frame is not None:
        may_import = may_import or frame in blocks
        name = frame.f_globals.get("__name__") or ""
        if not may_import and frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if name.partition(".")[0] in PACKAGES and not name.startswith(OUTSIDE):
            return True
        frame = frame.f_back
    return False


class Keeper:
    """Steps the consumers of all blocks of this process."""

    def __init__(self) -> None:
        #: Weak references, by the blocks' ids: Ctrl-C as the first thing in a block's ``__exit__`` ends it without that
        #: method. In a dict, since the garbage collection may end a block at any allocation, also in the methods here.
        self._blocks: dict[int, ref[KeepAlive]] = {}
        self._timer = IntervalTimer(self._tick)
        self._logs = HeldLogs()
        self._has_warned = False  #: A program may set an alarm in thousands of blocks.
        # Python's end resets the handler: the timer of a block that was never left would then end the process.
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def add(self, block: KeepAlive) -> None:
        block.core.shell.stepped = partial(self._stepped, block.core)
        self._blocks[id(block)] = ref(block)
        self._timer.start(PERIOD_S)

    def _live(self) -> list[KeepAlive]:
        """Return all blocks, and forget those that no code can end any more."""
        found = {key: one() for key, one in self._blocks.copy().items()}
        for key, block in found.items():
            if block is None:
                self._blocks.pop(key, None)
        return [block for block in found.values() if block is not None]

    def remove(self, block: KeepAlive) -> None:
        """End a block; what a second call finds done, it leaves."""
        # Before the block is forgotten: after that, a tick stops the timer.
        is_lost = id(block) in self._blocks and block.frame is not None and not self._timer.runs
        self._blocks.pop(id(block), None)
        left = self._live()
        if all(one.core is not block.core for one in left):
            block.core.shell.stepped = block.core.stepped
        if not left:
            self._timer.stop()
        if get_ident() == main_thread().ident:  # in another thread, a step may be in progress
            self._logs.release()
        self._logs.write()
        if is_lost and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the block of keep_alive() has set SIGALRM or ITIMER_REAL: from then on no heartbeats were sent"
            )

    def _end(self) -> None:
        self._blocks.clear()
        self._timer.stop()

    def _after_fork(self) -> None:
        self._blocks.clear()
        self._timer.after_fork()
        self._logs.release()
        self._logs = HeldLogs()  # the parent writes the records

    def _stepped(self, core: ConsumerCore, now: float) -> None:
        core.stepped(now)
        self._logs.write()

    @garbage_collection_paused
    def _tick(self, frame: FrameType | None) -> float | None:
        """Step all consumers; return the seconds until the next time, or None if there is no block.

        A garbage collection could call ``__del__`` of the program, or end another block.
        """
        blocks = self._live()
        if not blocks:
            return None
        began = time.thread_time()
        if not _has_room(DEPTH) or _is_in_call(frame, tuple(block.frame for block in blocks)):
            return PERIOD_S
        cores = dict.fromkeys(block.core for block in blocks)
        with self._logs:
            for core in cores:
                _step(core)
        heartbeats = [core.managers.group.member.heartbeat_interval for core in cores if core.managers.group]
        latest = min(heartbeats, default=1.0) / STEPS_PER_HEARTBEAT
        return max(min(PERIOD_S, latest), min(latest, (time.thread_time() - began) * REST))


def _has_room(calls: int) -> bool:
    try:
        return calls == 0 or _has_room(calls - 1)
    except RecursionError:
        return False


def _step(core: ConsumerCore) -> None:
    """Step the engine, as ``drive()``, but without moving the positions past the last result."""
    shell = core.shell
    if shell.closed or shell.step_interrupted:
        return  # until the next call, which makes new connections
    try:
        with shell.guard:
            shell.guard.refuse_user_code()
            now = shell.driver.now()
            core.open_calls.drop_old(now)
            core.attend(now)
            shell.run_due(now, may_wake=False)
    except ConcurrentAccessError:
        pass  # another thread makes a call
    except Exception as error:
        if _is_foreign(error):
            raise
        log.exception("a step of keep_alive() failed: the next call of the consumer goes on")


def _is_foreign(error: BaseException) -> bool:
    """Return whether code of the program has raised this: the handler of another signal, which came in a step."""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")  # None for generated code, such as of a codec
        if name is not None and name.partition(".")[0] not in PACKAGES | sys.stdlib_module_names:
            return True
        trace = trace.tb_next
    return False


_keeper = Keeper()
