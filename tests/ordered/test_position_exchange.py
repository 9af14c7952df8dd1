"""The exchange of positions within a group: what is sent, how often, and which answers count."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaError
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_identity import CommitIdentity
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import Answer
from thinconsumer.ordered.position_exchange import PositionExchange, Report, is_worth_sending
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node
from thinconsumer.wire.consumer_group_positions import (
    ConsumerGroupPositionsRequest,
    ConsumerGroupPositionsResponse,
    PartitionPosition,
    TopicPositions,
)
from thinconsumer.wire.error_codes import Code

TOPIC = b"t" * 16
PARENT, CHILD = (TOPIC, 0), (TOPIC, 1)


class Group:
    """One member's exchange, with a coordinator that tests play."""

    def __init__(self, **options):
        config = ConsumerConfig.from_options(group_id="g", heartbeat_interval_ms=3000, **options)
        source = random.Random(7)
        self.agenda = Agenda()
        self.coordinator = Coordinator(config, "g", Metadata(config, source, self.agenda), source, self.agenda)
        self.coordinator._found(Node(1, "b1", 9092), 0.0)
        self.member = CommitIdentity(Identity("g", 4, "m"), is_subscribed=True)
        self.exchange = PositionExchange(config, self, source, lambda: 3.0)
        self.exchange.is_active = True
        self.now = 100.0

    def commit_identity(self):
        return self.member

    def send(self, *wanted):
        self.requests = self.exchange.step(self.now, wanted)
        if not self.requests:
            return None
        data = self.requests[0].build(0).encode(0)
        return ConsumerGroupPositionsRequest.decode(memoryview(data), 0)

    def answer(self, *, positions=(), requested=(), code=0, error=None, request=None):
        def rows(found):
            parts = [PartitionPosition(partition_index=place[1], position=offset) for place, offset in found]
            return [TopicPositions(topic_id=TOPIC, partitions=parts)]

        response = ConsumerGroupPositionsResponse(
            error_code=code, positions=rows(positions), requested=rows(requested)
        )  # fmt: skip
        answer = Answer(request or self.requests[0], 1, 0, None if error else response, error)
        self.exchange.handle(answer, self.now)


@pytest.fixture
def group():
    return Group()


def test_the_conditions_of_kip_253_for_including_a_position():
    last = Report(10, 5, False)
    assert is_worth_sending(Report(0, -1, False), None), "the first one"
    assert not is_worth_sending(last, last)
    assert not is_worth_sending(Report(12, 5, False), last), "in the middle of an epoch"
    assert is_worth_sending(Report(12, 5, True), last), "at the high watermark"
    assert is_worth_sending(Report(12, 6, False), last), "in a later epoch"
    assert not is_worth_sending(Report(10, 5, True), last), "not moved"
    assert is_worth_sending(Report(3, 2, False), last), "the application has gone back"


def test_a_response_counts_only_for_partitions_that_were_asked_for(group):
    group.send(PARENT)
    group.answer(positions=[(CHILD, 12)])
    assert group.exchange.known == {}


def test_a_requested_position_is_sent_once_until_it_is_worth_it_again(group):
    def reported(offset, epoch, kept, at_end=False):
        group.send()
        group.answer(requested=[(PARENT, kept)])
        group.now += 3
        due = group.exchange.due_reports({PARENT: Report(offset, epoch, at_end)})
        group.exchange.ready.update(due)
        sent = group.send()
        group.answer(requested=[(PARENT, offset if due else kept)])
        group.now += 3
        return [(row.partition_index, row.position) for topic in sent.positions for row in topic.partitions]

    assert reported(10, 5, -1) == [(0, 10)]
    assert reported(11, 5, 10) == []
    assert reported(12, 6, 10) == [(0, 12)]
    assert reported(13, 6, 12, at_end=True) == [(0, 13)]
    assert reported(13, 6, -1, at_end=True) == [(0, 13)], "a new coordinator has lost it"


def test_a_position_waits_for_the_next_request_only_once(group):
    group.send()
    group.answer(requested=[(PARENT, -1)])
    reports = {PARENT: Report(10, 5, False)}
    group.exchange.ready.update(group.exchange.due_reports(reports))
    assert group.exchange.due_reports(reports) == {}


@pytest.mark.parametrize("code", [Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.ILLEGAL_GENERATION])
def test_a_position_that_was_not_taken_is_sent_again(group, code):
    group.send()
    group.answer(requested=[(PARENT, 3)])
    reports = {PARENT: Report(10, 5, False)}
    group.exchange.ready.update(group.exchange.due_reports(reports))
    group.now += 3
    group.send()
    group.answer(code=int(code))
    assert group.exchange.error is None
    assert group.exchange.due_reports(reports) == reports


def test_positions_of_an_earlier_generation_are_forgotten(group):
    """The position of a member that was lost must not release anything: its successor may continue further back."""
    group.send(PARENT)
    group.answer(positions=[(PARENT, 12)], requested=[(CHILD, 4)])
    group.member = CommitIdentity(Identity("g", 5, "m"), is_subscribed=True)
    assert group.exchange.follow_generation() == group.member.identity
    assert (group.exchange.known, group.exchange.requested) == ({}, {})


def test_a_response_to_a_request_of_an_earlier_generation_is_not_used(group):
    group.send(PARENT)
    group.member = CommitIdentity(Identity("g", 5, "m"), is_subscribed=True)
    group.answer(positions=[(PARENT, 12)], requested=[(CHILD, 4)])
    assert (group.exchange.known, group.exchange.requested) == ({}, {})


@pytest.mark.parametrize(
    "member",
    [
        CommitIdentity(Identity("g"), is_subscribed=True),
        CommitIdentity(Identity("g"), is_subscribed=False),
        CommitIdentity(Identity("g", 4, "m"), is_subscribed=True, is_rebalancing=True),
    ],
)
def test_only_a_member_of_a_stable_generation_sends_requests(group, member):
    group.member = member
    assert group.send(PARENT) is None


def test_an_error_that_the_application_must_act_on_is_kept_and_cleared_by_a_success(group):
    group.send(PARENT)
    group.answer(code=int(Code.GROUP_AUTHORIZATION_FAILED))
    assert "GROUP_AUTHORIZATION_FAILED" in str(group.exchange.error)
    group.now += 3
    group.send(PARENT)
    group.answer()
    assert group.exchange.error is None


def test_without_a_response_the_coordinator_is_looked_for_and_the_next_request_is_paced(group):
    group.send(PARENT)
    group.answer(error=KafkaError("disconnected"))
    assert group.coordinator.target("") is None
    assert group.send(PARENT) is None


def test_a_late_response_is_dropped(group):
    group.send(PARENT)
    late = group.requests[0]
    group.exchange.restart(group.now)
    group.answer(positions=[(PARENT, 12)], request=late)
    assert group.exchange.known == {}


def test_a_success_ends_the_backoff():
    group = Group(retry_backoff_ms=1000, retry_backoff_max_ms=60_000)

    def answer(code):
        group.send(PARENT)
        group.answer(code=code)
        before = group.now
        while not group.exchange.is_due(group.now):
            group.now = max(group.now, group.agenda.next())
            group.agenda.take(group.now)
        return round(group.now - before, 6)

    waits = [answer(int(Code.ILLEGAL_GENERATION)) for _ in range(5)]
    assert waits[0] == 3.0 and waits[-1] > 10
    assert answer(0) == 3.0
    assert answer(int(Code.ILLEGAL_GENERATION)) == 3.0, "the shortest backoff again, which the interval covers"


def test_a_position_in_flight_is_sent_again_after_a_restart(group):
    group.send()
    group.answer(requested=[(PARENT, 3)])
    reports = {PARENT: Report(10, 5, False)}
    group.exchange.ready.update(group.exchange.due_reports(reports))
    group.now += 3
    assert group.send().positions
    group.exchange.restart(group.now)
    assert group.exchange.due_reports(reports) == reports
