"""Retention deletes whole committed segments."""

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer_testing.broker.log.retention import segments

SIZE = 1_000


@pytest.fixture
def filled(tools):
    """``filled(**config)``: ten batches of 1000 bytes, three to a segment; batch n has timestamp 100 n."""

    def fill(**config):
        log = tools.new_log(segment_bytes=3 * SIZE + 10, **config)
        write = tools.LogWriter(log)
        empty = len(write.batch(NewRecord(b"", timestamp=0)))
        for number in range(10):
            data = write.batch(NewRecord(bytes(SIZE - empty - 2), timestamp=100 * number))
            log.append(data, leader_epoch=0, now_ms=1_000)
        assert log.size_bytes == 10 * SIZE
        return log

    return fill


def test_segments_are_filled_to_segment_bytes(filled):
    log = filled()
    found = segments(list(log.batches_from(0)), 3 * SIZE + 10, log.end_offset)
    assert found == [(3000, 200, 3), (3000, 500, 6), (3000, 800, 9), (1000, 900, 10)]
    assert segments([], 100, 5) == []


@pytest.mark.parametrize(
    ("config", "now", "starts"),
    [
        ({"retention_ms": -1}, 10**12, {-1: 0, 10_000: 0, 9_999: 0, 7_001: 0, 7_000: 3, 4_000: 6, 1_000: 9, 0: 10}),
        ({"retention_ms": 1_000}, 1_501, {7_000: 6}),  # size deletes one segment, age a second
        ({"retention_ms": 1_000}, 1_801, {8_500: 9}),  # above the limit by more than the last segment, less than others
        ({"delete": False, "retention_ms": 0}, 10**12, {0: 0}),
    ],
)
def test_retention_by_size(filled, config, now, starts):
    for keep, start in starts.items():
        log = filled(retention_bytes=keep, **config)
        log.apply_retention(now, 10)
        assert (log.start_offset, log.end_offset) == (start, 10)


@pytest.mark.parametrize(
    ("now", "high_watermark", "start"),
    [
        *((now, 10, start) for now, start in ((1_200, 0), (1_201, 3), (1_500, 3), (1_501, 6), (1_801, 9), (1_901, 10))),
        *((10**6, high_watermark, start) for high_watermark, start in ((0, 0), (2, 0), (3, 3), (8, 6), (10, 10))),
    ],
)
def test_retention_by_age_of_the_latest_committed_record(filled, now, high_watermark, start):
    log = filled(retention_ms=1_000)
    log.apply_retention(now, high_watermark)
    assert log.start_offset == start


def test_records_without_timestamp_are_kept(tools):
    log = tools.new_log(retention_ms=1)
    write = tools.LogWriter(log)
    write.now = -1
    write(b"v", now=0)
    log.apply_retention(10**12, 1)
    assert log.start_offset == 0
