"""A Python function under construction: lines, fresh names, and the runs of fixed-size fields it packs or unpacks.

Shared by ``decoding`` and ``encoding``, which turn declarations into source once per message and version. Only names
and numbers from declarations get into the source, never anything from the network.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .schema import Primitive, Struct, WireField, wire_fields

#: Letter and size of what stands before variable-length content in versions that are not flexible; flexible ones have
#: an unsigned varint of the length plus one.
LENGTH_PREFIX = {"string": ("h", 2), "bytes": ("i", 4), "records": ("i", 4)}
COUNT_PREFIX = ("i", 4)


def min_size(of: Primitive[Any] | type[Struct], version: int, flexible: bool) -> int:
    """Return the fewest bytes one ``of`` can take: what bounds a count before anything is allocated for it."""
    if isinstance(of, Primitive):
        return of.size or (1 if flexible else LENGTH_PREFIX[of.name][1])
    total = 1 if flexible else 0
    for _, wire in wire_fields(of):
        if version not in wire.versions or wire.tag >= 0:
            continue
        if wire.array:
            total += 1 if flexible else COUNT_PREFIX[1]
        elif not isinstance(wire.of, Primitive) and version in wire.nullable:
            total += 1
        else:
            total += min_size(wire.of, version, flexible)
    return total


class FunctionSource:
    """Collects the body of one generated function and the objects it refers to."""

    def __init__(self, header: str, names: dict[str, Any], method: str) -> None:
        self.names = names
        self._method = method  #: ``pack`` or ``unpack_from``.
        self._lines = [header]
        self._depth = 1
        self._fresh = 0
        self._formats: dict[str, str] = {}

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    def lines(self, texts: Iterable[str]) -> None:
        """Add several lines at the present depth."""
        for text in texts:
            self.line(text)

    def first(self, text: str) -> None:
        """Add one line before all others."""
        self._lines.insert(1, "    " + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add ``header`` and indent what is added inside."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a local name not used before."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, prefix: str, value: Any) -> str:
        """Return a global name bound to ``value``."""
        name = self.fresh(prefix.upper())
        self.names[name] = value
        return name

    def packer(self, codes: str) -> tuple[str, int]:
        """Return the name of the compiled ``struct`` method for ``codes``, and the size of what it handles."""
        compiled = struct.Struct(">" + codes)
        if codes not in self._formats:
            self._formats[codes] = self.constant("S", getattr(compiled, self._method))
        return self._formats[codes], compiled.size

    def literal(self, wire: WireField) -> str:
        """Return an expression for the default of a field whose default is a plain value."""
        if isinstance(wire.default, (bytes, float)):
            return self.constant("V", wire.default)
        return repr(wire.default)

    def compile(self, label: str, function: str) -> Callable[..., Any]:
        """Compile what was collected and return the function of that name; ``label`` shows up in tracebacks."""
        exec(compile("\n".join(self._lines) + "\n", f"<{label}>", "exec"), self.names)
        result: Callable[..., Any] = self.names[function]
        return result
