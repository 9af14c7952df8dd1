"""Handlers in threads: for code that waits, and for libraries that release the interpreter's lock."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .calling import HandlerCall, Record, Result
from .dispatcher import Job


class ThreadPool:
    """Implements :class:`.Pool` by a thread pool; a socket pair wakes the thread of the consumer."""

    def __init__(self, call: HandlerCall, concurrency: int) -> None:
        self._call = call
        self._room = concurrency
        self._executor = ThreadPoolExecutor(concurrency, thread_name_prefix="thinconsumer-worker")
        self._ended: deque[Result] = deque()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def room(self) -> int:
        return self._room

    def start(self, job: Job[Record]) -> None:
        self._room -= 1
        self._executor.submit(self._run, job)

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
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._wake.close()
        self._woken.close()
