"""When a transactional batch must be verified with the coordinator, according to the log's producer state."""

import pytest

from thinconsumer.broker.config import TopicConfig
from thinconsumer.broker.log.log import Log
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition


def write(log, epoch):
    data = build_batch(
        [NewRecord(b"v", timestamp=1)], producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True
    )  # fmt: skip
    log.append(data, leader_epoch=0, now_ms=1)


def end(log, epoch):
    log.append_control(
        producer_id=7, producer_epoch=epoch, commit=False, coordinator_epoch=0, leader_epoch=0, now_ms=1
    )  # fmt: skip


@pytest.mark.parametrize(
    ("history", "epoch", "asks"),
    [
        ((), 0, True),
        ((write,), 3, False),  # the partition is in the transaction already
        ((write,), 2, True),  # Kafka's leader lets the coordinator reject it
        ((write,), 4, True),  # another transaction is ongoing
        ((write, end), 3, True),
        ((write, end), 4, True),
        ((write, end), 2, True),
    ],
)
def test_only_the_first_batch_of_a_transaction_is_verified(history, epoch, asks):
    log = Log(TopicPartition("t", 0), TopicConfig())
    log.begin_epoch(0)
    for step in history:
        step(log, 3)
    assert log.producers.would_begin_transaction(7, epoch) is asks
