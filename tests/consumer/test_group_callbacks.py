"""Calls of a group's consumer: when listeners and assignors run, how long calls wait, and how a consumer leaves."""

import logging

import pytest

from thinconsumer import (
    CommitFailedError,
    Consumer,
    IllegalStateError,
    RebalanceInProgressError,
    RebalanceListener,
    TopicPartition,
    WakeupError,
)
from thinconsumer.engine import Shell
from thinconsumer.testing import Simulation
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Reply

TP = TopicPartition("t", 0)


class Heard(RebalanceListener):
    """Records its calls, and runs the action that the test has set for them."""

    def __init__(self):
        self.heard = []
        self.does = {}

    def _hear(self, what, tps):
        self.heard.append((what, sorted(tp.partition for tp in tps)))
        self.does.pop(what, lambda: None)()

    def on_partitions_assigned(self, assigned):
        self._hear("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self._hear("revoked", revoked)

    def on_partitions_lost(self, lost):
        self._hear("lost", lost)


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=3, topics={"t": 2})


@pytest.fixture
def member(sim):
    made = []

    def make(style="range", **options):
        protocol = {"partition_assignment_strategy": [style], "heartbeat_interval_ms": 1000}
        if style == "consumer":
            protocol = {"group_protocol": "consumer"}
        options = {"group_id": "g", "auto_offset_reset": "earliest", **protocol, **options}
        consumer = Consumer(driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options)
        made.append(consumer)
        consumer.listener = Heard()
        consumer.subscribe(["t"], listener=consumer.listener)
        return consumer

    yield make
    for found in made:
        found.close(timeout_ms=0)


def settle(*members, partitions=2):
    """Poll in turn until everything is owned."""
    for _ in range(2000):
        owned = [m.assignment() for m in members]
        if all(owned) and sum(map(len, owned)) == partitions:
            return
        for found in members:
            found.poll(20)
    raise AssertionError([m.listener.heard for m in members])


def test_a_leader_that_waits_for_something_else_still_plans_for_the_group(sim, member):
    """commit() takes as long as it takes; the others must not wait for the leader's next poll."""
    leader = member("cooperative-sticky")
    settle(leader)
    other = member("cooperative-sticky")
    settle(leader, other)
    leader.enforce_rebalance()
    while leader.health().group_state != "preparing rebalance":
        leader.poll(0)
        sim.run_for(0.05)
    heard, generation = list(leader.listener.heard), other.group_metadata().generation_id
    for _ in range(30):  # no poll of the leader's in here
        leader.committed(TP)
        other.poll(100)
    assert other.health().group_state == "stable"
    assert other.group_metadata().generation_id == generation + 1
    assert leader.listener.heard == heard, "its listener waits for its poll"


def test_a_commit_that_waits_out_a_rebalance_says_so(sim, member):
    first = member("cooperative-sticky", enable_auto_commit=False)
    settle(first)
    second = member("cooperative-sticky", session_timeout_ms=60_000)
    for _ in range(10):
        second.poll(100)
    for _ in range(30):
        first.poll(100)
    # The newcomer never syncs to the end: it is not polled any more, and does not join the next generation.
    third = member("cooperative-sticky")
    for _ in range(10):
        third.poll(100)
        first.poll(100)
    began = sim.now()
    try:
        first.commit({TP: 1}, timeout_ms=2000)
    except (RebalanceInProgressError, CommitFailedError) as error:
        assert error.retriable or error.reason in ("rebalance_in_progress", "timeout")
    assert sim.now() - began <= 2.1


def test_closing_with_everything_dead_takes_no_longer_than_it_was_given(sim, member):
    found = member()
    settle(found)
    for node in (1, 2, 3):
        sim.kill(node)
    began = sim.now()
    found.close(timeout_ms=1500)
    assert sim.now() - began <= 1.6
    assert found.listener.heard[-1] == ("revoked", [0, 1]), "users' code runs whatever the network does"


def test_closing_with_no_time_at_all_still_tells(sim, member):
    found = member()
    settle(found)
    began = sim.now()
    found.close(timeout_ms=0)
    assert sim.now() - began < 0.3
    assert found.listener.heard == [("assigned", [0, 1]), ("revoked", [0, 1])]


@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_what_a_callback_raises_comes_out_once_everything_is_done(sim, member, call):
    found = member()
    settle(found)
    found.listener.does["revoked"] = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        getattr(found, call)()
    heir = member()
    settle(heir)
    assert heir.listener.heard == [("assigned", [0, 1])], "at once: the first one has left all the same"


def test_unsubscribing_tells_leaves_and_lets_everything_be_chosen_anew(sim, member):
    found = member()
    settle(found)
    before = found.group_metadata().member_id
    found.unsubscribe()
    assert (found.assignment(), found.subscription()) == (set(), set())
    assert found.listener.heard[-1] == ("revoked", [0, 1])
    found.assign([TP])
    assert found.position(TP) == 0
    found.assign([])
    found.unsubscribe()
    found.subscribe(["t"], listener=found.listener)
    settle(found)
    assert found.group_metadata().member_id not in ("", before)


def test_closing_a_member_that_was_expelled_reports_a_loss(sim, member):
    found = member(session_timeout_ms=6000, max_poll_interval_ms=6000)
    settle(found)
    heir = member()
    for _ in range(200):
        heir.poll(100)
    assert heir.assignment() == {TP, TopicPartition("t", 1)}
    found.drive()
    found.drive()
    sim.run_for(0.5)
    found.drive()
    found.close()
    assert found.listener.heard[-1] == ("lost", [0, 1])


@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_fenced_member_that_leaves_before_its_next_poll_reports_a_loss(sim, member, call):
    """The membership has ended: there is nothing to leave, and no request to send."""
    found = member("consumer")
    settle(found)
    sim.cluster.on("ConsumerGroupHeartbeat", Reply(Code.FENCED_MEMBER_EPOCH), times=1)
    for _ in range(100):
        if found.health().group_state == "fenced":
            break
        found.drive()
        sim.run_for(0.1)
    assert found.health().group_state == "fenced" and found.listener.heard == [("assigned", [0, 1])]
    getattr(found, call)()
    assert found.listener.heard[-1] == ("lost", [0, 1])


def test_driving_runs_no_users_code_and_polling_does(sim, member):
    first = member()
    settle(first)
    second = member()
    for _ in range(50):
        first.drive()
        second.poll(100)
    assert first.listener.heard == [("assigned", [0, 1])] and first.assignment()
    settle(first, second)
    assert first.listener.heard[1][0] == "revoked"


def test_a_wakeup_within_a_rebalance_loses_nothing(sim, member):
    first = member()
    for _ in range(50):
        first.wakeup()
        with pytest.raises(WakeupError):
            first.poll(100)
    settle(first)


def test_a_wakeup_does_not_foil_the_commit_of_a_callback(sim, member):
    """A signal may come at any moment, the last one before partitions go included: the poll around it raises."""
    first = member(enable_auto_commit=False)
    settle(first)

    def commit():
        first.wakeup()
        first.commit({TP: 7})

    first.listener.does["revoked"] = commit
    second = member(enable_auto_commit=False)
    with pytest.raises(WakeupError):
        settle(first, second)
    settle(first, second)
    assert second.committed(TP) == 7
    assert [what for what, _ in first.listener.heard] == ["assigned", "revoked", "assigned"]


def test_a_wakeup_that_nobody_met_does_not_foil_the_last_commit(sim, member):
    """The loop ended just when the signal came; close() revokes, and the callback commits."""
    first = member(enable_auto_commit=False)
    settle(first)
    first.listener.does["revoked"] = lambda: first.commit({TP: 7})
    first.wakeup()
    first.close()
    assert member().committed(TP) == 7


@pytest.mark.parametrize("style", ["range", "consumer"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_interrupted_unsubscribe_has_unsubscribed(sim, member, monkeypatch, style, steps):
    """Otherwise the member would own partitions that it has given up, and read none of them."""
    found = member(style, enable_auto_commit=False)
    settle(found)
    run_once, left = Shell.run_once, iter(range(steps))

    def interrupted(*args, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return run_once(*args, **options)

    found.commit_async({TP: 1})
    monkeypatch.setattr(Shell, "run_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.unsubscribe()
    monkeypatch.undo()
    with pytest.raises(IllegalStateError, match="subscribe"):
        found.poll(0)
    assert not found.assignment() and not found.subscription()
    found.subscribe(["t"], listener=found.listener)
    settle(found)
    found.commit({TP: 7})
    assert found.committed(TP) == 7


def test_an_interrupted_callback_runs_again_or_has_run(sim, member):
    found = member()

    def interrupt():
        raise KeyboardInterrupt

    found.listener.does["assigned"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        settle(found)
    sim.produce("t", 0, [b"x"])
    records = []
    for _ in range(100):
        records += [r for rs in found.poll(50).values() for r in rs]
    assert len(records) == 1
    assert found.listener.heard == [("assigned", [0, 1])] * 2


def test_a_loss_in_a_listener_that_goes_on_after_ctrl_c_is_reported(sim, member):
    """Its next call of the client recovers and steps the member, which finds there that its session has ended."""
    consumer = member(session_timeout_ms=6000)
    heard, engine = consumer.listener, consumer._shell.engine

    def go_on():
        def struck(*args, **more):
            del engine.step
            raise KeyboardInterrupt

        engine.step = struck
        with pytest.raises(KeyboardInterrupt):
            consumer.commit({TP: 0})
        sim.run_for(20.0)
        for _ in range(3):
            with pytest.raises(CommitFailedError):
                consumer.commit({TP: 0})
            consumer.drive()

    heard.does["assigned"] = go_on
    settle(consumer)
    for _ in range(200):
        consumer.poll(20)
    assert heard.heard == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]


def test_one_line_is_logged_for_each_rebalance(sim, member, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    first = member()
    settle(first)
    del caplog.records[:]
    first.enforce_rebalance("for a test")
    for _ in range(50):
        first.poll(100)
    lines = [record.getMessage() for record in caplog.records if "rebalanced" in record.getMessage()]
    assert len(lines) == 1
    assert "for a test" in lines[0] and "generation 2" in lines[0] and "2 partitions" in lines[0]


def test_whoever_waits_in_a_poll_polls_all_that_time(sim, member):
    """An idle topic is no reason to leave the group, or to leave what was read before uncommitted."""
    found = member(max_poll_interval_ms=9000, consumer_timeout_ms=40_000)
    settle(found)
    sim.produce("t", 0, [b"x"] * 3)
    assert [record.offset for record in found] == [0, 1, 2]
    assert found.health().group_state == "stable"
    assert found.listener.heard == [("assigned", [0, 1])]
    asked = member()
    assert asked.committed(TP) == 3, "the auto-commit came due while it waited"


def test_after_too_long_an_absence_nothing_is_committed_that_may_be_anothers(sim, member, caplog):
    """One warning, in numbers; no commit that can only be refused, and be complained of as well."""
    sim.produce("t", 0, [b"x"] * 3)
    found = member(session_timeout_ms=10_000, auto_commit_interval_ms=100)
    while not found.poll(50):
        pass
    sim.run_for(12)
    for _ in range(50):
        found.poll(50)
    assert found.listener.heard == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "thinc" in r.name]
    assert len(warnings) == 1 and "12.0 s between polls, session_timeout_ms=10000" in warnings[0]


@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_leaving_with_nothing_to_commit_waits_for_nothing(sim, member, call):
    """The fetch that is parked at a broker, for one, or the next heartbeat."""
    found = member(enable_auto_commit=False, fetch_max_wait_ms=20_000, heartbeat_interval_ms=3000)
    settle(found)
    for _ in range(20):
        found.poll(20)
    began = sim.now()
    getattr(found, call)()
    assert sim.now() - began < 0.05, "the fetch session is closed over another connection"


@pytest.mark.parametrize("style", ["range", "cooperative-sticky"])
def test_a_leader_that_closes_between_join_and_sync_still_plans(sim, member, style):
    """Without its SyncGroup the group stays in CompletingRebalance, and its commit and all members wait."""
    found = member(style, enable_auto_commit=False)
    settle(found)
    found.enforce_rebalance()
    while found.health().group_state != "completing rebalance":
        found.poll(0)
        sim.run_for(0.005)
        found.drive()  # takes the answer to the join, and does not plan
    found.commit_async({TP: 1})
    began = sim.now()
    found.close()
    assert sim.now() - began < 1
    assert member(style).committed(TP) == 1


def test_deserializers_and_connections_are_closed_when_a_listener_raises_in_close(sim, member):
    closed = []

    class Deserializer:
        def deserialize(self, topic, data):
            return data

        def close(self):
            closed.append(self)
            raise LookupError("the deserializer")

    found = member(key_deserializer=Deserializer(), value_deserializer=Deserializer())
    settle(found)

    def fail():
        raise ZeroDivisionError("the listener")

    found.listener.does["revoked"] = fail
    with pytest.raises(ZeroDivisionError, match="the listener"):
        found.close()
    assert len(closed) == 2
    assert not found._shell.engine.network.any_open()


def test_a_member_joins_in_a_poll_that_finds_nothing_else_to_do(sim, member):
    """The calls before it have found the coordinator: the poll would wait for its whole time, as would the next."""
    found = member("consumer")
    for _ in range(100):
        found.drive()
        sim.run_for(0.1)
    began = sim.now()
    while not found.assignment():
        assert sim.now() < began + 1, "no poll has joined"
        found.poll(100)


@pytest.mark.parametrize("style", ["range", "cooperative-sticky", "consumer"])
def test_a_revocation_with_nothing_to_commit_goes_on_at_once(sim, member, style):
    """It lets a step send commits of the listener, and without any no response would end the wait of this poll."""
    first = member(style, enable_auto_commit=False, fetch_max_wait_ms=20_000)
    settle(first)
    second = member(style)
    for _ in range(20):
        second.poll(10)
    times = []
    first.listener.does = dict.fromkeys(["revoked", "assigned"], lambda: times.append(sim.now()))
    first.poll(5000)
    assert times[1] - times[0] < 0.1
