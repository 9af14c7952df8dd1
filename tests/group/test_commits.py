"""Commits: who they are stamped as, one in flight, what each answer means, waiting in a rebalance."""

from __future__ import annotations

import pytest

from thinconsumer.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from thinconsumer.group.identity import Identity
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire.error_codes import Code, to_error

A, B, C = (TopicPartition("t", n) for n in range(3))


def failure(call) -> KafkaError:
    """Return what the call raises."""
    assert call.done
    with pytest.raises(KafkaError) as caught:
        call.result()
    return caught.value


# -- sending


def test_commit_goes_out_as_the_member_in_its_generation(world):
    """Without a generation it would count as that of somebody who assigns by hand."""
    call = world.add((A, 7), (B, 8))
    sent = world.one()
    assert sent.stamp == (5, "me")
    assert sent.message.group_id == "g"
    assert sent.offsets == {A: 7, B: 8}
    assert not call.done
    world.answer(sent)
    assert call.done
    call.result()
    assert world.commits.idle


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_carries_offset_metadata_and_epoch_as_far_as_it_can(world, version):
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
    assert world.commits.idle


def test_topics_are_named_while_any_id_is_unknown(world):
    """One request cannot mix names and ids."""
    world.topics({"t": b"t" * 16})
    world.add((A, 7), (TopicPartition("u", 0), 1))
    sent = world.one(10)
    assert sent.version == 9
    assert {name for name, _, _ in sent.rows()} == {"t", "u"}


def test_commits_by_hand_have_no_generation_nor_instance(world):
    """A static instance named in them would fence the member that uses it."""
    world.membership.is_member = False
    world.membership.identity = Identity("g", 5, "me", "static")
    world.add((A, 7))
    sent = world.one()
    assert sent.stamp == (-1, "")
    assert sent.message.group_instance_id is None


def test_only_one_commit_is_in_flight_and_what_waits_is_merged_in_call_order(world):
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


def test_pain_D6_an_async_commit_that_fails_for_now_does_not_overwrite_a_newer_one(world):
    """Sent again on its own, the older offset would be written last."""
    older = world.add((A, 10), (B, 10))
    sent = world.one()
    newer = world.add((A, 20))
    world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
    sent = world.later()
    assert sent.offsets == {A: 20, B: 10}
    world.answer(sent)
    assert older.done
    assert newer.done
    assert world.commits.idle


def test_pain_D6_a_partition_refused_for_now_waits_with_what_was_committed_since(world):
    """The newer commit of it does not overtake, nor does it make the coordinator be asked in a loop."""
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


def test_callbacks_are_queued_once_each_in_order(world):
    """They are users' code, and run outside of steps."""
    heard = []
    for number in range(3):
        world.add((A, number), callback=lambda offsets, error, n=number: heard.append((n, offsets, error)))
    world.answer(world.one())
    assert heard == []
    while world.commits.finished:
        world.commits.run_first_callback()
    assert heard == [(n, {A: OffsetAndMetadata(n)}, None) for n in range(3)]


def test_nothing_to_commit_is_through_when_what_was_before_is(world):
    """So that a commit() without partitions drains the asynchronous ones."""
    assert world.commits.add({}, world.now + 1).done
    before = world.add((A, 1))
    drains = world.commits.add({}, world.now + 60)
    sent = world.one()
    assert not drains.done
    world.answer(sent)
    assert before.done
    assert drains.done


def test_a_commit_too_large_for_one_batch_is_split(world):
    """Brokers refuse a batch over message.max.bytes altogether."""
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


@pytest.mark.parametrize(
    "code", [Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.REQUEST_TIMED_OUT], ids=lambda c: c.name
)
def test_another_coordinator_is_looked_for_and_asked_again(world, code):
    """And the call goes on."""
    call = world.add((A, 7))
    world.answer(world.one(), code)
    assert world.coordinator.node_id is None
    assert world.sent() == []
    world.find(2)
    sent = world.later()
    assert sent.request.target.node_id == 2
    world.answer(sent)
    call.result()


@pytest.mark.parametrize("code", [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NETWORK_EXCEPTION], ids=lambda c: c.name)
def test_the_same_coordinator_is_asked_again_after_a_backoff(world, code):
    """With growing pauses."""
    call = world.add((A, 7))
    started = world.now
    for _ in range(6):
        world.answer(world.later(), code)
        assert world.coordinator.node_id == 1
    assert world.now - started > 1.0
    world.answer(world.later())
    call.result()


def test_connection_that_ends_is_a_lost_coordinator(world):
    """The commit may have been written: written twice it is the same."""
    call = world.add((A, 7))
    world.break_off(world.one().request)
    assert world.coordinator.node_id is None
    world.answer(world.later())
    call.result()


def test_request_is_taken_back_when_another_broker_coordinates(world):
    """A stopped broker answers nothing for as long as its connection stands."""
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


def test_silence_has_other_brokers_asked(world):
    """Also where no member sends heartbeats."""
    world.topics({"t": b"t" * 16})
    world.add((A, 7))
    world.one()
    world.now += 4
    world.sent()
    (probe,) = world.coordinator.step(world.now)
    assert probe.target.node_id in (2, 3)


def test_coordinator_is_wanted_only_while_there_is_something_to_commit(world):
    """Else a consumer that commits once would look for its coordinator for ever."""
    world.coordinator.unwant("test")
    world.coordinator.lost(1, "gone", world.now)
    world.sent()
    assert world.coordinator.step(world.now) == []
    world.add((A, 7), seconds=5)
    world.sent()
    assert world.coordinator.step(world.now)


def test_group_that_nobody_may_see_fails_commits_at_once_but_only_by_a_fresh_answer(world):
    """An error of yesterday may have been cured since."""
    world.coordinator.lost(1, "gone", world.now)
    world.find(1, Code.GROUP_AUTHORIZATION_FAILED)
    call = world.add((A, 7))
    assert world.sent() == []
    assert not call.done
    world.find(1, Code.GROUP_AUTHORIZATION_FAILED)
    assert world.sent() == []
    error = failure(call)
    assert isinstance(error, GroupAuthorizationFailedError)
    assert error.group_id == "g"


def test_broker_without_a_common_version_fails_the_call(world):
    """Trying again changes nothing."""
    call = world.add((A, 7))
    error = to_error(Code.UNSUPPORTED_VERSION, api="OffsetCommit")
    assert isinstance(error, UnsupportedVersionError)
    world.break_off(world.one().request, error)
    found = failure(call)
    assert isinstance(found, CommitFailedError)
    assert found.reason == "refused"
    assert found.__cause__ is error


def test_last_error_is_why_commits_fail_until_one_succeeds(world):
    """For health(): an error of one call alone, such as metadata that is too long, is not kept."""
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
def test_refusal_of_one_partition_fails_the_calls_with_it_and_no_other(world, code, reason):
    """What is not named in the error was written."""
    bad, good = world.add((A, 7), (B, 8)), world.add((B, 9))
    world.answer(world.one(), {A: code})
    error = failure(bad)
    assert isinstance(error, CommitFailedError)
    assert (error.reason, error.partitions, error.retriable) == (reason, (A,), False)
    good.result()


def test_topics_that_may_not_be_read_are_named_together(world):
    """One error for all of them, the AuthorizationError itself."""
    u = TopicPartition("u", 0)
    call = world.add((A, 1), (B, 1), (u, 1))
    world.answer(world.one(), {A: Code.TOPIC_AUTHORIZATION_FAILED, u: Code.TOPIC_AUTHORIZATION_FAILED})
    error = failure(call)
    assert isinstance(error, TopicAuthorizationFailedError)
    assert error.topics == ("t", "u")


def test_partition_left_out_of_an_answer_is_asked_about_again(world):
    """Silence is no success."""
    call = world.add((A, 1), (B, 1))
    world.answer(world.one(), leave_out=[B])
    assert not call.done
    sent = world.later()
    assert sent.offsets == {B: 1}
    world.answer(sent)
    call.result()


# -- who we are


def test_pain_D1_commit_into_a_rebalance_keeps_the_identity_and_is_stamped_anew(world):
    """REBALANCE_IN_PROGRESS and, while a join is out, ILLEGAL_GENERATION cost neither member id nor generation."""
    for code, told in ((Code.REBALANCE_IN_PROGRESS, 1), (Code.ILLEGAL_GENERATION, 0)):
        world.membership.told.clear()
        before = world.membership.identity
        call = world.add((A, 7))
        sent = world.one()
        world.membership.rebalancing = True
        world.answer(sent, code)
        assert world.membership.told == [(code, before)] * told
        assert world.membership.identity == before
        world.now += 10
        assert world.sent() == []
        assert not call.done
        world.membership.identity = before.joined(before.generation_id + 1, "me")
        assert world.sent() == []
        world.membership.rebalancing = False
        sent = world.one()
        assert sent.stamp == (before.generation_id + 1, "me")
        world.answer(sent)
        call.result()


def test_pain_D1_rebalance_that_only_a_commit_has_heard_of_asks_for_a_rejoin(world):
    """And is tried again meanwhile, with pauses, as the member it still is."""
    call = world.add((A, 7))
    for _ in range(3):
        world.answer(world.later(), Code.REBALANCE_IN_PROGRESS)
    assert set(world.membership.told) == {(Code.REBALANCE_IN_PROGRESS, Identity("g", 5, "me"))}
    sent = world.later()
    assert sent.stamp == (5, "me")
    world.answer(sent)
    call.result()


def test_pain_D1_commits_go_on_under_the_old_generation_while_others_join(world):
    """A cooperative rebalance may take minutes; the coordinator takes them until all have joined."""
    world.sent()
    world.membership.rebalancing = True
    call = world.add((A, 7))
    sent = world.one()
    assert sent.stamp == (5, "me")
    world.answer(sent)
    call.result()


def test_what_went_to_another_member_fails_when_the_rebalance_is_over(world):
    """And what stayed is committed all the same."""
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
    error = failure(call)
    assert isinstance(error, RebalanceInProgressError)
    assert (error.partitions, error.retriable) == ((A,), True)


def test_commit_made_in_the_new_generation_does_not_ask_whether_it_is_owned(world):
    """A revoked callback commits what it gives up, after the sync."""
    world.membership.owned = set()
    call = world.add((A, 7))
    world.answer(world.one())
    call.result()


def test_what_may_not_be_committed_any_more_when_it_is_written_is_left_out(world):
    """Between asking and writing there may be seconds: a connection has to be made first."""
    call = world.add((A, 7), (B, 8))
    (request,) = world.commits.step(world.now)
    world.membership.identity = Identity("g", 6, "me")
    world.membership.owned = {B}
    sent = request.build(9)
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (6, "me")
    assert [row.partition_index for topic in sent.topics for row in topic.partitions] == [B.partition]
    assert not call.done


def test_nothing_is_written_between_join_and_sync(world):
    """What will be ours is not known yet, and the coordinator would refuse it."""
    world.add((A, 7))
    (request,) = world.commits.step(world.now)
    world.membership.rebalancing = True
    assert request.build(9).topics != []
    world.membership.identity = Identity("g", 6, "me")
    assert request.build(9).topics == []


def test_lost_membership_writes_nothing_and_fails_at_once(world):
    """Not even what is about to be written, and never as somebody without a generation."""
    call = world.add((A, 7))
    (request,) = world.commits.step(world.now)
    queued = world.add((B, 8))
    world.membership.identity = world.membership.identity.lost()
    assert request.build(9).topics == []
    assert world.sent() == []
    assert failure(queued).reason == "unknown_member"
    world.break_off(request)
    assert world.sent() == []
    assert failure(call).reason == "unknown_member"
    assert world.commits.idle


def test_who_is_in_no_group_yet_cannot_commit(world):
    """And what is refused is not kept either: an unsubscribe would make it a commit by hand."""
    world.membership.identity = Identity("g")
    call = world.add((A, 7))
    assert failure(call).reason == "unknown_member"
    world.membership.rebalancing = True
    assert isinstance(failure(world.add((A, 7))), RebalanceInProgressError)
    world.membership.is_member = False
    assert world.sent() == []


def test_unsubscribing_does_not_turn_a_members_commit_into_one_by_hand(world):
    """That would throw back whoever has the partition now."""
    call = world.add((A, 7))
    world.membership.is_member = False
    assert world.sent() == []
    assert failure(call).reason == "unknown_member"


def test_subscribing_does_not_turn_a_commit_by_hand_into_a_members(world):
    """It may be of partitions that others own."""
    world.membership.is_member = False
    call = world.add((A, 7))
    world.membership.is_member = True
    assert world.sent() == []
    assert failure(call).reason == "refused"


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (Code.UNKNOWN_MEMBER_ID, "unknown_member", Code.UNKNOWN_MEMBER_ID),
        (Code.GROUP_ID_NOT_FOUND, "unknown_member", Code.UNKNOWN_MEMBER_ID),
        (Code.ILLEGAL_GENERATION, "illegal_generation", Code.ILLEGAL_GENERATION),
        (Code.FENCED_INSTANCE_ID, "fenced", Code.FENCED_INSTANCE_ID),
    ],
)
def test_membership_is_told_once_what_the_coordinator_says_of_us(world, code, reason, told):
    """With the identity that it was said of: membership ignores what is about an older one."""
    call = world.add((A, 7), (B, 7))
    world.answer(world.one(), code)
    assert world.membership.told == [(told, Identity("g", 5, "me"))]
    assert failure(call).reason == reason


def test_unknown_member_in_a_rebalance_fails_the_commit_and_leaves_the_join_alone(world):
    """The JoinGroup that is out gets the same answer; membership ignores ours meanwhile."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.rebalancing = True
    world.answer(sent, Code.UNKNOWN_MEMBER_ID)
    assert failure(call).reason == "unknown_member"
    assert world.membership.identity == Identity("g", 5, "me")


@pytest.mark.parametrize(("generation", "sent"), [(6, True), (7, False)])
def test_what_is_committed_between_join_and_sync_is_not_said_after_a_missed_generation(world, generation, sent):
    """Another may have had the partition in it, and have committed more."""
    world.sent()
    world.membership.rebalancing = True
    world.membership.identity = Identity("g", generation, "me")
    call = world.add((A, 7))
    assert world.sent() == []
    world.membership.rebalancing = False
    if sent:
        commit = world.one()
        assert commit.stamp == (6, "me")
        world.answer(commit)
        call.result()
    else:
        assert world.sent() == [] and failure(call).reason == "rebalance_in_progress"


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_before_the_join_is_out_the_commits_answer_is_news(world, code):
    """It may be due for long, and until it is answered records would be handed out that are another's by now."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.rebalancing, world.membership.is_request_written = True, False
    world.answer(sent, code)
    assert world.membership.told == [(code, Identity("g", 5, "me"))]
    assert not world.membership.identity.is_member and not failure(call).retriable


@pytest.mark.parametrize("code", [Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID])
def test_verdict_on_a_generation_that_is_over_changes_nothing(world, code):
    """The answer crossed the sync; the offset is stamped anew."""
    call = world.add((A, 7))
    sent = world.one()
    world.membership.identity = Identity("g", 6, "me")
    world.answer(sent, code)
    assert world.membership.told == []
    sent = world.later()
    assert sent.stamp == (6, "me")
    world.answer(sent)
    call.result()


def test_by_hand_beside_members_is_refused(world):
    """The group has members, who commit themselves; there is no membership to tell."""
    world.membership.is_member = False
    call = world.add((A, 7))
    world.answer(world.one(), Code.UNKNOWN_MEMBER_ID)
    assert failure(call).reason == "unknown_member"
    assert world.membership.told == []


def test_pain_B4_member_that_was_forgotten_sends_one_commit_that_fails_and_no_more(world, caplog):
    """A commit that fails and is tried again before the join would block it for ever."""
    calls = [world.add((A, 7))]
    sent = world.one()
    calls += [world.add((A, n)) for n in range(8, 50)]
    world.answer(sent, Code.UNKNOWN_MEMBER_ID)
    for _ in range(20):
        world.now += 1
        assert world.sent() == []
    assert {failure(call).reason for call in calls} == {"unknown_member"}
    assert world.commits.idle
    assert len([r for r in caplog.records if r.levelname != "DEBUG" and r.name.endswith("commits")]) == 0
