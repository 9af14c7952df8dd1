"""Records that are built when they are read; test_decode.py compares them with the row decoder's, too."""

import gc
from types import SimpleNamespace

import pytest
from handmade import encode_record

np = pytest.importorskip("numpy")

from thinconsumer.config.values import Deserializer  # noqa: E402
from thinconsumer.records.batches import split  # noqa: E402
from thinconsumer.records.builder import NewRecord, build_batch  # noqa: E402
from thinconsumer.records.columnar import lazy_rows  # noqa: E402
from thinconsumer.records.columnar.decode import Decoder  # noqa: E402
from thinconsumer.records.encoded_headers import RecordWithEncodedHeaders  # noqa: E402
from thinconsumer.records.rows import deserialize  # noqa: E402
from thinconsumer.types import ConsumerRecord, TopicPartition  # noqa: E402

TP = TopicPartition("topic", 3)
COUNT = 3 * lazy_rows.BLOCK + 10


def decoded(*batches):
    """Return the lazy rows of all batches, and the rows that the row decoder makes of them."""
    decoder = Decoder()
    found, _ = split(memoryview(b"".join(batches)))
    decoder.add(found, TP)
    expected = [row for batch in found for row in batch.decode(*TP)]
    rows = decoder.rows(1).records(TP, 0, len(decoder))
    assert isinstance(rows, lazy_rows.LazyRows)
    return rows, expected


@pytest.fixture
def built(monkeypatch):
    """Return a list that grows by the number of records with each call that builds some."""
    seen = []
    original = lazy_rows.RowBuilder.build

    def spy(self, tp, begin, end):
        seen.append(end - begin)
        return original(self, tp, begin, end)

    monkeypatch.setattr(lazy_rows.RowBuilder, "build", spy)
    return seen


HEADERS = {
    "none": lambda n: (),
    "one": lambda n: (("a", b"%d" % n),),
    "some": lambda n: (("a", None),) if n % 3 == 0 else (),
    "several": lambda n: tuple((f"name {i}", b"%d" % i) for i in range(n % 4)),
    "late": lambda n: (("z", b""),) if n == COUNT - 1 else (),
    "same two": lambda n: (("trace", b"%d" % n), ("", None)),
    "same two or none": lambda n: (("trace", b"%d" % n), ("ü", b"")) if n % 5 else (),
    "one or two": lambda n: (("a", b"1"), ("b", b"2"))[: 1 + n % 2],
    "others of the same length": lambda n: (("ab" if n % 100 else "ac", b"%d" % n), ("x", b"")),
    "others of other lengths": lambda n: (("ab" if n % 100 else "a", b"%d" % n),),
    "long": lambda n: (("n" * (lazy_rows.COMMON_NAME_MAX + 1), b"%d" % n), ("x", b"")),
}
KEYS = {"no": lambda n: None, "all": lambda n: b"%d" % n, "some": lambda n: b"k" if n % 10 else None}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("are_decoded", [True, False])
def test_every_range_has_the_records_of_the_row_decoder(decoding_headers, headers, key, are_decoded):
    records = [
        NewRecord(None if n % 7 == 3 else bytes(n % 50), KEYS[key](n), HEADERS[headers](n), 1000 + n % 13)
        for n in range(COUNT)
    ]
    half = COUNT // 2
    with decoding_headers(are_decoded):
        rows, expected = decoded(
            build_batch(records[:half], leader_epoch=1), build_batch(records[half:], base_offset=half, leader_epoch=2)
        )
    has_headers = any(record.headers for record in expected)
    assert type(rows[0]) is (RecordWithEncodedHeaders if has_headers and not are_decoded else ConsumerRecord)
    assert list(rows) == rows[:] == expected and len(rows) == COUNT
    for begin, end in ((0, 1), (5, 5), (half - 2, half + 3), (lazy_rows.BLOCK - 1, COUNT - 1), (COUNT - 1, COUNT)):
        assert rows[begin:end] == list(rows.part(begin, end)) == expected[begin:end]
        assert rows.part(begin, end)[:] == expected[begin:end]
    assert (rows[0], rows[-1], rows[half]) == (expected[0], expected[-1], expected[half])
    assert rows[::-5] == expected[::-5]
    with pytest.raises(IndexError):
        rows[COUNT]
    for deserializer in (Deserializer.adapt(len), Deserializer.adapt(SimpleNamespace(deserialize=lambda *all_: all_))):
        for part in (slice(0, COUNT), slice(5, half + 3)):
            found = deserialize(rows.part(part.start, part.stop), deserializer, deserializer)
            assert found == deserialize(expected[part], deserializer, deserializer)


def test_find_skips_offsets_without_records():
    rows, expected = decoded(
        build_batch([NewRecord(b"")] * 5, base_offset=10), build_batch([NewRecord(b"")] * 5, base_offset=40)
    )
    for offset in range(8, 48):
        assert rows.find(offset) == sum(row.offset < offset for row in expected)
    assert rows.part(6, 9).find(42) == 1


def test_reading_one_record_after_another_builds_them_in_blocks(built):
    """With ``max_poll_records=1`` each poll reads one; to build each alone would take fifty times as long."""
    rows, expected = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    assert [rows[n : n + 1][0] for n in range(COUNT)] == expected
    assert built == [lazy_rows.BLOCK] * 3 + [10]


def test_reading_backwards_builds_each_record_once(built):
    rows, expected = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    assert list(reversed(rows)) == expected[::-1]
    assert sum(built) <= COUNT + lazy_rows.BLOCK


@pytest.mark.parametrize("size", [2, 3, 100, 129, 200, 255, 257, 500])
def test_readings_of_one_size_build_each_record_once(built, size):
    """Also if the size, such as ``max_poll_records``, is no divisor of a block's."""
    rows, expected = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    assert [row for n in range(0, COUNT, size) for row in rows[n : n + size]] == expected
    assert sum(built) == COUNT


@pytest.mark.parametrize("size", [10, 500])
def test_readings_that_overlap_build_each_record_once(built, size):
    """An iteration reads almost all records again after each call that uses the position."""
    rows, expected = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    for n in range(COUNT):
        assert rows[n : n + size] == expected[n : n + size]
    assert sum(built) <= COUNT


def test_a_long_slice_is_not_kept(built):
    rows, expected = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    assert rows[:] == rows[:] == expected and built == [COUNT, COUNT]


def test_iteration_keeps_no_more_than_a_block_of_records():
    """Records that die young are never visited by a garbage collection."""
    rows, _ = decoded(build_batch([NewRecord(b"%d" % n) for n in range(COUNT)]))
    collections = []

    def note(phase, info):
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        for _row in rows:
            pass
        assert not collections
        list(rows)
        assert len(collections) <= 4
    finally:
        gc.callbacks.remove(note)


def test_a_header_count_of_zero_in_several_bytes(agree, wrong_crc_batch):
    record = encode_record(NewRecord(b"value"), 0, 0)
    longer = bytes([record[0] + 2]) + record[1:-1] + b"\x80\0"
    with_headers = encode_record(NewRecord(b"value", headers=[("a", None)]), 1, 0)
    data = wrong_crc_batch(longer + with_headers, 2)
    (records,) = agree(data, check_crcs=False)
    assert [record.headers for record in records] == [(), (("a", None),)]
