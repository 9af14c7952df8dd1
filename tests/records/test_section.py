"""Records sections of batches, framed anew: equal bytes where a leader accepts them, equal records otherwise."""

import pytest
from handmade import build_legacy

from thinconsumer import CorruptRecordError, TopicPartition
from thinconsumer.records.batch import RecordBatch
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec
from thinconsumer.records.raw_batch import RawBatch
from thinconsumer.records.section import RecordSection, Reencoded

T0 = TopicPartition("t", 0)
RECORDS = [NewRecord(b"%d" % n, b"k" if n else None, (("h", b"1"),), timestamp=1000 + n) for n in range(5)]
CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]


def sent(section):
    batch = RecordBatch(memoryview(section.encode(9, 1, 70)))
    batch.check_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (9, 1, False)
    assert batch.next_offset == batch.count == len(section)  # no gaps: leaders accept nothing else
    return batch


def contents(rows):
    return [(row.key, row.value, row.headers, row.timestamp) for row in rows]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("transactional", [False, True])
def test_a_section_is_kept_byte_for_byte(codec, transactional):
    data = build_batch(RECORDS, codec=codec, base_offset=40, producer_id=7, transactional=transactional)
    section, reason = RecordSection.of(RawBatch(T0, data, 40))
    assert reason is None and section.codec == codec
    batch = sent(section)
    assert bytes(batch.view[61:]) == data[61:]
    assert (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type) == (1000, 1004, 0)
    assert contents(batch.decode("t", 0)) == contents(RecordBatch(memoryview(data)).decode("t", 0))


LEGACY = [build_legacy(RECORDS, magic=magic, codec=Codec.GZIP, base_offset=40) for magic in (0, 1)]
COMPACTED = [record._replace(offset=offset) for record, offset in zip(RECORDS, [0, 3, 4, 8, 9])]


@pytest.mark.parametrize(
    ("data", "start", "expected"),
    [
        (LEGACY[0], 0, Reencoded.OLD_FORMAT),
        (LEGACY[1], 0, Reencoded.OLD_FORMAT),
        (build_batch(COMPACTED, codec=Codec.ZSTD), 0, Reencoded.COMPACTED),
        (build_batch(RECORDS, last_offset_delta=6), 0, Reencoded.COMPACTED),
        (build_batch(RECORDS, delete_horizon=99), 0, Reencoded.COMPACTED),
        (build_batch(RECORDS, log_append_time=7777), 0, Reencoded.APPEND_TIME),
        (build_batch(RECORDS, base_offset=10, codec=Codec.LZ4), 12, Reencoded.PARTIAL),
    ],
)
def test_what_a_leader_would_reject_or_readers_would_see_otherwise_is_encoded_again(data, start, expected):
    raw = RawBatch(T0, data, start)
    section, reason = RecordSection.of(raw)
    assert reason is expected and section.codec == RecordBatch(memoryview(data)).codec
    assert contents(sent(section).decode("t", 0)) == contents(raw.decode())


def test_nothing_is_left_of_a_batch_before_its_start():
    section, reason = RecordSection.of(RawBatch(T0, build_batch(COMPACTED, last_offset_delta=20), 15))
    assert section is None and reason is Reencoded.COMPACTED


def test_records_are_decoded_when_one_is_accessed():
    section, _ = RecordSection.of(RawBatch(T0, build_batch(RECORDS, codec=Codec.ZSTD), 0))
    assert section[0] == RECORDS[0] and [*section[2:]] == RECORDS[2:] and list(section) == RECORDS


def test_a_batch_that_cannot_be_decoded_is_an_error_only_if_it_has_to_be():
    broken = bytearray(build_batch(RECORDS, codec=Codec.ZSTD, base_offset=10))
    broken[-4:] = b"????"
    assert RecordSection.of(RawBatch(T0, bytes(broken), 10))[1] is None  # poll_raw has verified the checksum
    with pytest.raises(CorruptRecordError):
        RecordSection.of(RawBatch(T0, bytes(broken), 12))
