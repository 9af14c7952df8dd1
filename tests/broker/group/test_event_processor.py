"""Serial execution of coordinator operations."""

import pytest

from thinconsumer_testing.broker.group.shard import EventProcessor


def test_nested_operation_is_part_of_the_outer_one() -> None:
    turns, seen = EventProcessor(), []

    def outer() -> None:
        turns.defer(lambda: seen.append("answer"))
        turns.run(lambda: seen.append("inner"))
        seen.append("outer")

    turns.run(outer)
    assert seen == ["inner", "outer", "answer"]


def test_operation_within_a_deferred_reply_runs_separately() -> None:
    turns, seen = EventProcessor(), []

    def request(number: int) -> None:
        seen.append(f"request {number}")
        turns.defer(lambda: seen.append(f"answer {number}"))
        if number == 1:
            turns.defer(lambda: turns.run(lambda: request(2)))
        turns.defer(lambda: seen.append(f"end of {number}"))

    turns.run(lambda: request(1))
    assert seen == ["request 1", "answer 1", "request 2", "end of 1", "answer 2", "end of 2"]


def test_exception_does_not_stop_later_operations() -> None:
    turns, seen = EventProcessor(), []
    with pytest.raises(ZeroDivisionError):
        turns.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    turns.run(lambda: seen.append("next"))
    assert seen == ["next"]
