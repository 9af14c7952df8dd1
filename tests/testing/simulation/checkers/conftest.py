"""A court: logs whose truth is known, readers, and a place where accusations are heard."""

from __future__ import annotations

import pytest

from thinconsumer.broker.config import TopicConfig
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.testing.simulation.checkers import Reader
from thinconsumer.testing.simulation.truth import ObservedLog, Truth
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


class Court:
    """One partition, its leaders' logs, and one checker that listens."""

    def __init__(self, checker):
        self.tp = TP
        self.accused = []
        self.truths = {}
        self.checker = checker(self.accused.append, self.truths.get)
        self.truth = self.truths[TP] = Truth(TP, self.checker.lost)
        self.log = self.new_log()
        self.reader = self.new_reader()

    def new_log(self):
        return ObservedLog(TP, TopicConfig(), self.truth)

    def new_reader(self, name="ann", **more):
        reader = Reader(name, **more)
        self.checker.started(reader)
        self.checker.assigned(reader, [TP])
        return reader

    def append(self, *values, epoch=0, **batch):
        """Append one batch to the leader's log; return its first offset."""
        records = [value if isinstance(value, NewRecord) else NewRecord(value, timestamp=NOW) for value in values]
        data = build_batch(records, **batch)
        return self.log.append(data, leader_epoch=epoch, now_ms=NOW, from_client=False).base_offset

    def write(self, *values, **more):
        """Append one batch that is committed at once."""
        base = self.append(*values, **more)
        self.log.high_watermark = self.log.end_offset
        return base

    def end(self, producer, commit):
        """Append a transaction's marker."""
        self.log.append_control(
            producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
        )
        self.log.high_watermark = self.log.end_offset

    def elect_short(self, end, epoch):
        """A replica that has the log only up to an offset becomes the leader, uncleanly."""
        short = self.new_log()
        for batch in self.log.batches_from(0):
            if batch.base_offset < end:
                short.append_stored(batch)
        short.begin_epoch(epoch)
        self.log = short

    def rows(self, *offsets, epoch=0):
        return [self.truth.rows[offset, epoch] for offset in offsets]

    def deliver(self, *offsets, epoch=0, reader=None, limit=500):
        self.checker.delivered(reader or self.reader, {TP: self.rows(*offsets, epoch=epoch)}, limit)

    def position(self, offset, reader=None):
        self.checker.positioned(reader or self.reader, TP, offset)

    def verdict(self):
        """Return the only accusation, "" for none, and forget it."""
        assert len(self.accused) <= 1, self.accused
        return self.accused.pop() if self.accused else ""


@pytest.fixture
def new_court():
    """``new_court(class of a checker)``."""
    return Court


@pytest.fixture
def fetched():
    """Return what makes a Fetch and its answer: ``fetched({partition: records}, topic=, session=, epoch=)``."""

    def make(records=(), *, topic="t", topic_id=bytes(16), session=7, epoch=5):
        partitions = [PartitionData(partition_index=n, records=data) for n, data in dict(records).items()]
        response = FetchResponse(
            session_id=session,
            responses=[FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)],
        )
        return FetchRequest(session_id=session, session_epoch=epoch), response

    return make
