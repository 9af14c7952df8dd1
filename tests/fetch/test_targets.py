"""The partitions to fetch from each node, found from changes alone, are those that a look at all partitions finds."""

import random

import pytest

from thinconsumer.errors import CorruptRecordError
from thinconsumer.fetch.targets import FetchTargets
from thinconsumer.positions.partitions import Reset
from thinconsumer.positions.states import PositionEvent
from thinconsumer.support.agenda import NEVER

COUNT = 12


def settle(world, limit):
    world.collector.settle(world.collector.gather(limit))


def expected(world):
    """Return the partitions to fetch by node, those left out and those without a leader, from all partitions."""
    fetchable = [p for p in world.partitions if p.may_fetch(world.now)]
    share = world.config.max_buffered_bytes // max(1, len(fetchable))
    by_node, left_out, leaderless = {}, set(), set()
    for p in fetchable:
        if world.buffer.head(p) is not None and (world.buffer.size_of(p) >= share or world.buffer.broken(p)):
            left_out.add(p)
            continue
        preferred = p.preferred_replica
        is_over = p.preference is None or not p.preference.is_ahead(world.now)
        if preferred >= 0 and (is_over or preferred not in world.metadata.nodes):
            preferred = -1
        info = world.metadata.leader(p.tp)
        node = preferred if preferred >= 0 else None if info is None else info.leader
        if node is None:
            leaderless.add(p)
        else:
            by_node.setdefault(node, []).append(p)
    return by_node, left_out, leaderless


class Changes:
    """Draws changes of partitions, metadata, the buffer and time."""

    def __init__(self, world, kit, seed):
        self.world = world
        self.kit = kit
        self.draw = random.Random(seed)
        self.sent = {}
        self.leaders = {kit.tp(n): (n % 3 + 1, 5) for n in range(COUNT)}
        world.cluster(self.leaders)
        world.assign({kit.tp(n): 0 for n in range(COUNT)})

    def one(self):
        return self.draw.choice(list(self.world.partitions) or [None])

    def pause(self):
        self.one().paused ^= True

    def seek(self):
        self.one().place(PositionEvent.SEEK, self.draw.randrange(5))

    def reset(self):
        self.one().ask_reset(Reset(Reset.LATEST, "x"))

    def revoke(self):
        self.one().pending_revocation ^= True

    def block(self):
        self.one().back_off(self.world.now + self.draw.choice([0.0, 1.0, 3.0]))

    def prefer(self):
        self.one().prefer(self.draw.randrange(1, 4), self.world.now + self.draw.choice([1.0, 4.0]))

    def assign(self):
        numbers = self.draw.sample(range(COUNT), self.draw.randrange(1, COUNT))
        self.world.partitions.assign([self.kit.tp(n) for n in numbers])

    def leader(self):
        tp, (_, epoch) = self.draw.choice(list(self.leaders.items()))
        self.leaders[tp] = self.draw.choice([1, 2, 3, 9]), epoch + 1
        self.world.cluster(self.leaders, nodes=self.draw.choice([(1, 2, 3), (1, 2), (1, 2, 3)]))
        if self.draw.random() < 0.5:
            self.world.validation.step(self.world.now)

    def wait(self):
        self.world.now += self.draw.choice([0.1, 1.0, 2.0])

    def fetch(self):
        sent = self.world.fetches()
        self.sent.update(sent)
        self.sent.update({-node: second for node, second in self.world.seconds.items()})
        planner = self.world.planner
        for node, one in sent.items():
            held = one.request.context.listed
            for partition in planner.targets.wanted(node):
                want = planner._want(partition, held.wanted[partition.tp].max_bytes)
                assert held.wanted[partition.tp] == want, "the session differs from what is to be fetched"
                assert held.cursors[partition.tp] == (partition, partition.cursor)

    def answer(self):
        if self.sent:
            sent = self.sent.pop(self.draw.choice(list(self.sent)))
            asked = list(sent.request.context.listed.cursors.values())
            chosen = self.draw.sample(asked, self.draw.randrange(len(asked) + 1))
            size = self.draw.choice([10, 30_000])
            data = {p.tp: self.kit.batch(cursor.fetch_offset, 2, size=size) for p, cursor in chosen}
            sent.answer({tp: bytes(40) if self.draw.random() < 0.05 else found for tp, found in data.items()})

    def take(self):
        try:
            settle(self.world, self.draw.choice([1, 5, 100]))
        except Exception:  # noqa: BLE001 - a broken batch
            self.seek()

    def restart(self):
        for partition in self.world.partitions:
            partition.rewind()
        self.world.buffer.clear()
        self.world.collector.restart()
        self.world.planner.restart(self.world.now)
        self.sent.clear()


@pytest.mark.parametrize("seed", range(30))
def test_targets_follow_all_changes(make, kit, seed):
    world = make(max_buffered_bytes=400_000)
    changes = Changes(world, kit, seed)
    names = [name for name in vars(Changes) if not name.startswith("_") and name != "one"]
    for _ in range(150):
        getattr(changes, changes.draw.choice(names))()
        if changes.draw.random() < 0.5:
            continue
        targets: FetchTargets = world.planner.targets
        world.take_due()
        targets.update(world.now)
        by_node, left_out, leaderless = expected(world)
        assert {node: targets.wanted(node) for node in targets.by_node} == by_node
        assert set(targets.left_out) == left_out and set(targets.leaderless) == leaderless


def test_only_changed_partitions_are_looked_at(world, kit, monkeypatch):
    looked_at = []
    place = FetchTargets._place
    monkeypatch.setattr(FetchTargets, "_place", lambda self, p, now: looked_at.append(p) or place(self, p, now))
    parts = world.simple(*[0] * 500)
    world.receive({})
    assert len(looked_at) == 500
    looked_at.clear()
    world.receive({})
    assert looked_at == []
    world.receive({parts[7].tp: kit.batch(0, 2)})
    assert world.fetch().asked()[parts[7].tp].fetch_offset == 2
    assert looked_at == [], "only its offset has changed"
    parts[9].paused = True
    settle(world, 10)
    world.planner.targets.update(world.now)
    assert looked_at == [parts[9]]


def test_times_of_partitions_are_kept_once(world):
    """A partition with a preferred replica changes with each response, for minutes before the preference ends."""
    [a] = world.simple(0)
    a.prefer(2, world.now + 100)
    targets = world.planner.targets
    for _ in range(50):
        a.report_change()
        targets.update(world.now)
    world.take_due()
    assert world.wake_at() == world.now + 100
    world.now += 100
    for _ in range(2):  # the end of the preference is a change of the partition, at which the planner looks once
        assert world.wake_at() == world.now
        world.take_due()
        targets.update(world.now)
    assert set(targets.by_node) == {1} and world.wake_at() == NEVER


@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_partition_is_not_fetched_behind_a_corrupt_batch(world, kit, is_in_flight):
    """Its records are not returned before a seek, and would fill the buffer until then."""
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.corrupted(kit.batch(0, 5)) + kit.batch(5, 5), b.tp: kit.batch(0, 1)})
    sent = world.fetch() if is_in_flight else None
    for _ in range(2):  # one of them returns the record of the other partition
        try:
            settle(world, 100)
        except CorruptRecordError as found:
            error = found
    assert error.offset == 0
    if sent is not None:
        sent.answer({a.tp: kit.batch(10, 5)})
    world.fetch().answer()
    assert world.planner.targets.by_node == {1: {b: None}}
    a.place(PositionEvent.SEEK, 5, 5)
    assert world.fetch().asked()[a.tp].fetch_offset == 5


def test_another_limit_changes_which_partitions_have_filled_their_share(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 100)})
    targets = world.planner.targets
    for limit, is_full in ((1, True), (1 << 30, False), (1, True)):
        targets.set_limit(limit, world.now)
        assert (a in targets.left_out) is is_full
