"""What is left when a call is interrupted, or the program has paused, and the consumer is closed."""

from unittest.mock import Mock

import pytest

from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.testing import MemoryCluster

T0 = TopicPartition("t", 0)


def test_close_ends_after_a_pause_beyond_the_deadline_of_a_fetch():
    cluster = MemoryCluster(1, topics={"t": 1})
    driver = cluster.driver()
    consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, driver=driver, request_timeout_ms=2000)
    consumer.assign([T0])
    consumer.poll(1000)
    consumer.poll(100)  # a Fetch is in flight
    cluster.network.pause("kafka1", 9092)
    cluster.clock.advance(5.0)
    steps = driver.steps
    consumer.close()
    assert driver.steps - steps < 100


@pytest.mark.parametrize("is_settled", [False, True])
def test_an_interrupted_call_does_not_commit_the_record_in_hand(monkeypatch, is_settled):
    cluster = MemoryCluster(1, topics={"t": 1})
    cluster.produce("t", [b"value"] * 10)

    def consumer():
        return Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            driver=cluster.driver(),
            group_id="g",
            auto_offset_reset="earliest",
        )

    reader = consumer()
    reader.assign([T0])
    records = iter(reader)
    assert [next(records).offset for _ in range(10)] == [*range(10)]
    collector = reader._reader.managers.collector
    settle = collector.settle

    def interrupted(poll_result):
        if is_settled:
            settle(poll_result)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collector, "settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.position(T0)
    reader.position(T0)
    reader.close()
    with consumer() as other:
        assert other.committed(T0) == 9


def test_close_leaves_the_group_after_an_interrupted_unsubscribe(monkeypatch):
    cluster = MemoryCluster(1, topics={"t": 1})
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "group_protocol": "consumer"}
    consumer = Consumer(driver=cluster.driver(), **options)
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(1000)
    assignment = consumer._reader.managers.group.member.assignment
    monkeypatch.setattr(assignment, "forget", Mock(side_effect=[KeyboardInterrupt, None]))
    with pytest.raises(KeyboardInterrupt):
        consumer.unsubscribe()
    consumer.close()
    with Consumer(driver=cluster.driver(), **options) as other:
        other.subscribe(["t"])
        other.poll(1000)
        assert other.assignment(), "the partition would be assigned only after the session of the first member"


def test_a_new_assignment_is_taken_over_after_ctrl_c(monkeypatch):
    """The other member would wait until max_poll_interval_ms of this one has passed."""
    cluster = MemoryCluster(1, topics={"t": 2})

    def consumer():
        options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "group_protocol": "consumer"}
        return Consumer("t", driver=cluster.driver(), **options)

    with consumer() as first, consumer() as second:
        while len(first.assignment()) < 2:
            first.poll(100)
        assignment = first._reader.managers.group.member.assignment
        receive, received = assignment.receive, []

        def interrupted(target):
            receive(target)
            received.append(target)
            if len(received) == 1:
                raise KeyboardInterrupt

        def poll_both():
            for _ in range(40):
                second.poll(500)
                first.poll(500)

        monkeypatch.setattr(assignment, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            poll_both()
        poll_both()
        assert len(first.assignment()) == len(second.assignment()) == 1


def test_a_call_in_a_commit_callback_of_close_ends_with_an_error_of_kafka():
    cluster = MemoryCluster(1, topics={"t": 1})
    consumer = Consumer("t", bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver(), group_id="g")
    while not consumer.assignment():
        consumer.poll(500)
    ends = []

    def committed(offsets, error):
        ends.append(error)
        if len(ends) < 6:
            try:
                if len(ends) < 3:
                    consumer.commit_async({T0: 0}, callback=committed)
                else:
                    consumer.end_offsets([T0])
            except KafkaError as caught:
                ends.append(caught)

    consumer.commit_async({T0: 0}, callback=committed)
    consumer.close(timeout_ms=2000)
    assert isinstance(ends[-1], KafkaError), ends
