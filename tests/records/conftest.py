"""What the tests of record batches share: cutting one batch out of bytes, and records of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from thinconsumer.records.batch import Batch, split
from thinconsumer.records.builder import NewRecord

#: Widths of varints change at these, and so do the ways a run is read.
SIZES = st.sampled_from([0, 1, 2, 20, 55, 56, 57, 58, 62, 63, 64, 65, 100, 127, 128, 300])
MAYBE_BYTES = st.none() | SIZES.map(lambda size: bytes(range(256)) * 2 and (bytes(range(256)) * 2)[:size]) | st.binary(max_size=12)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
TIMES = st.sampled_from([0, 1, 63, 64, 65, 8191, 8192, 10**6, -1, -64, -65, -(10**9)])
RECORD = st.builds(
    NewRecord, MAYBE_BYTES, MAYBE_BYTES, HEADERS, TIMES.map(lambda delta: 1_700_000_000_000 + delta)
)
#: Batches in which neighbours are mostly alike, as they are in life.
STRETCH = st.tuples(RECORD, st.integers(1, 30)).map(lambda pair: [pair[0]] * pair[1])
RECORDS = st.lists(STRETCH, min_size=1, max_size=6).map(lambda stretches: [record for some in stretches for record in some])


@pytest.fixture(scope="session")
def only() -> Callable[[bytes], Batch]:
    """The one batch in these bytes."""

    def cut(data: bytes) -> Batch:
        batches, error = split(memoryview(data))
        assert error is None
        (batch,) = batches
        return batch

    return cut


@pytest.fixture(scope="session")
def record_lists() -> st.SearchStrategy[list[NewRecord]]:
    """Lists of records of every kind, with stretches of alike ones."""
    return RECORDS


def as_written(record: NewRecord) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers), record.timestamp


def as_read(record: object) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers), record.timestamp  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def written() -> Callable[[list[NewRecord]], list[tuple[object, ...]]]:
    """What records of ours, or of another client, hold, in a form to compare."""
    return lambda records: [as_written(record) for record in records]
