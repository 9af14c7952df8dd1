"""Topic patterns of other clients, by which a name matches if it begins with a match; here a whole name must match."""

from __future__ import annotations

import re


def beginning(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern that matches the whole of each name that begins with a match of ``pattern``.

    Raises:
        ValueError: it is no regular expression.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    # Flags such as (?i) are allowed only where an expression begins; they are among the compiled one's flags.
    source = re.sub(r"\A(\(\?[aiLmsux]+\))+", "", compiled.pattern)
    end = "\n" if compiled.flags & re.VERBOSE else ""  # ends a comment
    return re.compile(f"(?:{source}{end})(?s:.*)", compiled.flags)
