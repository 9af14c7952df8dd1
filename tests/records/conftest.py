"""What the tests of record batches share: cutting one batch out of bytes, and records of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from thinconsumer.records.batch import Batch, split
from thinconsumer.records.builder import NewRecord

#: Around these, varints change their width, and with it the way a record is read.
SIZES = [0, 1, 2, 20, 55, 56, 57, 58, 62, 63, 64, 65, 100, 127, 128, 300]
TIMES = [0, 1, 63, 64, 65, 8191, 8192, 10**6, -1, -64, -65, -(10**9)]
MAYBE_BYTES = (
    st.none() | st.sampled_from(SIZES).map(lambda size: (bytes(range(256)) * 2)[:size]) | st.binary(max_size=9)
)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
STAMPS = st.sampled_from(TIMES).map(lambda delta: 1_700_000_000_000 + delta)
RECORD = st.builds(NewRecord, MAYBE_BYTES, MAYBE_BYTES, HEADERS, STAMPS, st.none())
#: Neighbours are mostly alike, as they are in life.
STRETCH = st.tuples(RECORD, st.integers(1, 30)).map(lambda pair: [pair[0]] * pair[1])
RECORDS = st.lists(STRETCH, min_size=1, max_size=6).map(lambda stretches: [one for some in stretches for one in some])


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


@pytest.fixture(scope="session")
def contents() -> Callable[[object], list[tuple[object, ...]]]:
    """What records of ours, or of another client, hold, in a form to compare."""
    return lambda records: [(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]  # type: ignore[attr-defined]
