"""Fixtures of the record batch tests: one batch of bytes, and records of every kind."""

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from thinconsumer.records import columns
from thinconsumer.records.batch import HEADER_SIZE, RecordBatch
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord
from thinconsumer.records.fast_decoder import ColumnsBuilder

NOW = 1_700_000_000_000

#: Sizes around which varints change their width.
SIZES = [0, 1, 2, 20, 55, 56, 57, 58, 62, 63, 64, 65, 100, 127, 128, 300]
TIMES = [0, 1, 63, 64, 65, 8191, 8192, 10**6, -1, -64, -65, -(10**9)]
MAYBE_BYTES = (
    st.none() | st.sampled_from(SIZES).map(lambda size: (bytes(range(256)) * 2)[:size]) | st.binary(max_size=9)
)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
STAMPS = st.sampled_from(TIMES).map(lambda delta: NOW + delta)
RECORD = st.builds(NewRecord, MAYBE_BYTES, MAYBE_BYTES, HEADERS, STAMPS, st.none())
#: Consecutive records are mostly similar, as in real topics.
STRETCH = st.tuples(RECORD, st.integers(1, 30)).map(lambda pair: [pair[0]] * pair[1])
RECORDS = st.lists(STRETCH, min_size=1, max_size=6).map(lambda stretches: [one for some in stretches for one in some])


@pytest.fixture(scope="session")
def only_batch() -> Callable[[bytes], RecordBatch]:
    """Return a function that splits bytes which hold exactly one batch."""

    def cut(data: bytes) -> RecordBatch:
        batches, error = split(memoryview(data))
        assert error is None
        (batch,) = batches
        return batch

    return cut


@pytest.fixture(scope="session")
def record_lists() -> st.SearchStrategy[list[NewRecord]]:
    """Draw lists of records of every kind, with runs of similar ones."""
    return RECORDS


@pytest.fixture(scope="session")
def contents() -> Callable[[object], list[tuple[object, ...]]]:
    """Return the fields of records of this package or of another client, for comparison."""
    return lambda records: [(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def some() -> Callable[..., list[NewRecord]]:
    """Return this many records; sizes (None for null) and timestamp steps may be functions of the index."""

    def make(count, value=100, key=None, step=0, headers=()):
        return [
            NewRecord(
                None if value is None else bytes([n % 251]) * (value(n) if callable(value) else value),
                None if key is None else bytes([n % 250]) * (key(n) if callable(key) else key),
                headers,
                NOW + (step(n) if callable(step) else step * n),
            )
            for n in range(count)
        ]

    return make


@pytest.fixture(scope="session")
def same() -> Callable[[RecordBatch, list[NewRecord]], None]:
    """Assert that the fast and the byte-by-byte decoder both return the written records."""

    def check(batch: RecordBatch, records: list[NewRecord]) -> None:
        fast, slow = batch.columns(), ColumnsBuilder()
        columns._read(bytes(batch.view[HEADER_SIZE:]), 0, batch.count, slow)
        assert list(fast.keys) == slow.keys == [r.key for r in records]
        assert list(fast.values) == slow.values == [r.value for r in records]
        assert list(fast.headers) == [tuple(r.headers) for r in records]
        assert {place: some for place, some in enumerate(fast.headers) if some} == slow.headers
        assert list(fast.timestamps) == [r.timestamp for r in records]
        assert [offset - batch.base_offset for offset in fast.offsets] == slow.offsets

    return check
