"""Commits that wait while their topic is deleted and created again."""

import pytest

from thinconsumer.errors import CommitFailedError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitResponse

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("version", [9, 10])
def test_an_offset_of_a_deleted_topic_is_not_written_to_its_successor(world, version):
    """A topic that is deleted and created again has the same name, another id, and other records (KIP-516)."""
    world.topics({"t": b"t" * 16, "u": b"u" * 16})
    call, other = world.add((A, 7)), world.add((TopicPartition("u", 0), 1))
    world.topics({"t": b"T" * 16, "u": b"u" * 16})
    later = world.add((B, 1))
    sent = world.one(version)
    assert [row.committed_offset for _, _, row in sent.rows()] == [1, 1]
    error = world.failure(call)
    assert isinstance(error, CommitFailedError) and error.reason == "refused" and "was deleted" in str(error)
    world.answer(sent)
    later.result()
    other.result()


def test_an_offset_that_the_coordinator_refuses_for_its_topic_id_is_not_repeated_for_the_new_topic(world):
    """The coordinator is the first to tell that the topic was created again."""
    world.topics({"t": b"t" * 16})
    call = world.add((A, 7))
    sent = world.one(10)
    world.topics({"t": b"T" * 16})
    world.answer(sent, Code.UNKNOWN_TOPIC_ID)
    assert world.sent(10) == []
    assert world.failure(call).reason == "refused"
    assert not world.commits.queue.calls


def test_a_request_that_is_written_after_its_topic_was_created_again_leaves_its_offsets_out(world):
    world.topics({"t": b"t" * 16})
    call = world.add((A, 7))
    (request,) = world.commits.step(world.now)
    world.topics({"t": b"T" * 16})
    message = request.build(9)
    assert message.topics == []
    world.respond(request, OffsetCommitResponse(), 9, world.commits)
    assert world.sent() == []
    assert world.failure(call).reason == "refused"


def test_an_offset_that_was_written_before_its_topic_was_created_again_is_not_one_of_the_new_topic(world):
    world.topics({"t": b"t" * 16})
    world.partitions.assign([A, B])
    world.add((A, 7), (B, 8))
    sent = world.one(10)
    world.answer(sent)
    assert world.partitions.get(A).committed.offset == 7
    world.add((A, 9))
    sent = world.one(10)
    world.topics({"t": b"T" * 16})
    world.answer(sent)
    assert world.partitions.get(A).committed.offset == 7


def test_an_offset_for_the_new_topic_replaces_one_for_the_deleted_topic(world):
    world.topics({"t": b"t" * 16})
    old = world.add((A, 7))
    world.topics({"t": b"T" * 16})
    new = world.add((A, 1))
    sent = world.one(10)
    assert [(topic_id, row.committed_offset) for _, topic_id, row in sent.rows()] == [(b"T" * 16, 1)]
    world.answer(sent)
    assert old.done
    assert new.done


def test_a_topic_that_gets_an_id_meanwhile_is_the_same(world):
    """An upgraded cluster gives ids to its topics."""
    call = world.add((A, 7))
    world.topics({"t": b"t" * 16})
    world.answer(world.one(10))
    call.result()
