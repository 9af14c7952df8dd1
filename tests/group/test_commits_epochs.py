"""Commits of a member of a consumer group (KIP-848): STALE_MEMBER_EPOCH, and partitions that went away."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def epochs(world):
    """The same world with a member of a consumer group (KIP-848), which has owned both partitions since epoch 5."""
    read = world.membership.commit_identity
    world.commits._read_identity = lambda: read()._replace(has_epochs=True)
    world.since = dict.fromkeys((A, B), 5)
    world.commits.owned_since = lambda tp: world.since.get(tp, -1)
    world.commits.on_membership_error = lambda error, who, now: world.membership.told.append((error.code, who))
    return world


def test_a_stale_epoch_is_committed_again_under_the_new_one(epochs):
    call = epochs.add((A, 1), (B, 2))
    sent = epochs.one()
    assert sent.request.min_version == 9 and sent.stamp == (5, "me")
    epochs.answer(sent, Code.STALE_MEMBER_EPOCH)
    assert [code for code, _ in epochs.membership.told] == [Code.STALE_MEMBER_EPOCH]
    epochs.membership.identity = epochs.membership.identity._replace(generation_id=9)
    again = epochs.later()
    assert again.stamp == (9, "me") and again.offsets == {A: 1, B: 2}
    epochs.answer(again)
    assert call.result() is None


def test_after_a_stale_epoch_offsets_of_partitions_that_are_gone_fail(epochs):
    call = epochs.add((A, 1), (B, 2))
    epochs.answer(epochs.one(), Code.STALE_MEMBER_EPOCH)
    epochs.membership.identity = epochs.membership.identity._replace(generation_id=9)
    epochs.membership.owned = {A}
    again = epochs.later()
    assert again.offsets == {A: 1}
    epochs.answer(again)
    assert epochs.failure(call).partitions == (B,)


def test_offsets_from_before_a_partition_went_away_and_came_back_fail(epochs):
    """Another member may have committed a later offset meanwhile, which this one would reset."""
    call = epochs.add((A, 1), (B, 2))
    epochs.answer(epochs.one(), Code.STALE_MEMBER_EPOCH)
    epochs.membership.identity = epochs.membership.identity._replace(generation_id=9)
    epochs.since[A] = 8
    again = epochs.later()
    assert again.offsets == {B: 2}
    epochs.answer(again)
    assert epochs.failure(call).partitions == (A,)


@pytest.mark.parametrize("steps", [(6,), (7, 12), (6, 7, 8, 30)])
def test_commit_of_partitions_that_are_kept_never_fails_because_of_a_rebalance_consumer_protocol(epochs, steps):
    """The coordinator may raise the epoch any number of times, and skip numbers, before the commit arrives."""
    call = epochs.add((A, 1))
    for epoch in steps:
        epochs.answer(epochs.later(), Code.STALE_MEMBER_EPOCH)
        assert not call.done
        epochs.membership.identity = epochs.membership.identity._replace(generation_id=epoch)
    again = epochs.later()
    assert again.stamp == (steps[-1], "me") and again.offsets == {A: 1}
    epochs.answer(again)
    assert call.result() is None


@pytest.mark.parametrize("code", [Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION])
@pytest.mark.parametrize(("generation", "succeeds"), [(6, True), (7, False)])
def test_commit_of_partitions_that_are_kept_never_fails_because_of_a_rebalance_classic_protocol(
    world, code, generation, succeeds
):
    """Unless this member has missed a generation, in which another one may have owned the partition."""
    call = world.add((A, 1))
    sent, before = world.one(), world.membership.identity
    world.membership.rebalancing = True
    world.answer(sent, code)
    assert world.membership.told == [(code, before)] * (code == Code.REBALANCE_IN_PROGRESS)
    assert world.membership.identity == before
    assert world.sent() == [] and not call.done
    world.membership.identity = world.membership.identity._replace(generation_id=generation)
    world.membership.rebalancing = False
    if succeeds:
        again = world.later()
        assert again.stamp == (6, "me") and again.offsets == {A: 1}
        world.answer(again)
        assert call.result() is None
    else:
        world.now += 1
        assert world.sent() == []
        assert world.failure(call).reason == "rebalance_in_progress"


def test_a_stale_epoch_of_a_member_that_was_removed_meanwhile_says_so(epochs):
    call = epochs.add((A, 1))
    sent = epochs.one()
    epochs.membership.identity = epochs.membership.identity.outside()
    epochs.answer(sent, Code.STALE_MEMBER_EPOCH)
    assert epochs.failure(call).reason == "illegal_generation"


def test_an_error_names_no_option_of_the_classic_protocol(epochs):
    """The session timeout is the broker's."""
    epochs.since_poll = 50.0
    call = epochs.add((A, 1))
    epochs.answer(epochs.one(), Code.UNKNOWN_MEMBER_ID)
    text = str(epochs.failure(call))
    assert "(50.0 s after the last poll)" in text
