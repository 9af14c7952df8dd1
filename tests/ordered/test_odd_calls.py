"""Order by key in random sequences of calls: all ways of reading, pauses, seeks, commits, members that come and go."""

import random
from typing import ClassVar

import pytest

from thinconsumer import CommitFailedError, IllegalStateError
from thinconsumer_testing.broker.controller import ControllerError

pytestmark = pytest.mark.once

KEYS, STEPS, COUNT_MAX = range(7), 150, 7
RACKS = ["here", "there", "elsewhere"]


class Calls:
    """Random calls to the members of a group, while records are written and the count changes."""

    OPTIONS: ClassVar[dict[str, object]] = {}

    def __init__(self, world, seed, protocol):
        self.random = random.Random(seed)
        self.w = world(self.random.randint(1, 2), nodes=3, brokers={"racks": RACKS})
        self.options = {
            "group_protocol": protocol,
            "enable_auto_commit": self.random.random() < 0.5,
            "max_poll_records": self.random.choice([1, 4, 500]),
            "consumer_timeout_ms": 300,
            "metadata_max_age_ms": 5000,
            "client_rack": RACKS[0] if seed % 2 else "",  # read from followers (KIP-392)
            **self.OPTIONS,
        }
        self.members = [self.w.consumer(**self.options) for _ in range(self.random.randint(1, 2))]

    def run(self):
        actions = [
            (self.write, 4), (self.poll, 8), (self.iterate, 4), (self.poll_batches, 3), (self.drive, 2),
            (self.pause, 2), (self.resume, 3), (self.seek_back, 2), (self.commit, 2), (self.change_count, 2),
            (self.rejoin, 1), (self.leave, 1), (self.ask_health, 1), (self.let_time_pass, 1),
        ]  # fmt: skip
        for _ in range(STEPS):
            [action] = self.random.choices([one for one, _ in actions], [weight for _, weight in actions])
            action(self.random.choice(self.members))
            assert self.w.wrong_first() == []
        return self

    def finish(self):
        for member in self.members:
            member.resume(*member.paused())
        end = self.w.clock.now() + 200
        written = {(key, number) for key, last in self.w.sequences.items() for number in range(1, last + 1)}
        while not written <= set(self.w.read):
            assert self.w.clock.now() < end, [member.health().reason for member in self.members]
            self.w.poll(*self.members, seconds=2)
        assert self.w.wrong_first() == []

    def write(self, member):
        self.w.write(*self.random.choices(KEYS, k=self.random.randint(1, 12)))

    def poll(self, member):
        self.w.take(member.poll(self.random.choice([0, 0, 100, 1000])))

    def iterate(self, member):
        for _ in range(self.random.randint(1, 5)):
            record = next(member, None)
            if record is None:
                break
            self.w.take({record.partition: [record]})

    def poll_batches(self, member):
        for columns in member.poll_batches(self.random.choice([0, 300])).values():
            self.w.read += [tuple(map(int, bytes(columns.value(row)).split(b":"))) for row in range(len(columns))]

    def drive(self, member):
        for _ in range(self.random.randint(1, 10)):
            member.drive()
            self.w.run(0.1)

    def pause(self, member):
        self.on_one(member, member.pause)

    def resume(self, member):
        self.on_one(member, member.resume)

    def seek_back(self, member):
        self.on_one(member, lambda tp: member.seek(tp, self.random.randint(0, member.position(tp))))

    def on_one(self, member, call):
        assigned = sorted(member.assignment())
        if assigned:
            try:
                call(self.random.choice(assigned))
            except IllegalStateError:
                pass  # the call has found that the partition was revoked

    def commit(self, member):
        if self.random.random() < 0.5:
            member.commit_async()
            return
        try:
            member.commit()
        except CommitFailedError as error:
            assert "timed out" not in str(error), error  # else: the session has ended

    def change_count(self, member):
        w = self.w
        count = self.random.randint(w.initial, COUNT_MAX)
        try:
            for row in w.cluster.controller.image.topics["t"].partitions[w.count :]:
                owners = [one for one in self.members if row.tp in one.assignment()]
                end = w.cluster.leader(row.tp).log.end_offset
                if owners and (committed := owners[0].committed(row.tp)) is not None and committed >= end:
                    w.cluster.delete_records(row.tp, end)
            w.resize(count)
        except ControllerError:
            pass  # partitions that are marked for deletion still have records, or the count is the same

    def rejoin(self, member):
        member.unsubscribe()
        if self.random.random() < 0.5:
            self.w.run(self.random.choice([0.1, 5]))
        member.subscribe(["t"], listener=member.listener)

    def leave(self, member):
        if self.random.random() < 0.3:
            self.w.die(member)
        else:
            member.close()
            self.w.consumers.remove(member)
        self.members.remove(member)
        self.members.append(self.w.consumer(**self.options))

    def ask_health(self, member):
        assert member.health().state is not None

    def let_time_pass(self, member):
        self.w.run(self.random.choice([0.5, 3, 12]))


class BarrierCalls(Calls):
    """The same on real Kafka's topics, with a barrier: partitions are added, and producers notice it later."""

    OPTIONS: ClassVar[dict[str, object]] = {
        "ordered_delivery": "barrier", "ordered_delivery_grace_ms": 15_000, "metadata_max_age_ms": 2000,
        "enable_auto_commit": True,
    }  # fmt: skip

    def __init__(self, world, seed, protocol):
        super().__init__(world, seed, protocol)
        self.count, self.refreshed_at = self.w.count, 0.0
        self.w.write(*KEYS)
        self.w.poll(*self.members, seconds=15)
        for member in self.members:
            member.commit()  # a group without commits begins with all partitions together

    def write(self, member):
        if self.w.clock.now() >= self.refreshed_at:
            self.w.count = self.count
        super().write(member)

    def change_count(self, member):
        if self.count < COUNT_MAX and self.w.clock.now() > self.refreshed_at:
            self.w.count, self.count = self.count, self.random.randint(self.count + 1, COUNT_MAX)
            self.w.expand(self.count)
            self.refreshed_at = self.w.clock.now() + self.random.choice([0, 3, 10])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", range(8))
def test_order_is_kept_in_random_sequences_of_calls(world, seed, protocol):
    pytest.importorskip("numpy")
    Calls(world, seed, protocol).run().finish()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", range(6))
def test_the_barrier_keeps_the_order_in_random_sequences_of_calls(plain_world, seed, protocol):
    pytest.importorskip("numpy")
    BarrierCalls(plain_world, seed, protocol).run().finish()
