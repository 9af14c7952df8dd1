"""Compile a message declaration to a decoder: one Python function per message and version, nested structs inlined.

Generated decoders are safe for hostile input:

* a count is checked against the rest of the frame (count times the element's minimum size) before anything is built;
* a length is checked against the rest of the frame before it is used;
* loops nest as deep as the declaration, so input cannot cause recursion.

Adjacent fixed-size fields, with the length that follows them, are read by one ``unpack_from`` directly into attributes.
In flexible versions the length is an unsigned varint, of which the first byte is read together with these fields; only
lengths above 126, which are rare, need a further call to read the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..errors import KafkaProtocolError
from .primitives import STRING_MAX, Buffer, bad_count, bad_length, bad_tag, read_tag, read_tags, read_uvarint
from .schema import Primitive, Struct, WireField, wire_fields
from .source import COUNT_PREFIX, LENGTH_PREFIX, FunctionSource, min_size

#: ``decode(buffer, position)`` returns the message that begins at ``position`` and must extend to the buffer's end.
Decode = Callable[[Buffer, int], Any]

_SHORT_ARRAY_MAX = 16
#: Compiled ``unpack_from`` functions for short arrays (replicas, partition numbers), by struct format code and length.
_ARRAYS = {
    code: tuple(struct.Struct(">" + code * count).unpack_from for count in range(_SHORT_ARRAY_MAX + 1))
    for code in ("?", "b", "h", "i", "q", "16s")
}


def compile_decoder(cls: type[Struct], version: int, flexible: bool) -> tuple[Decode, bool]:
    """Return the decoder of ``cls`` in ``version``, and whether the message contains records. The decoder of a message
    with records must get a memoryview, from which it slices the records without a copy.
    """
    has_records = _has_records(cls, version)
    return _Decoder(version, flexible, has_records).compile(cls), has_records


def _has_records(cls: type[Struct], version: int) -> bool:
    return any(
        wire.of.name == "records" if isinstance(wire.of, Primitive) else _has_records(wire.of, version)
        for _, wire in wire_fields(cls)
        if version in wire.versions
    )


class TrailingBytesError(KafkaProtocolError):
    """Bytes follow the complete message, which ends at ``end``."""

    def __init__(self, end: int, size: int) -> None:
        super().__init__(f"the message ends at byte {end}, but the frame has {size} bytes")
        self.end = end


#: The functions and classes that generated decoders call, by the names under which the generated code refers to them.
_NAMES: dict[str, object] = {
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "TrailingBytesError": TrailingBytesError,
    # Shared by all structs without elements or tags: messages are read-only.
    "no_elements": [],
    "no_tags": {},
    **{helper.__name__: helper for helper in (bad_count, bad_length, bad_tag, read_tag, read_tags, read_uvarint)},
}


def default_of(cls: type[Struct]) -> Struct:
    """Return an instance with defaults. The class need not generate its constructor for that."""
    made = object.__new__(cls)
    for attribute, wire in wire_fields(cls):
        default = wire.default
        value = default_of(default) if isinstance(default, type) and issubclass(default, Struct) else default
        setattr(made, attribute, [] if default is list else value)
    made.unknown_tags = {}
    return made


class _Decoder:
    def __init__(self, version: int, flexible: bool, view: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.view = view
        #: Names of constants of the generated decoder, by struct. Each is an instance with defaults, for nested structs
        #: that the version or the message lacks: built once, and shared by all messages.
        self.shared: dict[type[Struct], str] = {}
        self.source = FunctionSource("def decode(buf, pos):", _NAMES, "unpack_from")
        #: Fixed-size fields not yet unpacked: (struct format code, assignment target).
        self.pending: list[tuple[str, str]] = []

    def compile(self, cls: type[Struct]) -> Decode:
        source = self.source
        source.line("size = len(buf)")
        message = self.structure(cls)
        with source.block("if pos != size:"):
            source.line("raise TrailingBytesError(pos, size)")
        source.line(f"return {message}")
        return source.compile(f"decode {cls.__name__} version {self.version}", "decode")

    def flush(self) -> None:
        """Emit the one ``unpack_from`` that reads the pending fixed-size fields."""
        if not self.pending:
            return
        targets = ", ".join(target for _, target in self.pending)
        codes = "".join(code for code, _ in self.pending)
        self.pending.clear()
        if codes == "B":
            self.source.line(f"{targets} = buf[pos]")
            self.source.line("pos += 1")
            return
        unpack, size = self.source.packer(codes)
        self.source.line(f"{targets}{'' if ',' in targets else ','} = {unpack}(buf, pos)")
        self.source.line(f"pos += {size}")

    def structure(self, cls: type[Struct]) -> str:
        """Emit the code that reads one struct of class ``cls``; return the name of the variable that holds it."""
        source = self.source
        self.flush()
        name = source.fresh("o")
        source.line(f"{name} = new({source.constant('C', cls)})")
        source.line(f"{name}.unknown_tags = no_tags")
        tagged: list[tuple[str, WireField]] = []
        for attribute, wire in wire_fields(cls):
            present = self.version in wire.versions
            if present and wire.tag < 0:
                self.value(wire, f"{name}.{attribute}", f"{cls.__name__}.{attribute}")
                continue
            source.line(f"{name}.{attribute} = {self.default(wire)}")
            if present:
                tagged.append((attribute, wire))
        if self.flexible:
            self.tags(cls, name, tagged)
        self.flush()
        return name

    def default(self, wire: WireField) -> str:
        """Return a Python expression for the default of a field, for versions that do not contain the field."""
        if wire.default is list:
            return "no_elements"
        if not callable(wire.default):
            return self.source.literal(wire)
        if wire.default not in self.shared:
            self.shared[wire.default] = self.source.constant("D", default_of(wire.default))
        return self.shared[wire.default]

    def value(self, wire: WireField, target: str, what: str) -> None:
        """Emit the code that reads one field and assigns its value to ``target``; ``what`` names it in errors."""
        nullable = self.version in wire.nullable
        if wire.array:
            self.array(wire, target, what, nullable)
        elif isinstance(wire.of, Primitive):
            if wire.of.code:
                self.pending.append((wire.of.code, target))
            else:
                self.content(wire.of, target, what, nullable)
        elif nullable:
            self.nullable_structure(wire.of, target)
        else:
            self.source.line(f"{target} = {self.structure(wire.of)}")

    def nullable_structure(self, of: type[Struct], target: str) -> None:
        """Emit the code that reads a byte, which is negative for null, and then the struct (KIP-893)."""
        present = self.source.fresh("n")
        self.pending.append(("b", present))
        self.flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.source.line(f"{target} = {self.structure(of)}")

    def length(self, prefix: tuple[str, int]) -> str:
        """Emit the code that reads a length or count; return the name of the variable that holds the number. In
        flexible versions the number is the length plus one, as on the wire (KIP-482).
        """
        name = self.source.fresh("n")
        self.pending.append(("B" if self.flexible else prefix[0], name))
        self.flush()
        if self.flexible:
            with self.source.block(f"if {name} > 127:"):
                self.source.line(f"{name}, pos = read_uvarint(buf, pos, {name})")
        return name

    def content(self, of: Primitive[Any], target: str, what: str, nullable: bool) -> None:
        """Emit the code that reads a string, bytes or records."""
        length = self.length(LENGTH_PREFIX[of.name])
        if self.flexible and of.name == "string":
            # In flexible versions the length field could hold more (KIP-482), but Kafka limits strings to 32,767 bytes
            # in every version.
            with self.source.block(f"if {length} > {STRING_MAX + 1}:"):
                self.source.line(f"bad_length({what!r}, {length} - 1, pos)")
        if not nullable:
            self.slice(of, target, what, length)
            return
        with self.source.block(f"if {length} == {0 if self.flexible else -1}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.slice(of, target, what, length)

    def slice(self, of: Primitive[Any], target: str, what: str, length: str) -> None:
        source = self.source
        source.line(f"end = pos + {length}{' - 1' if self.flexible else ''}")
        with source.block("if not pos <= end <= size:"):
            source.line(f"bad_length({what!r}, end - pos, pos)")
        cut = "buf[pos:end]"
        if of.name == "string":
            cut = f"{cut}.tobytes().decode()" if self.view else f"{cut}.decode()"
        elif of.name == "bytes" and self.view:
            cut = f"bytes({cut})"
        source.line(f"{target} = {cut}")
        source.line("pos = end")

    def array(self, wire: WireField, target: str, what: str, nullable: bool) -> None:
        count = self.length(COUNT_PREFIX)
        if not nullable:
            self.elements(wire.of, target, what, count)
            return
        with self.source.block(f"if {count} == {0 if self.flexible else -1}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.elements(wire.of, target, what, count)

    def elements(self, of: Primitive[Any] | type[Struct], target: str, what: str, count: str) -> None:
        """Emit the code that checks that ``count`` array elements fit into the frame, and then reads them."""
        source = self.source
        if self.flexible:
            source.line(f"{count} -= 1")
        size_min = min_size(of, self.version, self.flexible)
        assert size_min > 0, f"{what}: a count of elements without bytes cannot be checked"
        with source.block(f"if {count} < 0 or {count} * {size_min} > size - pos:"):
            source.line(f"bad_count({what!r}, {count}, pos)")
        if isinstance(of, Primitive) and of.code:
            arrays = source.constant("A", _ARRAYS[of.code])
            with source.block(f"if {count} <= {_SHORT_ARRAY_MAX}:"):
                source.line(f"{target} = [*{arrays}[{count}](buf, pos)]")
            with source.block("else:"):
                source.line(f"{target} = [*unpack_from('>' + {of.code!r} * {count}, buf, pos)]")
            source.line(f"pos += {count} * {of.size}")
            return
        items = source.fresh("x")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({count}):"):
            if isinstance(of, Primitive):
                element = source.fresh("e")
                self.content(of, element, what, nullable=False)
            else:
                element = self.structure(of)
            source.line(f"{items}.append({element})")

    def tags(self, cls: type[Struct], name: str, tagged: list[tuple[str, WireField]]) -> None:
        """Emit the code that reads a struct's tagged fields, declared and unknown ones."""
        source = self.source
        count = source.fresh("t")
        self.pending.append(("B", count))
        self.flush()
        with source.block(f"if {count}:"):
            with source.block(f"if {count} > 127:"):
                source.line(f"{count}, pos = read_uvarint(buf, pos, {count})")
            if not tagged:
                source.line(f"{name}.unknown_tags, pos = read_tags(buf, pos, {count})")
                return
            source.line(f"{name}.unknown_tags = {{}}")
            with source.block(f"if {count} * 2 > size - pos:"):
                source.line(f"bad_count('tagged fields', {count}, pos)")
            with source.block(f"for _ in range({count}):"):
                self.tag(cls, name, tagged)

    def tag(self, cls: type[Struct], name: str, tagged: list[tuple[str, WireField]]) -> None:
        source = self.source
        tag, length, stop = source.fresh("tag"), source.fresh("n"), source.fresh("stop")
        source.line(f"{tag}, {length}, pos = read_tag(buf, pos)")
        source.line(f"{stop} = pos + {length}")
        with source.block(f"if {stop} > size:"):
            source.line(f"bad_length('tagged field', {length}, pos)")
        branch = "if"
        for attribute, wire in tagged:
            what = f"{cls.__name__}.{attribute}"
            with source.block(f"{branch} {tag} == {wire.tag}:"):
                self.value(wire, f"{name}.{attribute}", what)
                self.flush()
                with source.block(f"if pos != {stop}:"):
                    source.line(f"bad_tag({what!r}, pos, {stop})")
            branch = "elif"
        with source.block("else:"):
            source.line(f"{name}.unknown_tags[{tag}] = bytes(buf[pos:{stop}])")
            source.line(f"pos = {stop}")
