"""Deserializers of Kafka's Java client under their names, and JSON. Numbers are big endian, as Java writes them."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from struct import Struct
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _FixedSize(Generic[T]):
    """A number of a fixed size. Data of another size are an error, as in Java."""

    _struct: Struct

    @property
    def entry_size(self) -> int:
        """The size of each serialized number, in bytes."""
        return self._struct.size

    def __call__(self, data: bytes) -> T:
        """Return the number. Raises ValueError if the data have another size."""
        if len(data) != self._struct.size:
            raise ValueError(f"{type(self).__name__} expects {self._struct.size} bytes, not {len(data)}")
        (number,) = self._struct.unpack(data)
        value: T = number
        return value


class ShortDeserializer(_FixedSize[int]):
    """Two bytes: an int from -2**15 to 2**15 - 1."""

    _struct = Struct(">h")


class IntegerDeserializer(_FixedSize[int]):
    """Four bytes: an int from -2**31 to 2**31 - 1."""

    _struct = Struct(">i")


class LongDeserializer(_FixedSize[int]):
    """Eight bytes: an int from -2**63 to 2**63 - 1."""

    _struct = Struct(">q")


class FloatDeserializer(_FixedSize[float]):
    """Four bytes: a float of single precision."""

    _struct = Struct(">f")


class DoubleDeserializer(_FixedSize[float]):
    """Eight bytes: a float."""

    _struct = Struct(">d")


class BooleanDeserializer:
    """One byte, 0 or 1."""

    def __call__(self, data: bytes) -> bool:
        """Return the bool. Raises ValueError for all other data."""
        if data not in (b"\0", b"\1"):
            raise ValueError(f"BooleanDeserializer expects one byte, 0 or 1, not {data[:8]!r}")
        return data == b"\1"


class StringDeserializer:
    """Text. Like Java, it replaces what it cannot decode by U+FFFD; ``errors="strict"`` raises an error instead."""

    def __init__(self, encoding: str = "utf-8", errors: str = "replace") -> None:
        codecs.lookup(encoding), codecs.lookup_error(errors)  # a wrong name is an error here, and not for each record
        self.encoding = encoding
        self.errors = errors

    def __call__(self, data: bytes) -> str:
        """Return the text."""
        return data.decode(self.encoding, self.errors)


class UUIDDeserializer:
    """A UUID in its form with 36 characters."""

    entry_size = 36

    def __init__(self, encoding: str = "utf-8") -> None:
        self._text = StringDeserializer(encoding, "strict")

    def __call__(self, data: bytes) -> UUID:
        """Return the UUID. Raises ValueError if the data are none."""
        return UUID(self._text(data))


class VoidDeserializer:
    """For keys or values that are always null: anything else is an error."""

    def __call__(self, data: bytes) -> None:
        """Raise ValueError: a null reaches no deserializer."""
        raise ValueError(f"VoidDeserializer expects null, not {len(data)} bytes")


class _Entry(Protocol[T_co]):
    def __call__(self, data: bytes, /) -> T_co: ...


class ListDeserializer(Generic[T]):
    """The list that Java's ListSerializer writes. Its entries may be null; ``inner`` deserializes all others."""

    def __init__(self, inner: _Entry[T]) -> None:
        self._inner = inner
        #: What Java writes without the length of each entry.
        self._entry_size: int | None = getattr(inner, "entry_size", None)

    def __call__(self, data: bytes) -> list[T | None]:
        """Return the list. Raises ValueError if the data are no list, or one of other entries."""
        try:
            is_variable, at = data[0], 1
            nulls: set[int] = set()
            if not is_variable:
                count, at = _count(data, at)
                nulls = {_int(data, at + 4 * n) for n in range(count)}
                at += 4 * count
            count, at = _count(data, at, len(nulls))
            entries: list[T | None] = []
            for n in range(count):
                if is_variable:
                    size, at = _int(data, at), at + 4
                else:
                    size = -1 if n in nulls else self._entry_size or 0
                if size < -1 or at + size > len(data):
                    raise ValueError
                entries.append(None if size == -1 else self._inner(data[at : at + size]))
                at += max(size, 0)
        except (IndexError, ValueError) as error:
            raise ValueError(f"ListDeserializer cannot read {len(data)} bytes: {error or 'they are no list'}") from None
        if is_variable > 1 or at != len(data):
            raise ValueError(f"ListDeserializer cannot read {len(data)} bytes: they are no list")
        return entries


def _int(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise ValueError
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def _count(data: bytes, at: int, more: int = 0) -> tuple[int, int]:
    """Return a number of entries, of which all but ``more`` take at least a byte, and the place behind it."""
    count = _int(data, at)
    if not 0 <= count <= len(data) + more:
        raise ValueError
    return count, at + 4


class JSONDeserializer:
    """Any JSON value, read by orjson if it is installed, else by :mod:`json`.

    orjson is faster and stricter: NaN and Infinity are errors, and integers beyond 64 bits become floats.
    ``loads`` replaces it: ``JSONDeserializer(json.loads)`` reads the same values with orjson and without it.
    """

    def __init__(self, loads: Callable[[bytes], Any] | None = None) -> None:
        self._loads = loads or _loads()

    def __call__(self, data: bytes) -> Any:
        """Return the value. Raises ValueError if the data are no JSON."""
        return self._loads(data)


#: By the names of Java's classes, what needs no argument.
OF_JAVA: dict[str, Callable[[], Callable[[bytes], Any]]] = {
    kind.__name__: kind
    for kind in (
        ShortDeserializer, IntegerDeserializer, LongDeserializer, FloatDeserializer, DoubleDeserializer,
        BooleanDeserializer, StringDeserializer, UUIDDeserializer, VoidDeserializer,
    )
}  # fmt: skip


def _loads() -> Callable[[bytes], Any]:
    try:
        from orjson import loads
    except ImportError:
        return json.loads
    found: Callable[[bytes], Any] = loads
    return found
