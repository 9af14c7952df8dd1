"""Compacted topics whose partition count changes: why no tombstone goes to the parent, and deleted keys stay deleted.

KIP-253, step 9: if the earliest offset of the parent is above the threshold, a record for a child is followed by a
tombstone of the same key in the parent. The tests write the tombstones that such a producer would write.
"""

import random

import pytest

from thinconsumer import TopicPartition
from thinconsumer.linear_hashing import ancestors_of, partition_of
from thinconsumer.records.builder import NewRecord

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": 100,
    "min_cleanable_dirty_ratio": 0,
    "delete_retention_ms": 0,
}
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
#: A key of partition 0 that moves to partition 1, and one that stays.
MOVES, STAYS = 1, 0


def put(w, key, value, partition=None):
    """Write a value of a key, or a tombstone (None), to its partition or to another one; return the offset."""
    if partition is None:
        partition = partition_of(key, w.initial, w.count)
    return w.cluster.produce("t", [NewRecord(value, b"%d" % key)], partition)


def table(w, consumer, seconds=20):
    """Return the last value of each key that a consumer of the whole topic has got."""
    values = {}
    end = w.clock.now() + seconds
    while w.clock.now() < end:
        for records in consumer.poll(250).values():
            for record in records:
                values[int(record.key)] = record.value
    return {key: value for key, value in values.items() if value is not None}


def log_of(w, number):
    return w.cluster.leader(TopicPartition("t", number)).log


def threshold(w, child):
    """Return the partition that ``child`` was split off from, and the end of the leader epoch before."""
    epochs = w.cluster.controller.image.partition("t", child).leader_epochs_after_creation
    parent = next(one for one in ancestors_of(child, w.initial) if one < len(epochs))
    log = log_of(w, parent)
    return parent, log.epochs.end_of(epochs[parent], log.end_offset)[1]


def compact_all(w):
    for _ in range(2):
        w.run(5)
        for row in w.cluster.controller.image.topics["t"].partitions:
            w.cluster.compact(row.tp)


@pytest.mark.parametrize("deletes_before", [True, False], ids=["with the condition", "with the opposite condition"])
def test_a_tombstone_in_the_parent_would_undo_the_newer_value_in_the_child(world, deletes_before):
    """A group that waits for the parent up to the threshold may still return the child's value first."""
    w = world(1, **COMPACTED)
    put(w, MOVES, b"old")
    w.resize(2)
    if deletes_before:
        w.cluster.delete_records(P0, 1)
        put(w, STAYS, b"later")
    assert (log_of(w, 0).start_offset >= threshold(w, 1)[1]) is deletes_before
    put(w, MOVES, b"new")
    reader = w.consumer(0, 1)
    seen = table(w, reader)
    assert seen.pop(STAYS, None) == (b"later" if deletes_before else None)
    assert seen == {MOVES: b"new"}
    put(w, MOVES, None, partition=0)  # as KIP-253 has it: after the value, and with acks=0
    values = [record.value for records in reader.poll(2000).values() for record in records]
    assert values == [None]


def test_the_order_of_value_and_tombstone_is_that_in_which_partitions_are_read(world):
    """Even a tombstone that is written before the value undoes it, if its partition is read later."""
    w = world(1, **COMPACTED)
    put(w, MOVES, b"old")
    w.resize(2)
    put(w, MOVES, None, partition=0)
    put(w, MOVES, b"new")
    reader = w.consumer(0, 1, max_poll_records=1)
    assert [r.value for records in reader.poll(5000).values() for r in records] == [b"old"]
    reader.pause(P0)  # at the threshold, with the tombstone behind it
    assert table(w, reader) == {MOVES: b"new"}
    reader.resume(P0)
    assert [r.value for records in reader.poll(5000).values() for r in records] == [None]


@pytest.mark.parametrize("seed", range(8))
def test_with_the_condition_the_parent_has_no_record_that_a_tombstone_could_remove(world, seed):
    """Every record of a key that has moved is before the threshold: the condition says that those are deleted."""
    chance = random.Random(seed)
    w = world(chance.choice([1, 2, 3]), nodes=1, **COMPACTED)
    met = 0
    for _ in range(6):
        for key in chance.choices(range(12), k=10):
            put(w, key, b"x")
        lower = chance.random() < 0.4 and w.count > w.initial
        count = chance.randrange(w.initial, w.count) if lower else w.count + chance.randrange(1, 4)
        for number in range(w.count, len(w.cluster.controller.image.topics["t"].partitions)):
            w.cluster.delete_records(TopicPartition("t", number), log_of(w, number).end_offset)
        w.remove_emptied()
        w.resize(count)
        for child in range(w.initial, w.count):
            parent, at = threshold(w, child)
            if chance.random() < 0.5:
                w.cluster.delete_records(TopicPartition("t", parent), at)
            log = log_of(w, parent)
            if log.start_offset >= at:
                met += 1
                keys = {
                    int(r.key) for b in log.read_batches(log.start_offset, log.end_offset) for r in b.decode("t", 0)
                }
                assert not [key for key in keys if partition_of(key, w.initial, w.count) == child]
    assert met


def test_a_key_that_was_deleted_after_it_had_moved_stays_deleted(world):
    """The parent keeps its old value, so the tombstone in the child must stay, too."""
    w = world(1, **COMPACTED)
    put(w, MOVES, b"old")
    put(w, STAYS, b"old")
    w.resize(2)
    put(w, MOVES, None)
    put(w, STAYS, None)
    compact_all(w)
    assert [key for key in (MOVES, STAYS) if b"%d" % key in keys_in(w, 0)] == [MOVES]
    assert table(w, w.consumer()) == {}


def test_a_key_that_was_deleted_after_it_had_returned_stays_deleted(world):
    """The marked partition keeps the old value until it is removed, so its heir keeps the tombstone until then."""
    w = world(1, **COMPACTED)
    w.resize(2)
    put(w, MOVES, b"old")
    w.resize(1)
    put(w, MOVES, None)
    compact_all(w)
    assert table(w, w.consumer()) == {}
    w.cluster.delete_records(P1, 1)
    w.remove_emptied()
    put(w, STAYS, b"last")  # the last batch of a log keeps its place
    compact_all(w)
    assert b"%d" % MOVES not in keys_in(w, 0)


def keys_in(w, number):
    log = log_of(w, number)
    return [r.key for b in log.read_batches(log.start_offset, log.end_offset) for r in b.decode("t", 0)]
