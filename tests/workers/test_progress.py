"""The progress of one partition, compared with a model that keeps every offset."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.workers.offset_map import decode
from thinconsumer.workers.progress import PartitionProgress

TOPIC_ID = bytes(range(16))


class Owner:
    """Owns the partition for a while: receives the log's records, dispatches and finishes them as the test draws."""

    def __init__(self, offset, metadata="", leader_epoch=-1, text_max=4096, distance_max=1_000_000):
        restored = decode(metadata, offset, TOPIC_ID) if metadata else None
        self.text_max = text_max
        self.progress = PartitionProgress(offset, leader_epoch, TOPIC_ID, text_max, distance_max, restored)
        self.waiting, self.running, self.finished = [], [], set()

    def receive(self, log, count):
        given_again = []
        for offset, epoch in [record for record in log if record[0] >= self.progress.next_offset][:count]:
            if self.progress.receive(offset, epoch):
                self.waiting.append(offset)
                given_again.append(offset)
        return given_again

    def dispatch(self, rng):
        for offset in rng.sample(self.waiting, len(self.waiting)):
            if self.progress.dispatch(offset):
                self.waiting.remove(offset)
                self.running.append(offset)
                return offset
        return None

    def finish(self, rng):
        if self.running:
            offset = self.running.pop(rng.randrange(len(self.running)))
            self.progress.finish(offset)
            self.finished.add(offset)

    def commit(self):
        metadata = self.progress.metadata()
        assert len(metadata) <= self.text_max
        return self.progress.offset, metadata, self.progress.leader_epoch()


def make_log(rng, count):
    log, offset, epoch = [], rng.choice([0, 7, 1 << 40]), 3
    for _ in range(count):
        epoch += rng.random() < 0.05
        log.append((offset, epoch))
        offset += rng.choice([1, 1, 1, 1, 2, 300])
    return log


@given(st.integers(0, 10**9))
def test_owners_one_after_the_other_finish_every_record_and_repeat_none_that_a_commit_names(seed):
    rng = random.Random(seed)
    log = make_log(rng, rng.choice([1, 20, 150]))
    offset, metadata, leader_epoch = log[0][0], "", -1
    named: set[int] = set()  # what the last commit names as finished
    text_max = rng.choice([100, 120, 200, 4096])
    for _ in range(rng.randrange(1, 6)):
        owner, inherited = Owner(offset, metadata, leader_epoch, text_max), named
        for _ in range(rng.choice([1, 30, 300])):
            turn = rng.random()
            if turn < 0.3:
                assert not named & set(owner.receive(log, rng.choice([1, 5, 50])))
            elif turn < 0.65:
                owner.dispatch(rng)
            elif turn < 0.95:
                owner.finish(rng)
            else:
                offset, metadata, leader_epoch = owner.commit()
                known = inherited | owner.finished
                unfinished = {each for each, _ in log} - known
                assert offset <= min(unfinished, default=1 << 62)
                assert leader_epoch in (-1, *(epoch for each, epoch in log if each < offset))
                named = {each for each in known if each < offset}
                if metadata:
                    progress = decode(metadata, offset, TOPIC_ID)
                    below = range(offset + 1, progress.end)
                    named |= {each for each in known if each in below}
                    assert [each for each, _ in log if each in below and each not in known] == [
                        each for each in progress.unfinished if each in unfinished
                    ]
    last = Owner(offset, metadata, leader_epoch, text_max)
    assert not named & set(last.receive(log, len(log)))
    while last.waiting or last.running:
        if last.dispatch(rng) is None or rng.random() < 0.5:
            last.finish(rng)
    assert named | last.finished == {each for each, _ in log}
    assert last.commit()[:2] == (log[-1][0] + 1, "")


def test_a_record_waits_if_the_map_would_not_fit_when_it_finished_first():
    progress = PartitionProgress(0, text_max=72)  # 51 bytes: 46 of the header and 5 of two leader epochs
    for offset in range(2_000):
        assert progress.receive(offset, 0)
    assert progress.dispatch(0)  # the first record always runs
    assert not progress.dispatch(1_999)
    dispatched = [offset for offset in range(1, 2_000) if progress.dispatch(offset)]
    assert dispatched == []
    progress.finish(0)
    assert progress.dispatch(1)


def test_a_stuck_record_holds_the_others_only_at_the_distance():
    progress = PartitionProgress(0, distance_max=100_000)
    for offset in range(120_000):
        progress.receive(offset, 0)
        if progress.dispatch(offset):
            if offset:
                progress.finish(offset)
        else:
            break
    assert (offset, progress.offset, progress.count) == (100_000, 0, 2)
    assert len(progress.metadata()) < 100
    progress.finish(0)
    assert progress.dispatch(100_000)


def test_records_of_a_truncated_log_are_given_again():
    first = Owner(0)
    first.receive([(offset, 3) for offset in range(10)], 10)
    for offset in (1, 2, 5, 8):
        assert first.progress.dispatch(offset)
        first.progress.finish(offset)
    offset, metadata, leader_epoch = first.commit()
    second = Owner(offset, metadata, leader_epoch)
    log = [(offset, 3) for offset in range(5)] + [(offset, 4) for offset in range(5, 10)]
    assert second.receive(log, 10) == [0, 3, 4, 5, 6, 7, 8, 9]
    offset, metadata, _ = second.commit()
    assert decode(metadata, offset, TOPIC_ID).end == 3
    for offset in (0, 3, 4, 5, 6, 7, 8, 9):
        assert second.progress.dispatch(offset)
        second.progress.finish(offset)
    assert second.commit() == (10, "", 4)


def test_unfinished_records_that_compaction_removed_hold_nothing_back():
    first = Owner(0)
    first.receive([(offset, 0) for offset in range(6)], 6)
    for offset in (1, 4):
        assert first.progress.dispatch(offset)
        first.progress.finish(offset)
    offset, metadata, leader_epoch = first.commit()
    second = Owner(offset, metadata, leader_epoch)
    assert second.receive([(0, 0), (1, 0), (5, 0)], 3) == [0, 5]
    for offset in (0, 5):
        assert second.progress.dispatch(offset)
        second.progress.finish(offset)
    assert second.commit()[:2] == (6, "")
    third = Owner(0, metadata)
    third.progress.advance(9)
    assert third.commit()[:2] == (9, "")


@pytest.mark.timeout(900)
def test_ten_million_records_take_bounded_memory(request):
    """Without ``--soak`` there are a hundred thousand."""
    count = 10_000_000 if request.config.getoption("--soak") else 100_000
    progress = PartitionProgress(0)
    rng, running, largest = random.Random(1), [], 0
    for offset in range(count):
        progress.receive(offset, 0)
        assert progress.dispatch(offset)
        running.append(offset)
        if len(running) > 1_000:
            at = rng.randrange(1_000)
            running[at], running[-1] = running[-1], running[at]
            progress.finish(running.pop())
        if offset % 100_000 == 0:
            largest = max(largest, len(progress.metadata()))
    assert progress.count == 1_000
    assert largest <= 4096
