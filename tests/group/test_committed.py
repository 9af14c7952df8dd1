"""Committed offsets: requests in every version, start positions of partitions, and the effect of each error."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.errors import GroupAuthorizationFailedError, KafkaConnectionError, TopicAuthorizationFailedError
from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_identity import CommitIdentity
from thinconsumer.group.offsets.committed import PARTITIONS_MAX
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

A, B, C = (TopicPartition("t", n) for n in range(3))
U = TopicPartition("u", 0)
IDS = {"t": b"t" * 16, "u": b"u" * 16}
S = PositionState


class Asked:
    """An OffsetFetch as the coordinator reads it."""

    def __init__(self, request: Any, version: int) -> None:
        version = min(version, request.max_version())
        self.request, self.version = request, version
        built = request.build(version)
        self.message = OffsetFetchRequest.decode(built.encode(version), version)
        self.topics = self.message.topics if version < 8 else self.message.groups[0].topics

    @property
    def tps(self) -> set[TopicPartition]:
        names = {topic_id: name for name, topic_id in IDS.items()}
        return {
            TopicPartition(names[topic.topic_id] if self.version >= 10 else topic.name, index)
            for topic in self.topics
            for index in topic.partition_indexes
        }


def ask(world, version: int = 9) -> Asked | None:
    found = [Asked(request, version) for request in world.committed.step(world.now)]
    assert len(found) <= 1
    return found[0] if found else None


def later(world, version: int = 9) -> Asked:
    for _ in range(50):
        world.agenda.take(world.now)
        found = ask(world, version)
        if found is not None:
            return found
        if world.coordinator.node_id is None:
            world.find(1)
        world.now = max(world.due(), world.now + 0.001)
        world.coordinator.step(world.now)
    raise AssertionError("nothing was ever asked")


def tell(world, asked: Asked, offsets: dict[TopicPartition, Any], *, group_code: int = 0) -> None:
    """Respond with (offset, epoch, metadata) or an error code by partition; others have no committed offset."""
    version = asked.version
    topic_cls = OffsetFetchResponseTopic if version < 8 else OffsetFetchResponseTopics
    topics: dict[str, Any] = {}
    for tp in sorted(asked.tps):
        said = offsets.get(tp, (-1, -1, ""))
        if said == "left out":
            continue
        topic = topics.setdefault(tp.topic, topic_cls(name=tp.topic))
        if version >= 8:
            topic.topic_id = IDS.get(tp.topic, bytes(16))
        row = OffsetFetchResponsePartition(partition_index=tp.partition, committed_offset=-1, metadata="")
        if isinstance(said, int):
            row.error_code = said
        else:
            row.committed_offset, row.committed_leader_epoch, row.metadata = said
        topic.partitions.append(row)
    if version < 8:
        response = OffsetFetchResponse(topics=list(topics.values()), error_code=group_code)
    else:
        group = OffsetFetchResponseGroup(group_id="g", topics=list(topics.values()), error_code=group_code)
        response = OffsetFetchResponse(groups=[group])
    world.respond(asked.request, response, version, world.committed)


@pytest.fixture
def waiting(world):
    """Two partitions that start at committed offsets."""
    world.topics(IDS)
    world.partitions.assign([A, B], start=S.AWAITING_COMMITTED)
    return list(world.partitions)


@pytest.mark.parametrize("version", range(1, 11))
def test_partitions_start_at_committed_offsets_or_by_reset_policy(world, waiting, version):
    """In every version: with an epoch from 5 on, stable only from 7 on, by groups from 8 on, by topic ids in 10."""
    asked = ask(world, version)
    assert asked.version == version
    assert asked.tps == {A, B}
    assert asked.message.require_stable == (version >= 7)
    tell(world, asked, {A: (42, 3, "note")})
    found, none = waiting
    assert (found.state, found.cursor.offset) == (S.VALIDATING, 42)
    epoch = 3 if version >= 5 else -1
    assert found.cursor.epoch == epoch
    assert found.committed == OffsetAndMetadata(42, "note", epoch)
    assert none.state is S.AWAITING_RESET
    assert none.committed is None
    assert ask(world) is None


def test_names_are_used_while_an_id_is_unknown(world):
    """One request cannot mix names and ids."""
    world.topics({"t": IDS["t"]})
    world.partitions.assign([A, U], start=S.AWAITING_COMMITTED)
    asked = ask(world, 10)
    assert asked.version == 9
    assert asked.tps == {A, U}


def test_one_request_is_in_flight_at_a_time(world, waiting):
    """No partition is requested twice."""
    first = ask(world)
    world.partitions.assign([A, B, C], start=S.AWAITING_COMMITTED)
    assert ask(world) is None
    tell(world, first, {A: (1, -1, ""), B: (2, -1, "")})
    assert ask(world).tps == {C}


def test_a_response_for_a_replaced_position_is_dropped(world, waiting):
    """After a seek, and for a partition that was lost and assigned again."""
    sought, returned = waiting
    asked = ask(world)
    sought.place(PositionEvent.SEEK, 7)
    world.partitions.assign([A])
    world.partitions.assign([A, B], start=S.AWAITING_COMMITTED)
    tell(world, asked, {A: (42, -1, ""), B: (43, -1, "")})
    assert sought.cursor.offset == 7
    assert returned.cursor.offset == -1
    back = world.partitions.get(B)
    assert back.state is S.AWAITING_COMMITTED
    assert ask(world).tps == {B}


def test_many_partitions_take_several_requests(world):
    """A response may hold 4 KB of metadata per partition."""
    tps = [TopicPartition("t", n) for n in range(PARTITIONS_MAX + 10)]
    world.partitions.assign(tps, start=S.AWAITING_COMMITTED)
    sizes = []
    while (asked := ask(world)) is not None:
        sizes.append(len(asked.tps))
        tell(world, asked, {})
    assert sizes == [PARTITIONS_MAX, 10]
    call = world.committed.ask(tps)
    sizes.clear()
    while not call.done:
        asked = ask(world)
        sizes.append(len(asked.tps))
        tell(world, asked, {})
    assert sizes == [PARTITIONS_MAX, 10]


# -- users' questions


def test_a_call_returns_offsets_or_none_by_partition(world):
    """With metadata and leader epoch."""
    call = world.committed.ask([A, B])
    tell(world, ask(world), {A: (42, 3, "note")})
    assert call.result() == {A: OffsetAndMetadata(42, "note", 3), B: None}
    assert world.committed.ask([]).result() == {}
    assert ask(world) is None


def test_a_call_during_a_request_gets_a_request_of_its_own(world):
    """It must return offsets committed in between."""
    first = world.committed.ask([A])
    asked = ask(world)
    second = world.committed.ask([A])
    tell(world, asked, {A: (1, -1, "")})
    assert first.result() == {A: OffsetAndMetadata(1)}
    assert not second.done
    tell(world, ask(world), {A: (2, -1, "")})
    assert second.result() == {A: OffsetAndMetadata(2)}


def test_an_abandoned_call_sends_no_request(world):
    """It does not start a search for the coordinator, either."""
    call = world.committed.ask([A])
    call.abandoned = True
    assert ask(world) is None


def test_a_call_for_an_unauthorized_topic_fails(world):
    call = world.committed.ask([A, U])
    tell(world, ask(world), {U: int(Code.TOPIC_AUTHORIZATION_FAILED)})
    with pytest.raises(TopicAuthorizationFailedError) as caught:
        call.result()
    assert caught.value.topics == ("u",)


def test_a_call_retries_only_partitions_with_retriable_errors(world):
    """After a backoff; the error is kept for the message of a timeout."""
    call = world.committed.ask([A, B])
    tell(world, ask(world), {A: (1, -1, ""), B: int(Code.UNSTABLE_OFFSET_COMMIT)})
    assert ask(world) is None
    assert call.last_error.name == "UNSTABLE_OFFSET_COMMIT"
    asked = later(world)
    assert asked.tps == {B}
    tell(world, asked, {B: (2, -1, "")})
    assert call.result() == {A: OffsetAndMetadata(1), B: OffsetAndMetadata(2)}


# -- errors


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
@pytest.mark.parametrize(
    ("code", "node"),
    [(Code.COORDINATOR_LOAD_IN_PROGRESS, 1), (Code.COORDINATOR_NOT_AVAILABLE, None), (Code.NOT_COORDINATOR, None)],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_coordinator_errors_are_retried_or_start_a_search(world, waiting, version, code, node):
    """In version 1 partitions carry the group's errors."""
    call = world.committed.ask([A])
    asked = ask(world, version)
    rows = {A: int(code), B: int(code)} if version == 1 else {}
    tell(world, asked, rows, group_code=0 if version == 1 else int(code))
    assert world.coordinator.node_id == node
    assert waiting[0].last_error.code == code
    assert waiting[0].error is None
    assert world.committed.error is None
    assert ask(world) is None
    tell(world, later(world, version), {A: (1, -1, ""), B: (1, -1, "")})
    assert waiting[0].cursor.offset == 1
    assert call.result() == {A: OffsetAndMetadata(1)}


def test_a_broken_connection_is_a_lost_coordinator(world, waiting):
    """Waiting calls keep the error."""
    call = world.committed.ask([A])
    world.break_off(ask(world).request)
    assert world.coordinator.node_id is None
    assert isinstance(waiting[0].last_error, KafkaConnectionError)
    assert isinstance(call.last_error, KafkaConnectionError)
    tell(world, later(world), {A: (1, -1, ""), B: (1, -1, "")})
    assert waiting[0].cursor.offset == 1


@pytest.mark.parametrize("version", [1, 5, 9])
def test_a_group_authorization_error_is_raised_until_a_request_succeeds(world, waiting, version):
    """Requests are repeated with backoff; a call of the user fails at once."""
    call = world.committed.ask([A])
    for _ in range(3):
        asked = later(world, version)
        code = int(Code.GROUP_AUTHORIZATION_FAILED)
        tell(world, asked, dict.fromkeys((A, B), code) if version == 1 else {}, group_code=0 if version == 1 else code)
        assert isinstance(world.committed.error, GroupAuthorizationFailedError)
        assert world.committed.error.group_id == "g"
    with pytest.raises(GroupAuthorizationFailedError):
        call.result()
    tell(world, later(world, version), {A: (1, -1, "")})
    assert world.committed.error is None
    assert waiting[0].cursor.offset == 1


def test_an_error_without_waiting_partitions_is_dropped(world):
    """Otherwise every poll would raise the error of one committed()."""
    call = world.committed.ask([A])
    tell(world, ask(world), {}, group_code=int(Code.GROUP_AUTHORIZATION_FAILED))
    assert call.done
    assert ask(world) is None
    assert world.committed.error is None


def test_an_unauthorized_topic_stops_only_its_partitions(world, waiting):
    """Polls raise the error, and requests back off until an ACL is granted."""
    started = world.now
    tell(world, ask(world), {A: int(Code.TOPIC_AUTHORIZATION_FAILED), B: (2, -1, "")})
    assert isinstance(waiting[0].error, TopicAuthorizationFailedError)
    assert waiting[1].cursor.offset == 2
    for _ in range(4):
        asked = later(world)
        assert asked.tps == {A}
        tell(world, asked, {A: int(Code.TOPIC_AUTHORIZATION_FAILED)})
    assert world.now - started > 1.0
    tell(world, later(world), {})
    assert waiting[0].error is None
    assert waiting[0].state is S.AWAITING_RESET


@pytest.mark.parametrize(
    "said",
    [int(Code.UNSTABLE_OFFSET_COMMIT), int(Code.UNKNOWN_TOPIC_OR_PARTITION), int(Code.UNKNOWN_TOPIC_ID), "left out"],
)
def test_a_partition_with_a_retriable_error_waits_and_keeps_the_error(world, waiting, said):
    """A transaction is open, metadata is outdated, or the response lacks the partition."""
    tell(world, ask(world), {A: said, B: (2, -1, "")})
    assert waiting[0].state is S.AWAITING_COMMITTED
    assert waiting[0].last_error is not None
    assert waiting[0].error is None
    assert ask(world) is None
    world.agenda.take(world.now)
    assert world.now < world.due() < world.now + 1
    tell(world, later(world), {A: (1, -1, "")})
    assert waiting[0].cursor.offset == 1
    assert waiting[0].last_error is None


def test_unknown_topics_have_metadata_refreshed(world, waiting):
    """The topic may have been created again."""
    tell(world, ask(world), {A: int(Code.UNKNOWN_TOPIC_ID)})
    assert world.metadata.refresh_reason is not None


def test_broker_without_a_common_version_is_raised(world, waiting):
    call = world.committed.ask([A])
    error = to_error(Code.UNSUPPORTED_VERSION, api="OffsetFetch")
    world.break_off(ask(world).request, error)
    assert world.committed.error is error
    assert world.coordinator.node_id == 1
    assert call.done


# -- the coordinator


def test_the_coordinator_is_searched_only_while_offsets_are_requested(world):
    """A consumer with positions needs no coordinator, unless it commits."""
    world.coordinator.unwant("test")
    world.coordinator.lost(1, "gone", world.now)
    ask(world)
    assert world.coordinator.step(world.now) == []
    world.partitions.assign([A], start=S.AWAITING_COMMITTED)
    ask(world)
    assert world.coordinator.step(world.now)


def test_waiting_calls_keep_the_error_of_the_search(world, waiting):
    """For the message of a timeout of position() or committed()."""
    call = world.committed.ask([A])
    world.coordinator.lost(1, "gone", world.now)
    world.find(1, Code.COORDINATOR_NOT_AVAILABLE)
    assert ask(world) is None
    assert waiting[0].last_error.name == "COORDINATOR_NOT_AVAILABLE"
    assert call.last_error.name == "COORDINATOR_NOT_AVAILABLE"


def test_a_request_is_repeated_at_a_new_coordinator(world, waiting):
    """A stopped broker does not respond while its connection is open; a late response is dropped."""
    stopped = ask(world)
    world.now += 4
    assert ask(world) is None
    assert world.coordinator.step(world.now)  # another broker is asked
    world.coordinator.lost(1, "no heartbeat", world.now)
    world.find(2)
    asked = ask(world)
    assert asked.request.target.node_id == 2
    tell(world, stopped, {A: (1, -1, "")})
    assert waiting[0].state is S.AWAITING_COMMITTED
    tell(world, asked, {A: (2, -1, "")})
    assert waiting[0].cursor.offset == 2


def test_a_restart_repeats_the_request(world, waiting):
    call = world.committed.ask([A])
    lost = ask(world)
    world.committed.restart(world.now)
    asked = ask(world)
    assert asked.tps == {A, B}
    tell(world, lost, {A: (1, -1, "")})
    assert not call.done
    tell(world, asked, {A: (2, -1, "")})
    assert call.result() == {A: OffsetAndMetadata(2)}


def test_one_log_line_lists_the_start_positions(world, waiting, caplog):
    caplog.set_level("INFO", "thinconsumer")
    tell(world, ask(world), {A: (42, 3, "")})
    (line,) = [r.getMessage() for r in caplog.records if r.name.endswith("committed")]
    assert "1 partitions start at their committed offsets, 1 have none" in line


def test_repeated_rebalances_do_not_log_a_recovery_each_time(world, waiting, caplog):
    caplog.set_level("INFO", "thinconsumer")
    tell(world, ask(world), {A: (42, 3, ""), B: (7, 3, "")})
    assert [r for r in caplog.records if r.name.endswith("committed")] == []


def test_the_backoff_grows_and_restarts_after_a_success(world):

    def pause() -> float:
        tell(world, later(world), {}, group_code=int(Code.NETWORK_EXCEPTION))
        before = world.now
        later(world)
        world.committed._requests.in_flight = None  # as if it had not been asked
        return world.now - before

    first = world.committed.ask([A])
    pauses = [pause() for _ in range(6)]
    assert pauses[0] < 0.3
    assert pauses[-1] > 0.7
    tell(world, later(world), {})
    assert first.done
    world.committed.ask([A])
    assert pause() < 0.3


def test_a_member_of_a_consumer_group_names_itself_and_its_epoch(world):
    """KIP-848: the coordinator refuses an outdated epoch, and the request is repeated under the new one."""
    epoch = 5
    world.committed.read_identity = lambda: CommitIdentity(Identity("g", epoch, "me"), has_epochs=True)
    call = world.committed.ask([A])
    asked = ask(world)
    group = asked.message.groups[0]
    assert (group.member_id, group.member_epoch) == ("me", 5)
    refusal = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=Code.STALE_MEMBER_EPOCH)])
    world.respond(asked.request, refusal, asked.version, world.committed)
    assert not call.done
    epoch = 6
    assert later(world).message.groups[0].member_epoch == 6
