"""A consumer on a cluster in memory: nothing here takes real time, and each run is the same."""

import logging
import sys

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import Edit, EntryError
from thinconsumer.consumer import keep_alive
from thinconsumer.testing import MemoryCluster, Network
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest

T0 = TopicPartition("t", 0)


class World:
    """A cluster, and consumers on it. Values tell where they are: offset 7 of partition 0 holds ``b"0:7"``."""

    def __init__(self, nodes=1, topics=None, *, network=None, **about):
        self.network = network or Network()
        self.cluster = MemoryCluster(nodes, {"t": 1} if topics is None else topics, network=self.network, **about)
        self.clock = self.cluster.clock
        self.consumers = []

    def consumer(self, *assigned, **options):
        """Return a consumer that starts at the beginning, assigned to what is named (default: t-0)."""
        options = {"bootstrap_servers": self.cluster.bootstrap_servers, "auto_offset_reset": "earliest", **options}
        consumer = Consumer(driver=self.cluster.driver(), **options)
        self.consumers.append(consumer)
        consumer.assign([TopicPartition(*tp) for tp in assigned] or [T0])
        return consumer

    def append(self, count, partition=0, topic="t"):
        """Append a batch of ``count`` records that say where they are; return its first offset."""
        first = self.cluster.leader(TopicPartition(topic, partition)).log.end_offset
        values = [b"%d:%d" % (partition, offset) for offset in range(first, first + count)]
        return self.cluster.produce(topic, values, partition)

    def elect_unclean(self, node, offset):
        """Let a node lead t-0 that has only the records before an offset."""
        self.cluster.nodes[node].partitions[T0].truncate_to(offset)
        self.cluster.controller.elect_unclean(T0, node)

    def requests(self, api, node_id=None):
        """Return every request of one API that reached any broker (or that one), in order of time."""
        return self.cluster.received(api, node_id)

    def fetches(self, node_id=None):
        return [received.message for received in self.requests(FetchRequest, node_id)]

    def read(self, consumer, seconds=1.0):
        """Poll for so many seconds of virtual time; return the values as text, sorted."""
        found = []
        end = self.clock.now() + seconds
        while (left := end - self.clock.now()) > 0:
            for records in consumer.poll(left * 1000).values():
                found += [bytes(record.value).decode() for record in records]
        return sorted(found)

    def hide(self, name, **how):
        """Let brokers answer as if they had not heard of a topic: in lists of all topics, and if it is named."""

        def change(call, response):
            if call.request.topics is None:
                response.topics = [topic for topic in response.topics if topic.name != name]
            else:
                EntryError(Code.UNKNOWN_TOPIC_OR_PARTITION, {"name": name}).edited(call, response)

        return self.cluster.on("Metadata", Edit(change), **how)

    def elapsed(self, call):
        """Return how much virtual time a call took, in seconds, and what it returned."""
        before = self.clock.now()
        result = call()
        return self.clock.now() - before, result

    def close(self):
        for consumer in self.consumers:
            consumer.close()
        # Without a group nothing ever looks for a coordinator, and no broker met anything it does not speak.
        assert self.requests(FindCoordinatorRequest) == []
        assert self.cluster.bugs == [] and not self.cluster.invalid_requests


@pytest.fixture
def world(closed_at_end):
    return lambda *args, **about: closed_at_end(World(*args, **about))


@pytest.fixture
def make(world):
    """Return a function that makes a world, and a consumer of topics on it; and the values that the consumer reads."""

    def make(*topics, known=None, nodes=1, **options):
        w = world(nodes, {"t": 2} if known is None else known)
        common = {"bootstrap_servers": w.cluster.bootstrap_servers, "metadata_max_age_ms": 5000}
        consumer = Consumer(*topics, driver=w.cluster.driver(), **{**common, **options})
        w.consumers.append(consumer)
        return w, consumer

    return make


@pytest.fixture
def reading(world):
    """Return a function that makes a world with ``count`` records in t-0, and a consumer at the first of them."""

    def make(count=0, **options):
        w = world()
        if count:
            w.append(count)
        return w, w.consumer(**options)

    return make


def offsets_of(found):
    """Return what one poll returned as offsets by partition number; holds each record to its own story."""
    for tp, records in found.items():
        assert records, f"{tp} is there without a record"
        for record in records:
            assert (record.topic, record.partition) == tp
            if isinstance(record.value, bytes) and record.value.count(b":") == 1:
                assert record.value == b"%d:%d" % (record.partition, record.offset)
    return {tp.partition: [record.offset for record in records] for tp, records in found.items()}


@pytest.fixture
def offsets():
    return offsets_of


@pytest.fixture
def read():
    """Return a function that polls until ``count`` records came, and returns the offsets of partition ``partition``."""

    def read_offsets(consumer, count, *, timeout_ms=60_000, polls=1000, **how):
        found = {}
        for _ in range(polls):
            if sum(map(len, found.values())) >= count:
                break
            polled = offsets_of(consumer.poll(timeout_ms, **how))
            assert polled, f"nothing within {timeout_ms} ms after {found}"
            for number, some in polled.items():
                found.setdefault(number, []).extend(some)
        return found

    return read_offsets


@pytest.fixture
def lines(caplog):
    """Return a function: the log lines of the package so far, at INFO and above."""
    caplog.set_level(logging.DEBUG, "thinconsumer")

    def at_least(level=logging.INFO):
        return [r.getMessage() for r in caplog.records if r.levelno >= level and r.name.startswith("thinconsumer")]

    return at_least


class MemoryGroup:
    """A cluster in memory, and members of one group on it."""

    def __init__(self, closed_at_end, style, *, partitions=3, **config):
        self.partitions = partitions
        self.cluster = MemoryCluster(1, {"t": partitions}, group_initial_rebalance_delay_ms=0, **config)
        self.closed_at_end = closed_at_end
        self.options = {"partition_assignment_strategy": [style]} if style != "consumer" else {"group_protocol": style}
        self.made = 0

    def now(self):
        return self.cluster.clock.now()

    def member(self, listener=None, **options):
        self.made += 1
        found = Consumer(
            driver=self.cluster.driver(self.made),
            bootstrap_servers=self.cluster.bootstrap_servers,
            client_id=f"member-{self.made}",
            group_id="g",
            auto_offset_reset="earliest",
            # what a member has read is committed when it closes
            **{"auto_commit_interval_ms": 600_000, **self.options, **options},
        )
        found.subscribe(["t"], listener=listener)
        return self.closed_at_end(found)

    def settle(self, *members):
        """Poll in turn until all partitions are owned, each by one member; return the seconds that it took."""
        began = self.now()
        while not all(m.assignment() for m in members) or sum(len(m.assignment()) for m in members) != self.partitions:
            assert self.now() < began + 120, [m.assignment() for m in members]
            for found in members:
                found.poll(20)
        return self.now() - began

    def read(self, member, *others):
        """Let a member read a record of each of its partitions, so that it has offsets to commit."""
        for partition in range(self.partitions):
            self.cluster.produce("t", [b"x"], partition)
        left = set(member.assignment())
        while left:
            left -= set(member.poll(20))
            for other in others:
                other.poll(20)


@pytest.fixture
def make_group(closed_at_end):
    """Return a function that makes a group of members with a classic assignor, or ``"consumer"`` for that protocol."""
    return lambda style="range", **config: MemoryGroup(closed_at_end, style, **config)


@pytest.fixture
def run_traced():
    """Return a function that calls a function, with Ctrl-C before one of the lines of this package that it runs.

    It takes the function and the line's number, counted from 1 as they run, and returns whether there was such a line.
    """

    def run(function, number):
        count = 0

        def trace(frame, event, arg):
            nonlocal count
            if not str(frame.f_globals.get("__name__", "")).startswith("thinconsumer."):
                return None
            if event == "line":
                count += 1
                if count == number:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function()
        except KeyboardInterrupt:
            assert count >= number
        finally:
            sys.settrace(before)
        return count >= number

    return run


class NoTimer:
    """Stands for the timer of ``keep_alive``: it never ticks."""

    runs = False

    def start(self, seconds):
        self.runs = True

    def stop(self):
        self.runs = False
        return True


@pytest.fixture
def timer(monkeypatch):
    """Replace the timer of ``keep_alive``, and see that each block ends."""
    timer = NoTimer()
    monkeypatch.setattr(keep_alive._keeper, "_timer", timer)
    yield timer
    assert not keep_alive._keeper._blocks and not timer.runs


@pytest.fixture
def tick(timer):
    """Return a function that does what ``keep_alive`` does at the timer's signal."""
    return lambda: keep_alive._keeper._tick(sys._getframe(1))
