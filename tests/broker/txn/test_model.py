"""Random requests, failures and delays: every transaction ends the same way in all partitions, with one response each.

All checks use the logs only: the transaction log and the markers, in the order in which they were written.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.txn.states import PREPARED_STATES, TransactionState
from thinconsumer_testing.broker.txn.transitions import ProducerIdAndEpoch

pytestmark = pytest.mark.once

S = TransactionState
IDS = ("a", "b")
TPS = [TopicPartition("orders", n) for n in range(3)] + [TopicPartition("bills", 0)]

ids, tps, versions = st.sampled_from(IDS), st.sampled_from(TPS), st.sampled_from([0, 2])
refusals = st.sampled_from([Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT])
steps = st.one_of(
    st.tuples(st.just("init"), ids, st.booleans()),
    st.tuples(st.just("add"), ids, st.lists(tps, min_size=1, max_size=3), versions),
    st.tuples(st.just("add"), ids, st.lists(tps, min_size=1, max_size=3), versions),
    st.tuples(st.just("end"), ids, st.booleans(), versions),
    st.tuples(st.just("end"), ids, st.booleans(), versions),
    st.tuples(st.just("run"), st.sampled_from([0.03, 0.5, 3.0, 12.0])),
    st.tuples(st.just("leave"), tps),
    st.tuples(st.just("come_back")),
    st.tuples(st.just("hold"), st.sampled_from(["appends", "markers"])),
    st.tuples(st.just("release")),
    st.tuples(st.just("refuse"), refusals),
    st.tuples(st.just("fail_over"), st.booleans()),
    st.tuples(st.just("pause")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("delete_bills")),
)


class RandomRun:
    """Runs steps on a world, with two producers per transactional id, of which one is always a zombie."""

    def __init__(self, world):
        self.world = world
        self.known: dict[str, list[ProducerIdAndEpoch]] = {transactional_id: [] for transactional_id in IDS}
        self.asked: list[list[object]] = []  #: One list per request, which collects its responses.
        self.pending_init: list[tuple[str, list]] = []

    def play(self, step):
        kind, *args = step
        if self.world.is_running or kind not in ("init", "add", "end"):  # a paused broker receives nothing
            getattr(self, kind)(*args)
        self.take_answers()

    def take_answers(self):
        for transactional_id, answers in list(self.pending_init):
            if answers:
                self.pending_init.remove((transactional_id, answers))
                code, *who = answers[0]
                if code == "NONE" and who[0] >= 0:
                    self.known[transactional_id].append(ProducerIdAndEpoch(*who))

    def init(self, transactional_id, goes_on):
        known = self.known[transactional_id]
        expected = known[-1] if goes_on and known else None
        answers = self.world.init(transactional_id, timeout_ms=10_000, expected=expected)
        self.asked.append(answers)
        self.pending_init.append((transactional_id, answers))

    def add(self, transactional_id, partitions, version):
        for who in self.known[transactional_id][-2:]:
            self.asked.append(self.world.add(who, partitions, transactional_id=transactional_id, version=version))

    def end(self, transactional_id, commit, version):
        for who in self.known[transactional_id][-2:]:
            answers = self.world.end(who, commit=commit, transactional_id=transactional_id, version=version)
            self.asked.append(answers)
            self.pending_init.append((transactional_id, answers))

    def run(self, seconds):
        self.world.run(seconds)

    def leave(self, tp):
        self.world.away.add(tp)

    def come_back(self):
        self.world.away.clear()

    def hold(self, what):
        if what == "appends":
            self.world.replica.hold = True
        else:
            self.world.hold_markers = True

    def release(self):
        self.world.hold_markers = False
        self.world.release_markers()
        if self.world.is_running:
            self.world.replica.hold = False
            self.world.replica.replicate()

    def refuse(self, code):
        self.world.append_codes.append(code)

    def fail_over(self, lose_uncommitted):
        self.world.fail_over(lose_uncommitted=lose_uncommitted)

    def pause(self):
        self.world.pause()

    def resume(self):
        self.world.resume()

    def delete_bills(self):
        self.world.image.remove_topic("bills")

    def heal(self):
        """End all failures, and advance the time."""
        self.world.append_codes.clear()
        self.come_back()
        self.resume()
        self.release()
        self.run(120)
        # An append that timed out is in the log all the same; the next coordinator loads it.
        self.fail_over(False)
        self.run(120)


def check_ends(timeline, marker, exists):
    """Check that every complete transaction has one kind of marker, once per partition, from one coordinator."""
    open_ends: dict[tuple[int, int], tuple[bool, frozenset[TopicPartition], Counter[tuple[TopicPartition, int]]]] = {}
    ids_of: dict[str, tuple[int, int]] = {}
    for one in timeline:
        if isinstance(one, marker):
            commit, partitions, seen = open_ends[one.producer_id, one.producer_epoch]
            assert one.commit is commit, "both kinds of markers"
            assert one.tp in partitions, "a marker in a partition outside the transaction"
            seen[one.tp, one.coordinator_epoch] += 1
            assert seen[one.tp, one.coordinator_epoch] == 1, "twice by the same coordinator"
            continue
        metadata = one.metadata
        if metadata.state in PREPARED_STATES:
            key = metadata.producer_id, metadata.producer_epoch
            if one.transactional_id in ids_of:
                assert not open_ends[ids_of[one.transactional_id]][2], "another end logged after markers"
            ids_of[one.transactional_id] = key
            open_ends[key] = (metadata.state is S.PREPARE_COMMIT, metadata.partitions, Counter())
        elif one.transactional_id in ids_of:
            commit, partitions, seen = open_ends[ids_of[one.transactional_id]]
            if metadata.state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
                assert commit is (metadata.state is S.COMPLETE_COMMIT)
                assert {tp for tp in partitions if exists(tp)} <= {tp for tp, _ in seen}, "complete without a marker"
            else:
                assert not seen, "not completed after markers were written"
            del ids_of[one.transactional_id]


@settings(deadline=None, max_examples=400)
@given(st.lists(steps, min_size=5, max_size=60))
def test_every_transaction_ends_consistently(new_world, seen, play):
    world = new_world()
    random_run = RandomRun(world)
    random_run.init("a", False)
    random_run.take_answers()
    for step in play:
        random_run.play(step)
    random_run.heal()

    check_ends(world.timeline, seen.Marker, lambda tp: world.image.partition(*tp) is not None)
    for transactional_id in IDS:
        if random_run.known[transactional_id]:
            assert world.state(transactional_id) in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT), "it has not ended"
    assert all(len(answers) == 1 for answers in random_run.asked), "requests without exactly one response"


@pytest.mark.parametrize("transactional_id", IDS)
def test_producer_works_after_all_failures(new_world, transactional_id):
    world = new_world()
    random_run = RandomRun(world)
    for step in [("init", transactional_id, False), ("hold", "markers"), ("add", transactional_id, TPS, 2),
                 ("end", transactional_id, True, 2), ("fail_over", True), ("pause",), ("run", 12.0)]:  # fmt: skip
        random_run.play(step)
    random_run.heal()
    who = world.producer(transactional_id)
    assert world.add(who, TPS, transactional_id=transactional_id) == ["NONE"]
    assert world.end(who, transactional_id=transactional_id)[0][0] == "NONE"
    assert world.state(transactional_id) is S.COMPLETE_COMMIT
