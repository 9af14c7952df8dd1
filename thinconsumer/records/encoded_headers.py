"""Records with encoded headers, which are decoded when a program reads them.

Tracing adds five headers to each record of many topics, and most programs never read them. Decoding them took a third
of the time of such a record. If a program does read headers, the headers of many records are decoded together with the
records, in half of the time that one record after the other takes. :class:`HeaderUse` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..types import ConsumerRecord, RecordType, stored
from .headers import Header, read_headers

K = TypeVar("K")
V = TypeVar("V")


class HeaderUse:
    """Decides whether headers are decoded with the records, from how often encoded headers were read."""

    #: If the headers of at least one in this many records were read, it pays to decode the headers of all together.
    RARE = 8
    #: After this many groups of records with decoded headers, the next group keeps encoded headers, to count how often
    #: the program reads them.
    GROUPS = 30

    def __init__(self) -> None:
        self.reads = 0  #: How often encoded headers were read since :meth:`is_common` last decided anew.
        self._records = 0  #: The size of the group of records for which :meth:`is_common` last decided anew.
        self.groups_left = 0  #: For how many more groups it is decided that headers are decoded with the records.

    def is_common(self, records: int) -> bool:
        """Return whether to decode the headers of the next group, of this many records, with the records."""
        if self.groups_left <= 0:  # below 0 if two threads have subtracted at once
            if self.reads and self.reads * self.RARE >= self._records:
                self.groups_left = self.GROUPS
            self.reads, self._records = 0, records
        is_common = self.groups_left > 0
        self.groups_left -= is_common
        return is_common


#: One for the process: a record has no reference to the consumer that has returned it.
USE = HeaderUse()


class EncodedRecordType(RecordType):
    """Lets ``type(record)(*record)`` make a ``ConsumerRecord``: in this way ``dataclasses.asdict`` copies records."""

    def __call__(cls, *fields: Any, **more: Any) -> Any:
        return ConsumerRecord(*fields, **more)


class RecordWithEncodedHeaders(ConsumerRecord[K, V], metaclass=EncodedRecordType):
    """A record that stores, in place of its headers, their bytes from the header count on, known to be well-formed.

    Apart from that it is a ``ConsumerRecord``, and becomes one when it is pickled or copied. The first reading of the
    headers decodes them, and keeps them in ``__dict__``: later readings give the same object.
    """

    @property
    def headers(self) -> tuple[Header, ...]:
        """See :attr:`ConsumerRecord.headers`."""
        known: tuple[Header, ...] | None = self.__dict__.get("headers")
        if known is None:
            USE.reads += 1
            known = self.__dict__.setdefault("headers", read_headers(stored(self, 8)))
        return known


#: Makes such a record from the tuple of its fields, as :data:`.rows.new_record` a ``ConsumerRecord``.
new_record_with_encoded_headers: Callable[[tuple[object, ...]], ConsumerRecord[bytes | None, bytes | None]]
new_record_with_encoded_headers = type.__call__.__get__(RecordWithEncodedHeaders)
