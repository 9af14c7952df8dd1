"""Compile a message declaration to an encoder: one Python function per message and version, nested structs inlined.

Adjacent fixed-size fields, with the length that follows them in non-flexible versions, are written by one ``pack``. A
field that the version does not have is left out if it is ignorable or at its default; otherwise the encoder raises
:class:`~thinconsumer.wire.primitives.UnsupportedFieldError`, as Kafka's own writers do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .primitives import STRING_MAX, UVARINTS, UnsupportedFieldError, Write, string_too_long, uvarint, write_tags
from .schema import NO_VERSIONS, Primitive, Struct, Versions, WireField, wire_fields
from .source import COUNT, CodecSource

#: ``encode(message, write)`` passes the message's bytes to ``write`` piece by piece, in order.
Encode = Callable[[Any, Write], None]


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Encode:
    """Compile the encoder of ``cls`` in ``version``."""
    return _Encoder(version, flexible).encoder(cls)


#: The functions, table and class that generated encoders use, by their names in the generated code.
_NAMES = {
    "UVARINTS": UVARINTS,
    "pack": struct.pack,
    **{helper.__name__: helper for helper in (UnsupportedFieldError, string_too_long, uvarint, write_tags)},
}


class _Encoder(CodecSource):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible, "def encode(message, write):", _NAMES, "pack")
        self.write = "write"

    def encoder(self, cls: type[Struct]) -> Encode:
        self.structure(cls, "message")
        # A message without fields in this version would otherwise have an empty function body, a syntax error.
        self.line("return")
        return self.compile("encode", cls)

    def fixed(self, codes: str, names: str) -> None:
        self.line(f"{self.write}({self.packer(codes)}({names}))")

    def refuse(self, error: str) -> None:
        """Emit the code that raises an error because of a value that the version cannot encode."""
        self.line(f"raise UnsupportedFieldError({error!r})")

    def structure(self, cls: type[Struct], name: str) -> None:
        """Emit the code that writes the struct that the generated code holds in the variable ``name``."""
        tagged: list[tuple[str, str, WireField]] = []
        for attribute, wire in wire_fields(cls):
            expression, what = f"{name}.{attribute}", f"{cls.__name__}.{attribute}"
            if self.version not in wire.versions:
                if not wire.ignorable:
                    with self.block(f"if {self.differs(wire, expression)}:"):
                        self.refuse(f"{what} is set, but version {self.version} lacks this field")
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
        return f"{expression} != {wire.default!r}"

    def value(self, wire: WireField, expression: str, what: str) -> None:
        """Emit the code that writes one field; ``expression`` is its value in the generated code, ``what`` names it in
        errors.
        """
        if not wire.array and isinstance(wire.of, Primitive) and wire.of.code:
            self.pending.append((wire.of.code, expression))
            return
        name = self.fresh("v")
        self.line(f"{name} = {expression}")
        if wire.array:
            self.array(wire, name, what)
        elif isinstance(wire.of, Primitive):
            self.content(wire.of, name, what, wire.nullable)
        elif wire.nullable.last >= 0:
            self.nullable_structure(wire, name, what)
        else:
            self.structure(wire.of, name)

    @contextmanager
    def unless_null(self, nullable: Versions, name: str, what: str, null: str) -> Iterator[None]:
        """Emit the line ``null`` for the value None, or an error if only other versions allow None; the lines that are
        emitted inside the ``with`` statement are for other values.
        """
        if nullable.last < 0:
            yield
            return
        with self.block(f"if {name} is None:"):
            if self.version in nullable:
                self.line(null)
            else:
                self.refuse(f"{what} is None, but not nullable in version {self.version}")
        with self.block("else:"):
            yield

    def nullable_structure(self, wire: WireField, name: str, what: str) -> None:
        """Emit the code that writes the struct. In versions that allow null, a byte comes first: -1 for null, else 1
        (KIP-893).
        """
        self.flush()
        with self.unless_null(wire.nullable, name, what, rf"{self.write}(b'\xff')"):
            if self.version in wire.nullable:
                self.pending.append(("b", "1"))
            self.structure(wire.of, name)

    def length(self, code: str, name: str, what: str, nullable: Versions, *, text: bool = False) -> str:
        """Emit the code that writes the length or count of a value, after the fixed-size fields before it; return the
        variable that holds the number as it is on the wire. ``text`` encodes a string first.
        """
        length = self.fresh("n")
        with self.unless_null(nullable, name, what, f"{length} = {self.null}"):
            if text:
                self.line(f"{name} = {name}.encode()")
            self.line(f"{length} = len({name})")
            if text:
                self.line(f"if {length} > {STRING_MAX}: string_too_long({what!r}, {length})")
            if self.flexible:
                self.line(f"{length} += 1")
        if not self.flexible:
            self.pending.append((code, length))
        self.flush()
        if self.flexible:
            self.line(f"{self.write}(UVARINTS[{length}] if {length} < {len(UVARINTS)} else uvarint({length}))")
        return length

    def content(self, of: Primitive[Any], name: str, what: str, nullable: Versions = NO_VERSIONS) -> None:
        """Emit the code that writes a string, bytes or records."""
        length = self.length(of.prefix, name, what, nullable, text=of.name == "string")
        with self.block(f"if {length} > {1 if self.flexible else 0}:"):
            self.line(f"{self.write}({name})")

    def array(self, wire: WireField, name: str, what: str) -> None:
        self.length(COUNT, name, what, wire.nullable)
        if isinstance(wire.of, Primitive) and wire.of.code:
            with self.block(f"if {name}:"):
                self.line(f"{self.write}(pack('>' + {wire.of.code!r} * len({name}), *{name}))")
            return
        element = self.fresh("e")
        with self.block(f"for {element} in {name}{' or ()' if wire.nullable.last >= 0 else ''}:"):
            if isinstance(wire.of, Primitive):
                self.content(wire.of, element, what)
            else:
                self.structure(wire.of, element)

    def tags(self, name: str, tagged: list[tuple[str, str, WireField]]) -> None:
        """Emit the code that writes the unknown tagged fields and the declared ones that are not at their defaults."""
        count = self.fresh("t")
        self.line(f"{count} = len({name}.unknown_tags)")
        for expression, _, wire in tagged:
            with self.block(f"if {self.differs(wire, expression)}:"):
                self.line(f"{count} += 1")
        self.pending.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            known = self.fresh("known")
            self.line(f"{known} = {{}}")
            for expression, what, wire in tagged:
                with self.block(f"if {self.differs(wire, expression)}:"):
                    self.tag(wire, expression, what, known)
            self.line(f"write_tags({self.write}, {known}, {name}.unknown_tags)")

    def tag(self, wire: WireField, expression: str, what: str, known: str) -> None:
        """Emit the code that encodes one tagged field into a separate bytes object. The field's length must be written
        before its content, and is only known when the content is encoded.
        """
        outer = self.write
        parts = self.fresh("parts")
        self.write = f"{parts}.append"
        self.line(f"{parts} = []")
        self.value(wire, expression, what)
        self.flush()
        self.line(f"{known}[{wire.tag}] = b''.join({parts})")
        self.write = outer
