"""Commits: their member id and generation, one in flight, the effect of each response, and waits in a rebalance."""

import pytest

from thinconsumer.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    RebalanceInProgressError,
    UnsupportedVersionError,
)
from thinconsumer.group.identity import Identity
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire.error_codes import Code, to_error

A, B = (TopicPartition("t", n) for n in range(2))


# -- sending


def test_a_commit_carries_member_id_and_generation(world):
    """Without a generation it would count as a commit with manual assignment."""
    call = world.add((A, 7), (B, 8))
    sent = world.one()
    assert sent.stamp == (5, "me")
    assert sent.message.group_id == "g"
    assert sent.offsets == {A: 7, B: 8}
    assert not call.done
    world.answer(sent)
    assert call.done
    call.result()
    assert not world.commits.queue.calls


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_carries_the_fields_that_it_has(world, version):
    """Version 6 has the first epochs, version 7 the first static members, version 10 topic ids."""
    world.topics({"t": b"t" * 16})
    world.membership.identity = Identity("g", 5, "me", "static")
    world.commits.add({A: OffsetAndMetadata(7, "note", 3)}, world.now + 9)
    sent = world.one(version)
    assert sent.version == version
    ((name, topic_id, row),) = sent.rows()
    assert (name, topic_id) == (("", b"t" * 16) if version >= 10 else ("t", bytes(16)))
    assert (row.committed_offset, row.committed_metadata) == (7, "note")
    assert row.committed_leader_epoch == (3 if version >= 6 else -1)
    assert sent.message.group_instance_id == ("static" if version >= 7 else None)
    world.answer(sent)
    assert not world.commits.queue.calls


def test_topics_are_named_while_any_id_is_unknown(world):
    """One request cannot mix names and ids."""
    world.topics({"t": b"t" * 16})
    world.add((A, 7), (TopicPartition("u", 0), 1))
    sent = world.one(10)
    assert sent.version == 9
    assert {name for name, _, _ in sent.rows()} == {"t", "u"}


def test_commits_with_manual_assignment_have_no_generation_and_instance_id(world):
    """With its instance id they would fence the static member."""
    world.membership.is_member = False
    world.membership.identity = Identity("g", 5, "me", "static")
    world.add((A, 7))
    sent = world.one()
    assert sent.stamp == (-1, "")
    assert sent.message.group_instance_id is None


def test_one_commit_is_in_flight_and_waiting_ones_are_merged_in_call_order(world):
    """The last value of a partition wins, a smaller one too: a rewind is legal."""
    first = world.add((A, 1))
    sent = world.one()
    second, third = world.add((A, 9), (B, 2)), world.add((A, 3))
    assert world.sent() == []
    world.answer(sent)
    assert first.done
    assert not second.done
    sent = world.one()
    assert sent.offsets == {A: 3, B: 2}
    world.answer(sent)
    assert second.done
    assert third.done


def test_a_retried_commit_does_not_overwrite_a_newer_one(world):
    """If it was repeated alone, the older offset would be written last."""
    older = world.add((A, 10), (B, 10))
    sent = world.one()
    newer = world.add((A, 20))
    world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
    sent = world.later()
    assert sent.offsets == {A: 20, B: 10}
    world.answer(sent)
    assert older.done
    assert newer.done
    assert not world.commits.queue.calls


def test_a_partition_in_backoff_delays_its_newer_commits(world):
    """A newer commit neither overtakes it nor ends the backoff."""
    world.add((A, 10), (B, 10))
    world.answer(world.one(), {A: Code.UNKNOWN_TOPIC_OR_PARTITION})
    other = world.add((B, 11))
    newer = world.add((A, 5))
    sent = world.one()
    assert sent.offsets == {B: 11}
    world.answer(sent)
    assert other.done
    assert world.sent() == []
    assert world.later().offsets == {A: 5}
    assert not newer.done


def test_a_commit_too_large_for_one_batch_is_split(world):
    """Brokers reject a batch over message.max.bytes as a whole."""
    note = "x" * 4096
    offsets = {TopicPartition("t", n): OffsetAndMetadata(n, note) for n in range(500)}
    call = world.commits.add(offsets, world.now + 60)
    seen: dict[TopicPartition, int] = {}
    while not call.done:
        sent = world.one()
        assert len(sent.request.build(9).encode(9)) < 600_000
        assert not seen.keys() & sent.offsets.keys()
        seen |= sent.offsets
        world.answer(sent)
    assert len(seen) == 500


# -- the coordinator


def test_a_broken_connection_is_a_lost_coordinator(world):
    """The commit may have been written; a repeated one does no harm."""
    call = world.add((A, 7))
    world.break_off(world.one().request)
    assert world.coordinator.node_id is None
    world.answer(world.later())
    call.result()


def test_a_request_to_a_former_coordinator_is_repeated_at_the_new_one(world):
    """A stopped broker does not respond, and its connection stays open."""
    call = world.add((A, 7))
    stopped = world.one()
    world.add((A, 8))
    world.coordinator.lost(1, "no heartbeat", world.now)
    assert world.sent() == []
    world.find(2)
    sent = world.one()
    assert sent.request.target.node_id == 2
    assert sent.offsets == {A: 8}
    world.answer(stopped, Code.UNKNOWN_MEMBER_ID)
    assert world.membership.told == []
    assert not call.done
    world.answer(sent)
    call.result()


def test_a_pending_commit_starts_a_search_at_other_brokers(world):
    """Also without heartbeats."""
    world.topics({"t": b"t" * 16})
    world.add((A, 7))
    world.one()
    world.now += 4
    world.sent()
    (probe,) = world.coordinator.step(world.now)
    assert probe.target.node_id in (2, 3)


def test_the_coordinator_is_searched_only_while_commits_are_unsettled(world):
    """Otherwise one commit would keep the search going for ever."""
    world.coordinator.unwant("test")
    world.coordinator.lost(1, "gone", world.now)
    world.sent()
    assert world.coordinator.step(world.now) == []
    world.add((A, 7), seconds=5)
    world.sent()
    assert world.coordinator.step(world.now)


def test_an_authorization_error_of_the_search_fails_only_commits_made_before_it(world):
    """An older error may have been resolved since."""
    world.coordinator.lost(1, "gone", world.now)
    world.find(1, Code.GROUP_AUTHORIZATION_FAILED)
    call = world.add((A, 7))
    assert world.sent() == []
    assert not call.done
    world.find(1, Code.GROUP_AUTHORIZATION_FAILED)
    assert world.sent() == []
    error = world.failure(call)
    assert isinstance(error, GroupAuthorizationFailedError)
    assert error.group_id == "g"


def test_broker_without_a_common_version_fails_the_call(world):
    call = world.add((A, 7))
    error = to_error(Code.UNSUPPORTED_VERSION, api="OffsetCommit")
    assert isinstance(error, UnsupportedVersionError)
    world.break_off(world.one().request, error)
    found = world.failure(call)
    assert isinstance(found, CommitFailedError)
    assert found.reason == "refused"
    assert found.__cause__ is error


def test_last_error_lasts_until_a_commit_succeeds(world):
    """For health(). An error of a single call, such as too long metadata, is not kept."""
    world.add((A, 7), seconds=5)
    world.answer(world.one(), Code.NETWORK_EXCEPTION)
    assert world.commits.last_error.name == "NETWORK_EXCEPTION"
    world.now += 5
    world.sent()
    assert world.commits.last_error.name == "NETWORK_EXCEPTION"
    world.add((A, 7))
    world.answer(world.later())
    assert world.commits.last_error is None
    world.add((A, 7))
    world.answer(world.later(), Code.OFFSET_METADATA_TOO_LARGE)
    assert world.commits.last_error is None
    world.add((A, 7))
    world.answer(world.later(), Code.GROUP_AUTHORIZATION_FAILED)
    world.sent()
    assert world.commits.last_error.name == "GROUP_AUTHORIZATION_FAILED"
    world.add((A, 7))
    world.answer(world.later())
    assert world.commits.last_error is None


# -- what cannot be committed


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.OFFSET_METADATA_TOO_LARGE, "metadata_too_large"),
        (Code.INVALID_COMMIT_OFFSET_SIZE, "metadata_too_large"),
        (Code.INVALID_GROUP_ID, "refused"),
        (Code.UNKNOWN_SERVER_ERROR, "refused"),
        (31_000, "refused"),
    ],
)
def test_a_rejected_partition_fails_only_the_calls_that_contain_it(world, code, reason):
    """Partitions that the error does not name were written."""
    bad, good = world.add((A, 7), (B, 8)), world.add((B, 9))
    world.answer(world.one(), {A: code})
    error = world.failure(bad)
    assert isinstance(error, CommitFailedError)
    assert (error.reason, error.partitions, error.retriable) == (reason, (A,), False)
    good.result()


def test_a_partition_missing_in_the_response_is_retried(world):
    call = world.add((A, 1), (B, 1))
    world.answer(world.one(), leave_out=[B])
    assert not call.done
    sent = world.later()
    assert sent.offsets == {B: 1}
    world.answer(sent)
    call.result()


# -- membership


def test_commits_go_on_under_the_old_generation_while_others_join(world):
    """A cooperative rebalance may take minutes; the coordinator accepts commits until all members have joined."""
    world.sent()
    world.membership.rebalancing = True
    call = world.add((A, 7))
    sent = world.one()
    assert sent.stamp == (5, "me")
    world.answer(sent)
    call.result()


def test_offsets_of_moved_partitions_fail_after_the_rebalance(world):
    """Offsets of kept partitions are committed."""
    call = world.add((A, 7), (B, 8))
    sent = world.one()
    world.membership.rebalancing = True
    world.answer(sent, Code.ILLEGAL_GENERATION)
    world.membership.identity = Identity("g", 6, "me")
    world.membership.rebalancing = False
    world.membership.owned = {B}
    world.now += 1
    sent = world.one()
    assert sent.offsets == {B: 8}
    world.answer(sent)
    error = world.failure(call)
    assert isinstance(error, RebalanceInProgressError)
    assert (error.partitions, error.retriable) == ((A,), True)


def test_a_commit_of_the_current_generation_may_contain_partitions_not_owned(world):
    """A revoked callback commits after the sync."""
    world.membership.owned = set()
    call = world.add((A, 7))
    world.answer(world.one())
    call.result()


def test_offsets_invalidated_before_writing_are_left_out(world):
    """Queueing and writing may be seconds apart, if the connection is opened first."""
    call = world.add((A, 7), (B, 8))
    (request,) = world.commits.step(world.now)
    world.membership.identity = Identity("g", 6, "me")
    world.membership.owned = {B}
    sent = request.build(9)
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (6, "me")
    assert [row.partition_index for topic in sent.topics for row in topic.partitions] == [B.partition]
    assert not call.done


def test_no_commit_is_written_between_join_and_sync(world):
    """The assignment is not known yet, and the coordinator would reject the commit."""
    world.add((A, 7))
    (request,) = world.commits.step(world.now)
    world.membership.rebalancing = True
    assert request.build(9).topics != []
    world.membership.identity = Identity("g", 6, "me")
    assert request.build(9).topics == []


def test_after_a_lost_membership_commits_fail_at_once(world):
    """Also commits about to be written; none is sent without a generation."""
    call = world.add((A, 7))
    (request,) = world.commits.step(world.now)
    queued = world.add((B, 8))
    world.membership.identity = world.membership.identity.lost()
    assert request.build(9).topics == []
    assert world.sent() == []
    assert world.failure(queued).reason == "unknown_member"
    world.break_off(request)
    assert world.sent() == []
    assert world.failure(call).reason == "unknown_member"
    assert not world.commits.queue.calls


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (Code.UNKNOWN_MEMBER_ID, "unknown_member", Code.UNKNOWN_MEMBER_ID),
        (Code.GROUP_ID_NOT_FOUND, "unknown_member", Code.UNKNOWN_MEMBER_ID),
        (Code.ILLEGAL_GENERATION, "illegal_generation", Code.ILLEGAL_GENERATION),
        (Code.FENCED_INSTANCE_ID, "fenced", Code.FENCED_INSTANCE_ID),
    ],
)
def test_membership_errors_are_reported_once_to_the_member(world, code, reason, told):
    """With the identity of the commit: the member ignores errors about an older one."""
    call = world.add((A, 7), (B, 7))
    world.answer(world.one(), code)
    assert world.membership.told == [(told, Identity("g", 5, "me"))]
    assert world.failure(call).reason == reason


def test_unknown_member_id_during_a_join_fails_the_commit_only(world):
    """The JoinGroup in flight gets the same error; the member ignores that of the commit."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.rebalancing = True
    world.answer(sent, Code.UNKNOWN_MEMBER_ID)
    assert world.failure(call).reason == "unknown_member"
    assert world.membership.identity == Identity("g", 5, "me")


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_before_the_join_is_written_a_membership_error_expels_the_member(world, code):
    """The join may wait long, and meanwhile polls would return records of partitions that other members own."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.rebalancing, world.membership.is_request_written = True, False
    world.answer(sent, code)
    assert world.membership.told == [(code, Identity("g", 5, "me"))]
    assert not world.membership.identity.is_member and not world.failure(call).retriable


@pytest.mark.parametrize("code", [Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID])
def test_an_error_about_a_former_generation_is_retried(world, code):
    """The response crossed the sync; the commit gets the new generation."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.identity = Identity("g", 6, "me")
    world.answer(sent, code)
    assert world.membership.told == []
    sent = world.later()
    assert sent.stamp == (6, "me")
    world.answer(sent)
    call.result()
