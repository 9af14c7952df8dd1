"""Collect the source of a generated encoder or decoder and compile it. Shared by ``decoding`` and ``encoding``.

The source contains only names and numbers from message declarations, never data from the network.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .schema import Primitive, Struct, WireField, wire_fields

#: Struct format code and size of the length before variable-size content in non-flexible versions. Flexible versions
#: write an unsigned varint of the length plus one (KIP-482).
LENGTH_PREFIX = {"string": ("h", 2), "bytes": ("i", 4), "records": ("i", 4)}
COUNT_PREFIX = ("i", 4)


def min_size(of: Primitive[Any] | type[Struct], version: int, flexible: bool) -> int:
    """Return the minimum number of bytes that a value of type ``of`` takes. Decoders multiply it with an array's count:
    an array that cannot fit into the rest of the frame is rejected before memory is allocated for it.
    """
    if isinstance(of, Primitive):
        return of.size or (1 if flexible else LENGTH_PREFIX[of.name][1])
    total = 1 if flexible else 0
    for _, wire in wire_fields(of):
        if version not in wire.versions or wire.tag >= 0:
            continue
        if wire.array:
            total += 1 if flexible else COUNT_PREFIX[1]
        elif version in wire.nullable and not isinstance(wire.of, Primitive):
            total += 1  # the byte of a null struct
        else:
            total += min_size(wire.of, version, flexible)
    return total


class FunctionSource:
    """Source code of one encoder or decoder; ``method`` is what it calls in ``struct``: ``pack`` or ``unpack_from``."""

    def __init__(self, header: str, names: dict[str, Any], method: str) -> None:
        self.names = dict(names)
        self._method = method
        self._lines = [header]
        self._depth = 1
        self._fresh = 0
        self._formats: dict[str, str] = {}

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    def lines(self, texts: Iterable[str]) -> None:
        """Add several lines at the current indentation."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add ``header`` and indent the lines added inside the ``with`` statement."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return an unused variable name."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, prefix: str, value: Any) -> str:
        """Make ``value`` available to the generated function under a new global name, and return this name."""
        name = self.fresh(prefix.upper())
        self.names[name] = value
        return name

    def packer(self, codes: str) -> tuple[str, int]:
        """Return the name by which generated code calls ``pack`` or ``unpack_from`` for these ``struct`` format codes.
        Also returns the size in bytes that these codes have together.
        """
        compiled = struct.Struct(">" + codes)
        if codes not in self._formats:
            self._formats[codes] = self.constant("S", getattr(compiled, self._method))
        return self._formats[codes], compiled.size

    def literal(self, wire: WireField) -> str:
        """Return a Python expression for the default of a field that is neither a list nor a struct."""
        if isinstance(wire.default, bytes):
            return self.constant("V", wire.default)
        return repr(wire.default)

    def compile(self, label: str, function: str) -> Callable[..., Any]:
        """Compile the source and return the named function; ``label`` is its file name in tracebacks."""
        exec(compile("\n".join(self._lines) + "\n", f"<{label}>", "exec"), self.names)
        result: Callable[..., Any] = self.names[function]
        return result
