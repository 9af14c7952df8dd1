"""A member joins many others: in the consumer group protocol, no partition that stays where it is misses a poll.

There are fifty others with ``--soak``, else twelve.
All members are in this process, on a real broker, and have more records buffered than they return, one at each poll.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from realkafka import Administration
from realkafka.produce import New, with_confluent

from thinconsumer import Consumer, TopicPartition

EACH = 1500
#: Polls of every member while nothing happens, and after the last move.
CALM = 30


class Polls(NamedTuple):
    before: frozenset[TopicPartition]  #: Its partitions when it began.
    seen: list[TopicPartition | None]  #: The partition of the record that each poll returned.

    def pause(self, kept: frozenset[TopicPartition]) -> int:
        """Return the most polls in a row in which a kept partition's turn came, and another or no record."""
        turn = max(1, len(self.before))
        longest = 0
        for tp in kept:
            ends = [-1, *(number for number, found in enumerate(self.seen) if found == tp), len(self.seen)]
            longest = max(longest, *(after - before - turn for before, after in itertools.pairwise(ends)))
        return longest


class Many:
    """A group whose members are polled in turn by one thread."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, options: dict[str, Any]) -> None:
        self.members: list[Consumer[Any, Any]] = []
        self._bootstrap, self._topic, self._partitions, self._options = bootstrap, topic, partitions, options

    def join(self) -> None:
        self.members.append(
            Consumer(
                self._topic,
                bootstrap_servers=self._bootstrap,
                group_id=self._topic,
                auto_offset_reset="earliest",
                max_poll_records=1,
                enable_auto_commit=False,
                **self._options,
            )
        )

    def settled(self) -> bool:
        """Return whether each partition has one owner, and the largest share is one partition more than the others."""
        owned = [member.assignment() for member in self.members]
        least = self._partitions // len(self.members)
        return sum(map(len, owned)) == self._partitions and all(least <= len(mine) <= least + 1 for mine in owned)

    def poll(self, polls: list[Polls] | None = None) -> bool:
        """Poll each member once; return whether all returned a record."""
        found = [member.poll(0) for member in self.members]
        for noted, records in zip(polls or (), found):
            noted.seen.append(next(iter(records), None))
        return all(found)

    def poll_until(self, condition: Callable[[], bool], seconds: float, polls: list[Polls] | None = None) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [(len(m.assignment()), m.health().group_state) for m in self.members]
            self.poll(polls)
            time.sleep(0.002)

    def watch_a_join(self) -> tuple[int, int, int]:
        """Add a member; return the longest pause of a partition that stayed, how many stayed, and the moved ones."""
        in_a_row = 0

        def all_return_records() -> bool:
            nonlocal in_a_row
            in_a_row = in_a_row + 1 if self.poll() else 0
            return in_a_row > CALM

        self.poll_until(all_return_records, 60)
        polls = [Polls(frozenset(member.assignment()), []) for member in self.members]
        self.join()
        self.poll_until(self.settled, 60, polls)
        for _ in range(CALM):
            self.poll(polls)
        kept = [p.before & member.assignment() for p, member in zip(polls, self.members)]
        moved = self._partitions - sum(map(len, kept))
        return max(p.pause(frozenset(mine)) for p, mine in zip(polls, kept)), sum(map(len, kept)), moved


@pytest.fixture
def group_of(kafka: Administration, new_topic: Callable[..., str]) -> Iterator[Callable[..., Many]]:
    """Return a function that makes a group of so many members, two partitions for each member and a joining one."""
    made: list[Many] = []

    def make(members: int, **options: Any) -> Many:
        partitions = 2 * (members + 1)
        topic = new_topic(kafka, partitions)
        with_confluent(kafka.bootstrap, topic, (New(b"x", partition=n % partitions) for n in range(EACH * partitions)))
        made.append(Many(kafka.bootstrap, topic, partitions, options))
        for _ in range(members):
            made[-1].join()
        made[-1].poll_until(made[-1].settled, 90)
        return made[-1]

    yield make
    for group in made:
        for member in group.members:
            member.close(timeout_ms=2000)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "members" in metafunc.fixturenames:
        metafunc.parametrize("members", [50 if metafunc.config.getoption("--soak") else 12])


def test_a_join_pauses_no_partition_that_does_not_move(
    group_of: Callable[..., Many], members: int, record_property: Callable[..., None]
) -> None:
    pause, kept, moved = group_of(members, group_protocol="consumer").watch_a_join()
    text = f"one joins {members}: {moved} partitions move; the other {kept} pause for at most {pause} polls"
    print(text)
    record_property("a join", text)
    assert kept == 2 * members and moved == 2
    assert pause <= 0, text


def test_the_measure_finds_the_pause_of_an_eager_rebalance(
    group_of: Callable[..., Many], record_property: Callable[..., None]
) -> None:
    """In the classic protocol with an eager assignor every partition waits for all members."""
    options = {"heartbeat_interval_ms": 200, "partition_assignment_strategy": ["sticky"]}
    pause, kept, moved = group_of(10, **options).watch_a_join()
    text = f"eager: one joins 10: {moved} partitions move; the other {kept} pause for at most {pause} polls"
    print(text)
    record_property("an eager join", text)
    assert pause > 0, text
