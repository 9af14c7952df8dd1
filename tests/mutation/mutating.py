"""Finds the places of a module that a mutation could change, and makes the changed source.

A :class:`Mutant` replaces a few characters of the source. The rest stays as it is, with comments and line numbers. The
operators:

=============  =========================================================================================
boundary       ``<`` and ``<=``, ``>`` and ``>=``
negate         ``==`` and ``!=``, ``is`` and ``is not``, ``in`` and ``not in``; ``<`` becomes ``>=`` and so on
connective     ``and`` and ``or``
drop not       ``not x`` becomes ``x``
swap branches  the condition of an ``if``, a ``while``, a conditional expression or a comprehension is negated
constant       a number becomes one more or one less, ``True`` and ``False`` change places
arithmetic     ``+`` and ``-``, ``*`` and ``/``, ``|`` and ``&``; also in assignments
extreme        ``min`` and ``max``, ``any`` and ``all``
return None    the value of a ``return`` becomes None
delete         a call, an assignment to an attribute or an item, a ``del``, a ``raise``, a jump becomes ``pass``
state          a member of an enumeration becomes the next member, in state tables, too
=============  =========================================================================================

Left alone are docstrings and other text, log calls, annotations, ``assert``, imports, ``__repr__``, ``__str__``, first
assignments in ``__init__`` and, apart from members of enumerations, everything outside of functions: numbers there are
tunings.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNTOUCHED_METHODS = {"__repr__", "__str__"}

BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
NEGATE = {
    "==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in",
    "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.BitOr: ("|", "&"), ast.BitAnd: ("&", "|"),
}  # fmt: skip
EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
JUMPS = (ast.Raise, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one module: the bytes from ``start`` to ``end`` become ``new``."""

    path: str  #: Relative to the package.
    start: int
    end: int
    operator: str
    old: str
    new: str
    function: str  #: The qualified name of the function or class around the change; empty at the module's level.
    line: int
    lines: tuple[int, int]  #: The first and the last line of the changed statement, without the statements in it.
    ordinal: int = 1  #: Counts equal changes of one function.

    def applied(self, source: str) -> str:
        """Return the source of the module with the change."""
        data = source.encode()
        assert data[self.start : self.end].decode() == self.old
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    @property
    def name(self) -> str:
        """Return the place and the change, without a line number, which the next change of the file would move."""
        old, new = (re.sub(r"\s+", " ", text) for text in (self.old, self.new))
        ordinal = f" #{self.ordinal}" if self.ordinal > 1 else ""
        return f"{self.path} {self.function or 'module'}: {self.operator}: {old} -> {new}{ordinal}"


def enumerations(sources: Iterable[str]) -> dict[str, list[str]]:
    """Return the members of each enumeration that these modules define, by the name of its class."""
    found: dict[str, list[str]] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Enum") for base in node.bases):
                names = [name.id for one in node.body if isinstance(one, ast.Assign) for name in one.targets
                         if isinstance(name, ast.Name) and name.id.isupper()]  # fmt: skip
                found[node.name] = names
    return found


def mutants_of(path: str, source: str, enums: Mapping[str, list[str]]) -> list[Mutant]:
    """Return all changes of the module, in the order of their places."""
    found: list[Mutant] = []
    names: Counter[str] = Counter()
    for mutant in sorted(set(_Finder(path, source, enums).find())):
        names[mutant.name] += 1
        found.append(replace(mutant, ordinal=names[mutant.name]))
    return found


class _Finder:
    """Walks over one module."""

    def __init__(self, path: str, source: str, enums: Mapping[str, list[str]]) -> None:
        self._path = path
        self._tree = ast.parse(source)
        self._data = source.encode()
        self._uncommented = _without_comments(source)
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        aliases = {
            target.id: node.value.id
            for node in self._tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._enums = {**enums, **{alias: enums[name] for alias, name in aliases.items() if name in enums}}
        self._scope: list[str] = []
        self._depth = 0  #: The number of functions around the present node.
        self._lines = (1, 1)

    def find(self) -> Iterator[Mutant]:
        """Yield all changes of the module."""
        yield from self._children(self._tree)

    # --- the walk ---

    def _visit(self, node: ast.AST) -> Iterator[Mutant]:
        if _is_untouched(node):
            return
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self._scope.append(node.name)
            is_function = isinstance(node, FUNCTIONS)
            if is_function:
                defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
                self._lines = (node.lineno, node.body[0].lineno - 1)
                yield from self._all(defaults)
                self._depth += 1
            yield from self._all(node.body)
            self._depth -= is_function
            self._scope.pop()
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            self._lines = (node.lineno, max(node.lineno, last))
        lines = self._lines
        if self._depth:
            yield from self._changes(node)
        yield from self._state(node)
        yield from self._children(node)
        self._lines = lines

    def _all(self, nodes: Iterable[ast.AST]) -> Iterator[Mutant]:
        for node in nodes:
            yield from self._visit(node)

    def _children(self, node: ast.AST) -> Iterator[Mutant]:
        skipped = getattr(node, "annotation", None)
        yield from self._all(child for child in ast.iter_child_nodes(node) if child is not skipped)

    # --- the changes of one node ---

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        for kind, method in _METHODS:
            if isinstance(node, kind):
                yield from method(self, node)
        if _may_be_deleted(node, is_first=self._scope[-1] == "__init__"):
            yield self._replace(node, "delete", "pass")

    def _state(self, node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            members = self._enums.get(node.value.id, [])
            if node.attr in members and len(members) > 1:
                after = members[(members.index(node.attr) + 1) % len(members)]
                yield self._replace(node, "state", f"{node.value.id}.{after}")

    def _compare(self, node: ast.Compare) -> Iterator[Mutant]:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            token = COMPARISONS[type(op)]
            if token in BOUNDARY:
                yield from self._between(left, right, "boundary", token, BOUNDARY[token])
            yield from self._between(left, right, "negate", token, NEGATE[token])

    def _bool_op(self, node: ast.BoolOp) -> Iterator[Mutant]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            yield from self._between(left, right, "connective", old, new)

    def _unary_op(self, node: ast.UnaryOp) -> Iterator[Mutant]:
        if isinstance(node.op, ast.Not):
            yield self._replace(node, "drop not", f"({self._text(node.operand)})")

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Mutant]:
        yield self._replace(node.test, "swap branches", f"not ({self._text(node.test)})")

    def _comprehension(self, node: ast.comprehension) -> Iterator[Mutant]:
        for test in node.ifs:
            yield self._replace(test, "swap branches", f"not ({self._text(test)})")

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        value = node.value
        if isinstance(value, bool):
            yield self._replace(node, "constant", str(not value))
        elif isinstance(value, (int, float)):
            yield self._replace(node, "constant", repr(value + 1))
            if value > 0:
                yield self._replace(node, "constant", repr(value - 1))

    def _bin_op(self, node: ast.BinOp) -> Iterator[Mutant]:
        if type(node.op) in ARITHMETIC and not _is_text(node.left) and not _is_text(node.right):
            yield from self._between(node.left, node.right, "arithmetic", *ARITHMETIC[type(node.op)])

    def _aug_assign(self, node: ast.AugAssign) -> Iterator[Mutant]:
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            old, new = ARITHMETIC[type(node.op)]
            yield from self._between(node.target, node.value, "arithmetic", f"{old}=", f"{new}=")

    def _call(self, node: ast.Call) -> Iterator[Mutant]:
        if isinstance(node.func, ast.Name) and node.func.id in EXTREMES:
            yield self._replace(node.func, "extreme", EXTREMES[node.func.id])

    def _return(self, node: ast.Return) -> Iterator[Mutant]:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield self._replace(node.value, "return None", "None")

    # --- text ---

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    def _mutant(self, start: int, end: int, operator: str, new: str) -> Mutant:
        old = self._data[start:end].decode()
        line = self._data.count(b"\n", 0, start) + 1
        return Mutant(self._path, start, end, operator, old, new, ".".join(self._scope), line, self._lines)

    def _replace(self, node: ast.AST, operator: str, new: str) -> Mutant:
        return self._mutant(*self._span(node), operator, new)

    def _between(self, left: ast.AST, right: ast.AST, operator: str, old: str, new: str) -> Iterator[Mutant]:
        """Yield the change of the sign between two expressions."""
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = re.escape(old).replace(r"\ ", r"\s+").encode()
        match = re.search(rb"(?<![\w<>=!])" + pattern + rb"(?![\w=])", self._uncommented[start:end])
        if match is not None:
            yield self._mutant(start + match.start(), start + match.end(), operator, new)


_METHODS: tuple[tuple[type | tuple[type, ...], object], ...] = (
    (ast.Compare, _Finder._compare),
    (ast.BoolOp, _Finder._bool_op),
    (ast.UnaryOp, _Finder._unary_op),
    ((ast.If, ast.While, ast.IfExp), _Finder._condition),
    (ast.comprehension, _Finder._comprehension),
    (ast.Constant, _Finder._constant),
    (ast.BinOp, _Finder._bin_op),
    (ast.AugAssign, _Finder._aug_assign),
    (ast.Call, _Finder._call),
    (ast.Return, _Finder._return),
)


def _without_comments(source: str) -> bytes:
    """Return the source with spaces for comments."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            line = lines[row - 1]
            at = len(line.decode()[:column].encode())
            size = len(token.string.encode())
            lines[row - 1] = line[:at] + b" " * size + line[at + size :]
    return b"".join(lines)


def _is_untouched(node: ast.AST) -> bool:
    """Return whether nothing in the node is a decision."""
    if isinstance(node, FUNCTIONS):
        return node.name in UNTOUCHED_METHODS
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("log", "logging")
    # Places in a formatted string are wrong before Python 3.12, and a formatted string is text.
    return isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _may_be_deleted(node: ast.AST, *, is_first: bool) -> bool:
    """Return whether ``pass`` may replace a statement: not a first assignment, without which every use would fail."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not _is_untouched(node.value)
    if isinstance(node, ast.Return):
        return node.value is None
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return not is_first and all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
    return isinstance(node, JUMPS)
