"""Recompression to the topic's codec keeps the records."""

import pytest

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.broker.log.log import Log
from thinconsumer_testing.broker.log.validation import CODECS, recompress

RECORDS = [NewRecord(b"v" * 50, b"k", [("h", b"x")], 5), NewRecord(None, b"k", (), 3)]
HERE = ("uncompressed", "gzip", "lz4", "zstd")


def rows(batch):
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.decode("t", 0)]


@pytest.mark.parametrize("before", HERE)
@pytest.mark.parametrize("after", HERE)
def test_records_and_other_header_fields_are_kept(before, after):
    data = build_batch(
        RECORDS, codec=CODECS[before], producer_id=7, producer_epoch=1, base_sequence=3, transactional=True
    )
    (old,), _ = split(memoryview(data))
    (new,), error = split(memoryview(recompress(data, after)))
    assert error is None
    new.check_crc()
    assert new.codec == CODECS[after]
    assert rows(new) == rows(old)
    kept = ("base_offset", "next_offset", "producer_id", "producer_epoch", "max_timestamp", "is_transactional", "count")
    assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]


def test_batch_with_the_topics_codec_is_not_copied():
    data = build_batch(RECORDS, codec=3)
    assert recompress(data, "lz4") is data
    assert recompress(data, "producer") is data


def test_log_with_compression_type_uses_its_codec():
    log = Log(TopicPartition("t", 0), TopicConfig.parse({"compression.type": "zstd"}))
    log.append(build_batch(RECORDS), leader_epoch=0, now_ms=5)
    log.append(build_batch(RECORDS, codec=1), leader_epoch=0, now_ms=5)
    found, _ = split(memoryview(log.read(0, log.end_offset, 1 << 20, at_least_one=True)))
    assert [batch.codec for batch in found] == [4, 4]
    assert [row[0] for batch in found for row in rows(batch)] == [0, 1, 2, 3]
