"""Many batches to columns: the same records and errors as the row decoder, for any combination of batches."""

import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from handmade import build_legacy  # noqa: E402

from thinconsumer.errors import CorruptRecordError, UnsupportedCodecError  # noqa: E402
from thinconsumer.records import compression  # noqa: E402
from thinconsumer.records.batch import ControlType  # noqa: E402
from thinconsumer.records.batches import split  # noqa: E402
from thinconsumer.records.builder import NewRecord, build_batch, build_marker  # noqa: E402
from thinconsumer.records.columnar import decode, fields  # noqa: E402
from thinconsumer.records.columnar.decode import Decoder  # noqa: E402
from thinconsumer.types import TopicPartition  # noqa: E402

NOW = 1_700_000_000_000
TP = TopicPartition("topic", 3)
CODECS = [codec for codec in compression.Codec if not compression.available()[codec.name.lower()].startswith("missing")]


def varied(count, seed=1, **more):
    """Return records of many sizes, some with keys, nulls and headers."""
    rng = random.Random(seed)
    return [
        NewRecord(
            None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 3, 60, 100, 200))),
            None if rng.random() < 0.3 else rng.randbytes(rng.choice((0, 5, 70))),
            [("a", b"1"), ("béta", None), ("", b"")][: rng.randrange(4)] if rng.random() < 0.2 else (),
            NOW + rng.choice((0, 1, 100, 10_000, -5)),
        )._replace(**more)
        for _ in range(count)
    ]


def stream(sizes, offset=100, **more):
    """Return batches with these record counts at consecutive offsets."""
    out = b""
    for number, size in enumerate(sizes):
        out += build_batch(varied(size, number), base_offset=offset, leader_epoch=number % 3, **more)
        offset += size
    return out


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_records_in_any_batches(agree, record_lists, data):
    """Few and many batches of every codec, some with LogAppendTime or compacted."""
    out, offset = b"", 0
    for _ in range(data.draw(st.integers(1, 5), "batches")):
        records = data.draw(record_lists, "records")
        if data.draw(st.booleans(), "holes"):
            records = [r._replace(offset=3 * n + n // 4) for n, r in enumerate(records)]
        times = data.draw(st.sampled_from([1, 1, 20]), "times")
        for _ in range(times):
            out += build_batch(
                records,
                base_offset=offset,
                codec=data.draw(st.sampled_from(CODECS), "codec") if times == 1 else 0,
                log_append_time=data.draw(st.sampled_from([None, None, NOW + 5]), "log append"),
                leader_epoch=data.draw(st.integers(-1, 3), "epoch"),
                last_offset_delta=4 * len(records) + 10,
                delete_horizon=data.draw(st.sampled_from([None, NOW + 86_400_000]), "horizon"),
            )
            offset += 4 * len(records) + 11
    for found in agree(out):
        assert isinstance(found, list)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "sizes", [[1], [300], [1] * 100, [5] * 50, [*range(1, 70)], [1000, *[3] * 60], [0, 2, 0, 3, 0]]
)
def test_batches_of_every_size_and_codec(agree, sizes, codec):
    found = agree(stream(sizes, codec=codec))
    assert [len(rows) for rows in found] == sizes


@pytest.mark.parametrize("few", [0, 1000])
def test_batches_of_many_partitions_decode_together(monkeypatch, few):
    """Each partition gets its own records, from its own position on."""
    monkeypatch.setattr(decode, "SMALL_RECORDS_MAX", few)
    decoder = Decoder()
    for partition in range(5):
        decoder.add(split(memoryview(stream([3, 4])))[0], TopicPartition("t", partition))
    decoded = decoder.finish()
    for partition in range(5):
        found = decoded.columns(TopicPartition("t", partition), 2 * partition, 2 * partition + 2, 102)
        assert found.offsets.tolist() == [102, 103, 104, 105, 106]
        assert (found.topic, found.partition) == ("t", partition)


@pytest.mark.parametrize("start", [0, 100, 101, 106, 107, 500])
def test_records_below_the_position_are_left_out(columns, start):
    data = stream([3, 4])
    expected = [row for batch in split(memoryview(data))[0] for row in batch.decode(*TP, start=start)]
    assert columns(data, start).rows() == expected


def test_old_formats_go_through_the_row_decoder(agree):
    """Alone and between batches of format 2, as in upgraded topics; compressed, too."""
    plain = [r._replace(headers=()) for r in varied(10)]
    old = b""
    for magic in (0, 1):
        old += build_legacy(plain, magic=magic, base_offset=10)
        old += build_legacy(plain, magic=magic, base_offset=20, codec=compression.Codec.GZIP)
    new = stream([3, 50])
    for data in (old, old + new, new + old, new + old + new):
        assert sum(len(rows) for rows in agree(data)) > 39
        assert sum(len(rows) for rows in agree(data, check_crcs=False)) > 39


def test_markers_and_empty_batches_have_no_records(agree):
    marker = build_marker(ControlType.ABORT, producer_id=7, base_offset=103)
    empty = build_batch([], base_offset=104, last_offset_delta=5)
    assert [len(rows) for rows in agree(stream([3]) + marker + empty + stream([2]))] == [3, 0, 0, 2]
    assert agree(marker) == [[]]


def test_no_batches():
    decoded = Decoder().finish()
    assert len(decoded.columns(TP, 0, 0, 0)) == 0 and decoded.errors == {}


def test_add_returns_an_error_for_a_wrong_checksum(agree):
    data = bytearray(stream([3, 3]))
    data[-1] ^= 1
    good, error = agree(bytes(data))
    assert len(good) == 3 and error[0] is CorruptRecordError
    assert len(agree(bytes(data), check_crcs=False)) == 2


def test_unknown_codec_and_corrupt_compression_give_the_row_decoders_error(agree):
    data = bytearray(stream([3], codec=compression.Codec.GZIP))
    data[80] ^= 0xFF
    broken, unknown = bytes(data), bytearray(stream([3]))
    unknown[22] |= 7
    first, second = agree(broken + bytes(unknown), check_crcs=False)
    assert (first[0], second[0]) == (CorruptRecordError, UnsupportedCodecError)


def test_a_batch_above_the_size_limit_gives_the_row_decoders_error(monkeypatch):
    batches, _ = split(memoryview(build_batch([NewRecord(bytes(5000))], codec=compression.Codec.GZIP)))
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 4000)
    error = Decoder().add(batches, TP)
    assert isinstance(error, CorruptRecordError) and "more than 4000 bytes" in str(error)


@pytest.mark.parametrize("neighbours", [0, 3, 60])
def test_a_corrupt_batch_does_not_affect_other_batches(agree, wrong_crc_batch, neighbours):
    """The corruption is noticed only when all batches are read together; the error is the row decoder's."""
    good = stream([4] * neighbours)
    bad = wrong_crc_batch(b"\x10\0\0\0\1\4vv\0" + b"\0" * 8, 1)
    found = agree(good + bad + good, check_crcs=False)
    assert [type(some) for some in found] == [list] * neighbours + [tuple] + [list] * neighbours


def test_nonzero_attributes_and_overlong_lengths_are_accepted(agree, wrong_crc_batch):
    """As by the row decoder."""
    body = b"\x7f\x80\0\0\1\x86\x80\0abc\0"
    odd = bytes([2 * len(body) | 0x80]) + b"\x80\0" + body
    _, rows, _ = agree(stream([2]) + wrong_crc_batch(odd, 1) + stream([2]), check_crcs=False)
    assert rows[0].value == b"abc"


@pytest.mark.parametrize("claim", [-1, 0, 2, 3, 5, 1000, 2**31 - 1])
def test_wrong_record_counts(agree, claim):
    """No memory is allocated for a count that the bytes cannot hold."""
    data = bytearray(build_batch(varied(4)))
    struct.pack_into(">i", data, 57, claim)
    (found,) = agree(bytes(data), check_crcs=False)
    assert isinstance(found, tuple)
    agree(stream([3] * 50) + bytes(data) + stream([3]), check_crcs=False)


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63)])
def test_timestamps_wrap_as_javas_do(agree, base):
    data = bytearray(build_batch([NewRecord(b"", timestamp=0), NewRecord(b"", timestamp=5)]))
    struct.pack_into(">q", data, 27, base)
    (rows,) = agree(bytes(data), check_crcs=False)
    assert [row.timestamp for row in rows] == [base, base + 5 if base < 0 else base + 5 - 2**64]


@pytest.mark.parametrize("offsets", [[1, 0], [0, 0], [-1, 0], [0, 9], [5], [3, 2**31 - 1]])
def test_offsets_out_of_order_or_outside_the_batch_are_corrupt(agree, offsets):
    records = [NewRecord(b"x", offset=offset) for offset in offsets]
    found = agree(stream([2]) + build_batch(records, base_offset=50, last_offset_delta=4) + stream([2]))
    assert [type(some) for some in found] == [list, tuple, list]


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bytes_give_the_row_decoders_result(agree, seed):
    """Hundreds of corrupt batches among valid ones, walked together and alone."""
    rng = random.Random(seed)
    data = bytearray(stream([rng.choice((1, 2, 5, 30, 400)) for _ in range(rng.choice((3, 80)))]))
    batches = split(memoryview(bytes(data)))[0]
    for start, batch in zip(batches.starts, batches):
        for _ in range(rng.randrange(3)):
            data[start + rng.randrange(61, batch.size)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    found = agree(bytes(data), check_crcs=False)
    assert len(found) == len(batches)


def test_one_record_with_thousands_of_headers_goes_to_the_row_decoder(agree, monkeypatch):
    """Round n reads the n-th header of all records; thousands of rounds for one record would be slow."""
    turns = []
    original = decode.read
    monkeypatch.setattr(decode, "read", lambda *args, **more: turns.append(1) or original(*args, **more))
    many = [("h", b"%d" % n) for n in range(3000)]
    (rows,) = agree(build_batch([NewRecord(b"x", headers=many), NewRecord(b"y", headers=many[:2])]))
    assert [len(row.headers) for row in rows] == [3000, 2]
    assert turns == [1, 1, 1], "once for columns, and for rows with and without encoded headers"


def test_one_large_batch_among_many_small_ones_takes_little_memory(agree):
    """A walker array with the largest count for every batch would take gigabytes."""
    long = build_batch([NewRecord(b"x" * (n % 7)) for n in range(20_000)], base_offset=0)
    short = b"".join(build_batch([NewRecord(b"y")], base_offset=20_000 + n) for n in range(2000))
    found = agree(long * 1 + short)
    assert len(found[0]) == 20_000 and len(found) == 2001


@pytest.mark.parametrize("block", [1, 7, 64])
@pytest.mark.parametrize("sizes", [[100], [63, 1, 64, 1], [6, 1, 8] * 20])
def test_records_do_not_depend_on_the_block_size(monkeypatch, agree, block, sizes):
    monkeypatch.setattr(fields, "BLOCK", block)
    found = agree(stream(sizes))
    assert [len(rows) for rows in found] == sizes
    assert any(row.headers for rows in found for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_corrupt_records_are_found_in_any_block(monkeypatch, agree, seed):
    monkeypatch.setattr(fields, "BLOCK", 5)
    test_flipped_bytes_give_the_row_decoders_result(agree, seed)


@pytest.mark.parametrize(("records", "vectors"), [(decode.SMALL_RECORDS_MAX, 0), (decode.SMALL_RECORDS_MAX + 1, 1)])
def test_few_records_are_decoded_without_numpy(monkeypatch, records, vectors):
    """A poll of one record must not take as long as one of a hundred."""
    turns = []
    original = decode.read
    monkeypatch.setattr(decode, "read", lambda *args, **more: turns.append(1) or original(*args, **more))
    decoder = Decoder()
    batches, _ = split(memoryview(build_batch([NewRecord(bytes(100))] * records)))
    decoder.add(batches, TP)
    assert len(decoder.finish().columns(TP, 0, 1, 0)) == records and len(turns) == vectors


def test_large_values_are_not_copied():
    """They stay in the response buffer, even if there are few."""
    decoder = Decoder()
    data = build_batch([NewRecord(bytes(20_000), key=b"k")] * 30)
    batches, _ = split(memoryview(data))
    decoder.add(batches, TP)
    columns = decoder.finish().columns(TP, 0, 1, 0)
    assert columns.data.base.obj is data and columns.value(29) == bytes(20_000)


def test_columns_do_not_include_bytes_after_the_response(monkeypatch):
    """The receive buffer may be longer and hold remains of a larger response."""
    monkeypatch.setattr(decode, "SMALL_RECORDS_MAX", 0)
    received = bytearray(b"of another topic" * 1000)
    data = stream([2]) + stream([3]) + stream([4])
    received[: len(data)] = data
    response = memoryview(received)[: len(data)].toreadonly()
    decoder, parts, at = Decoder(), [stream([2]), stream([3]), stream([4])], 0
    for partition, part in enumerate(parts):
        batches, _ = split(response[at : at + len(part)])
        decoder.add(batches, TopicPartition("t", partition))
        at += len(part)
    decoded = decoder.finish()
    columns = decoded.columns(TopicPartition("t", 1), 1, 2, 0)
    assert len(columns.data) <= len(data) and not columns.data.flags.writeable
    assert b"another" not in columns.data.tobytes()
    assert [row.value for row in columns.rows()] == [row.value for row in split(memoryview(parts[1]))[0][0].decode(*TP)]


@pytest.mark.parametrize("codecs", [(0, 0, 0, 0), (2, 2, 2, 2), (0, 2, 0, 2), (2, 0, 0, 2), (0, 0, 2, 0)])
@pytest.mark.parametrize("skipped", [(), (0,), (1,), (2, 3), (0, 3), (0, 1, 2, 3)])
def test_skipped_batches_have_no_records_and_shift_none(monkeypatch, codecs, skipped):
    """The records of aborted transactions, for read_committed."""
    monkeypatch.setattr(decode, "SMALL_RECORDS_MAX", 0)
    batches, _ = split(memoryview(b"".join(stream([3 + n], 100 * n, codec=codec) for n, codec in enumerate(codecs))))
    for by_one in (True, False):
        decoder = Decoder()
        for number in range(4):
            if number in skipped:
                decoder.skip(batches, TP, number)
            elif by_one:
                assert decoder.add(batches, TP, number, number + 1) is None
            elif number == 0 or number - 1 in skipped:
                end = next((other for other in skipped if other > number), 4)
                assert decoder.add(batches, TP, number, end) is None
        assert len(decoder) == 4
        expected = [row for number in range(4) if number not in skipped for row in batches[number].decode(*TP)]
        assert decoder.finish().columns(TP, 0, 4, 0).rows() == expected
        for records_min in (1, 1000):
            assert list(decoder.rows(records_min).records(TP, 0, 4)) == expected


def test_skipped_batches_are_not_copied():
    """Records that are built later would keep them in memory."""
    aborted = build_batch([NewRecord(bytes(50_000))], base_offset=100)
    batches, _ = split(memoryview(stream([50]) + aborted + stream([50], 101)))
    decoder = Decoder()
    assert decoder.add(batches, TP, 0, 1) is None
    decoder.skip(batches, TP, 1)
    assert decoder.add(batches, TP, 2, 3) is None
    assert decoder.rows(1).rows.average_size < 500


def test_size_is_the_decompressed_size():
    decoder = Decoder()
    for codec in CODECS:
        before = decoder.size
        batches, _ = split(memoryview(build_batch([NewRecord(bytes(10_000))], codec=codec)))
        decoder.add(batches, TP)
        assert 10_000 <= decoder.size - before <= 10_020


@pytest.mark.parametrize("size", [0, 30, 60, 100, 8180, 8190, 8200, 20_000, 1_100_000])
@pytest.mark.parametrize("key", [None, b"", b"key" * 30, bytes(9000)])
@pytest.mark.parametrize("headers", [(), [("name", b"value"), ("other", None)]])
def test_well_formed_records_never_go_to_the_row_decoder(monkeypatch, size, key, headers):
    """The result would be right, but several times as slow."""
    monkeypatch.delattr(Decoder, "_each")
    monkeypatch.setattr(decode, "SMALL_RECORDS_MAX", 0)
    decoder, offset = Decoder(), 0
    for count in (1, 3, 3, 2):
        records = [NewRecord(bytes(size), key, headers, 1_700_000_000_000 + 100 * n) for n in range(count)]
        batches, _ = split(memoryview(build_batch(records, base_offset=offset)))
        decoder.add(batches, TP)
        offset += count
    columns = decoder.finish().columns(TP, 0, 4, 0)
    assert columns.offsets.tolist() == list(range(9)) and columns.value(8) == bytes(size) and columns.key(8) == key
