"""Collect the source of a generated encoder or decoder and compile it. Shared by ``decoding`` and ``encoding``.

The source contains only names and constants from message declarations, never data from the network.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .schema import Primitive, Struct, wire_fields

#: Struct format code and size of an array's count in non-flexible versions.
COUNT, COUNT_SIZE = "i", 4


def min_size(of: Primitive[Any] | type[Struct], version: int, flexible: bool) -> int:
    """Return the minimum number of bytes that a value of type ``of`` takes. Decoders multiply it with an array's count:
    an array that cannot fit into the rest of the frame is rejected before memory is allocated for it.
    """
    if isinstance(of, Primitive):
        return 1 if flexible and of.prefix else of.size
    total = 1 if flexible else 0
    for _, wire in wire_fields(of):
        if version not in wire.versions or wire.tag >= 0:
            continue
        if wire.array:
            total += 1 if flexible else COUNT_SIZE
        elif version in wire.nullable and not isinstance(wire.of, Primitive):
            total += 1  # a struct that is null takes one byte
        else:
            total += min_size(wire.of, version, flexible)
    return total


class CodecSource:
    """The source of one encoder or decoder, which a subclass emits line by line.

    ``header`` is the first line of the generated function, ``names`` are its globals, and ``method`` is the method of
    ``struct.Struct`` that it calls: ``pack`` or ``unpack_from``.
    """

    def __init__(self, version: int, flexible: bool, header: str, names: dict[str, Any], method: str) -> None:
        self.version = version
        self.flexible = flexible
        #: The length or count that stands for null. Flexible versions write lengths and counts plus one, as unsigned
        #: varints (KIP-482).
        self.null = 0 if flexible else -1
        #: Fixed-size fields not yet packed or unpacked: (struct format code, expression or assignment target).
        self.pending: list[tuple[str, str]] = []
        self._names = dict(names)
        self._method = method
        self._lines = [header]
        self._depth = 1
        self._fresh = 0
        self._formats: dict[str, str] = {}

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

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
        name = self.fresh(prefix)
        self._names[name] = value
        return name

    def packer(self, codes: str) -> str:
        """Return the name under which generated code calls ``pack`` or ``unpack_from`` for these format codes."""
        if codes not in self._formats:
            self._formats[codes] = self.constant("S", getattr(struct.Struct(">" + codes), self._method))
        return self._formats[codes]

    def flush(self) -> None:
        """Emit one call of ``struct`` for all pending fixed-size fields."""
        if self.pending:
            codes, names = zip(*self.pending)
            self.pending.clear()
            self.fixed("".join(codes), ", ".join(names))

    def fixed(self, codes: str, names: str) -> None:
        """Emit the call of ``struct`` that writes or reads the fields in ``names``, which have these format codes."""
        raise NotImplementedError

    def compile(self, function: str, cls: type[Struct]) -> Callable[..., Any]:
        """Compile the source and return the function named ``function``; tracebacks have its message and version."""
        label = f"<{function} {cls.__name__} version {self.version}>"
        exec(compile("\n".join(self._lines) + "\n", label, "exec"), self._names)
        result: Callable[..., Any] = self._names[function]
        return result
