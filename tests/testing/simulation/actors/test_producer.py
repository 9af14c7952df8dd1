"""Producing applications: their records, partitions, intervals and receipts."""

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Simulation

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def stored(sim, tp):
    """Return the values that a partition holds."""
    log = sim.cluster.leader(tp).log
    batches = log.read_batches(0, log.end_offset)
    return [row.value for batch in batches for row in batch.decode(tp.topic, tp.partition)]


def test_records_arrive_in_order_with_their_sender_and_every_receipt_is_settled():
    sim = Simulation(1, topics={"a": 2})
    producer = sim.producer({"a": [0, 1]}, name="pen", interval_s=0.1, count=3, size=12)
    sim.run_for(2)
    producer.stop()
    sim.run_until(lambda: producer.is_idle)
    assert producer.sent == len(producer.receipts) > 20
    assert [value for _, value, _ in producer.receipts][:2] == [b"pen:0.......", b"pen:1......."]
    for tp in (A0, A1):
        values = [value for target, value, _ in producer.receipts if target == tp]
        assert values and stored(sim, tp) == values
    assert repr(producer) == f"<ProducerActor pen, {producer.sent} records>"
    sim.check()


def test_producer_is_busy_while_brokers_are_silent_and_continues_afterwards():
    sim = Simulation(1, topics={"a": 1})
    sim.kill(1)
    producer = sim.producer([A0], interval_s=1.0, count=1)
    sim.run_for(3)
    producer.stop()
    assert producer.sent and not producer.is_idle and not any(r.done for _, _, r in producer.receipts)
    sim.start(1)
    sim.run_until(lambda: producer.is_idle, 10)
    assert stored(sim, A0) == [value for _, value, _ in producer.receipts]


def test_killed_producer_has_no_more_turns():
    sim = Simulation(1, topics={"a": 1})
    producer = sim.producer([A0], interval_s=0.1)
    sim.run_for(1)
    producer.driver.die()
    sim.run_for(0.3)
    sent, before = producer.sent, stored(sim, A0)
    assert before
    sim.run_for(5)
    assert stored(sim, A0) == before and producer.sent == sent
