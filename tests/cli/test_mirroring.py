"""What a mirror writes: every record in order, once unless it is killed, and the same bytes where that is possible."""

import sys
from itertools import pairwise
from random import Random

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.cli.mirror import Mirror
from thinconsumer.cli.parsing import CommandError
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.records.compression import Codec
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from thinconsumer_testing.broker.faults import Reply, Silence

T0 = TopicPartition("t", 0)
CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]


class Clusters:
    """Two topics on a cluster in memory, ``t`` and its copy ``c``, and mirrors between them."""

    def __init__(self, partitions=1, **about):
        self.cluster = MemoryCluster(1, {"t": partitions, "c": partitions}, **about)
        self.clock = self.cluster.clock
        self.started = 0
        self.open = []

    def mirror(self, **options):
        self.started += 1
        servers = self.cluster.bootstrap_servers
        settings = ProducerSettings.from_options(bootstrap_servers=servers, max_block_ms=0, **options)
        producer = Producer(settings, driver=self.cluster.driver(1000 + self.started))
        consumer = Consumer(
            driver=self.cluster.driver(self.started), bootstrap_servers=servers, group_id="g",
            enable_auto_commit=False, auto_offset_reset="earliest", isolation_level="read_committed",
            session_timeout_ms=6000,
        )  # fmt: skip
        mirror = Mirror(consumer, producer, {"t": "c"}, self.clock.now)
        consumer.subscribe(["t"], listener=mirror)
        self.open += [consumer, producer]
        return mirror, consumer, producer

    def append(self, batch, partition=0):
        self.cluster.append_batch(TopicPartition("t", partition), batch)

    def copy_all(self, mirror, ends):
        for _ in range(10_000):
            if mirror.has_reached(ends):
                return
            mirror.copy(100)
        raise AssertionError(f"not at {ends}")

    def committed(self):
        with Consumer(
            driver=self.cluster.driver(), bootstrap_servers=self.cluster.bootstrap_servers, group_id="g"
        ) as c:
            return c.committed(T0)

    def kill(self):
        """End all clients as ``kill -9`` does: connections break, and no last word is written."""
        for client in self.open:
            client._shell.driver.close()
            client._shell.closed = True
        self.open = []

    def batches(self, topic, partition=0):
        log = self.cluster.leader(TopicPartition(topic, partition)).log
        return [batch for batch in log.read_batches(0, log.end_offset) if not batch.is_control]

    def contents(self, topic, partition=0):
        found = self.cluster.records(topic, partition)
        return [(row.key, row.value, row.headers, row.timestamp) for row in found]

    def close(self):
        for client in self.open:
            client.close()
        assert self.cluster.bugs == [] and not self.cluster.invalid_requests


@pytest.fixture
def clusters(closed_at_end):
    return lambda *args, **about: closed_at_end(Clusters(*args, **about))


def some(first, count=3):
    return [NewRecord(b"%d" % n, b"k%d" % n, (("h", b"1"),), timestamp=1000 + n) for n in range(first, first + count)]


def test_sections_are_equal_and_offsets_are_committed(clusters):
    world = clusters()
    for number in range(8):
        world.append(build_batch(some(3 * number), codec=CODECS[number % 4]))
    mirror, consumer, _ = world.mirror()
    world.copy_all(mirror, {T0: 24})
    mirror.finish()
    assert consumer.committed(T0) == 24
    assert [bytes(batch.view[61:]) for batch in world.batches("c")] == [bytes(b.view[61:]) for b in world.batches("t")]
    assert world.contents("c") == world.contents("t")
    assert (dict(mirror.counts), mirror.records) == ({"unchanged": 8}, 24)


def test_each_kind_of_batch_is_counted_and_readers_see_the_same(clusters):
    world = clusters()
    world.append(build_batch([record._replace(offset=at) for record, at in zip(some(0), [0, 4, 5])], codec=Codec.ZSTD))
    about = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    world.append(build_batch(some(10), base_sequence=0, **about))
    world.append(build_marker(ControlType.ABORT, producer_id=7))
    world.append(build_batch(some(20), base_sequence=3, **about))
    world.append(build_marker(ControlType.COMMIT, producer_id=7))
    world.append(build_batch(some(30), log_append_time=7777))
    world.append(build_batch(some(40), codec=Codec.LZ4))
    mirror, consumer, _ = world.mirror()
    end = world.cluster.leader(T0).log.end_offset
    world.copy_all(mirror, {T0: end})
    mirror.finish()
    assert dict(mirror.counts) == {
        "compacted": 1, "aborted": 1, "transactional": 1, "log append time": 1, "unchanged": 1,
    }  # fmt: skip
    aborted = [value for value in world.contents("t") if value[1] in (b"10", b"11", b"12")]
    assert world.contents("c") == [value for value in world.contents("t") if value not in aborted]
    assert not any(batch.is_transactional for batch in world.batches("c"))
    assert consumer.committed(T0) == end


def test_offsets_behind_aborted_batches_and_markers_are_committed(clusters):
    """Otherwise a group at the end of such a log would show a lag for ever."""
    world = clusters()
    world.append(build_batch(some(0)))
    world.append(build_batch(some(10), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    world.append(build_marker(ControlType.ABORT, producer_id=7))
    mirror, consumer, _ = world.mirror()
    world.copy_all(mirror, {T0: 7})
    mirror.finish()
    assert consumer.committed(T0) == 7


def test_the_position_behind_nothing_but_aborted_batches_is_committed(clusters):
    world = clusters(partitions=2)
    world.append(build_batch(some(10), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    world.append(build_marker(ControlType.ABORT, producer_id=7))
    mirror, consumer, _ = world.mirror()
    world.copy_all(mirror, {T0: 4})
    mirror.finish()
    assert consumer.committed(T0) == 4
    assert (dict(mirror.counts), mirror.records) == ({"aborted": 1}, 0)


def test_a_target_that_does_not_answer_delays_the_end_by_three_seconds_and_the_error_names_what_is_in_doubt(clusters):
    world = clusters()
    world.append(build_batch(some(0)))
    mirror, consumer, producer = world.mirror()
    world.copy_all(mirror, {T0: 3})
    world.cluster.on("Produce", Silence())
    world.append(build_batch(some(3)))
    world.append(build_batch(some(6)))
    for _ in range(10):
        mirror.copy(100)
    began = world.clock.now()
    with pytest.raises(CommandError, match="2 batches before offset 9 of t-0.*may be written twice"):
        mirror.finish()
    producer.close(timeout_ms=0)
    consumer.close(timeout_ms=0)
    assert world.clock.now() - began < 3.5
    assert world.committed() == 3


def test_a_source_that_does_not_commit_delays_the_end_by_two_seconds(clusters):
    world = clusters()
    world.append(build_batch(some(0)))
    mirror, *_ = world.mirror()
    world.cluster.on("OffsetCommit", Silence())
    world.copy_all(mirror, {T0: 3})
    began = world.clock.now()
    with pytest.raises(CommandError, match="since the last commit may be written twice"):
        mirror.finish()
    assert world.clock.now() - began < 2.5
    world.kill()


def refuse(code):
    def answer(call):
        response = ProduceResponse()
        for topic in call.request.topic_data:
            refused = [
                PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1) for p in topic.partition_data
            ]
            response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=refused)
            )
        return response

    return answer


def test_a_batch_that_cannot_be_written_ends_the_mirror_and_is_not_committed(clusters):
    world = clusters()
    world.append(build_batch(some(0)))
    mirror, consumer, _ = world.mirror()
    world.copy_all(mirror, {T0: 3})
    world.cluster.on("Produce", Reply(refuse(int(Code.TOPIC_AUTHORIZATION_FAILED))))
    world.append(build_batch(some(3)))
    with pytest.raises(CommandError, match=r"before offset 6 of t-0 could not be written.*TOPIC_AUTHORIZATION_FAILED"):
        world.copy_all(mirror, {T0: 6})
    with pytest.raises(CommandError):
        mirror.finish()
    assert consumer.committed(T0) == 3
    consumer.close()  # does not raise the error again


def test_batches_that_were_polled_but_not_sent_are_not_committed(clusters):
    """The position of the consumer is behind them, and the batch before was acknowledged and not committed yet."""
    world = clusters()
    world.append(build_batch(some(0)))
    mirror, consumer, _ = world.mirror(max_request_size=2000)
    world.copy_all(mirror, {T0: 3})
    world.append(build_batch([NewRecord(b"x" * 5000, b"3")]))
    world.append(build_batch(some(4)))
    with pytest.raises(IllegalArgumentError, match="max_request_size=2000"):
        world.copy_all(mirror, {T0: 7})
    mirror.finish()
    assert consumer.committed(T0) == 3
    assert [int(value) for _, value, _, _ in world.contents("c")] == [0, 1, 2]


@pytest.mark.once
@pytest.mark.parametrize("at", range(1, 51, 3))
def test_interrupted_by_ctrl_c_nothing_is_lost(clusters, at):
    """Ctrl-C at a line of the mirror's code, from the poll that returns batches to their acknowledgement."""
    world = clusters()
    world.append(build_batch(some(0)))
    mirror, _, _ = world.mirror()
    world.copy_all(mirror, {T0: 3})
    for first in range(3, 15, 3):
        world.append(build_batch(some(first)))
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        code = frame.f_code
        # A generator that is closed later cannot raise.
        lines += code.co_filename.endswith(("mirroring.py", "section.py")) and code.co_name != "<genexpr>"
        if lines == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        world.copy_all(mirror, {T0: 15})
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    mirror.finish()
    for client in world.open:
        client.close()
    mirror, consumer, _ = world.mirror()
    world.copy_all(mirror, {T0: 15})
    mirror.finish()
    numbers = [int(value) for _, value, _, _ in world.contents("c")]
    assert sorted(set(numbers)) == list(range(15)) and len(numbers) <= 18  # a batch may be doubled while it is sent
    assert consumer.committed(T0) == 15


@pytest.mark.once
@pytest.mark.parametrize("seed", range(5))
def test_killed_fifty_times_nothing_is_lost_and_order_is_kept(clusters, seed):
    """Ten kills for each seed, at any point between two calls, with requests under way.

    Batches may be doubled if they were written after the last commit: the copy is the original with some stretches
    repeated, each from a committed offset on.
    """
    random = Random(seed)
    world = clusters(partitions=2)
    written = [0, 0]
    for life in range(11):
        mirror, _, _ = world.mirror()
        for _ in range(random.randrange(1, 40) if life < 10 else 0):
            partition = random.randrange(2)
            if random.random() < 0.7 and written[partition] < 300:
                size = random.randrange(1, 6)
                world.append(build_batch(some(written[partition], size), codec=random.choice(CODECS)), partition)
                written[partition] += size
            mirror.copy(random.choice([0, 100, 1500]))
        if life < 10:
            world.kill()
            world.clock.advance(random.choice([0.0, 0.5, 8.0]))
    world.copy_all(mirror, {TopicPartition("t", number): count for number, count in enumerate(written)})
    mirror.finish()
    for partition in range(2):
        numbers = [int(value) for _, value, _, _ in world.contents("c", partition)]
        assert sorted(set(numbers)) == list(range(written[partition]))
        for before, after in pairwise(numbers):
            assert after <= before + 1  # a step back to what was committed, and never a gap
