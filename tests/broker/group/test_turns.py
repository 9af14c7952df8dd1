"""One thing after the other."""

from __future__ import annotations

import pytest

from thinconsumer.broker.group.turns import Turns


def test_what_is_put_off_happens_after() -> None:
    turns, seen = Turns(), []

    def first() -> None:
        turns.put_off(lambda: seen.append("answer"))
        seen.append("first")

    turns.run(first)
    assert seen == ["first", "answer"]


def test_something_inside_is_part_of_it() -> None:
    turns, seen = Turns(), []

    def outer() -> None:
        turns.put_off(lambda: seen.append("answer"))
        turns.run(lambda: seen.append("inner"))
        seen.append("outer")

    turns.run(outer)
    assert seen == ["inner", "outer", "answer"]


def test_an_answer_that_brings_the_next_request_along_is_a_turn_of_its_own() -> None:
    turns, seen = Turns(), []

    def request(number: int) -> None:
        seen.append(f"request {number}")
        turns.put_off(lambda: seen.append(f"answer {number}"))
        if number == 1:
            turns.put_off(lambda: turns.run(lambda: request(2)))
        turns.put_off(lambda: seen.append(f"end of {number}"))

    turns.run(lambda: request(1))
    assert seen == ["request 1", "answer 1", "request 2", "end of 1", "answer 2", "end of 2"]


def test_an_error_does_not_stop_the_turns_after_it() -> None:
    turns, seen = Turns(), []
    with pytest.raises(ZeroDivisionError):
        turns.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    turns.run(lambda: seen.append("next"))
    assert seen == ["next"]
