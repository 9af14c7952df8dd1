"""Consumers of a topic with ordered delivery in memory, and producers that choose partitions by linear hashing."""

import pytest

from thinconsumer import Consumer, PartitionKeyRebalanceListener, TopicPartition
from thinconsumer.linear_hashing import partition_of
from thinconsumer.records.builder import NewRecord
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest


class Listener(PartitionKeyRebalanceListener):
    """Records its calls, and raises the exceptions that the test has set for them."""

    def __init__(self):
        self.calls = []
        self.raises = {}

    def _call(self, what, tps):
        if what in self.raises:
            raise self.raises.pop(what)
        self.calls.append((what, sorted(tp.partition for tp in tps)))

    def on_partitions_assigned(self, assigned):
        self._call("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self._call("revoked", revoked)

    def on_partition_keys_assigned(self, assigned):
        self._call("keys assigned", assigned)

    def on_partition_keys_maybe_revoked(self, revoked):
        self._call("keys maybe revoked", revoked)

    def of(self, what):
        return [numbers for name, numbers in self.calls if name == what]


class World:
    """A cluster with the topic "t", and its consumers. Keys are small numbers, which are their own hashes; the value of
    a record is its key and a sequence number.
    """

    def __init__(self, partitions=1, nodes=3, brokers=None, **configs):
        self.cluster = MemoryCluster(nodes, **(brokers or {}))
        self.clock = self.cluster.clock
        configs = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.configs = {"enable.ordered.delivery": "true", **configs}
        self.cluster.create_topic("t", partitions, nodes, self.configs)
        self.initial = self.count = partitions
        self.sequences = {}
        self.consumers = []
        self.read = []  #: (key, sequence) of every record, in the order in which consumers have returned them.

    def resize(self, count):
        (self.cluster.expand if count > self.count else self.cluster.shrink)("t", count)
        self.count = count
        self.run(1.0)

    def run(self, seconds):
        self.clock.advance(seconds)
        self.cluster.network.run_due()

    def expanded(self, before, after=0):
        """Write keys 0 and 1 to partition 0, add partition 1, to which key 1 moves, and write both again."""
        self.write(0, 1, times=before)
        self.resize(2)
        self.write(0, 1, times=after)
        return self

    def owners(self, **options):
        """Return two members, the owners of partitions 0 and 1, which have read nothing."""
        members = self.consumer(**options), self.consumer(**options)
        self.settle(*members, partitions=2)
        return self.owner(0), self.owner(1)

    def remove_emptied(self):
        self.cluster.controller.counts.remove_emptied()
        self.run(1.0)

    def write(self, *keys, times=1):
        """Write one record of each key, as a producer with the current count does."""
        for key in keys * times:
            self.sequences[key] = self.sequences.get(key, 0) + 1
            value = b"%d:%d" % (key, self.sequences[key])
            record = NewRecord(value, b"%d" % key)
            self.cluster.produce("t", [record], partition_of(key, self.initial, self.count))

    def consumer(self, *assigned, **options):
        """Return a consumer of these partitions, or a member that is subscribed to the topic."""
        common = {"bootstrap_servers": self.cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        group = {
            "group_id": "g",
            "heartbeat_interval_ms": 1000,
            "session_timeout_ms": 10_000,
            "partition_assignment_strategy": ["cooperative-sticky"],
        }
        if options.get("group_protocol") == "consumer":
            group = {"group_id": "g"}  # the brokers' configuration has the rest
        options = {**common, **(group if options.get("group_id", "g") is not None else {}), **options}
        consumer = Consumer(driver=self.cluster.driver(len(self.consumers)), **options)
        self.consumers.append(consumer)
        consumer.listener = Listener()
        if assigned:
            consumer.assign([TopicPartition("t", number) for number in assigned])
        else:
            consumer.subscribe(["t"], listener=consumer.listener)
        return consumer

    def take(self, found):
        new = [tuple(map(int, bytes(r.value).split(b":"))) for records in found.values() for r in records if r.value]
        self.read += new
        return new

    def poll(self, *consumers, seconds=5.0, step=0.25):
        end = self.clock.now() + seconds
        found = []
        while self.clock.now() < end:
            for consumer in consumers:
                found += self.take(consumer.poll(step * 1000))
        return found

    def settle(self, *members, partitions, within=60.0):
        """Poll in turn, without moving a position, until these members own all partitions."""
        end = self.clock.now() + within
        while self.clock.now() < end:
            owned = [member.assignment() for member in members]
            if all(m.health().group_state == "stable" for m in members) and sum(map(len, owned)) == partitions:
                return
            for member in members:
                member.poll(50, update_offsets=False)
            self.run(0.02)  # a poll that returns records takes no time
        raise AssertionError([member.health() for member in members])

    def owner(self, number):
        [one] = [c for c in self.consumers if TopicPartition("t", number) in c.assignment()]
        return one

    def wrong(self):
        """Return the records that were returned before an earlier one of the same key."""
        last, wrong = {}, []
        for key, sequence in self.read:
            if sequence < last.get(key, 0):
                wrong.append((key, sequence))
            last[key] = max(sequence, last.get(key, 0))
        return wrong

    def wrong_first(self):
        """Return the records that were returned for the first time after a later one of the same key."""
        last, seen, wrong = {}, set(), []
        for key, sequence in self.read:
            if (key, sequence) not in seen and sequence < last.get(key, 0):
                wrong.append((key, sequence))
            seen.add((key, sequence))
            last[key] = max(sequence, last.get(key, 0))
        return wrong

    def requests(self, api):
        return self.cluster.received(api)

    def die(self, consumer):
        """Let a consumer send and receive nothing any more, as after ``kill -9``."""
        consumer._shell.driver.close()
        consumer._shell.closed = True
        self.consumers.remove(consumer)

    @property
    def extra_requests(self):
        """The requests that only ordered delivery sends."""
        apis = ConsumerGroupPositionsRequest, PartitionLeaderEpochsForPartitionsRequest
        return [one for api in apis for one in self.requests(api)]

    def close(self):
        for consumer in self.consumers:
            consumer.close(timeout_ms=0)
        assert self.cluster.bugs == []


class PlainWorld(World):
    """A cluster with a topic as real Kafka has them, consumers with a barrier, and producers that notice an expansion
    later: they use ``count``.
    """

    def __init__(self, partitions=1, nodes=1, **configs):
        super().__init__(partitions, nodes, enable_ordered_delivery="false", **configs)

    def expand(self, count):
        self.cluster.expand("t", count)
        self.run(1)

    def consumer(self, *assigned, **options):
        barrier = {"ordered_delivery": "barrier", "ordered_delivery_grace_ms": 60_000}
        return super().consumer(*assigned, **{"metadata_max_age_ms": 5000, **barrier, **options})


@pytest.fixture
def plain_world(closed_at_end):
    """Return a function that makes worlds for the barrier; their consumers are closed at the end."""
    return lambda *args, **about: closed_at_end(PlainWorld(*args, **about))


@pytest.fixture
def world(closed_at_end):
    """Return a function that makes worlds; their consumers are closed at the end."""
    return lambda *args, **about: closed_at_end(World(*args, **about))
