"""Records with encoded headers, which are decoded when a program reads them.

Tracing adds five headers to each record of many topics, and most programs never read them. To decode them took a third
of the time of such a record. For a program that does read them, they are decoded with the records, many at a time,
which takes half as long as one record after the other: :class:`HeaderUse` decides. The decoder has checked the bytes;
nothing here knows where in a batch they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..types import ConsumerRecord
from .headers import Header, read_headers

__all__ = ["USE", "HeaderUse", "RecordWithEncodedHeaders", "new_record_with_encoded_headers"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class HeaderUse:
    """Says whether programs of this process read headers, from how often they read those that are not decoded."""

    #: If at least one of so many records' headers was read, it pays to decode all together.
    RARE = 8
    #: Headers are decoded with the records of so many groups; then those of one group are not, to see if they are read.
    GROUPS = 30

    def __init__(self) -> None:
        self.reads = 0  #: How often headers were read since the last group of records with encoded headers.
        self._records = 0  #: The number of records of that group.
        self.groups_left = 0  #: Headers are decoded with the records of so many more groups.

    def is_common(self, records: int) -> bool:
        """Return if the headers of this many records, of the next group, should be decoded with them."""
        if self.groups_left <= 0:  # below 0 if two threads have subtracted at once
            if self.reads and self.reads * self.RARE >= self._records:
                self.groups_left = self.GROUPS
            self.reads, self._records = 0, records
        is_common = self.groups_left > 0
        self.groups_left -= is_common
        return is_common


#: That of this process: a record does not know which consumer has returned it.
USE = HeaderUse()


class RecordWithEncodedHeaders(ConsumerRecord[K, V]):
    """A record that has, in place of its headers, their bytes from the header count on, known to be well-formed.

    Apart from that it is a ``ConsumerRecord``, and becomes one when it is pickled.
    """

    __slots__ = ()

    @property
    def headers(self) -> tuple[Header, ...]:
        """See :attr:`ConsumerRecord.headers`. Each access decodes them."""
        USE.reads += 1
        return read_headers(self[8])

    def decoded(self) -> ConsumerRecord[K, V]:
        """Return the record with decoded headers."""
        return tuple.__new__(ConsumerRecord, (*self[:8], self.headers, *self[9:]))

    def __eq__(self, other: object) -> bool:
        return self.decoded() == _decoded(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self.decoded() < _decoded(other)

    def __le__(self, other: tuple[Any, ...]) -> bool:
        return self.decoded() <= _decoded(other)

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        return self.decoded() > _decoded(other)

    def __ge__(self, other: tuple[Any, ...]) -> bool:
        return self.decoded() >= _decoded(other)

    def __hash__(self) -> int:
        return hash(self.decoded())

    def __reduce__(self) -> tuple[Any, ...]:
        plain = self.decoded()
        return ConsumerRecord, (*plain[:9], self.checksum, *plain[9:])

    def __repr__(self) -> str:
        return repr(self.decoded())


def _decoded(other: T) -> T:
    return other.decoded() if isinstance(other, RecordWithEncodedHeaders) else other  # type: ignore[return-value]


#: As :data:`.rows.new_record`.
new_record_with_encoded_headers: Callable[[tuple[object, ...]], ConsumerRecord[bytes | None, bytes | None]]
new_record_with_encoded_headers = type.__call__.__get__(RecordWithEncodedHeaders)
