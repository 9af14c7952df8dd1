"""Compiling the regular expressions of members, with and without the package google-re2."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.regexes import compile_regex, load_re2, match_topics


def stand_in() -> Any:
    """Return an object with the functions of google-re2 that are used, on top of Python's expressions."""
    return SimpleNamespace(
        Options=SimpleNamespace, error=re.error, compile=lambda pattern, options: re.compile(pattern)
    )


MODULES = [None, stand_in(), *([load_re2()] if load_re2() is not None else [])]


@pytest.mark.parametrize("re2", MODULES)
def test_whole_names_are_matched(re2: Any) -> None:
    match = compile_regex("ord.*", re2)
    assert [match(name) for name in ("orders", "ord", "border")] == [True, True, False]


@pytest.mark.parametrize("re2", MODULES)
@pytest.mark.parametrize("pattern", ["(", "a" * 1001])
def test_invalid_and_long_expressions_are_rejected(re2: Any, pattern: str) -> None:
    with pytest.raises(GroupRequestError, match="is not a valid regular expression") as caught:
        compile_regex(pattern, re2)
    assert caught.value.code == Code.INVALID_REGULAR_EXPRESSION


def test_each_expression_gets_its_topics() -> None:
    found = match_topics(["a.*", "b", "x"], ["a", "ab", "b"])
    assert found == {"a.*": {"a", "ab"}, "b": {"b"}, "x": frozenset()}
