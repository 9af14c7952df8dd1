"""Fetch sessions: after any change, the broker's session holds exactly the wanted partitions (KIP-227)."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.fetch.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, Plan, WantedPartition
from thinconsumer.network.request import Target
from thinconsumer.positions.partitions import Partition, Partitions
from thinconsumer.support.timers import Backoff, Retry
from thinconsumer.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER = b"1" * 16, b"2" * 16


def session(incremental: bool = True) -> FetchSession:
    return FetchSession(Target(1), Retry(Backoff(0.1, 1.0), random.Random(1)), incremental, 0.2)


def wanted(offset: int = 0, *, max_bytes: int = 100, epoch: int = 1, topic_id: bytes = ID) -> WantedPartition:
    return WantedPartition(offset, max_bytes, epoch, topic_id)


class Broker:
    """The broker's side, after KIP-227 and Kafka's FetchSession: adds before it forgets, knows names or ids."""

    def __init__(self) -> None:
        self.sessions: dict[int, dict[object, tuple[TopicPartition, WantedPartition]]] = {}
        self.epochs: dict[int, int] = {}
        self.ids: dict[int, bool] = {}
        self.next_id = 1
        self.closed: list[int] = []

    def key(self, tp: TopicPartition, want: WantedPartition, uses_ids: bool) -> object:
        return (want.topic_id, tp.partition) if uses_ids else tp

    def fetch(
        self, plan: Plan, *, uses_ids: bool, full: bool
    ) -> tuple[int, dict[object, tuple[TopicPartition, WantedPartition]]]:
        if plan.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if self.sessions.pop(plan.session_id, None) is not None:
                self.closed.append(plan.session_id)
            assert not plan.forget
            fetched = {self.key(tp, want, uses_ids): (tp, want) for tp, want in plan.send.items()}
            if plan.epoch == FINAL_EPOCH or full or not fetched:
                return NO_SESSION, fetched
            self.next_id += 1
            self.sessions[self.next_id], self.epochs[self.next_id] = dict(fetched), 1
            self.ids[self.next_id] = uses_ids
            return self.next_id, fetched
        assert plan.session_id in self.sessions, "FETCH_SESSION_ID_NOT_FOUND"
        assert plan.epoch == self.epochs[plan.session_id], "INVALID_FETCH_SESSION_EPOCH"
        assert self.ids[plan.session_id] is uses_ids, "FETCH_SESSION_TOPIC_ID_ERROR"
        held = self.sessions[plan.session_id]
        for tp, want in plan.send.items():
            held[self.key(tp, want, uses_ids)] = (tp, want)
        for tp, old in plan.forget.items():
            held.pop(self.key(tp, old, uses_ids), None)
        if not held:
            del self.sessions[plan.session_id]
            return NO_SESSION, {}
        self.epochs[plan.session_id] += 1
        return plan.session_id, dict(held)

    def evict(self) -> None:
        self.sessions.clear()


WANTED = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["t", "u"]), st.integers(0, 2)),
    st.builds(WantedPartition, st.integers(0, 2), st.sampled_from([100, 200]), st.integers(1, 2), st.just(b"")),
    max_size=6,
)
STEPS = st.lists(
    st.tuples(
        WANTED,
        st.fixed_dictionaries({"t": st.sampled_from([ID, OTHER]), "u": st.just(b"u" * 16)}),
        st.booleans(),  # whether names or ids are used
        st.sampled_from(["ok"] * 6 + ["full", "old", "evicted", "lost", "unsent"]),
    ),
    max_size=15,
)


@pytest.mark.once
@settings(deadline=None, max_examples=120)
@given(steps=STEPS)
def test_the_brokers_session_holds_exactly_the_wanted_partitions(steps):
    """With names or ids, full session caches, restarts and lost connections."""
    ours, broker = session(), Broker()
    for wants, ids, uses_ids, what in steps:
        wants = {tp: want._replace(topic_id=ids[tp.topic]) for tp, want in wants.items()}
        if what == "evicted" and ours.session_id in broker.sessions:
            broker.evict()
            ours.plan(wants, sessions=True, uses_ids=uses_ids)
            ours.reset()  # FETCH_SESSION_ID_NOT_FOUND
        plan = ours.plan(wants, sessions=what != "old", uses_ids=uses_ids and what != "old")
        if what == "unsent":
            ours.reset(keep_id=True)
            continue
        session_id, fetched = broker.fetch(plan, uses_ids=uses_ids and what != "old", full=what == "full")
        if what == "lost":
            ours.reset(keep_id=True)
            continue
        assert dict(fetched.values()) == wants
        assert len(fetched) == len(wants), "no unwanted partition is left in the session"
        ours.answered(session_id)
        assert len(broker.sessions) <= 1 + sum(s[3] in ("lost", "old") for s in steps)


def say(ours: FetchSession, wants: Mapping[TopicPartition, WantedPartition], **more: bool) -> Plan:
    return ours.plan(wants, sessions=more.get("sessions", True), uses_ids=more.get("uses_ids", True))


def opened(**more: bool) -> FetchSession:
    ours = session()
    assert say(ours, {A: wanted()}, **more) == Plan(0, 0, {A: wanted()}, {})
    ours.answered(9)
    return ours


CHANGES = {
    "offset": wanted(1), "max bytes": wanted(max_bytes=7), "leader epoch": wanted(epoch=2),
    "topic id": wanted(topic_id=OTHER),
}  # fmt: skip


@pytest.mark.parametrize("uses_ids", [True, False])
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_partition_is_sent_again_and_only_an_old_topic_id_is_forgotten(what, uses_ids):
    """Brokers add before they forget: a topic forgotten by its name would never be fetched again."""
    forgotten = {A: wanted()} if what == "topic id" and uses_ids else {}
    plan = say(opened(uses_ids=uses_ids), {A: CHANGES[what]}, uses_ids=uses_ids)
    assert plan == Plan(9, 1, {A: CHANGES[what]}, forgotten)


def test_epochs_wrap_to_one():
    ours = opened()
    ours.epoch = 2**31 - 1
    assert say(ours, {A: wanted()}).epoch == 2**31 - 1
    ours.answered(9)
    assert say(ours, {A: wanted()}) == Plan(9, 1, {}, {})


def test_a_broker_without_room_for_sessions_gets_full_requests():
    ours = session()
    for _ in range(3):
        assert say(ours, {A: wanted()}) == Plan(NO_SESSION, INITIAL_EPOCH, {A: wanted()}, {})
        ours.answered(NO_SESSION)


def test_a_session_replaced_by_the_broker_continues_at_epoch_one():
    ours = opened()
    ours.reset(keep_id=True)
    say(ours, {A: wanted()})
    ours.answered(10)
    assert say(ours, {A: wanted()}) == Plan(10, 1, {}, {})


@pytest.mark.once
@settings(deadline=None, max_examples=100)
@given(steps=STEPS)
def test_naming_only_changes_plans_the_same_requests(steps):
    """The planner names the partitions that may have changed, and those to forget, in place of all partitions."""
    whole, changes = session(), session()
    before: dict = {}
    for wants, ids, uses_ids, what in steps:
        wants = {tp: want._replace(topic_id=ids[tp.topic]) for tp, want in wants.items()}
        some, unwanted = wants, None
        if changes.is_incremental(sessions=True, uses_ids=uses_ids):
            some = {tp: want for tp, want in wants.items() if before.get(tp) != want}
            unwanted = [*(before.keys() - wants.keys()), TopicPartition("never held", 0)]
        plan = changes.plan(some, sessions=True, uses_ids=uses_ids, unwanted=unwanted)
        assert plan == whole.plan(wants, sessions=True, uses_ids=uses_ids)
        assert changes.listed.wanted == whole.listed.wanted == wants
        assert changes.listed.names == {
            want.topic_id: tp.topic for tp, want in wants.items() if want.topic_id.strip(b"\0")
        }
        before = wants
        for each in (whole, changes):
            if what in ("lost", "unsent"):
                each.reset(keep_id=True)
            else:
                each.answered(NO_SESSION if what == "full" else 5)


def partition(tp=A) -> Partition:
    partitions = Partitions()
    partitions.assign([tp])
    return partitions.require(tp)


def test_a_partition_that_leaves_the_session_is_no_longer_confirmed_by_it():
    ours, one, other = session(), partition(A), partition(B)
    say(ours, {A: wanted(), B: wanted()})
    listed = ours.listed
    for each in (one, other):
        listed.expect(each)
        each.confirmation = listed.confirmation
    assert listed.unconfirmed == {A: one, B: other}
    listed.confirmation.at = 5.0
    ours.answered(9)
    say(ours, {B: wanted()})
    listed.confirmation.at = 8.0
    assert (one.confirmed_at, other.confirmed_at) == (5.0, 8.0)
    assert not one.confirmation.is_current and other.confirmation.is_current
    ours.reset()
    assert not other.confirmation.is_current and other.confirmed_at == 8.0
    ours.listed.confirmation.at = 9.0
    assert other.confirmed_at == 8.0
