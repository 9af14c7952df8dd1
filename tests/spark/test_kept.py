"""What a worker keeps between two tasks, and for whom."""

from __future__ import annotations

import itertools

import pytest

from thinconsumer.spark.kept import KEPT_MAX, Kept


class Worker:
    """Clients are numbers."""

    def __init__(self) -> None:
        self.hung_up: list[int] = []
        self.kept: Kept[int] = Kept(self.hung_up.append)
        self._numbers = itertools.count()

    def take(self, **given):
        fresh = given.pop("fresh", False)
        return self.kept.take(given, lambda: next(self._numbers), fresh=fresh)

    def task(self, **given):
        """Take one and give it back."""
        fresh = given.pop("fresh", False)
        client = self.take(fresh=fresh, **given)
        self.kept.give_back(given, client)
        return client


@pytest.fixture
def worker():
    return Worker()


def test_next_task_gets_the_same_one_if_it_has_the_same_options(worker):
    assert [worker.task(a="1", b="2"), worker.task(b="2", a="1"), worker.task(a="1")] == [0, 0, 1]
    assert worker.hung_up == []


def test_one_that_is_in_use_is_nobody_elses(worker):
    assert [worker.take(a="1"), worker.take(a="1")] == [0, 1]


def test_repeated_task_gets_a_new_one_and_the_kept_one_is_given_up(worker):
    worker.task(a="1")
    assert worker.task(a="1", fresh=True) == 1
    assert worker.hung_up == [0]
    assert worker.task(a="1") == 1


def test_no_more_are_kept_than_that(worker):
    for number in range(KEPT_MAX + 2):
        worker.task(a=str(number))
    assert worker.hung_up == [0, 1]
    assert worker.task(a=str(KEPT_MAX + 1)) == KEPT_MAX + 1


def test_child_of_a_fork_leaves_its_parents_connections_alone(worker):
    worker.task(a="1")
    worker.kept._pid += 1
    assert worker.task(a="1") == 1
    assert worker.hung_up == []


def test_all_are_hung_up_in_the_end(worker):
    worker.task(a="1")
    worker.task(a="2")
    worker.kept.close()
    worker.kept.close()
    assert sorted(worker.hung_up) == [0, 1]


def test_what_a_task_leaves_early_is_not_lent_again(worker):
    def leave_early():
        with worker.kept.lent({}, lambda: 8) as client:
            assert client == 7, "the one that came back"
            raise KeyboardInterrupt

    with worker.kept.lent({}, lambda: 7) as client:
        assert client == 7
    assert worker.hung_up == []
    with pytest.raises(KeyboardInterrupt):
        leave_early()
    assert worker.hung_up == [7]
    with worker.kept.lent({}, lambda: 8) as client:
        assert client == 8
