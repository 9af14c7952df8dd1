"""Which clients a worker process reuses for its next task, and which ones it closes."""

import itertools

import pytest

from thinconsumer.spark.worker_process import CACHED_MAX, ClientCache


class Worker:
    """A worker process; its clients are numbers."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.cache: ClientCache[int] = ClientCache(self.closed.append)
        self._numbers = itertools.count()

    def borrow(self, fresh=False, **options):
        return self.cache.borrow(options, lambda: next(self._numbers), fresh=fresh)

    def run_task(self, **given):
        with self.borrow(**given) as client:
            return client


@pytest.fixture
def worker():
    return Worker()


def test_the_oldest_clients_beyond_the_limit_are_closed(worker):
    for number in range(CACHED_MAX + 2):
        worker.run_task(a=str(number))
    assert worker.closed == [0, 1]
    assert worker.run_task(a=str(CACHED_MAX + 1)) == CACHED_MAX + 1


def test_a_forked_child_neither_uses_nor_closes_its_parents_clients(worker):
    worker.run_task(a="1")
    worker.cache._pid += 1
    assert worker.run_task(a="1") == 1
    assert worker.closed == []
