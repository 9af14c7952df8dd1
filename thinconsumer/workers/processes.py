"""Handlers in processes: for code that computes. Each process has a pipe, which the consumer's thread polls.

The processes are spawned, so that they inherit no socket of the consumer. A process that dies, or is killed, costs the
job that it ran one attempt; a new one takes its place.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

from ..errors import IllegalArgumentError, KafkaError
from ..records.encoded_headers import RecordWithEncodedHeaders, new_record_with_encoded_headers
from ..records.rows import new_record
from .calling import HandlerCall, Record, Result
from .dispatcher import Job

#: Jobs that a process is given at once: one that it runs, and one more, so that it need not wait for the next.
DEPTH = 2
#: Largest number of bytes that are read from a pipe at once.
READ_MAX = 1 << 16


class WorkerDiedError(KafkaError):
    """The process that ran the handler has ended: killed, out of memory, or by ``os._exit``."""


class HandlerError(KafkaError):
    """Stands for an exception of a handler that could not be sent from its process; the message has its traceback."""


class ProcessPool:
    """Implements :class:`.Pool` by spawned processes."""

    def __init__(self, call: HandlerCall, concurrency: int) -> None:
        try:
            self._payload = pickle.dumps(call)
        except Exception as error:
            raise IllegalArgumentError(
                f"a handler in processes, and its deserializers, must be importable by name: {error}"
            ) from error
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._ended: list[Result] = []
        try:
            for _ in range(concurrency):
                self._workers.append(_Worker(self._context, self._payload))
        except BaseException:
            self.stop(0.0)
            raise

    def room(self) -> int:
        return sum(DEPTH - len(worker.jobs) for worker in self._workers)

    def start(self, job: Job[Record]) -> None:
        worker = min(self._workers, key=lambda each: len(each.jobs))
        worker.jobs.append(job)
        worker.send(_packed(job.records))

    def results(self) -> Iterable[Result]:
        results: list[Result] = []
        for at, worker in enumerate(self._workers):
            for value, error in worker.receive():
                results.append(Result(worker.jobs.popleft(), value, error))
            if worker.has_ended:
                results.extend(self._replace(at, worker))
        return results

    def _replace(self, at: int, worker: _Worker) -> Iterable[Result]:
        """Start another process in place of one that has ended, with the jobs that it had not begun."""
        code = worker.stop(1.0)
        if not worker.was_ready:
            raise WorkerDiedError(f"a worker process ended with code {code} before it was ready; see its output")
        self._workers[at] = other = _Worker(self._context, self._payload)
        if worker.jobs:
            yield Result(worker.jobs.popleft(), None, WorkerDiedError(f"the worker process ended with code {code}"))
        for job in worker.jobs:
            other.jobs.append(job)
            other.send(_packed(job.records))

    def watched(self) -> Iterable[tuple[int, bool]]:
        return [(worker.descriptor, worker.has_unsent) for worker in self._workers]

    def stop(self, seconds: float) -> None:
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.stop(seconds)
        self._workers.clear()


class _Worker:
    """One process, seen from the parent. A message is 4 bytes of length and a pickle, as ``Connection`` frames it."""

    def __init__(self, context: Any, payload: bytes) -> None:
        self.jobs: deque[Job[Record]] = deque()  #: What it was given, the job that it runs first.
        self.was_ready = False  #: Whether it has taken the handler.
        self.has_ended = False
        self._out = bytearray()
        self._in = bytearray()
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, payload), daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._connection.close()
            raise
        finally:
            child.close()
        self.descriptor: int = self._connection.fileno()
        os.set_blocking(self.descriptor, False)

    def send(self, message: bytes) -> None:
        self._out += len(message).to_bytes(4, "big") + message
        self._write()

    def _write(self) -> None:
        try:
            while self._out:
                del self._out[: os.write(self.descriptor, self._out)]
        except BlockingIOError:
            pass
        except OSError:
            pass  # the process has ended: so says the next read

    def receive(self) -> list[tuple[Any, Exception | None]]:
        """Return results that the process has sent, as (value, error); send it what it has had no room for."""
        self._write()
        try:
            while data := os.read(self.descriptor, READ_MAX):
                self._in += data
            self.has_ended = True
        except BlockingIOError:
            pass
        except OSError:
            self.has_ended = True
        results = []
        while len(self._in) >= 4 and len(self._in) >= (end := 4 + int.from_bytes(self._in[:4], "big")):
            message = pickle.loads(bytes(self._in[4:end]))
            del self._in[:end]
            if self.was_ready:
                results.append(message)
            self.was_ready = True  # its first message says only that
        return results

    @property
    def has_unsent(self) -> bool:
        return bool(self._out)

    def hang_up(self) -> None:
        """Let the process end after the job that it runs."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def stop(self, seconds: float) -> int | None:
        """End the process, by force after ``seconds``; return its exit code."""
        self.hang_up()
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        code: int | None = self._process.exitcode
        self._process.close()
        return code


def _serve(connection: Connection, payload: bytes) -> None:
    """Run jobs in a worker process until the parent hangs up or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent ends this one
    call: HandlerCall = pickle.loads(payload)
    with contextlib.suppress(EOFError, ConnectionError):
        connection.send_bytes(pickle.dumps(None))
        while True:
            connection.send_bytes(_run(call, _unpacked(connection.recv_bytes())))


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
    try:
        data = pickle.dumps((value, error))
        pickle.loads(data)
    except Exception as failed:  # noqa: BLE001 - of the user's classes
        if error is None:
            text = f"the handler's result cannot be pickled: {failed}"
        else:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        data = pickle.dumps((None, HandlerError(text)))
    return data
