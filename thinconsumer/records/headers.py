"""Decode the headers of records of format 2 (KIP-82).

Records of one topic often have the same headers, or the same names with values of the same sizes (trace ids, types).
:class:`HeaderReader` decodes a known layout by one ``struct`` call, and other bytes only if they differ from those
decoded last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import Struct

from .varints import LENGTH_TABLES, NO_VARINT, Malformed, varint

Header = tuple[str, "bytes | None"]

_LENGTH_1 = LENGTH_TABLES[1]
_SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"


class _HeaderNames(dict[bytes, str]):
    """The keys of headers as text, by their bytes. Stores ``COUNT_MAX`` keys of up to ``LENGTH_MAX`` bytes at most."""

    COUNT_MAX, LENGTH_MAX = 1024, 63

    def __missing__(self, raw: bytes) -> str:
        # Brokers do not check that a key is UTF-8; invalid bytes become U+FFFD, as in Java. The bytes that encode a
        # surrogate become one U+FFFD in Java, but several in Python: replacing these bytes by a single invalid byte
        # gives Java's result.
        name = re.sub(_SURROGATE, b"\xff", raw).decode("utf-8", "replace")
        if len(self) < self.COUNT_MAX and len(raw) <= self.LENGTH_MAX:
            self[raw] = name
        return name


#: ``NAMES[raw]`` is a header's key as text.
NAMES = _HeaderNames()


def read_headers(block: bytes) -> tuple[Header, ...]:
    """Decode ``block``, the end of a record: its header count and its headers. Raises: Malformed, IndexError."""
    number, pos, end = block[0] >> 1, 1, len(block)
    if block[0] > 127 or block[0] & 1:
        number, pos = varint(block, 0)
    if not 0 <= 2 * number <= end - pos:  # a header takes at least two bytes
        raise Malformed(f"a record claims {number} headers, which {end - pos} bytes cannot hold")
    found: list[Header] = []
    for _ in range(number):
        length = _LENGTH_1[block[pos]]
        start = pos + 1
        if length == NO_VARINT:
            length, start = varint(block, pos)
            if length < 0:
                raise Malformed("a header has a null key, which Kafka forbids")
        pos = start + length
        name = NAMES[block[start:pos]]
        length = _LENGTH_1[block[pos]]
        start = pos + 1
        if length == NO_VARINT:
            length, start = varint(block, pos)
            if length < 0:
                found.append((name, None))
                pos = start
                continue
        pos = start + length
        found.append((name, block[start:pos]))
    if pos != end:
        raise Malformed(f"the last of {number} headers ends at byte {pos}, but the record at byte {end}")
    return tuple(found)


#: A layout says how to decode header blocks that differ only in the bytes of the values. It has: a function that
#: unpacks constant parts (names and lengths) and values alternately; the constant parts; the names; the indexes of null
#: values. A plain tuple, because it unpacks fastest.
Layout = tuple[Callable[[bytes, int], tuple[bytes, ...]], tuple[bytes, ...], tuple[str, ...], tuple[int, ...]]


def _layout(block: bytes) -> Layout:
    """Return the layout (see :data:`Layout`) of a valid block of headers."""
    number, pos = varint(block, 0)
    form, before = "", 0
    names: list[str] = []
    nulls: list[int] = []
    for place in range(number):
        length, start = varint(block, pos)
        names.append(NAMES[block[start : start + length]])
        length, pos = varint(block, start + length)
        if length < 0:
            nulls.append(place)
            length = 0
        form += f"{pos - before}s{length}s"
        pos += length
        before = pos
    unpack = Struct(form).unpack_from
    return unpack, unpack(block)[::2], tuple(names), tuple(nulls)


class HeaderReader:
    """Decodes the headers of one batch's records, one record after the other."""

    __slots__ = ("_block", "_headers", "_layouts", "_layouts_left", "_singles")

    #: Maximum number of layouts made per batch. If a batch has more layouts, they rarely repeat, and making them costs
    #: more than it saves.
    LAYOUTS_MAX = 6

    def __init__(self) -> None:
        self._block = b""
        self._headers: tuple[Header, ...] = ()
        #: Layouts with one header, by the block's size: the unpacking function, the bytes before the value, the name.
        self._singles: dict[int, tuple[Callable[[bytes, int], tuple[bytes, ...]], bytes, str]] = {}
        self._layouts: dict[int, Layout] = {}
        self._layouts_left = self.LAYOUTS_MAX

    def read(self, data: bytes, start: int, end: int) -> tuple[Header, ...]:
        """Decode the headers in ``data[start:end]``. Raises: Malformed, IndexError."""
        single = self._singles.get(end - start)
        if single is not None:
            unpack_single, same_head, name = single
            head, content = unpack_single(data, start)
            if head == same_head:
                return ((name, content),)
        layout = self._layouts.get(end - start)
        if layout is not None:
            unpack, same, names, nulls = layout
            parts = unpack(data, start)
            if parts[::2] == same:
                if len(names) == 2 and not nulls:  # the general case below, with zip(), takes twice as long
                    return ((names[0], parts[1]), (names[1], parts[3]))
                values: list[bytes | None] = list(parts[1::2])
                for place in nulls:
                    values[place] = None
                return tuple(zip(names, values))
        block = data[start:end]
        if block != self._block:
            size = len(self._block)
            self._headers = read_headers(block)
            self._block = block
            if size == len(block) and self._layouts_left:
                self._layouts_left -= 1
                unpack, same, names, nulls = layout = _layout(block)
                if len(names) == 1 and not nulls:
                    self._singles[size] = (unpack, same[0], names[0])
                else:
                    self._layouts[size] = layout
        return self._headers
