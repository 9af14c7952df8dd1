"""Compile a message declaration to an encoder: one Python function per message and version, nested structs inlined.

Adjacent fixed-size fields, with the length that follows them in non-flexible versions, are written by one ``pack``. A
field that the version does not have is left out if it is ignorable or at its default; otherwise the encoder raises
:class:`~thinconsumer.wire.primitives.UnsupportedFieldError`, as Kafka's own writers do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from .primitives import STRING_MAX, UVARINTS, Write, null_refused, string_too_long, unsupported, uvarint, write_tags
from .schema import NO_VERSIONS, Primitive, Struct, WireField, string, wire_fields
from .source import COUNT_PREFIX, LENGTH_PREFIX, FunctionSource

#: The declaration with which string or bytes elements of an array are written: never null, even in a nullable array.
ELEMENT = WireField(string, False, NO_VERSIONS, NO_VERSIONS, -1, False, None)

#: ``encode(message, write)`` passes the message's bytes to ``write`` piece by piece, in order.
Encode = Callable[[Any, Write], None]


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Encode:
    """Compile the encoder of ``cls`` in ``version``."""
    return _Encoder(version, flexible).compile(cls)


#: The functions and tables that generated encoders use, by the names under which the generated code refers to them.
_NAMES = {
    "UVARINTS": UVARINTS,
    "pack": struct.pack,
    **{helper.__name__: helper for helper in (null_refused, string_too_long, unsupported, uvarint, write_tags)},
}


class _Encoder:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = FunctionSource("def encode(message, write):", _NAMES, "pack")
        self.write = "write"
        #: Fixed-size fields not yet packed: (struct format code, expression).
        self.pending: list[tuple[str, str]] = []

    def compile(self, cls: type[Struct]) -> Encode:
        self.structure(cls, "message")
        # A message without fields in this version would otherwise have an empty function body, a syntax error.
        self.source.line("return")
        return self.source.compile(f"encode {cls.__name__} version {self.version}", "encode")

    def flush(self) -> None:
        """Emit the one ``pack`` that writes the pending fixed-size fields."""
        if not self.pending:
            return
        pack, _ = self.source.packer("".join(code for code, _ in self.pending))
        self.source.line(f"{self.write}({pack}({', '.join(expression for _, expression in self.pending)}))")
        self.pending.clear()

    def structure(self, cls: type[Struct], name: str) -> None:
        """Emit the code that writes the struct that the generated code holds in the variable ``name``."""
        tagged: list[tuple[str, str, WireField]] = []
        for attribute, wire in wire_fields(cls):
            expression, what = f"{name}.{attribute}", f"{cls.__name__}.{attribute}"
            if self.version not in wire.versions:
                if not wire.ignorable:
                    with self.source.block(f"if {self.differs(wire, expression)}:"):
                        self.source.line(f"unsupported({what!r}, {self.version})")
            elif wire.tag >= 0:
                tagged.append((expression, what, wire))
            else:
                self.value(wire, expression, what)
        if self.flexible:
            self.tags(name, tagged)
        self.flush()

    def differs(self, wire: WireField, expression: str) -> str:
        """Return a Python condition for the generated code that is true if a field is not at its default."""
        if wire.default is None:
            return f"{expression} is not None"
        if wire.default is list:
            return f"({expression} is None or {expression})" if wire.nullable.last >= 0 else expression
        if callable(wire.default):
            inner = [self.differs(field, f"{expression}.{name}") for name, field in wire_fields(wire.default)]
            return f"({' or '.join([*inner, f'{expression}.unknown_tags'])})"
        return f"{expression} != {self.source.literal(wire)}"

    def value(self, wire: WireField, expression: str, what: str) -> None:
        """Emit the code that writes one field; ``expression`` is its value in the generated code."""
        if not wire.array and isinstance(wire.of, Primitive) and wire.of.code:
            self.pending.append((wire.of.code, expression))
            return
        name = self.source.fresh("v")
        self.source.line(f"{name} = {expression}")
        if wire.array:
            self.array(wire, name, what)
        elif isinstance(wire.of, Primitive):
            self.content(wire.of, wire, name, what)
        elif wire.nullable.last >= 0:
            self.nullable_structure(wire, name, what)
        else:
            self.structure(wire.of, name)

    def nullable_structure(self, wire: WireField, name: str, what: str) -> None:
        """Emit the code that writes a byte, -1 for null and else 1, and then the struct (KIP-893)."""
        self.flush()
        with self.source.block(f"if {name} is None:"):
            if self.version in wire.nullable:
                self.pending.append(("b", "-1"))
                self.flush()
            else:
                self.source.line(f"null_refused({what!r}, {self.version})")
        with self.source.block("else:"):
            if self.version in wire.nullable:
                self.pending.append(("b", "1"))
            self.structure(wire.of, name)

    def length(self, prefix: tuple[str, int], name: str) -> None:
        """Emit the code that writes a length or count, which the generated code holds in the variable ``name``. In
        flexible versions that variable contains the length plus one, as on the wire (KIP-482).
        """
        if not self.flexible:
            self.pending.append((prefix[0], name))
            self.flush()
            return
        self.flush()
        self.source.line(f"{self.write}(UVARINTS[{name}] if {name} < {len(UVARINTS)} else uvarint({name}))")

    def measure(self, wire: WireField, name: str, length: str, what: str, lines: list[str]) -> None:
        """Emit the code that assigns the length or count of ``name`` to the variable ``length``.

        ``lines`` compute the length of a value that is not None. If the field is nullable, None gets the length that
        encodes null: -1, or 0 in flexible versions.
        """
        if self.flexible:
            lines.append(f"{length} += 1")
        if wire.nullable.last >= 0:
            with self.source.block(f"if {name} is None:"):
                if self.version in wire.nullable:
                    self.source.line(f"{length} = {0 if self.flexible else -1}")
                else:
                    self.source.line(f"null_refused({what!r}, {self.version})")
            with self.source.block("else:"):
                self.source.lines(lines)
        else:
            self.source.lines(lines)

    def content(self, of: Primitive[Any], wire: WireField, name: str, what: str) -> None:
        """Emit the code that writes a string, bytes or records."""
        source = self.source
        length = source.fresh("n")
        lines = [f"{length} = len({name})"]
        if of.name == "string":
            lines.insert(0, f"{name} = {name}.encode()")
            lines.append(f"if {length} > {STRING_MAX}: string_too_long({what!r}, {length})")
        self.measure(wire, name, length, what, lines)
        self.length(LENGTH_PREFIX[of.name], length)
        with source.block(f"if {length} > {1 if self.flexible else 0}:"):
            source.line(f"{self.write}({name})")

    def array(self, wire: WireField, name: str, what: str) -> None:
        source = self.source
        count = source.fresh("n")
        self.measure(wire, name, count, what, [f"{count} = len({name})"])
        self.length(COUNT_PREFIX, count)
        if isinstance(wire.of, Primitive) and wire.of.code:
            with source.block(f"if {name}:"):
                source.line(f"{self.write}(pack('>' + {wire.of.code!r} * len({name}), *{name}))")
            return
        element = source.fresh("e")
        with source.block(f"for {element} in {name}{' or ()' if wire.nullable.last >= 0 else ''}:"):
            if isinstance(wire.of, Primitive):
                self.content(wire.of, ELEMENT, element, what)
            else:
                self.structure(wire.of, element)

    def tags(self, name: str, tagged: list[tuple[str, str, WireField]]) -> None:
        """Emit the code that writes the unknown tagged fields and the declared ones that are not at their defaults."""
        source = self.source
        count = source.fresh("t")
        source.line(f"{count} = len({name}.unknown_tags)")
        for expression, _, wire in tagged:
            with source.block(f"if {self.differs(wire, expression)}:"):
                source.line(f"{count} += 1")
        self.pending.append(("B", count))
        self.flush()
        with source.block(f"if {count}:"):
            known = source.fresh("known")
            source.line(f"{known} = {{}}")
            for expression, what, wire in tagged:
                with source.block(f"if {self.differs(wire, expression)}:"):
                    self.tag(wire, expression, what, known)
            source.line(f"write_tags({self.write}, {known}, {name}.unknown_tags)")

    def tag(self, wire: WireField, expression: str, what: str, known: str) -> None:
        """Emit the code that encodes one tagged field into a separate bytes object. The field's length must be written
        before its content, and is only known when the content is encoded.
        """
        source, outer = self.source, self.write
        parts = source.fresh("parts")
        self.write = f"{parts}.append"
        source.line(f"{parts} = []")
        self.value(wire, expression, what)
        self.flush()
        source.line(f"{known}[{wire.tag}] = b''.join({parts})")
        self.write = outer
