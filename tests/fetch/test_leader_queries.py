"""Queries to partition leaders: one request per leader, retriable errors back off, final ones are reported."""

import pytest

from thinconsumer.errors import KafkaConnectionError, SaslAuthenticationFailedError, UnsupportedVersionError
from thinconsumer.failures import Action, Scope, rule
from thinconsumer.fetch.leader_queries import EpochEndQueries, LeaderQuery
from thinconsumer.network.request import Answer
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

CODES = [c for c in Code if c and c is not Code.UNSUPPORTED_FOR_MESSAGE_FORMAT]


def test_one_request_per_leader(world, kit, asker):
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (2, 6), kit.tp(2): (1, 7)})
    askers = [asker(world, kit.tp(n)) for n in range(3)]
    assert world.lookups.topics() == {"t"} and world.wake_at() == world.now
    sent = {s.node_id: s for s in world.look_ups()}
    assert {node: dict(s.timestamps()) for node, s in sent.items()} == {
        1: {kit.tp(0): -1, kit.tp(2): -1},
        2: {kit.tp(1): -1},
    }
    assert [p.current_leader_epoch for t in sent[1].message.topics for p in t.partitions] == [5, 7]
    assert sent[1].message.replica_id == -1 and sent[1].request.deadline == world.now + 30
    assert world.look_ups() == [] and world.wake_at() == NEVER
    sent[1].offsets({kit.tp(0): 10, kit.tp(2): 12})
    sent[2].offsets({kit.tp(1): 11})
    assert [a.found for a in askers] == [[(10 + n, 123, 5)] for n in range(3)]
    assert world.lookups.topics() == set() and world.wake_at() == NEVER


def test_two_lookups_of_one_partition_make_two_requests(world, kit, asker):
    """Brokers reject a request that contains a partition twice with INVALID_REQUEST."""
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (1, 5)})
    askers = [asker(world, kit.tp(0), -2), asker(world, kit.tp(0), -1), asker(world, kit.tp(1), -1)]
    first, second = world.look_ups()
    assert dict(first.timestamps()) == {kit.tp(0): -2, kit.tp(1): -1}
    assert dict(second.timestamps()) == {kit.tp(0): -1}
    second.offsets({kit.tp(0): 99})
    first.offsets({kit.tp(0): 1, kit.tp(1): 50})
    assert [a.found[0][0] for a in askers] == [1, 99, 50]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_final_errors_are_reported_and_retriable_ones_back_off(world, kit, one, code):
    waits = []
    for _ in range(5):
        sent = world.look_ups()
        if not sent:
            break
        world.metadata.refresh_reason = None
        sent[0].offsets({kit.tp(0): {"error_code": code}})
        assert (world.metadata.refresh_reason is not None) is (
            rule("ListOffsets", code, Scope.PARTITION).action is Action.REFRESH_METADATA
        )
        waits.append(world.wake_at() - world.now)
        world.now += waits[-1]
    final = rule("ListOffsets", code, Scope.PARTITION).action is Action.RAISE
    error, was_final = one.failed[0]
    assert code.name in str(error) and error.partition == kit.tp(0)
    assert was_final is final
    assert code is not Code.TOPIC_AUTHORIZATION_FAILED or error.topics == ("t",)
    if was_final:
        assert len(one.failed) == 1 and world.look_ups() == []
    else:
        assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0
        world.look_ups()[0].offsets({kit.tp(0): 10})
        assert one.found


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (KafkaConnectionError("lost"), False),
        (UnsupportedVersionError("old", code=35, name="UNSUPPORTED_VERSION"), True),
        (SaslAuthenticationFailedError("no", code=58, name="SASL_AUTHENTICATION_FAILED"), True),
        (to_error(Code.REQUEST_TIMED_OUT), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failed_requests_are_retried_unless_the_error_is_final(world, one, error, final):
    world.look_ups()[0].fail(error)
    assert one.failed == [(error, final)]
    assert world.refresh_at() < world.now + 1
    world.now += 1
    assert bool(world.look_ups()) is not final


def test_waiting_for_a_leader_does_not_spin_without_backoff(make, kit, asker):
    """With a backoff of 0 and no request in flight, the client would spin."""
    world = make(retry_backoff_ms=0)
    world.cluster({kit.tp(0): (-1, 5)})
    caller = asker(world, kit.tp(0))
    assert world.look_ups() == []
    assert [(str(error), final) for error, final in caller.failed] == [("no leader known for t-0", False)]
    assert world.wake_at() > world.now
    assert world.refresh_at() < NEVER
    world.cluster({kit.tp(0): (2, 6)})
    world.now = world.wake_at()
    assert world.look_ups()[0].node_id == 2


@pytest.mark.parametrize(
    ("code", "final"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, True),
        (Code.INVALID_TOPIC_EXCEPTION, True),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, False),
        (Code.LEADER_NOT_AVAILABLE, False),
    ],
)
def test_topic_errors_in_metadata_are_reported(world, kit, code, final, asker):
    world.cluster({}, errors={"t": code})
    caller = asker(world, kit.tp(0))
    assert world.look_ups() == []
    [(error, was_final)] = caller.failed
    assert code.name in str(error) and was_final is final


def test_a_partition_missing_in_the_response_is_requested_again(world, kit, asker):
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (1, 5)})
    a, b = asker(world, kit.tp(0)), asker(world, kit.tp(1))
    world.look_ups()[0].offsets({kit.tp(0): 10})
    assert a.found and not b.found and [final for _, final in b.failed] == [False]
    world.now += 1
    [again] = world.look_ups()
    assert dict(again.timestamps()) == {kit.tp(1): -1}


def test_a_lookup_no_longer_wanted_is_dropped(world, kit, one):
    one.wanted = False
    assert world.look_ups() == [] and world.lookups.topics() == set()
    assert world.wake_at() == NEVER


def test_the_result_of_a_lookup_no_longer_wanted_is_dropped(world, kit, one):
    [sent] = world.look_ups()
    one.wanted = False
    assert world.look_ups() == []
    sent.offsets({kit.tp(0): 10})
    assert one.found == [] and world.lookups.topics() == set()


def test_a_callback_may_add_another_lookup(world, kit, asker):
    world.cluster({kit.tp(0): (1, 5)})
    more: list = []

    def found(answer, now):
        more.append(asker(world, kit.tp(0), -1))

    world.lookups.add(LeaderQuery(kit.tp(0), -2, lambda: True, found, lambda error, final: None))
    world.look_ups()[0].offsets({kit.tp(0): 0})
    [sent] = world.look_ups()
    sent.offsets({kit.tp(0): 7})
    assert more[0].found[0][0] == 7


def test_waiting_for_a_leader_backs_off_until_metadata_changes(make, kit, asker):
    """Checking thousands of partitions without a leader ten times a second took a quarter of a core."""
    world = make()
    world.cluster({kit.tp(0): (-1, 5)})
    asker(world, kit.tp(0))
    waits = []
    for _ in range(6):
        assert world.look_ups() == []
        waits.append(world.wake_at() - world.now)
        world.now += waits[-1]
    assert waits[0] < 0.13 and waits[1] > 0.15 and waits[-1] > 0.7
    world.look_ups()
    world.cluster({kit.tp(0): (2, 6)})
    assert world.look_ups()[0].node_id == 2


def test_lookups_that_failed_together_are_retried_in_one_request(make, kit, asker):
    """With a jitter each, a thousand partitions would each be retried in a request of their own."""
    world = make()
    world.cluster({kit.tp(number): (1, 5) for number in range(50)})
    for number in range(50):
        asker(world, kit.tp(number))
    [sent] = world.look_ups()
    sent.fail(KafkaConnectionError("gone"))
    world.now = world.wake_at()
    [again] = world.look_ups()
    assert len(again.message.topics[0].partitions) == 50


class Thresholds(EpochEndQueries):
    asker = "thresholds"
    purpose = "look up thresholds"


@pytest.fixture
def asked(world, kit):
    """Return queries for epochs 3 and 5 of two partitions on one leader, and what they have found."""
    world.cluster({kit.tp(0): (1, 7), kit.tp(1): (1, 8)})
    queries, found = Thresholds(world.config, world.metadata, world.random, world.agenda), {}
    for number, epoch in ((0, 3), (1, 5)):

        def take(data, now, number=number):
            found[number] = data.end_offset

        queries.add(LeaderQuery(kit.tp(number), epoch, lambda: True, take, lambda error, final: None))
    return queries, found


def answer(queries, request, now, ends):
    parts = [EpochEndOffset(partition=n, end_offset=end, error_code=code) for n, (end, code) in ends.items()]
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=parts)])
    queries.handle(Answer(request, 1, 4, response), now)


def test_one_request_to_a_leader_has_all_epochs_and_the_current_ones(asked, world):
    queries, found = asked
    [request] = queries.step(world.now)
    message = request.build(4)
    rows = [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in message.topics[0].partitions]
    assert (request.asker, request.min_version, message.replica_id) == ("thresholds", 3, -1)
    assert rows == [(0, 7, 3), (1, 8, 5)]
    answer(queries, request, world.now, {0: (40, 0), 1: (0, 0)})
    assert found == {0: 40, 1: 0} and queries.step(world.now) == []


def test_a_leader_that_has_changed_is_asked_again_after_a_metadata_refresh(asked, world):
    queries, found = asked
    [request] = queries.step(world.now)
    world.take_due()
    answer(queries, request, world.now, {0: (-1, int(Code.FENCED_LEADER_EPOCH)), 1: (6, 0)})
    assert found == {1: 6}
    assert world.refresh_at() <= world.now + 1
    world.now = world.wake_at()
    assert [p.partition for p in queries.step(world.now)[0].build(4).topics[0].partitions] == [0]
