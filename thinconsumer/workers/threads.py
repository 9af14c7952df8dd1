"""Handlers in threads: for code that waits, and for libraries that release the interpreter's lock."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from threading import Thread

from .calling import HandlerCall, Pool, Record, Result
from .dispatcher import Job


class ThreadPool(Pool):
    """Runs jobs in daemon threads; a socket pair wakes the thread of the consumer.

    A ``ThreadPoolExecutor`` lets no program end before its handlers, and some of these never do.
    """

    def __init__(self, call: HandlerCall, concurrency: int) -> None:
        self._call = call
        self._concurrency = self._room = concurrency
        self._thread_count = 0
        self._jobs: SimpleQueue[Job[Record] | None] = SimpleQueue()
        self._ended: deque[Result] = deque()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def room(self) -> int:
        return self._room

    def start(self, job: Job[Record]) -> None:
        if self._thread_count <= self._concurrency - self._room:
            Thread(target=self._serve, name=f"thinconsumer-worker-{self._thread_count}", daemon=True).start()
            self._thread_count += 1
        self._room -= 1
        self._jobs.put(job)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(job)

    def _run(self, job: Job[Record]) -> None:
        try:
            value = self._call(job.records)
        except Exception as error:  # noqa: BLE001 - the handler's: its records are tried again, or given up
            self._ended.append(Result(job, None, error))
        except BaseException as error:  # noqa: BLE001 - such as SystemExit, which ends no thread of a pool
            self._ended.append(Result(job, None, RuntimeError(f"the handler has raised {error!r}")))
        else:
            self._ended.append(Result(job, value, None))
        try:
            self._wake.send(b"\0")
        except OSError:
            pass  # full, so that the other end is readable already; or closed

    def results(self) -> Iterable[Result]:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
        results = []
        while self._ended:
            results.append(self._ended.popleft())
        self._room += len(results)
        return results

    def watched(self) -> Iterable[tuple[int, bool]]:
        return ((self._woken.fileno(), False),)

    def stop(self, seconds: float) -> None:
        for _ in range(self._thread_count):
            self._jobs.put(None)
        self._wake.close()
        self._woken.close()
