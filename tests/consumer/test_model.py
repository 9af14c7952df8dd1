"""Everything at once against a model that knows only a list of offsets: polls, iteration, seeks, pauses, faults.

The model is Kafka's promise: a partition has a log and a position; what is handed out begins at the position, follows
the log without a gap, and moves the position behind it; only the user moves it otherwise. All records are returned in
the end, after any fault of brokers, leaders and connections.
"""

import itertools
import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from thinconsumer import Consumer, KafkaTimeoutError, NoBrokersAvailable, TopicPartition
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.testing import MemoryCluster, Network

pytestmark = pytest.mark.once

PARTITIONS = 3
NODES = (1, 2)
TPS = [TopicPartition("t", number) for number in range(PARTITIONS)]
some_partition = st.integers(0, PARTITIONS - 1)


class ReadingMachine(RuleBasedStateMachine):
    """One consumer of three partitions on two brokers."""

    @initialize(
        chunk=st.sampled_from([None, None, 1, 13]),
        send_limit=st.sampled_from([None, None, 5]),
        most=st.sampled_from([2, 5, 500]),
        bytes_max=st.sampled_from([1, 200, 1 << 20]),
        sessions=st.booleans(),
    )
    def begin(self, chunk, send_limit, most, bytes_max, sessions):
        self.network = Network(chunk=chunk, send_limit=send_limit)
        self.cluster = MemoryCluster(len(NODES), {"t": PARTITIONS}, network=self.network)
        self.consumer = Consumer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            driver=self.cluster.driver(),
            auto_offset_reset="earliest",
            max_poll_records=most,
            max_partition_fetch_bytes=bytes_max,
            enable_incremental_fetch_sessions=sessions,
            consumer_timeout_ms=300,
        )
        self.consumer.assign(TPS)
        self.offsets = [[] for _ in TPS]  # of records, per partition
        self.ends = [0 for _ in TPS]
        self.positions = [0 for _ in TPS]
        self.paused = set()

    # -- the model

    def expect(self, records):
        for record in records:
            number = record.partition
            assert number not in self.paused
            due = next(offset for offset in self.offsets[number] if offset >= self.positions[number])
            assert record.offset == due
            assert record.value == b"%d:%d" % (number, due)
            self.positions[number] = due + 1

    def left(self, number):
        return [offset for offset in self.offsets[number] if offset >= self.positions[number]]

    @invariant()
    def positions_agree(self):
        """Between the last record handed out and the next: holes and markers are passed in the consumer's own time."""
        if not hasattr(self, "consumer"):
            return
        for number, partition in enumerate(self.consumer._reader.partitions):
            if partition.has_position and self.consumer._reader.poll_result is None:
                due = self.left(number)
                assert self.positions[number] <= partition.cursor.offset
                assert not due or partition.cursor.offset <= due[0]

    # -- what users do

    @rule(most=st.sampled_from([None, 1, 3]), timeout_ms=st.sampled_from([0, 0, 1, 50, 1000]))
    def poll(self, most, timeout_ms):
        before = self.network.clock.now()
        for records in self.consumer.poll(timeout_ms, max_records=most).values():
            self.expect(records)
        assert self.network.clock.now() <= before + timeout_ms / 1000 + 1e-6

    @rule(most=st.sampled_from([1, 4]))
    def look_ahead(self, most):
        """A poll that moves nothing shows what the next one would."""
        positions = list(self.positions)
        for records in self.consumer.poll(50, max_records=most, update_offsets=False).values():
            self.expect(records)
        self.positions = positions

    @rule(count=st.integers(1, 5))
    def iterate(self, count):
        # Without one fetch yet it waits for as long as it takes, which with a dead leader is for ever.
        begun = self.consumer._reader.managers.answers.completed or not self.some_killed()
        if len(self.paused) < PARTITIONS and begun:
            for record in itertools.islice(self.consumer, count):
                self.expect([record])

    @rule(stop_after=st.one_of(st.none(), st.integers(1, 3)))
    def read_to_end(self, stop_after):
        # Records that a follower has not got yet, since it was dead, lie behind the high watermark.
        readable = [self.high_watermark(tp) for tp in TPS]
        try:
            for number, record in enumerate(self.consumer.read_to_end(timeout_ms=5000), 1):
                self.expect([record])
                if number == stop_after:
                    return
        except KafkaTimeoutError:
            assert self.some_killed()
            return
        assert self.some_killed() or not any(
            offset < readable[number]
            for number in range(PARTITIONS)
            if number not in self.paused
            for offset in self.left(number)
        )

    @rule(number=some_partition, data=st.data())
    def seek(self, number, data):
        target = data.draw(st.integers(0, self.ends[number]))
        self.consumer.seek(TPS[number], target)
        self.positions[number] = target

    @rule(number=some_partition)
    def seek_to_beginning(self, number):
        self.consumer.seek_to_beginning(TPS[number])
        self.positions[number] = 0

    @rule(number=some_partition)
    def pause_or_resume(self, number):
        if number in self.paused:
            self.consumer.resume(TPS[number])
        else:
            self.consumer.pause(TPS[number])
        self.paused ^= {number}

    @rule(seconds=st.sampled_from([0.01, 1, 40, 700]))
    def stay_away(self, seconds):
        self.network.clock.advance(seconds)

    @rule()
    def drive(self):
        self.consumer.drive()

    # -- what happens to the cluster

    @rule(number=some_partition, count=st.integers(1, 6))
    def write(self, number, count):
        if self.is_led(number):
            first = self.ends[number]
            assert first == self.cluster.produce("t", [b"%d:%d" % (number, first + i) for i in range(count)], number)
            self.offsets[number] += range(first, first + count)
            self.ends[number] += count

    @rule(number=some_partition, hole=st.booleans())
    def write_what_is_not_seen(self, number, hole):
        """A compaction hole behind a record, or a marker."""
        if not self.is_led(number):
            return
        first = self.ends[number]
        batch = build_marker(ControlType.COMMIT, producer_id=1)
        if hole:
            batch = build_batch([NewRecord(b"%d:%d" % (number, first))], last_offset_delta=3)
            self.offsets[number].append(first)
        assert first == self.cluster.append_batch(TPS[number], batch)
        self.ends[number] += 4 if hole else 1

    @rule(number=some_partition, node=st.sampled_from(NODES))
    def elect(self, number, node):
        if not self.some_killed():
            self.cluster.move_leader(TPS[number], node)

    @rule(node=st.sampled_from(NODES))
    def reset_connections(self, node):
        self.network.reset(f"kafka{node}", 9092)

    @precondition(lambda self: not self.some_killed())
    @rule(node=st.sampled_from(NODES), noticed_after_s=st.sampled_from([0, 5, math.inf]))
    def kill(self, node, noticed_after_s):
        self.cluster.kill(node, noticed_after_s=noticed_after_s)

    @precondition(lambda self: self.some_killed())
    @rule()
    def restart(self):
        for node in NODES:
            if self.is_killed(node):
                self.cluster.start(node)

    def is_killed(self, node):
        return not self.cluster.nodes[node].is_alive

    def is_led(self, number):
        leader = self.cluster.controller.image.partition(*TPS[number]).leader
        return leader > 0 and not self.is_killed(leader)

    def high_watermark(self, tp):
        return self.cluster.leader(tp).high_watermark if self.is_led(tp.partition) else 0

    def some_killed(self):
        return any(self.is_killed(node) for node in NODES)

    # -- the end

    def teardown(self):
        """Heal everything: what is left arrives, and soon."""
        if not hasattr(self, "consumer"):
            return
        self.restart_all()
        for number in self.paused.copy():
            self.pause_or_resume(number)
        end = self.network.clock.now() + 45
        while any(self.left(number) for number in range(PARTITIONS)) and self.network.clock.now() < end:
            try:
                self.poll(None, 1000)
            except NoBrokersAvailable:
                pass
        assert [self.left(number) for number in range(PARTITIONS)] == [[], [], []]
        self.consumer.close()
        assert self.cluster.bugs == [] and not self.cluster.invalid_requests

    def restart_all(self):
        for node in NODES:
            if self.is_killed(node):
                self.cluster.start(node)


def test_reading_to_the_end_again_after_a_timeout_reads_what_was_written_meanwhile():
    """The end offset of a partition had been found by the call that timed out because of another partition."""
    machine = ReadingMachine()
    machine.begin(None, None, 2, 1, False)
    machine.kill(1, 5)
    machine.read_to_end(None)
    machine.write(1, 1)
    machine.restart()
    machine.read_to_end(None)
    machine.teardown()


TestReading = ReadingMachine.TestCase
TestReading.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
