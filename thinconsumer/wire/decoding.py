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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import KafkaProtocolError
from .primitives import STRING_MAX, Buffer, bad_count, bad_length, bad_tag, read_tag, read_tags, read_uvarint
from .schema import Primitive, Struct, WireField, wire_fields
from .source import COUNT, CodecSource, min_size

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
    return _Decoder(version, flexible, has_records).decoder(cls), has_records


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
    # Shared by all structs without unknown tags, or with an array that the version or the message lacks: decoded
    # messages are read-only.
    "no_elements": [],
    "no_tags": {},
    **{helper.__name__: helper for helper in (bad_count, bad_length, bad_tag, read_tag, read_tags, read_uvarint)},
}


class _Decoder(CodecSource):
    def __init__(self, version: int, flexible: bool, view: bool) -> None:
        super().__init__(version, flexible, "def decode(buf, pos):", _NAMES, "unpack_from")
        self.view = view
        #: Names of constants of the generated decoder, by struct. Each is an instance with defaults, for nested structs
        #: that the version or the message lacks: built once, and shared by all messages.
        self.shared: dict[type[Struct], str] = {}

    def decoder(self, cls: type[Struct]) -> Decode:
        self.line("size = len(buf)")
        message = self.structure(cls)
        with self.block("if pos != size:"):
            self.line("raise TrailingBytesError(pos, size)")
        self.line(f"return {message}")
        return self.compile("decode", cls)

    def fixed(self, codes: str, names: str) -> None:
        if codes == "B":
            self.line(f"{names} = buf[pos]")
        else:
            self.line(f"{names}{'' if ',' in names else ','} = {self.packer(codes)}(buf, pos)")
        self.line(f"pos += {struct.calcsize('>' + codes)}")

    def structure(self, cls: type[Struct]) -> str:
        """Emit the code that reads one struct of class ``cls``; return the name of the variable that holds it."""
        self.flush()
        name = self.fresh("o")
        self.line(f"{name} = new({self.constant('C', cls)})")
        self.line(f"{name}.unknown_tags = no_tags")
        tagged: list[tuple[str, str, WireField]] = []
        for attribute, wire in wire_fields(cls):
            target, what = f"{name}.{attribute}", f"{cls.__name__}.{attribute}"
            if self.version in wire.versions and wire.tag < 0:
                self.value(wire, target, what)
                continue
            self.line(f"{target} = {self.default(wire)}")
            if self.version in wire.versions:
                tagged.append((target, what, wire))
        if self.flexible:
            self.tags(name, tagged)
        self.flush()
        return name

    def default(self, wire: WireField) -> str:
        """Return a Python expression for the default of a field that the version or, if tagged, the message lacks."""
        if wire.default is list:
            return "no_elements"
        if not callable(wire.default):
            return repr(wire.default)
        if wire.default not in self.shared:
            self.shared[wire.default] = self.constant("D", wire.default())
        return self.shared[wire.default]

    def value(self, wire: WireField, target: str, what: str) -> None:
        """Emit the code that reads one field and assigns its value to ``target``; ``what`` names it in errors."""
        of: Any = wire.of
        if wire.array:
            count = self.length(COUNT)
            with self.unless_null(wire, target, f"{count} == {self.null}"):
                self.elements(of, target, what, count)
        elif isinstance(of, Primitive):
            if of.code:
                self.pending.append((of.code, target))
                return
            length = self.length(of.prefix)
            with self.unless_null(wire, target, f"{length} == {self.null}"):
                self.content(of, target, what, length)
        else:
            present = self.fresh("n")
            if self.version in wire.nullable:  # a byte comes first, which is negative for null (KIP-893)
                self.pending.append(("b", present))
                self.flush()
            with self.unless_null(wire, target, f"{present} < 0"):
                self.line(f"{target} = {self.structure(of)}")

    @contextmanager
    def unless_null(self, wire: WireField, target: str, is_null: str) -> Iterator[None]:
        """If the version allows None, emit the code that assigns it under the condition ``is_null``; the lines that are
        emitted inside the ``with`` statement are for other values.
        """
        if self.version not in wire.nullable:
            yield
            return
        with self.block(f"if {is_null}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            yield

    def length(self, code: str) -> str:
        """Emit the code that reads a length or count; return the variable with the number as it is on the wire."""
        name = self.fresh("n")
        self.pending.append(("B" if self.flexible else code, name))
        self.flush()
        if self.flexible:
            self.long(name)
        return name

    def long(self, name: str) -> None:
        """Emit the code that reads the rest of an unsigned varint that does not fit into its first byte."""
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, pos = read_uvarint(buf, pos, {name})")

    def content(self, of: Primitive[Any], target: str, what: str, length: str) -> None:
        """Emit the code that reads a string, bytes or records."""
        if self.flexible and of.name == "string":
            # In flexible versions the length field could hold more (KIP-482), but Kafka limits strings to 32,767 bytes
            # in every version.
            with self.block(f"if {length} > {STRING_MAX + 1}:"):
                self.line(f"bad_length({what!r}, {length} - 1, pos)")
        self.line(f"end = pos + {length}{' - 1' if self.flexible else ''}")
        with self.block("if not pos <= end <= size:"):
            self.line(f"bad_length({what!r}, end - pos, pos)")
        cut = "buf[pos:end]"
        if of.name == "string":
            cut = f"{cut}.tobytes().decode()" if self.view else f"{cut}.decode()"
        elif of.name == "bytes" and self.view:
            cut = f"bytes({cut})"
        self.line(f"{target} = {cut}")
        self.line("pos = end")

    def elements(self, of: Primitive[Any] | type[Struct], target: str, what: str, count: str) -> None:
        """Emit the code that checks that the elements of an array fit into the frame, and then reads them. ``count`` is
        the variable with the array's count as it is on the wire.
        """
        if self.flexible:
            self.line(f"{count} -= 1")
        size_min = min_size(of, self.version, self.flexible)
        assert size_min > 0, f"{what}: a count of elements without bytes cannot be checked"
        with self.block(f"if {count} < 0 or {count} * {size_min} > size - pos:"):
            self.line(f"bad_count({what!r}, {count}, pos)")
        if isinstance(of, Primitive) and of.code:
            arrays = self.constant("A", _ARRAYS[of.code])
            with self.block(f"if {count} <= {_SHORT_ARRAY_MAX}:"):
                self.line(f"{target} = [*{arrays}[{count}](buf, pos)]")
            with self.block("else:"):
                self.line(f"{target} = [*unpack_from('>' + {of.code!r} * {count}, buf, pos)]")
            self.line(f"pos += {count} * {of.size}")
            return
        items = self.fresh("x")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(of, Primitive):
                element = self.fresh("e")
                self.content(of, element, what, self.length(of.prefix))
            else:
                element = self.structure(of)
            self.line(f"{items}.append({element})")

    def tags(self, name: str, tagged: list[tuple[str, str, WireField]]) -> None:
        """Emit the code that reads a struct's tagged fields, declared and unknown ones."""
        count = self.fresh("t")
        self.pending.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            self.long(count)
            if not tagged:
                self.line(f"{name}.unknown_tags, pos = read_tags(buf, pos, {count})")
                return
            self.line(f"{name}.unknown_tags = {{}}")
            with self.block(f"if {count} * 2 > size - pos:"):
                self.line(f"bad_count('tagged fields', {count}, pos)")
            with self.block(f"for _ in range({count}):"):
                self.tag(name, tagged)

    def tag(self, name: str, tagged: list[tuple[str, str, WireField]]) -> None:
        tag, length, stop = self.fresh("tag"), self.fresh("n"), self.fresh("stop")
        self.line(f"{tag}, {length}, pos = read_tag(buf, pos)")
        self.line(f"{stop} = pos + {length}")
        with self.block(f"if {stop} > size:"):
            self.line(f"bad_length('tagged field', {length}, pos)")
        for target, what, wire in tagged:
            with self.block(f"if {tag} == {wire.tag}:"):
                self.value(wire, target, what)
                self.flush()
                with self.block(f"if pos != {stop}:"):
                    self.line(f"bad_tag({what!r}, pos, {stop})")
                self.line("continue")
        self.line(f"{name}.unknown_tags[{tag}] = bytes(buf[pos:{stop}])")
        self.line(f"pos = {stop}")
