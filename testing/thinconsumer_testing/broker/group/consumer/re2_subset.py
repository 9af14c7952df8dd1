"""A subset of RE2's regular expressions, matched in time linear in the text.

It has literals, ``.``, classes (``[a-z]``, ``[^...]``, ``[[:alpha:]]``), the escapes ``\\d \\D \\w \\W \\s \\S``, those
of control characters, code points (``\\x41``) and punctuation, groups (capturing, ``(?:...)`` and named), alternation,
the repetitions ``* + ? {n} {n,} {n,m}`` (greedy or not), the anchors ``^ $ \\A \\z`` and the flags ``(?i) (?s)``. Word
boundaries, Unicode classes, ``\\Q...\\E``, octal escapes and other flags are missing. Python's ``re`` is not used here,
because it accepts patterns that RE2 rejects, and can take exponential time for patterns that a client chooses.

The pattern is compiled into an automaton (Thompson's construction); the sets of its states that a text leads to are
computed when they are first reached.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from thinconsumer.errors import IllegalArgumentError

#: The longest pattern, the most states of its automaton, and the deepest nesting of groups.
PATTERN_MAX, STATES_MAX, DEPTH_MAX = 1_000, 1_000, 50
#: RE2's limit of a counted repetition.
REPEAT_MAX = 1_000
#: The most steps (from a set of states by a character to the next set) that are kept; others are computed each time.
KEPT_MAX = 10_000

_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset("\t\n\f\r ")
_ESCAPES = {"d": frozenset(string.digits), "w": _WORD, "s": _SPACE}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAMED = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset([*map(chr, range(32)), "\x7f"]),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": _SPACE | {"\v"},
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}


@dataclass(slots=True)
class _Chars:
    """A class of characters: single ones and ranges, or all others if ``negated``."""

    chars: set[str] = field(default_factory=set)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    #: Each set stands for all characters that are not in it, as ``\D``, ``.`` and ``[[:^alpha:]]`` need it.
    excluded: list[frozenset[str]] = field(default_factory=list)
    negated: bool = False
    folded: bool = False

    def __contains__(self, char: str) -> bool:
        forms = {char, char.lower(), char.upper()} if self.folded else {char}
        found = any(
            form in self.chars
            or any(low <= form <= high for low, high in self.ranges)
            or any(form not in members for members in self.excluded)
            for form in forms
        )
        return found is not self.negated


@dataclass(slots=True)
class _Node:
    """A part of a parsed pattern: ``kind`` is one of chars, start, end, empty, sequence, choice, repeat."""

    kind: str
    parts: list[_Node] = field(default_factory=list)
    chars: _Chars | None = None
    low: int = 0
    high: int | None = None


class _Parser:
    """Parses a pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_MAX:
            raise IllegalArgumentError(f"the pattern has more than {PATTERN_MAX} characters")
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()
        self._folded = self._dot_all = False

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise IllegalArgumentError("unexpected )")
        return node

    def _peek(self, expected: str) -> bool:
        return self._text.startswith(expected, self._at)

    def _take(self, expected: str) -> bool:
        found = self._peek(expected)
        self._at += len(expected) * found
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise IllegalArgumentError("unexpected end of the pattern")
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Node("choice", options)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            parts.append(self._repeated(self._atom()))
        return _Node("sequence", parts)

    def _repeated(self, node: _Node) -> _Node:
        if (bounds := self._bounds()) is None:
            return node
        if node.kind in ("start", "end"):
            raise IllegalArgumentError("missing argument to repetition operator")
        self._take("?")  # whether a repetition is greedy changes nothing about what a pattern matches
        if self._bounds() is not None:
            raise IllegalArgumentError("bad repetition operator")
        return _Node("repeat", [node], low=bounds[0], high=bounds[1])

    def _bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        end = self._text.find("}", self._at)
        if not self._peek("{") or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None  # RE2 takes such braces literally
        self._at = end + 1
        first, last = int(low), (int(low) if not comma else int(high) if high else None)
        if max(first, last or 0) > REPEAT_MAX or (last is not None and last < first):
            raise IllegalArgumentError("bad repetition operator")
        return first, last

    def _atom(self) -> _Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char in "*+?":
            raise IllegalArgumentError("missing argument to repetition operator")
        if char in "^$":
            return _Node("start" if char == "^" else "end")
        if char == ".":
            return self._of(_Chars(excluded=[frozenset("" if self._dot_all else "\n")]))
        if char == "[":
            return self._of(self._class())
        if char == "\\":
            return self._escape()
        return self._of(_Chars({char}))

    def _of(self, chars: _Chars) -> _Node:
        chars.folded = self._folded
        return _Node("chars", chars=chars)

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise IllegalArgumentError("groups are nested too deep")
        flags = self._folded, self._dot_all
        if self._take("?") and not self._take(":") and not self._name() and self._flags():
            self._depth -= 1
            return _Node("empty")  # the flags apply to the rest of the enclosing group
        node = self._choice()
        if not self._take(")"):
            raise IllegalArgumentError("missing closing )")
        self._folded, self._dot_all = flags
        self._depth -= 1
        return node

    def _name(self) -> bool:
        if not (self._take("P<") or self._take("<")):
            return False
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, 0)]
        if not name or not _WORD.issuperset(name):
            raise IllegalArgumentError("invalid named capture")
        if name in self._names:
            raise IllegalArgumentError("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1
        return True

    def _flags(self) -> bool:
        """Read flags; return True if ``)`` ends them, False if ``:`` begins a group with these flags."""
        value = True
        while not self._peek(")") and not self._peek(":"):
            flag = self._next()
            if flag == "-" and value:
                value = False
            elif flag == "i":
                self._folded = value
            elif flag == "s":
                self._dot_all = value
            else:
                raise IllegalArgumentError(f"unsupported flag or group {flag!r}")
        return self._next() == ")"

    def _escape(self) -> _Node:
        char = self._next()
        if char in "Az":
            return _Node("start" if char == "A" else "end")
        return self._of(self._escaped(char))

    def _escaped(self, char: str) -> _Chars:
        lower = char.lower()
        if lower in _ESCAPES:
            members = _ESCAPES[lower]
            return _Chars(set(members)) if char == lower else _Chars(excluded=[members])
        if char in _CONTROLS:
            return _Chars({_CONTROLS[char]})
        if char == "x":
            return _Chars({self._hexadecimal()})
        if char in _WORD:
            raise IllegalArgumentError(f"invalid escape sequence \\{char}")
        return _Chars({char})

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, 0)]
            self._at = end + 1
        else:
            digits = self._next() + self._next()
        code = int(digits, 16) if digits and set(digits) <= set(string.hexdigits) and len(digits) <= 6 else -1
        if not 0 <= code <= 0x10FFFF:
            raise IllegalArgumentError("invalid escape sequence \\x")
        return chr(code)

    def _class(self) -> _Chars:
        found = _Chars(negated=self._take("^"))
        is_first = True
        while is_first or not self._peek("]"):
            is_first = False
            if self._peek("[:"):
                self._named(found)
                continue
            low = self._class_char()
            if isinstance(low, _Chars):
                found.chars |= low.chars
                found.excluded += low.excluded
                continue
            high: str | _Chars = low
            if self._peek("-") and not self._peek("-]"):
                self._take("-")
                high = self._class_char()
            if isinstance(high, _Chars) or high < low:
                raise IllegalArgumentError("invalid character class range")
            found.ranges.append((low, high))
        self._take("]")
        return found

    def _class_char(self) -> str | _Chars:
        char = self._next()
        if char != "\\":
            return char
        escaped = self._escaped(self._next())
        return next(iter(escaped.chars)) if len(escaped.chars) == 1 else escaped

    def _named(self, found: _Chars) -> None:
        end = self._text.find(":]", self._at)
        name = self._text[self._at + 2 : max(end, 0)]
        negated = name.startswith("^")
        members = _NAMED.get(name.removeprefix("^"))
        if members is None:
            raise IllegalArgumentError("invalid character class range")
        self._at = end + 2
        if negated:
            found.excluded.append(members)
        else:
            found.chars |= members


class Pattern:
    """A compiled pattern. Raises: IllegalArgumentError: The pattern is invalid, not supported, or too large."""

    def __init__(self, pattern: str) -> None:
        self._chars: list[_Chars | None] = []  #: For each state: the characters that lead to its target.
        self._targets: list[int] = []
        self._free: list[list[int]] = []  #: For each state: the states that follow it without a character.
        self._anchors: dict[int, str] = {}
        self._end = self._state()
        self._start = self._build(_Parser(pattern).parse(), self._end)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def _state(self, chars: _Chars | None = None, target: int = 0) -> int:
        if len(self._free) >= STATES_MAX:
            raise IllegalArgumentError(f"the pattern is too large: it needs more than {STATES_MAX} states")
        self._chars.append(chars)
        self._targets.append(target)
        self._free.append([])
        return len(self._free) - 1

    def _build(self, node: _Node, following: int) -> int:
        """Add the states of a part of the pattern that leads to ``following``, and return the first one."""
        if node.kind == "chars":
            return self._state(node.chars, following)
        if node.kind == "repeat":
            return self._build_repeat(node, following)
        if node.kind == "choice":
            state = self._state()
            self._free[state] = [self._build(part, following) for part in node.parts]
            return state
        if node.kind in ("start", "end"):
            state = self._state()
            self._anchors[state] = node.kind
            self._free[state] = [following]
            return state
        for part in reversed(node.parts):
            following = self._build(part, following)
        return following

    def _build_repeat(self, node: _Node, following: int) -> int:
        (part,) = node.parts
        first, copies = following, node.low
        if node.high is None:
            loop = self._state()
            body = self._build(part, loop)
            self._free[loop] = [body, following]
            first, copies = (body, node.low - 1) if node.low else (loop, 0)
        else:
            for _ in range(node.high - node.low):
                option = self._state()
                self._free[option] = [self._build(part, first), following]
                first = option
        for _ in range(copies):
            first = self._build(part, first)
        return first

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        states = self._reached([self._start], at_start=True, at_end=not text)
        for position, char in enumerate(text, 1):
            if position == len(text):
                states = self._reached(self._moved(states, char), at_start=False, at_end=True)
                break
            key = states, char
            following = self._steps.get(key)
            if following is None:
                following = self._reached(self._moved(states, char), at_start=False, at_end=False)
                if len(self._steps) < KEPT_MAX:
                    self._steps[key] = following
            states = following
        return self._end in states

    def _moved(self, states: Iterable[int], char: str) -> Iterator[int]:
        for state in states:
            chars = self._chars[state]
            if chars is not None and char in chars:
                yield self._targets[state]

    def _reached(self, states: Iterable[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """Return the states, and all states that follow them without a character. ``at_start`` and ``at_end`` say
        whether the anchors ``^`` and ``$`` match here.
        """
        found: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            anchor = self._anchors.get(state)
            if state in found or (anchor == "start" and not at_start) or (anchor == "end" and not at_end):
                continue
            found.add(state)
            todo += self._free[state]
        return frozenset(found)
