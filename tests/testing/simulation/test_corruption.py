"""Corruption flips one bit under a checksum, in responses to readers that check CRCs only."""

from random import Random

import pytest
from lab.corruption import CRC_AT, Corruption, spoiled

from thinconsumer.errors import CorruptRecordError
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from thinconsumer.wire.metadata import MetadataResponse

BATCHES = [build_batch([NewRecord(b"v" * 20)] * 3, base_offset=n * 3, leader_epoch=1) for n in range(3)]
RECORDS = b"".join(BATCHES)


def answer(*records):
    rows = [PartitionData(partition_index=n, records=data) for n, data in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])


def read(data):
    """Read batches. Raises: CorruptRecordError, for one's header or one's checksum."""
    batches, broken = split(memoryview(data))
    for batch in batches:
        batch.check_crc()
    if broken is not None:
        raise broken


def differing(data):
    """Return the positions of changed bytes."""
    return [n for n, (new, old) in enumerate(zip(data, RECORDS)) if new != old]


def test_one_bit_of_one_batch_is_flipped_where_its_checksum_tells():
    touched = set()
    for seed in range(300):
        data = spoiled(RECORDS, Random(seed))
        assert len(data) == len(RECORDS)
        (at,) = differing(data)
        assert (data[at] ^ RECORDS[at]).bit_count() == 1
        which, within = divmod(at, len(BATCHES[0]))
        assert within >= CRC_AT
        touched.add((which, within < 61))
        with pytest.raises(CorruptRecordError):
            read(data)
    assert touched == {(which, in_header) for which in range(3) for in_header in (True, False)}


def test_only_fetch_responses_to_crc_checking_readers_are_corrupted():
    corruption = Corruption(Random(1), 1.0, {"ann"})
    assert not corruption("bob", answer(RECORDS))
    assert not corruption("ann", answer(b"", None))
    assert not corruption("ann", MetadataResponse())
    assert corruption.count == 0
    spoilt = answer(b"", RECORDS)
    assert corruption("ann", spoilt)
    assert corruption.count == 1
    rows = spoilt.responses[0].partitions
    assert rows[0].records == b"" and len(differing(rows[1].records)) == 1
