"""Commits of partitions that a member does not own: refused, unless the partition is being revoked or it is allowed."""

import pytest

from thinconsumer import (
    CommitFailedError,
    Consumer,
    PartitionNotOwnedError,
    RebalanceInProgressError,
    RebalanceListener,
    TopicPartition,
)
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer_testing.broker.faults import Delay, Silence

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STYLES = ["range", "cooperative-sticky", "consumer"]
EAGER_AND_NOT = ["range", "cooperative-sticky"]


@pytest.fixture
def pair(make_group):
    """Return a function that makes a group of two members, which own a partition each: t-0 and t-1."""

    def make(style, **options):
        group = make_group(style, partitions=2)
        members = group.member(**options), group.member(**options)
        group.settle(*members)
        for _ in range(20):  # until the rebalances are over
            for member in members:
                member.poll(200)
        one, other = sorted(members, key=lambda member: P0 not in member.assignment())
        assert (one.assignment(), other.assignment()) == ({P0}, {P1})
        return group, one, other

    return make


def finished(consumer, told):
    """Poll until a callback was called; return its error."""
    for _ in range(100):
        if told:
            return told[0][1]
        consumer.poll(50)
    raise AssertionError("no callback was called")


@pytest.mark.parametrize("style", STYLES)
def test_the_offset_of_another_members_partition_is_not_replaced(pair, style):
    """The error names that partition; the other offsets of the call are written."""
    _, one, other = pair(style)
    other.commit({P1: 7})
    with pytest.raises(PartitionNotOwnedError, match=r"t-1 .*does not own.*allow_foreign_commits") as caught:
        one.commit({P0: 3, P1: 2})
    assert (caught.value.partitions, caught.value.reason, caught.value.retriable) == ((P1,), "not_owned", False)
    assert one.committed([P0, P1]) == {P0: 3, P1: 7}
    assert one.health().state.value == "ok"


@pytest.mark.parametrize("style", STYLES)
def test_an_asynchronous_commit_tells_its_callback(pair, style):
    _, one, other = pair(style)
    other.commit({P1: 7})
    told = []
    one.commit_async({P0: 4, P1: 3}, callback=lambda offsets, error: told.append((offsets, error)))
    error = finished(one, told)
    assert isinstance(error, PartitionNotOwnedError) and error.partitions == (P1,)
    assert one.committed([P0, P1]) == {P0: 4, P1: 7}


def test_an_asynchronous_commit_without_a_callback_is_logged(pair, caplog):
    _, one, _ = pair("range")
    one.commit_async({P1: 3})
    one.poll(100)
    assert "offsets not committed: t-1 at 3" in caplog.text and "does not own" in caplog.text


@pytest.mark.parametrize("style", STYLES)
def test_allow_foreign_commits_writes_them_as_java_does(pair, style):
    _, one, other = pair(style, allow_foreign_commits=True)
    other.commit({P1: 7})
    one.commit({P1: 2})
    assert one.committed(P1) == 2


class Committing(RebalanceListener):
    """Commits its partitions when they are revoked."""

    def __init__(self):
        self.heard = []

    def on_partitions_revoked(self, revoked):
        self.consumer.commit(dict.fromkeys(revoked, 5))
        self.consumer.commit_async(dict.fromkeys(revoked, 6))
        self.heard.append(set(revoked))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("how", ["rebalance", "close", "unsubscribe"])
def test_partitions_that_are_revoked_are_committed_in_the_callback(make_group, style, how):
    group = make_group(style, partitions=2)
    listener = Committing()
    one = listener.consumer = group.member(listener, enable_auto_commit=False)
    group.settle(one)
    if how == "rebalance":
        group.settle(one, group.member())
    else:
        getattr(one, how)()
    [revoked] = listener.heard
    reader = group.member()
    assert reader.committed([*revoked]) == dict.fromkeys(revoked, 6)


@pytest.mark.parametrize("style", ["cooperative-sticky", "consumer"])
def test_a_partition_is_committed_while_its_revocation_waits_for_a_commit(make_group, style):
    group = make_group(style, partitions=2)
    one = group.member(enable_auto_commit=False)
    group.settle(one)
    group.cluster.on(OffsetCommitRequest, Delay(6.0), times=1)
    told = []
    one.commit_async({P0: 1, P1: 1}, callback=lambda offsets, error: told.append((1, error)))
    other = group.member()
    while not one.health().group_state.startswith(("revoking after sync", "reconciling")):
        one.poll(20)
        other.poll(20)
    one.poll(0)
    one.commit_async({P0: 2, P1: 2}, callback=lambda offsets, error: told.append((2, error)))
    group.settle(one, other)
    while len(told) < 2:
        one.poll(20)
    assert told == [(1, None), (2, None)]
    assert one.committed([P0, P1]) == {P0: 2, P1: 2}


@pytest.mark.parametrize("style", EAGER_AND_NOT)
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_partition_of_the_new_generation_is_committed_although_no_poll_has_called_the_listener(
    pair, style, is_in_place
):
    """The coordinator counts it as owned since the response to SyncGroup. An offset is judged when it is sent."""
    group, one, other = pair(style)
    other.close()
    while one.health().group_state != "preparing rebalance":
        one.poll(0)
        group.cluster.network.clock.advance_to(group.now() + 0.001)
    while one.health().group_state != "revoking after sync":
        one.committed(P0)  # which calls no listener
    told = []
    if is_in_place:
        group.cluster.on(OffsetCommitRequest, Delay(1.0), times=1)
        one.commit_async({P0: 1})
        one.drive()
    one.commit_async({P1: 9}, callback=lambda offsets, error: told.append((offsets, error)))
    one.drive()
    assert finished(one, told) is None
    assert one.committed(P1) == 9


def test_a_partition_that_comes_in_the_consumer_protocol_is_committed_before_the_listener_was_called(pair):
    group, one, other = pair("consumer")
    other.close()
    while one.health().group_state == "stable":
        one.drive()
        group.cluster.network.clock.advance_to(group.now() + 0.1)
    one.commit({P1: 9})
    group.settle(one)
    assert one.committed(P1) == 9


def test_what_an_eager_member_has_just_revoked_is_committed_until_the_generation_ends(pair):
    """The coordinator accepts it until all members have joined, and nothing else owns the partition before."""
    group, one, other = pair("range", enable_auto_commit=False)
    one.enforce_rebalance()
    while one.assignment():
        one.poll(0)
        group.cluster.network.clock.advance_to(group.now() + 0.001)
    one.commit({P0: 8})
    with pytest.raises(RebalanceInProgressError):
        one.commit({P1: 8})
    group.settle(one, other)
    assert one.committed([P0, P1]) == {P0: 8, P1: None}


@pytest.mark.parametrize("style", STYLES)
def test_before_the_first_assignment_nothing_is_different(make_group, style):
    """A consumer that is not a member cannot commit, with the error that says so."""
    group = make_group(style)
    one = group.member()
    with pytest.raises(CommitFailedError) as caught:
        one.commit({P0: 1})
    assert not isinstance(caught.value, PartitionNotOwnedError)


@pytest.mark.parametrize("assigned", [(), (P0,)])
def test_without_a_subscription_every_partition_can_be_committed(make_group, assigned):
    """Offsets of a group without members are set so, by a program that reads nothing or what it likes."""
    group = make_group()
    servers = group.cluster.bootstrap_servers
    with Consumer(driver=group.cluster.driver(), bootstrap_servers=servers, group_id="plain") as one:
        one.assign(assigned)
        one.commit({P0: 1, P1: 2})
        assert one.committed([P0, P1]) == {P0: 1, P1: 2}
    with Consumer("t", driver=group.cluster.driver(), bootstrap_servers=servers, group_id="other") as one:
        group.settle(one)
        one.unsubscribe()
        one.commit({P0: 3})
        assert one.committed(P0) == 3


@pytest.mark.parametrize("style", ["range", "consumer"])
def test_poll_and_close_end_although_a_callback_commits_again_after_each_error(make_group, style):
    """Outside the group a commit fails at once: its callback is called by a later pass, not by the same one."""
    group = make_group(style)
    group.cluster.on(FindCoordinatorRequest, Silence())
    one, calls = group.member(), []

    def again(offsets, error):
        calls.append(error)
        assert len(calls) < 1000
        if error is not None:
            one.commit_async(offsets, callback=again)

    one.commit_async({P0: 1}, callback=again)
    one.poll(0)
    assert len(calls) == 1
    one.close(timeout_ms=100)
    assert 1 < len(calls) < 10


@pytest.mark.parametrize("style", STYLES)
def test_a_callback_that_commits_again_after_each_error_is_paced(pair, style):
    """No request paces it: such a commit fails before it is sent."""
    _, one, _ = pair(style, retry_backoff_ms=100)
    errors = []

    def commit_again(offsets, error):
        errors.append(error)
        if len(errors) < 1000:
            one.commit_async({P1: 2}, commit_again)

    one.commit_async({P1: 2}, commit_again)
    one.poll(1000)
    assert 8 <= len(errors) <= 11
    assert all(isinstance(error, PartitionNotOwnedError) for error in errors)
    called = len(errors)
    one.close()
    assert len(errors) > called, "the callback of the last commit is called without delay"
