"""Workers with ordered delivery or a barrier: a key's records in its old partition finish before others begin."""

import pytest

from tests.ordered.test_unclean_elections import lose
from thinconsumer import TopicPartition
from thinconsumer.workers import Workers, WorkerSettings
from thinconsumer.workers.calling import Pool, Result

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
BEFORE, AFTER = 3, 2
#: The records of key 1 in its old partition, and in its new one.
OLD, NEW = [(1, n) for n in range(1, BEFORE + 1)], [(1, n) for n in range(BEFORE + 1, BEFORE + AFTER + 1)]


class ManualPool(Pool):
    """Runs handlers that end when the test says so."""

    def __init__(self):
        self.begun = []  #: (key, number) of all records, in the order in which their handlers began.
        self.running = {}
        self._ended = []

    def room(self):
        return 100

    def start(self, job):
        for record in job.records:
            key, number = map(int, bytes(record.value).split(b":"))
            self.begun.append((key, number))
            self.running[key, number] = job

    def end(self, key, number, error=None):
        self._ended.append(Result(self.running.pop((key, number)), None, error))

    def results(self):
        ended, self._ended = self._ended, []
        return ended


class Member:
    """A consumer with workers."""

    def __init__(self, w, protocol="classic", **settings):
        self.w, self.pool = w, ManualPool()
        self.consumer = w.consumer(enable_auto_commit=False, group_protocol=protocol)
        settings = WorkerSettings(commit_interval_ms=500, drain_timeout_ms=0, **settings)
        self.workers = Workers(self.consumer, lambda record: None, settings, lambda call, settings: self.pool)

    def owns(self, *numbers):
        return self.consumer.assignment() == {TopicPartition("t", number) for number in numbers}

    def has_been_told_of(self, number):
        return any(number in numbers for numbers in self.consumer.listener.of("keys assigned"))

    def has_begun(self, records):
        return set(records) <= set(self.pool.begun)

    def leave(self):
        self.workers.close()
        self.consumer.close()
        self.w.consumers.remove(self.consumer)

    @property
    def reason(self):
        return self.consumer.health().reason


def run(w, *members, seconds=0.0, until=lambda: False, ends=lambda key, number: False):
    """Step the workers for ``seconds``, or until ``until()`` is true. ``ends`` tells which handlers end at once."""
    end = w.clock.now() + (seconds or 120)
    while w.clock.now() < end and not until():
        for member in members:
            member.workers.step()
            for record in [one for one in member.pool.running if ends(*one)]:
                member.pool.end(*record)
        w.run(0.25)
    assert seconds or until(), [member.reason for member in members]


def expanded(w, *members):
    """Write keys 0 and 1 to partition 0, add partition 1, to which key 1 moves, and write both again."""
    run(w, *members, until=lambda: sum(len(member.consumer.assignment()) for member in members) == 1)
    w.write(0, 1, times=BEFORE)
    if w.configs["enable.ordered.delivery"] == "true":
        w.resize(2)
    else:
        run(w, *members, seconds=5, ends=lambda key, number: number == 1)  # a group without commits has no barrier
        w.expand(2)
        w.count = 2
    w.write(0, 1, times=AFTER)
    run(w, *members, until=lambda: sum(len(member.consumer.assignment()) for member in members) == 2)
    return w


@pytest.fixture(params=["topic", "barrier"])
def either(request, world, plain_world):
    """A world with ordered delivery, or with a barrier."""
    return (world if request.param == "topic" else plain_world)(1)


@PROTOCOLS
def test_a_new_partition_begins_when_the_records_in_the_old_one_have_finished(either, protocol):
    w, one = either, Member(either, protocol)
    expanded(w, one)
    run(w, one, seconds=90, ends=lambda key, number: key == 0 or number == 1)
    assert one.has_begun([(0, n) for n in range(1, BEFORE + 1)])
    assert one.consumer.position(P0) >= 2 * BEFORE, "all of them were returned"
    assert not one.has_begun(NEW[:1]) and "t-1 is held until t-0 is " in one.reason
    run(w, one, ends=lambda key, number: number != BEFORE, until=lambda: OLD[-1] in one.pool.running)
    run(w, one, seconds=20)
    assert not one.has_begun(NEW[:1])
    one.pool.end(*OLD[-1])
    run(w, one, ends=lambda *_: True, until=lambda: one.has_begun(NEW))
    assert [each for each in one.pool.begun if each[0] == 1] == OLD + NEW
    assert one.has_been_told_of(1)


@PROTOCOLS
def test_a_new_partition_of_another_member_waits_for_the_commit_of_what_has_finished(either, protocol):
    w, one = either, Member(either, protocol)
    expanded(w, one)
    other = Member(w, protocol)
    run(w, one, other, ends=lambda key, number: number == 1, until=lambda: other.owns(1) or other.owns(0))
    old, new = (one, other) if one.owns(0) else (other, one)
    run(w, one, other, seconds=90, ends=lambda key, number: key == 0 or number < BEFORE)
    assert old.pool.running.keys() == {OLD[-1]}
    assert not new.has_begun(NEW[:1]) and "t-1 is held until t-0 is " in new.reason
    old.pool.end(*OLD[-1])
    run(w, one, other, ends=lambda *_: True, until=lambda: new.has_begun(NEW))
    assert new.consumer.committed(P0) >= 2 * BEFORE
    assert new.has_been_told_of(1)


@PROTOCOLS
def test_the_next_owner_runs_what_the_last_one_has_not_finished_before_the_new_partition(either, protocol):
    w, one = either, Member(either, protocol)
    expanded(w, one)
    run(w, one, seconds=5, ends=lambda key, number: number == 1)
    assert OLD[1] in one.pool.running
    one.leave()
    other = Member(w, protocol)
    run(w, other, ends=lambda key, number: key == 0, seconds=90)
    assert OLD[1] in other.pool.running and not other.has_begun(NEW[:1])
    run(w, other, ends=lambda *_: True, until=lambda: other.has_begun(NEW))
    assert [each for each in other.pool.begun if each[0] == 1] == OLD[1:] + NEW


def test_keys_count_as_maybe_revoked_when_their_records_have_finished(world):
    w = world(1)
    one = Member(w)
    expanded(w, one)
    other = Member(w)
    run(w, one, other, until=lambda: one.owns(0) and other.owns(1))
    calls = []
    one.consumer.listener.on_partition_keys_maybe_revoked = lambda tps: calls.append(set(one.pool.running))
    run(w, one, other, ends=lambda *_: True, until=lambda: other.has_begun(NEW))
    assert calls and not {*OLD} & calls[-1]


def test_a_record_that_fails_holds_the_new_partition_until_it_is_given_up(world):
    w = world(1)
    one = Member(w, attempts=2, backoff=1.0, on_failure="skip")
    expanded(w, one)

    def fail_last():
        run(w, one, ends=lambda *record: record != OLD[-1], until=lambda: OLD[-1] in one.pool.running)
        one.pool.end(*OLD[-1], ValueError())

    fail_last()
    run(w, one, seconds=10)
    assert not one.has_begun(NEW[:1])
    fail_last()
    run(w, one, ends=lambda *_: True, until=lambda: one.has_begun(NEW))


def test_unfinished_records_that_retention_has_deleted_hold_no_partition(world):
    """The map of the last commit names them, and no record comes behind them."""
    w = world(1)
    one = Member(w)
    expanded(w, one)
    run(w, one, seconds=5, ends=lambda key, number: key == 0)
    one.leave()
    w.cluster.delete_records(P0, 2 * BEFORE + AFTER)
    other = Member(w)
    run(w, other, ends=lambda *_: True, until=lambda: other.has_begun(NEW))
    assert not other.has_begun(OLD[:1])


def test_a_commit_of_records_that_were_replaced_opens_no_gate(world):
    w = world(1)
    one = Member(w)
    run(w, one, until=lambda: one.owns(0))
    w.write(0, 1, times=BEFORE)
    run(w, one, seconds=5, ends=lambda *_: True)
    assert one.consumer.committed(P0) == 2 * BEFORE
    lose(w, 0, 2)
    w.write(0, 1)
    run(w, one, until=lambda: (1, BEFORE + 1) in one.pool.running)
    w.resize(2)
    w.write(1)
    w.write(0, times=2 * BEFORE)
    run(w, one, seconds=30)
    assert one.consumer.position(P0) > 2 * BEFORE
    assert not one.has_begun([(1, BEFORE + 2)])
    run(w, one, ends=lambda *_: True, until=lambda: one.has_begun([(1, BEFORE + 2)]))
