"""The upper bound of a record's bytes in a batch, by which the producer limits batches and its memory."""

from ..records.builder import NewRecord

#: Upper bound of a record's bytes besides key, value and headers: Java's MAX_RECORD_OVERHEAD.
RECORD_OVERHEAD = 21
#: Upper bound of a header's bytes besides name and value: two lengths.
HEADER_OVERHEAD = 10


def size_of(record: NewRecord) -> int:
    """Return the upper bound of a record's bytes."""
    headers = sum(HEADER_OVERHEAD + len(name.encode()) + len(data or b"") for name, data in record.headers)
    return RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"") + headers
