"""Regular expressions to which members subscribe (RE2): checked when they arrive, and matched with the topics' names.

The package ``google-re2`` evaluates them if it is installed, otherwise :mod:`.re2_subset`. Follows
``GroupMetadataManager.refreshRegularExpressions``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire.error_codes import Code

from .errors import GroupRequestError
from .re2_subset import PATTERN_MAX, Pattern

#: Matches a whole name.
Match = Callable[[str], bool]

#: The memory that RE2 may use for one pattern, in bytes.
RE2_MEMORY_MAX = 1 << 20


def load_re2() -> Any:
    """Return the module of the package ``google-re2``, None if it is not installed."""
    try:
        return importlib.import_module("re2")
    except ImportError:
        return None


def compile_regex(pattern: str, re2: Any = None) -> Match:
    """Return the function that matches whole names: of the module ``re2`` or, for None, of :mod:`.re2_subset`.

    Raises:
        GroupRequestError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        if re2 is None:
            return Pattern(pattern).fullmatch
        return _compiled(pattern, re2)
    except IllegalArgumentError as error:
        text = f"SubscribedTopicRegex `{pattern[:PATTERN_MAX]}` is not a valid regular expression: {error}."
        raise GroupRequestError(Code.INVALID_REGULAR_EXPRESSION, text) from None


def _compiled(pattern: str, re2: Any) -> Match:
    if len(pattern) > PATTERN_MAX:
        raise IllegalArgumentError(f"the pattern has more than {PATTERN_MAX} characters")
    options = re2.Options()
    options.max_mem = RE2_MEMORY_MAX
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise IllegalArgumentError(str(error)) from None
    return lambda name: compiled.fullmatch(name) is not None


def match_topics(patterns: Iterable[str], names: Iterable[str], re2: Any = None) -> dict[str, frozenset[str]]:
    """Return the names that match each of the patterns, which were checked before."""
    found = list(names)
    matches = {pattern: compile_regex(pattern, re2) for pattern in patterns}
    return {pattern: frozenset(filter(match, found)) for pattern, match in matches.items()}
