"""Handlers in processes: for code that computes. Each process has a pipe, which the consumer's thread polls.

The processes are spawned, so that they inherit no socket of the consumer. A process that dies, or is killed, costs the
job that it ran one attempt; a new one takes its place.

Short jobs are sent ahead, as many as a process runs in :data:`AHEAD_S`: it never waits for the parent then, and the
parent sleeps while all processes have some, and takes many results at once. A process takes a token from a second pipe
before it begins a job. The parent takes back a job that has not begun by taking its token first: behind a job that
takes minutes, none waits while another process could run it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any

from ..errors import IllegalArgumentError, KafkaError
from ..records.encoded_headers import RecordWithEncodedHeaders, new_record_with_encoded_headers
from ..records.rows import new_record
from ..types import TopicPartition
from .calling import HandlerCall, NotBegunError, Pool, Record, Result
from .dispatcher import Job

#: How many seconds the jobs take that a process has beside the one that it runs, on average.
AHEAD_S = 0.05
#: A process has at least one job beside the one that it runs if jobs are shorter than so many seconds.
ONE_AHEAD_S = 0.1
#: The most jobs that a process is given at once.
DEPTH_MAX = 32
#: If a job takes so many seconds longer than four others, those that wait behind it are given to other processes.
LATE_S = 0.1
#: Largest number of bytes that are read from a pipe at once. A process with so many unsent bytes is given no more jobs.
READ_MAX = 1 << 16
#: Before each result: the size of its pickle, and the seconds that the handler has taken. 0 bytes stand for None.
RESULT = Struct(">If")
#: The size in the place of a result whose job the parent has taken back, and of the first message of a process.
NOT_BEGUN = 0xFFFFFFFF
#: Results of these types can be pickled.
PLAIN = frozenset((bool, int, float, str, bytes))


class WorkerDiedError(KafkaError):
    """The process that ran the handler has ended: killed, out of memory, or by ``os._exit``."""


class HandlerError(KafkaError):
    """Stands for an exception of a handler that could not be sent from its process; the message has its traceback."""


class ProcessPool(Pool):
    """Runs jobs in spawned processes."""

    def __init__(self, call: HandlerCall, concurrency: int) -> None:
        try:
            self._payload = pickle.dumps(call)
        except Exception as error:
            raise IllegalArgumentError(
                f"a handler in processes, and its deserializers, must be importable by name: {error}"
            ) from error
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._seconds = ONE_AHEAD_S  #: How many seconds a job takes, as an average of the last ones.
        self._depth = 1  #: How many jobs a process may have.
        self._free: list[tuple[int, int]] = []  #: A heap of the processes with room: how many jobs each has, and which.
        self._taken_back: list[Result] = []
        try:
            for _ in range(concurrency):
                self._workers.append(_Worker(self._context, self._payload))
        except BaseException:
            self.stop(0.0)
            raise

    def room(self) -> int:
        return len(self._free)

    def start(self, job: Job[Record]) -> None:
        count, at = heappop(self._free)
        worker = self._workers[at]
        worker.give(job)
        if count + 1 < self._depth and worker.unsent < READ_MAX:
            heappush(self._free, (count + 1, at))

    def results(self) -> Iterable[Result]:
        results, self._taken_back = self._taken_back, []
        now = time.monotonic()
        for at, worker in enumerate(self._workers):
            for value, error, seconds in worker.receive(now):
                results.append(Result(worker.jobs.popleft(), value, error))
                # A geometric mean: while the machine is busy, a job now and then takes as long as all others together.
                self._seconds *= (max(seconds, 1e-6) / self._seconds) ** (1 / 16)
            if worker.has_ended:
                results.extend(self._replace(at, worker))
            elif now - worker.at > LATE_S + 4 * self._seconds and len(worker.jobs) > 1:
                results.extend(worker.take_back(len(worker.jobs) - 1))
        ahead = int(AHEAD_S / self._seconds) or self._seconds < ONE_AHEAD_S
        self._depth = min(1 + ahead, DEPTH_MAX)
        loads = [(len(worker.jobs), at) for at, worker in enumerate(self._workers) if worker.has_room]
        self._free = sorted(each for each in loads if each[0] < self._depth)
        return results

    def _replace(self, at: int, worker: _Worker) -> Iterable[Result]:
        """Start another process in place of one that has ended; return what becomes of its jobs."""
        not_begun = worker.take_back(len(worker.jobs))
        worker.hang_up()
        code = worker.stop(1.0)
        del self._workers[at]  # at once: a process is stopped only once, also if no other one can be started
        if not worker.is_ready:
            raise WorkerDiedError(f"a worker process ended with code {code} before it was ready; see its output")
        self._workers.insert(at, _Worker(self._context, self._payload))
        if worker.jobs:
            yield Result(worker.jobs.pop(), None, WorkerDiedError(f"the worker process ended with code {code}"))
        for job in worker.jobs:  # some systems drop the results that were sent last
            yield Result(job, None, NotBegunError())
        yield from not_begun

    def take_back(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        for worker in self._workers:
            places = [place for place, job in enumerate(worker.jobs) if job.lane.partition in gone]
            if places:
                self._taken_back += worker.take_back(len(worker.jobs) - places[0])
        self._free.clear()  # until the next results: a process has no room before it has skipped what was taken back

    def before_wait(self) -> float:
        idle = sum(worker.has_room and not worker.jobs for worker in self._workers)  # there was no job for them
        for worker in self._workers:
            if idle and len(worker.jobs) > 1:
                found = worker.take_back(min(idle, len(worker.jobs) - 1))
                idle -= len(found)
                self._taken_back += found
        if self._taken_back:
            return -1.0
        return max(min(len(worker.jobs) for worker in self._workers) - 1, 0) * self._seconds / 5

    def watched(self) -> Iterable[tuple[int, bool]]:
        return [(worker.descriptor, worker.send()) for worker in self._workers]

    def stop(self, seconds: float) -> None:
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.stop(seconds)
        self._workers.clear()


class _Worker:
    """One process, seen from the parent. It gets messages of 4 bytes of length and a pickle, one for each job."""

    def __init__(self, context: Any, payload: bytes) -> None:
        self.jobs: deque[Job[Record]] = deque()  #: What it was given, in the order in which it runs them.
        self.at = 0.0  #: When it has got the first of its jobs, or was last seen to have ended one.
        self.is_ready = False  #: Whether it has taken the handler.
        self.has_ended = False
        self._skips = 0  #: How many of the last messages have no token, and will be answered by NOT_BEGUN.
        self._tokens = 0  #: How many are to be written.
        self._out = bytearray()
        self._in = bytearray()
        self._connection, child = context.Pipe()
        self._taker, self._giver = context.Pipe(duplex=False)
        for each in (self._connection, self._taker, self._giver):
            os.set_blocking(each.fileno(), False)  # of the taker in the process, too
        self._process = context.Process(target=_serve, args=(child, self._taker, payload), daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._close()
            raise
        finally:
            child.close()
        self.descriptor: int = self._connection.fileno()

    @property
    def unsent(self) -> int:
        """How many bytes wait until there is room in the pipe, or for the next :meth:`send`."""
        return len(self._out)

    @property
    def has_room(self) -> bool:
        return self.is_ready and not self._skips and not self._out

    def give(self, job: Job[Record]) -> None:
        """Give the process one more job. One that has others gets it with the next :meth:`send`."""
        message = _packed(job.records)
        # In this order: if Ctrl-C cuts it off, the process skips the message, and no result is taken for another job's.
        self._out += len(message).to_bytes(4, "big") + message
        self.jobs.append(job)
        self._tokens += 1
        if len(self.jobs) == 1:
            self.at = time.monotonic()
            self.send()

    def send(self) -> bool:
        """Send what there is room for. Return whether there is more."""
        if self._tokens:
            tokens, self._tokens = self._tokens, 0
            os.write(self._giver.fileno(), bytes(tokens))
        try:
            while self._out:
                del self._out[: os.write(self.descriptor, self._out)]
        except OSError:
            pass  # no room; or the process has ended, and the next read says so
        return bool(self._out)

    def take_back(self, count: int) -> list[Result]:
        """Take back up to ``count`` jobs, the last ones, that have not begun."""
        self.send()
        try:
            count = len(os.read(self._taker.fileno(), count))
        except BlockingIOError:
            count = 0
        self._skips += count
        return [Result(self.jobs.pop(), None, NotBegunError()) for _ in range(count)]

    def receive(self, now: float) -> list[tuple[Any, Exception | None, float]]:
        """Return results that the process has sent: value, error, seconds. Send it what it has had no room for."""
        self.send()
        try:
            while (size := len(data := os.read(self.descriptor, READ_MAX))) == READ_MAX:
                self._in += data
            self._in += data
            self.has_ended = not size
        except BlockingIOError:
            pass
        except OSError:
            self.has_ended = True
        results: list[tuple[Any, Exception | None, float]] = []
        received, begin = self._in, 0
        while len(received) - begin >= RESULT.size:
            size, seconds = RESULT.unpack_from(received, begin)
            begin += RESULT.size
            if size == NOT_BEGUN:
                self._skips -= self.is_ready
                self.is_ready = True
            elif not size:
                results.append((None, None, seconds))
            elif begin + size <= len(received):
                results.append((*pickle.loads(bytes(received[begin : begin + size])), seconds))
                begin += size
            else:
                begin -= RESULT.size
                break
        del received[:begin]
        if results:
            self.at = now
        return results

    def hang_up(self) -> None:
        """Let the process end after the job that it runs."""
        with contextlib.suppress(OSError):
            self.take_back(len(self.jobs))
        self._close()

    def _close(self) -> None:
        self._out.clear()  # else the next write could go to another file, of the same descriptor
        for each in (self._connection, self._taker, self._giver):
            with contextlib.suppress(OSError):
                each.close()

    def stop(self, seconds: float) -> int | None:
        """End the process after :meth:`hang_up`, by force after ``seconds``; return its exit code."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        code: int | None = self._process.exitcode
        self._process.close()
        return code


def _serve(connection: Connection, taker: Connection, payload: bytes) -> None:
    """Run jobs in a worker process until the parent hangs up or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent ends this one
    call: HandlerCall = pickle.loads(payload)
    with contextlib.suppress(OSError):
        _write(connection, NOT_BEGUN, 0.0)
        for message in _messages(connection.fileno()):
            if _take_token(taker.fileno()):
                records = _unpacked(message)
                began = time.monotonic()
                result = _run(call, records)
                _write(connection, len(result), time.monotonic() - began, result)
            else:
                _write(connection, NOT_BEGUN, 0.0)


def _messages(descriptor: int) -> Iterator[bytes]:
    received = bytearray()
    while data := os.read(descriptor, READ_MAX):
        received += data
        begin = 0
        while (end := begin + 4) <= len(received):
            end += int.from_bytes(received[begin:end], "big")
            if end > len(received):
                break
            yield bytes(received[begin + 4 : end])
            begin = end
        del received[:begin]


def _take_token(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False


def _write(connection: Connection, size: int, seconds: float, data: bytes = b"") -> None:
    data = RESULT.pack(size, seconds) + data
    while data:
        data = data[os.write(connection.fileno(), data) :]


def _packed(records: Iterable[Record]) -> bytes:
    # The items that raw records store: pickled as records, they would have all their fields, headers decoded.
    return pickle.dumps([(isinstance(each, RecordWithEncodedHeaders), *tuple.__iter__(each)) for each in records])


def _unpacked(data: bytes) -> list[Record]:
    return [
        (new_record_with_encoded_headers if is_encoded else new_record)(items)
        for is_encoded, *items in pickle.loads(data)
    ]


def _run(call: HandlerCall, records: list[Record]) -> bytes:
    try:
        value, error = call(records), None
    except Exception as raised:  # noqa: BLE001 - the handler's, which the parent takes
        value, error = None, raised
    if error is None and value is None:
        return b""
    try:
        data = pickle.dumps((value, error))
        if type(value) not in PLAIN:
            pickle.loads(data)
    except Exception as failed:  # noqa: BLE001 - of the user's classes
        if error is None:
            text = f"the handler's result cannot be pickled: {failed}"
        else:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        data = pickle.dumps((None, HandlerError(text)))
    return data
