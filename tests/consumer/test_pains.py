"""Problems that users of other clients report about poll, one test each."""

import math
import threading
from contextlib import contextmanager

import pytest

from thinconsumer import ConcurrentAccessError, Consumer, HealthState, TopicPartition
from thinconsumer.testing import Network, Simulation

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("chunk", [None, 11])
def test_poll_zero_makes_progress(world, offsets, chunk):
    """poll(0) and a sleep: each call takes no time, and the first record is there within three seconds."""
    w = world(network=Network(chunk=chunk))
    w.append(5)
    consumer = w.consumer()
    began, found = w.clock.now(), {}
    while not found:
        before = w.clock.now()
        found = offsets(consumer.poll(0))
        assert w.clock.now() == before
        w.clock.advance(0.01)
        assert w.clock.now() - began < 3
    assert found == {0: [0, 1, 2, 3, 4]}


def test_poll_zero_fails_over(world, offsets):
    """The same loop finds a new leader and goes on."""
    w = world(nodes=2)
    w.append(2)
    consumer = w.consumer()
    found = []
    for step in range(1000):
        if step == 300:
            w.cluster.kill(1, noticed_after_s=0)
            w.append(2)
        found += offsets(consumer.poll(0)).get(0, [])
        w.clock.advance(0.01)
    assert found == [0, 1, 2, 3]


def test_leader_whose_host_vanishes_is_left_when_the_cluster_does(world, offsets):
    """Terminated hosts say goodbye and then swallow packets: to wait for a dial to fail would take 20 s."""
    w = world(nodes=2)
    w.append(2)
    consumer = w.consumer()
    assert offsets(consumer.poll(1000)) == {0: [0, 1]}
    consumer.poll(3000)
    w.cluster.kill(1, noticed_after_s=math.inf)
    w.network.black_hole("kafka1", 9092)
    consumer.poll(5000)  # no broker has elected another leader yet
    w.cluster.controller.fence(1)
    w.append(2)
    elapsed, found = w.elapsed(lambda: consumer.poll(60_000))
    assert offsets(found) == {0: [2, 3]}
    assert elapsed <= 1.1  # retry_backoff_max_ms, and a round trip or two


def test_poll_neither_overruns_nor_returns_early(world):
    """With any fault of the cluster, an empty poll takes exactly its timeout."""
    w = world(nodes=2)
    consumer = w.consumer(bootstrap_timeout_ms=3_600_000)
    faults = [
        lambda: None,
        lambda: w.network.pause("kafka1", 9092),
        lambda: w.network.black_hole("kafka2", 9092),
        lambda: w.network.resume("kafka1", 9092),
        lambda: w.cluster.kill(1, noticed_after_s=0),
        lambda: w.cluster.start(1),
        lambda: w.network.resume("kafka2", 9092),
    ]
    for fault in faults:
        fault()
        for timeout_ms in (0, 7, 250, 10_000):
            seconds, found = w.elapsed(lambda ms=timeout_ms: consumer.poll(ms))
            assert found == {}
            assert seconds == pytest.approx(timeout_ms / 1000, abs=1e-6)


@pytest.mark.parametrize("fault", ["none", "nothing assigned that exists", "paused broker", "black hole", "refused"])
def test_idle_polls_do_not_spin(world, fault):
    """30 s of idling: a bounded number of looks at the network, whatever the reason for idling is."""
    w = world()
    consumer = w.consumer(("gone", 0)) if fault == "nothing assigned that exists" else w.consumer()
    consumer.poll(1000)
    if fault == "refused":
        w.network.kill("kafka1", 9092)
    elif fault in ("paused broker", "black hole"):
        getattr(w.network, {"paused broker": "pause", "black hole": "black_hole"}[fault])("kafka1", 9092)
    driver = consumer._shell.driver
    before = driver.steps
    for _ in range(29):
        consumer.poll(1000)
    assert driver.steps - before < 20 * 29


def test_polls_with_everything_paused_do_not_spin(world):
    """Full buffers and nothing to do for them: one step per poll is all that is left."""
    w = world(topics={"t": 3})
    for partition in range(3):
        w.append(50, partition)
    consumer = w.consumer(("t", 0), ("t", 1), ("t", 2))
    consumer.poll(1000, max_records=1)
    consumer.pause(*consumer.assignment())
    consumer.poll(1000)
    before = consumer._shell.driver.steps
    for _ in range(30):
        assert consumer.poll(1000) == {}
    assert consumer._shell.driver.steps - before < 30 * 8


def test_no_thread_is_ever_started(world):
    """Reading, failing over, closing: the count of threads is what it was."""
    before = threading.active_count()
    w = world(nodes=2)
    consumer = w.consumer()
    for node in (1, 2):
        w.append(2)
        consumer.poll(2000)
        w.cluster.kill(node, noticed_after_s=0)
        consumer.poll(2000)
        w.cluster.start(node)
    consumer.close()
    assert threading.active_count() == before


def test_use_in_a_forked_child_is_refused_and_closing_there_is_fine(reading):
    """The driver knows the process it connected in; every call asks it first."""
    _, consumer = reading()
    consumer.poll(100)
    driver = consumer._shell.driver

    def in_child():
        raise ConcurrentAccessError("connected in process 1 and used in its fork 2")

    driver.check_process = in_child
    for call in (consumer.poll, consumer.drive, consumer.assignment, lambda: next(consumer)):
        with pytest.raises(ConcurrentAccessError, match="fork"):
            call()
    consumer.close()


@contextmanager
def reading_one_of(partitions, max_buffered_bytes):
    """Yield a cluster with 4,000 records in the first of these partitions, and a consumer of all of them.

    The records are more than the first partition's share of the consumer's buffer, which is 400 kB.
    """
    sim = Simulation(seed=1, brokers=1, topics={"t": partitions})
    for _ in range(40):
        sim.produce("t", 0, [bytes(1000)] * 100)
    more = {"max_buffered_bytes": max_buffered_bytes, "max_partition_fetch_bytes": 100_000}
    servers = sim.bootstrap_servers
    with Consumer(driver=sim.driver(), bootstrap_servers=servers, auto_offset_reset="earliest", **more) as consumer:
        consumer.assign([TopicPartition("t", number) for number in range(partitions)])
        yield sim, consumer


@pytest.mark.parametrize("how", ["seek", "resume", "assign"])
def test_a_seek_takes_no_longer_than_a_round_trip(how):
    """Nor do resume() and assign(): the broker holds a Fetch for new records, and takes no other one."""
    sim = Simulation(seed=1, brokers=1, topics={"t": 2})
    sim.produce("t", 0, [b"%d" % number for number in range(20)])
    driver = sim.driver()
    with Consumer(driver=driver, bootstrap_servers=sim.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, TopicPartition("t", 1)])
        consumer.poll(1000)
        began = sim.now()
        for number in range(10):
            assert not consumer.poll(30), "there are no more records"
            if how == "seek":
                consumer.seek(T0, number)
            elif how == "assign":
                consumer.assign([TopicPartition("t", 1)])
                consumer.poll(30)
                consumer.assign([T0, TopicPartition("t", 1)])
                consumer.seek(T0, number)
            else:
                consumer.pause(T0)
                consumer.seek(T0, number)
                consumer.poll(30)
                consumer.resume(T0)
            assert consumer.poll(1000)[T0][0].offset == number
        assert sim.now() - began < 10 * 0.08


def test_a_consumer_is_healthy_long_after_a_seek():
    """The seek's records came by a Fetch that is not repeated; log ends are confirmed by those that are."""
    sim = Simulation(seed=1, brokers=1, topics={"t": 2})
    sim.produce("t", 0, [b"%d" % number for number in range(20)])
    servers = sim.bootstrap_servers
    with Consumer(driver=sim.driver(), bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, TopicPartition("t", 1)])
        consumer.poll(1000)
        consumer.poll(30)
        consumer.seek(T0, 5)
        assert len(consumer.poll(1000)[T0]) == 15
        for _ in range(60):
            consumer.poll(1000)
        assert consumer.health().state is HealthState.OK


def test_a_partition_with_records_is_read_at_full_pace_though_others_on_its_broker_have_none():
    """A Fetch of the others must not be held by the broker while the first partition has room for more again."""
    with reading_one_of(6, 2_400_000) as (sim, consumer):
        count, began = 0, None
        while count < 4000:
            records = consumer.poll(1000, max_records=50)
            began = began or sim.now()
            sim.run_for(0.001)  # the program processes the records
            count += sum(map(len, records.values()))
        assert sim.now() - began < 0.3


def test_new_records_of_a_partition_come_soon_though_another_on_its_broker_is_processed_slowly():
    """The slow one has the buffer's share of a partition filled, so that nothing more of it is fetched."""
    with reading_one_of(2, 800_000) as (sim, consumer):
        while sim.now() < 10:
            consumer.poll(1000, max_records=1)
            sim.run_for(0.02)
        sim.produce("t", 1, [b"new"])
        began = sim.now()
        while TopicPartition("t", 1) not in consumer.poll(1000, max_records=1):
            sim.run_for(0.02)
        assert sim.now() - began < 0.3
