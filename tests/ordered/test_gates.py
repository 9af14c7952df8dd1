"""Gates as pure functions, and a model of a topic that changes while it is read: order by key, and no deadlock."""

import random

import pytest

from thinconsumer.linear_hashing import ancestors_of, partition_of
from thinconsumer.ordered.gates import (
    END,
    START,
    Gate,
    Requirement,
    TopicHistory,
    _awaited,
    deciding_partitions,
    gates_of,
)


class Topic:
    """A topic in memory: records are (epoch, key, sequence number); the brokers' part of KIP-253 in a few lines."""

    def __init__(self, initial):
        self.initial = self.count = initial
        self.logs = {p: [] for p in range(initial)}
        self.epochs = dict.fromkeys(range(initial), 0)
        self.positions = dict.fromkeys(range(initial), 0)
        self.created, self.deleted = {}, {}
        self.sequences = {}
        self.gates = {}

    def produce(self, key):
        self.sequences[key] = self.sequences.get(key, 0) + 1
        partition = partition_of(key, self.initial, self.count)
        self.logs[partition].append((self.epochs[partition], key, self.sequences[key]))

    def resize(self, count):
        before = [self.epochs[p] for p in range(min(count, self.count))]
        for p in range(self.count, count):
            self.logs[p], self.epochs[p], self.positions[p] = [], 0, 0
            self.created[p] = before
        for p in range(count, self.count):
            self.deleted[p] = before
        for p in self.epochs:
            self.epochs[p] += 1
        self.count = count
        self.gates = {}

    def remove(self, partition):
        for held in (self.logs, self.epochs, self.positions, self.deleted):
            del held[partition]
        self.created.pop(partition, None)
        self.gates = {}

    def history(self):
        return TopicHistory(self.initial, frozenset(self.logs), dict(self.created), dict(self.deleted))

    def passed(self, requirement):
        log, position = self.logs[requirement.partition], self.positions[requirement.partition]
        return position == len(log) or log[position][0] > requirement.epoch

    def may_deliver(self, partition, *, closure=True):
        epoch = self.logs[partition][self.positions[partition]][0]
        if not self.gates:
            history = self.history()
            for p in self.logs:
                self.gates[p] = gates_of(history, p) if closure else [Gate(e, (r,)) for e, r in _awaited(history, p)]
        return all(self.passed(r) for gate in self.gates[partition] if gate.after < epoch for r in gate.requires)

    def readable(self):
        return [p for p, log in self.logs.items() if self.positions[p] < len(log)]


def run(seed, *, gated=True, closure=True):
    """Change, write and read a topic at random; return the number of records out of order, and those left unread."""
    rng = random.Random(seed)
    topic = Topic(rng.randint(1, 3))
    last, wrong = {}, 0

    def read():
        nonlocal wrong
        ready = [p for p in topic.readable() if not gated or topic.may_deliver(p, closure=closure)]
        if not ready:
            return False
        partition = rng.choice(ready)
        _, key, sequence = topic.logs[partition][topic.positions[partition]]
        topic.positions[partition] += 1
        wrong += sequence < last.get(key, 0)
        last[key] = max(sequence, last.get(key, 0))
        return True

    keys, writes, reads = rng.choice([3, 24]), rng.choice([1, 6, 12]), rng.choice([0, 1, 4])
    for _ in range(rng.randint(3, 12)):
        for _ in range(rng.randint(0, writes)):
            topic.produce(rng.randrange(keys))
        for _ in range(rng.randint(0, reads)):
            read()
        marked = [p for p in topic.logs if p >= topic.count]
        if marked and rng.random() < 0.3:
            topic.remove(rng.choice(marked))  # emptied by retention, perhaps before it was read
        elif rng.random() < 0.5 and topic.count > topic.initial:
            topic.resize(rng.randint(topic.initial, topic.count - 1))
        elif not marked:
            topic.resize(topic.count + rng.randint(1, 5))
    while read():
        pass
    return wrong, len(topic.readable())


def test_any_changes_keep_the_order_by_key_and_everything_is_read():
    for seed in range(800):
        assert run(seed) == (0, 0), f"seed {seed}"


def test_the_model_finds_wrong_orders_without_gates():
    assert sum(run(seed, gated=False)[0] > 0 for seed in range(300)) > 60


def test_without_the_gates_of_awaited_partitions_empty_ones_would_let_later_records_pass():
    assert sum(run(seed, closure=False)[0] > 0 for seed in range(800)) > 3


def test_only_deciding_partitions_matter():
    for seed in range(300):
        rng = random.Random(seed)
        topic = Topic(rng.randint(1, 3))
        for _ in range(4):
            topic.resize(rng.randint(topic.initial, topic.initial + 9))
            for p in [p for p in topic.logs if p >= topic.count and rng.random() < 0.5]:
                topic.remove(p)
            if any(p >= topic.count for p in topic.logs):
                break
        full = topic.history()
        for partition in topic.logs:
            wanted = deciding_partitions(topic.initial, topic.count, full.existing, partition)
            part = full._replace(
                created={p: e for p, e in full.created.items() if p in wanted},
                deleted={p: e for p, e in full.deleted.items() if p in wanted},
            )
            assert gates_of(part, partition) == gates_of(full, partition)


def history(initial, existing, created=None, deleted=None):
    return TopicHistory(initial, frozenset(existing), created or {}, deleted or {})


def test_a_topic_that_never_changed_has_no_gates():
    assert all(gates_of(history(4, range(4)), p) == [] for p in range(4))
    assert all(deciding_partitions(4, 4, range(4), p) == frozenset() for p in range(4))


def test_a_child_waits_for_its_parent_before_its_first_record():
    topic = history(2, range(4), {2: [5, 6], 3: [5, 6]})
    assert gates_of(topic, 2) == [Gate(START, (Requirement(0, 5),))]
    assert gates_of(topic, 3) == [Gate(START, (Requirement(1, 6),))]
    assert gates_of(topic, 0) == gates_of(topic, 1) == []
    assert deciding_partitions(2, 4, range(4), 3) == {3}
    assert deciding_partitions(2, 4, range(4), 1) == frozenset()


def test_children_of_one_expansion_wait_for_the_partition_that_had_their_keys_before():
    """Partition 3 is split off from 1, which is as new as partition 3 itself: its keys were in partition 0."""
    topic = history(1, range(4), {p: [7] for p in (1, 2, 3)})
    assert [gates_of(topic, p) for p in (1, 2, 3)] == [[Gate(START, (Requirement(0, 7),))]] * 3


def test_a_grandchild_waits_for_parent_and_grandparent():
    topic = history(1, range(4), {1: [7], 2: [8, 0], 3: [8, 0]})
    assert gates_of(topic, 3) == [Gate(START, (Requirement(0, 7), Requirement(1, 0)))]


def test_the_heir_waits_at_its_threshold_for_the_end_of_the_deleted_partition():
    topic = history(1, range(4), {1: [7], 2: [8, 0], 3: [8, 0]}, {3: [9, 1, 0]})
    assert gates_of(topic, 1) == [
        Gate(START, (Requirement(0, 7),)),
        Gate(1, (Requirement(0, 7), Requirement(1, 0), Requirement(3, END))),
    ]
    assert gates_of(topic, 0) == []
    assert deciding_partitions(1, 3, range(4), 0) == {1, 2, 3}


def test_a_removed_heir_leaves_its_gate_to_its_own_heir():
    deleted = {2: [9, 1], 3: [9, 1], 1: [10]}
    first, second = gates_of(history(1, range(4), {}, deleted), 0)
    assert first == Gate(9, (Requirement(2, END),))
    assert second == Gate(10, (Requirement(1, END), Requirement(3, END)))
    assert gates_of(history(1, [0, 2, 3], {}, deleted), 0) == [Gate(9, (Requirement(2, END), Requirement(3, END)))]


def test_a_parent_that_was_removed_is_replaced_by_its_own_parent():
    created = {1: [7], 3: [8, 0]}
    assert gates_of(history(1, range(4), created), 3) == [Gate(START, (Requirement(0, 7), Requirement(1, 0)))]
    assert gates_of(history(1, [0, 2, 3], created), 3) == [Gate(START, (Requirement(0, 8),))]


@pytest.mark.parametrize("epochs", [[], [-1], [-1, -1]])
def test_partitions_without_recorded_epochs_wait_for_nothing(epochs):
    assert gates_of(history(1, range(2), {1: epochs}, {}), 1) == []


def test_epochs_of_a_broker_that_wait_for_each_other_end_the_search():
    topic = history(1, range(4), {p: [2**31 - 1] * 4 for p in range(1, 4)}, {p: [0] * 4 for p in range(1, 4)})
    for partition in range(4):
        for gate in gates_of(topic, partition):
            assert {one.partition for one in gate.requires} <= set(range(4))


@pytest.mark.parametrize("initial", [1, 3, 8])
def test_a_family_is_the_partitions_with_the_same_initial_ancestor(initial):
    for partition in range(200):
        assert (ancestors_of(partition, initial) or (partition,))[-1] == partition % initial
