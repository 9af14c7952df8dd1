"""The subset of RE2: what it matches, what it rejects as RE2 does, and that no pattern takes long."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.re2_subset import DEPTH_MAX, PATTERN_MAX, REPEAT_MAX, Pattern
from thinconsumer_testing.broker.group.consumer.regexes import compile_regex, load_re2, match_topics


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("", [""], ["a"]),
        ("orders", ["orders"], ["order", "orders2", ""]),
        ("a.c", ["abc", "a.c"], ["ac", "a\nc"]),
        ("(?s)a.c", ["a\nc"], ["ac"]),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("(a|b)*c", ["c", "abbac"], ["ab", "abd"]),
        ("(?:ab)+", ["ab", "abab"], ["", "aba"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("a?b??c*?d+?", ["d", "abccdd"], ["aabd"]),
        ("a{2}b{1,}c{0,2}", ["aab", "aabbcc"], ["ab", "aabccc"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("a{x", ["a{x"], ["a"]),
        ("[a-c]x[^0-9]", ["axb", "cx-"], ["dxb", "ax1"]),
        ("[]a-]+", ["]a-"], ["b"]),
        ("[^]]", ["a"], ["]"]),
        (r"\d+\D\w\W\s\S", ["12a_- b"], ["12a_-\x0bb"]),
        (r"[\d\-.]+", ["1-2.3"], ["a"]),
        (r"[^\D]", ["7"], ["a"]),
        ("[[:alpha:]]+[[:^digit:]]", ["ab-"], ["ab1", "1-"]),
        (r"\.\*\\\n\x41\x{42}", [".*\\\nAB"], [".*\\nAB"]),
        ("^a$", ["a"], ["ba"]),
        (r"\Aa\z", ["a"], ["ab"]),
        ("a^b", [], ["ab"]),
        ("(^|b)a", ["a", "ba"], ["ca"]),
        ("a($|b)", ["a", "ab"], ["ac"]),
        ("(?i)Ab[c-d]", ["aBC", "ABd"], ["abe"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("((?i)a)b", ["Ab"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        ("(a*)*b", ["b", "aab"], ["a"]),
        ("(|a)+", ["", "aaa"], ["b"]),
    ],
)
def test_patterns_match_whole_texts(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = Pattern(pattern)
    for _ in range(2):  # the second time by the states that the first time has left
        assert [text for text in (*matching, *other) if compiled.fullmatch(text)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "*a", "a**", "a+?*", "(*)", "[", "[a", "[b-a]", "[a-\\d]", "[[:nope:]]", "\\", "a{2}{3}",
        r"\1", r"\b", r"\pL", r"\Qa\E", r"\x4", r"\xzz", r"\x{110000}", r"\x{}", "(?=a)", "(?!a)", "(?<=a)b", "(?#a)",
        "(?P<n", "(?P<>a)", "(?P<n>a)(?<n>b)", "(?P=n)", "(?m)a", "a{1001}", "a{3,2}", "^*", "|+", "(?",
        "(" * (DEPTH_MAX + 1) + ")" * (DEPTH_MAX + 1), "a" * (PATTERN_MAX + 1), f"((a{{{REPEAT_MAX}}}){{9}})",
    ],
)  # fmt: skip
def test_invalid_unsupported_and_huge_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(IllegalArgumentError):
        Pattern(pattern)


def test_no_pattern_takes_exponential_time() -> None:
    assert not Pattern("(a+)+b").fullmatch("a" * 249)
    assert not Pattern("(a|a)*" * 20 + "b").fullmatch("a" * 249)
    assert Pattern("(a|b)*a(a|b){90}").fullmatch("ba" * 100)


PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(?:)"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@pytest.mark.once
@given(PIECES, st.lists(st.text("abc", max_size=6), max_size=6))
@settings(max_examples=300, deadline=None)
def test_the_subset_agrees_with_python(pattern: str, texts: list[str]) -> None:
    compiled, reference = Pattern(pattern), re.compile(pattern)
    for text in texts:
        assert compiled.fullmatch(text) == bool(reference.fullmatch(text))


@given(st.text(st.sampled_from("ab()[]{}|*+?^$.-\\1,:<P"), max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_pattern_or_rejected(pattern: str) -> None:
    try:
        Pattern(pattern).fullmatch("abab")
    except IllegalArgumentError:
        pass


# -- compiling with and without the package google-re2


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
