"""A member of a consumer group against scripted responses: joining, reconciling, expulsion, leaving, timeouts."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalStateError, KafkaConnectionError, UnsupportedVersionError
from thinconsumer.failures import waits_for_user
from thinconsumer.group.consumer.assignment import MemberAssignment
from thinconsumer.group.consumer.member import ConsumerMember
from thinconsumer.group.consumer.states import ConsumerMemberState as S
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.network.request import Answer
from thinconsumer.positions.partitions import Partitions
from thinconsumer.positions.states import PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node
from thinconsumer.wire import consumer_group_heartbeat as wire
from thinconsumer.wire.error_codes import Code

T = b"t" * 16
OPTIONS = {"group_id": "g", "max_poll_interval_ms": 60_000}


class FakeRevocation:
    """Records the callbacks, and changes the partitions at once."""

    def __init__(self, partitions):
        self.partitions, self.calls = partitions, []

    def advance(self, tps, now):
        self.calls.append(("revoked", sorted(tp.partition for tp in tps)))
        self.partitions.assign([p.tp for p in self.partitions if p.tp not in tps])
        return True

    def assign(self, tps):
        self.partitions.assign(tps, start=PositionState.AWAITING_CALLBACK)

    def call_assigned(self):
        self.calls.append(("assigned", sorted(tp.partition for tp in self.partitions.tps())))

    def lose(self, now):
        if self.partitions:
            self.calls.append(("lost", sorted(tp.partition for tp in self.partitions.tps())))
        self.partitions.assign(())


class World:
    """One member of a group with node 1 as coordinator."""

    def __init__(self, instance=None):
        config, rng = ConsumerConfig(**OPTIONS), random.Random(3)
        self.now = 100.0
        self.agenda = Agenda()
        self.partitions, self.metadata = Partitions(), Metadata(config, rng, self.agenda)
        self.metadata.topics["t"] = TopicMetadata("t", T)
        self.revocation = FakeRevocation(self.partitions)
        self.coordinator = Coordinator(config, "g", self.metadata, rng, self.agenda)
        self.topics = frozenset({"t"})
        assignment = MemberAssignment(self.partitions, self.metadata, self.revocation, rng, self.agenda)
        identity = Identity("g", group_instance_id=instance)
        self.member = ConsumerMember(config, identity, assignment, lambda: (self.topics, None), self.coordinator, rng)
        self.find()
        self.subscribe()

    def subscribe(self):
        self.member.subscribe("test")
        self.member.called(self.now, polls=True)

    def find(self):
        self.coordinator.want()
        if self.coordinator.node_id is None:
            self.coordinator.step(self.now)
            self.coordinator._found(Node(1, "b", 9092), self.now)

    def wait(self):
        """Step when the agenda says so, until a heartbeat is sent; return the seconds until then."""
        begun = self.now
        self.agenda.take(self.now)
        while not self.member.step(self.now):
            self.now = max(self.now, self.agenda.next())
            self.agenda.take(self.now)
        return self.now - begun

    def heartbeat(self):
        (request,) = self.member.step(self.now)
        return request, request.build(1)

    def respond(self, request, epoch=1, partitions=None, code=0, interval=5000, error_message=None):
        assignment = None
        if partitions is not None:
            rows = [wire.TopicPartitions(topic_id=T, partitions=list(partitions))] if partitions else []
            assignment = wire.HeartbeatAssignment(topic_partitions=rows)
        response = wire.ConsumerGroupHeartbeatResponse(
            error_code=code,
            error_message=error_message,
            member_epoch=epoch,
            heartbeat_interval_ms=interval,
            assignment=assignment,
        )
        self.member.handle(Answer(request, 1, 1, response), self.now)

    def work(self):
        while self.member.has_work(self.now):
            self.member.work(self.now)

    def beat(self, **response):
        """Send what is due, respond, and run callbacks; return the message."""
        self.find()
        request, message = self.heartbeat()
        self.respond(request, **response)
        self.work()
        return message

    def settle(self, epoch=1, partitions=(0, 1)):
        self.beat(epoch=epoch, partitions=partitions)
        message = self.beat(epoch=epoch)
        assert self.member.is_settled, self.member
        return message


@pytest.fixture
def world():
    return World()


def owned(message):
    return None if message.topic_partitions is None else [n for t in message.topic_partitions for n in t.partitions]


def test_a_member_joins_reconciles_and_acknowledges(world):
    join = world.beat(epoch=3, partitions=[0, 1])
    assert (join.member_epoch, join.subscribed_topic_names, owned(join)) == (0, ["t"], [])
    assert join.rebalance_timeout_ms == 60_000 and len(join.member_id) == 22
    assert world.member.state is S.ACKNOWLEDGING and world.revocation.calls == [("assigned", [0, 1])]
    acknowledgement = world.beat(epoch=3)
    assert (acknowledgement.member_epoch, owned(acknowledgement)) == (3, [0, 1])
    assert acknowledgement.subscribed_topic_names is None and acknowledgement.member_id == join.member_id
    assert world.member.is_settled and world.member.stats.rebalances.count == 1
    assert world.member.step(world.now) == [] and world.wait() == 5.0


def test_an_empty_first_assignment_calls_the_listener_and_needs_no_acknowledgement(world):
    world.beat(partitions=())
    assert world.revocation.calls == [("assigned", [])] and world.member.is_settled
    assert world.member.step(world.now) == []


def test_a_revocation_is_acknowledged_before_more_is_assigned(world):
    world.settle()
    world.now += 5
    assert owned(world.beat(epoch=2, partitions=[1, 2])) is None
    assert world.revocation.calls[-1] == ("revoked", [0]) and world.member.state is S.ACKNOWLEDGING
    assert owned(world.beat(epoch=2)) == [1]
    assert world.revocation.calls[-1] == ("assigned", [1, 2])
    assert owned(world.beat(epoch=2)) == [1, 2] and world.member.is_settled


def test_a_changed_subscription_is_sent_at_once(world):
    world.settle()
    world.topics = frozenset({"t", "u"})
    assert world.beat().subscribed_topic_names == ["t", "u"]
    assert world.member.step(world.now) == []


def test_one_heartbeat_is_in_flight_and_the_broker_sets_the_interval(world):
    world.settle()
    world.now += 5
    request, message = world.heartbeat()
    assert message.topic_partitions is None and message.subscribed_topic_names is None
    world.topics = frozenset({"u"})
    world.now += 1
    assert world.member.step(world.now) == []
    world.respond(request, interval=30_000)
    assert world.member.heartbeat_interval == 30.0
    world.now += 30
    world.respond(world.heartbeat()[0], interval=2**31 - 1)
    assert world.member.heartbeat_interval == 60.0, "only the next response can name another one"


def test_after_a_lost_response_all_fields_are_sent(world):
    world.settle()
    world.now += 5
    request, _ = world.heartbeat()
    world.member.handle(Answer(request, 1, error=KafkaConnectionError("reset")), world.now)
    assert world.coordinator.node_id is None
    world.now += 2
    message = world.beat()
    assert message.subscribed_topic_names == ["t"] and owned(message) == [0, 1] and message.member_epoch == 1
    assert message.rebalance_timeout_ms == 60_000


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH, Code.GROUP_ID_NOT_FOUND])
def test_an_expelled_member_loses_its_partitions_and_joins_with_the_same_id(world, code):
    world.settle()
    member, before = world.member, world.member.identity
    world.now += 5
    request, _ = world.heartbeat()
    world.respond(request, code=code)
    assert member.state is S.FENCED and member.unconfirmed is not None and not member.identity.is_member
    assert world.member.step(world.now) == []
    world.work()
    assert world.revocation.calls[-1] == ("lost", [0, 1]) and world.member.state is S.JOINING
    message = world.beat(epoch=9, partitions=[0])
    assert (message.member_epoch, message.member_id, owned(message)) == (0, before.member_id, [])
    assert world.member.identity.incarnation == before.incarnation + 1 and world.member.unconfirmed is None


@pytest.mark.parametrize(
    "code",
    [
        Code.UNRELEASED_INSTANCE_ID,
        Code.UNSUPPORTED_ASSIGNOR,
        Code.GROUP_MAX_SIZE_REACHED,
        Code.INVALID_REGULAR_EXPRESSION,
        Code.UNSUPPORTED_VERSION,
        Code.INVALID_REQUEST,
        Code.GROUP_ID_NOT_FOUND,
    ],
)
def test_final_errors_are_raised_by_every_poll_until_the_consumer_unsubscribes(world, code):
    world.beat(code=code)
    assert world.member.state is S.FATAL and waits_for_user(world.member.error)
    assert world.member.step(world.now + 100) == [] and not world.member.has_work(world.now)
    world.member.leave("unsubscribed", world.now)
    assert world.member.has_left and world.member.error is None
    world.member.subscribe("again")
    assert world.member.state is S.JOINING


@pytest.mark.parametrize("code", [Code.GROUP_AUTHORIZATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED])
def test_a_missing_acl_is_raised_and_its_grant_ends_the_error(world, code):
    world.beat(code=code)
    assert world.member.state is S.JOINING and not waits_for_user(world.member.error)
    assert world.member.step(world.now) == []
    world.now += 1.1
    world.settle()
    assert world.member.error is None


@pytest.mark.parametrize(
    ("instance", "leave_group", "epoch"), [(None, None, -1), ("i", None, -2), ("i", True, -1), (None, False, None)]
)
def test_leaving(instance, leave_group, epoch):
    world = World(instance)
    world.settle()
    world.member.leave("closing", world.now, leave_group=leave_group)
    if epoch is not None:
        assert world.member.state is S.LEAVING
        request, message = world.heartbeat()
        assert (message.member_epoch, message.instance_id) == (epoch, instance)
        world.respond(request, epoch=epoch)
        world.member.step(world.now)
    assert world.member.has_left and world.member.step(world.now) == []


def test_leaving_ends_although_the_coordinator_does_not_answer(world):
    world.settle()
    world.member.leave("closing", world.now)
    request, _ = world.heartbeat()
    assert request.deadline == world.now + 5
    world.member.subscribe("again")
    world.now += 5
    world.member.handle(Answer(request, 1, error=KafkaConnectionError("timed out")), world.now)
    world.member.step(world.now)
    assert world.member.state is S.JOINING


def test_a_member_that_never_sent_a_heartbeat_leaves_without_one(world):
    world.member.leave("closing", world.now)
    assert world.member.has_left and world.member.step(world.now) == []


def test_after_the_poll_timeout_the_member_leaves_and_the_next_poll_joins_again(world):
    world.settle()
    world.now += 60
    request, message = world.heartbeat()
    assert message.member_epoch == -1 and world.member.unconfirmed is not None
    world.respond(request, epoch=-1)
    world.member.step(world.now)
    assert world.member.state is S.STALE and world.revocation.calls[-1] == ("assigned", [0, 1])
    world.member.called(world.now, polls=True)
    world.work()
    assert world.revocation.calls[-1] == ("lost", [0, 1]) and world.member.state is S.JOINING
    world.settle(epoch=5)


def test_after_a_gap_longer_than_the_interval_a_heartbeat_has_to_confirm_the_membership(world):
    """The session timeout is the broker's and longer than the interval; the client knows no more."""
    world.settle()
    world.member.called(world.now)
    world.now += 5.5
    world.member.called(world.now)
    assert world.member.unconfirmed is not None
    world.beat()
    assert world.member.unconfirmed is None


def sleep(world, seconds, request=None):
    """Call again after a gap, read the response to the heartbeat before it, and return the next heartbeat."""
    world.now += seconds
    world.member.called(world.now, polls=True)
    if request is not None:
        world.respond(request)
    return world.heartbeat()[0]


def test_polls_that_never_wait_return_records_after_gaps_that_the_session_survives(world):
    """Without waiting, each poll gets the response to the heartbeat before its gap: that has to count, too."""
    world.settle()
    world.member.called(world.now)
    withheld = []
    request = None
    for _ in range(5):
        request = sleep(world, 8, request)
        assert world.member.withholds(may_wait=True)
        withheld.append(world.member.withholds(may_wait=False))
    assert withheld == [True, False, False, False, False]
    request = sleep(world, 20, request)
    assert world.member.withholds(may_wait=False)
    sleep(world, 6, request)
    assert not world.member.withholds(may_wait=False)


def test_a_survived_gap_proves_nothing_to_a_program_that_reads_each_response(world):
    """The coordinator may have moved away and back within the first gap, and began a new session."""
    world.settle()
    world.member.called(world.now)
    world.respond(sleep(world, 8))
    assert world.member.unconfirmed is None
    sleep(world, 8)
    assert world.member.withholds(may_wait=False)


def test_a_survived_gap_proves_nothing_after_a_failed_heartbeat(world):
    """Seed 2638 of the swarm: the coordinator had moved, and no heartbeat had renewed the session since the gap."""
    world.settle()
    world.member.called(world.now)
    world.respond(sleep(world, 8))
    request = sleep(world, 8)
    world.now += 6
    world.member.called(world.now)
    assert not world.member.withholds(may_wait=False)
    world.respond(request, code=Code.NOT_COORDINATOR)
    assert world.member.withholds(may_wait=False)


def test_a_long_gap_needs_its_own_confirmation_although_a_shorter_one_follows(world):
    world.settle()
    world.member.called(world.now)
    world.respond(sleep(world, 8))
    sleep(world, 20)
    world.now += 6
    world.member.called(world.now)
    assert world.member.withholds(may_wait=False)


def test_health_shows_what_is_left_to_reconcile(world):
    assert world.member.situation == "joining"
    world.settle()
    assert world.member.situation == "stable"
    world.now += 5
    request, _ = world.heartbeat()
    world.respond(request, partitions=[1, 2, 3])
    assert world.member.situation == "reconciling: 1 partitions to revoke, 2 to assign"
    world.metadata.topics.clear()
    world.metadata.version += 1
    expected = "reconciling: 1 partitions to revoke, 0 to assign, 1 topics that are known by id only"
    assert world.member.situation == expected


def test_what_a_membership_has_survived_does_not_count_for_the_next_one(world):
    world.settle()
    world.now += 30
    world.beat(code=Code.UNKNOWN_MEMBER_ID)
    world.settle()
    world.member.called(world.now)
    sleep(world, 6)
    world.now += 6
    world.member.called(world.now)
    assert world.member.withholds(may_wait=False)


def test_a_gap_in_which_a_heartbeat_failed_does_not_count_as_survived(world):
    """The coordinator may have moved meanwhile: the new one gives every member a whole session."""
    world.settle()
    world.member.called(world.now)
    world.now += 12
    world.member.called(world.now)
    world.beat(code=Code.NOT_COORDINATOR)
    world.now += 1
    world.member.called(world.now)
    world.beat()
    assert world.member.unconfirmed is None
    sleep(world, 6)
    world.now += 10
    world.member.called(world.now)
    assert world.member.withholds(may_wait=False)


def test_a_reconciliation_that_an_expulsion_cuts_off_is_a_failed_rebalance(world):
    world.settle()
    world.now += 5
    world.beat(code=Code.UNKNOWN_MEMBER_ID)
    assert world.member.stats.failed == 0
    request, _ = world.heartbeat()
    world.respond(request, partitions=[0])
    assert world.member.state is S.RECONCILING
    world.member.leave("closing", world.now)
    assert world.member.stats.failed == 1


@pytest.mark.parametrize(
    ("regex", "words"), [(None, "group_protocol='consumer' needs"), ("t.*", "a SubscriptionPattern")]
)
def test_an_unsupported_version_names_what_needs_it(world, regex, words):
    world.member._read_subscription = lambda: (frozenset(), regex)
    world.beat(code=Code.UNSUPPORTED_VERSION)
    assert isinstance(world.member.error, UnsupportedVersionError) and waits_for_user(world.member.error)
    assert words in str(world.member.error) and "Kafka 4.0" in str(world.member.error)


def test_a_classic_group_that_is_not_converted_names_the_ways_out(world):
    world.beat(code=Code.GROUP_ID_NOT_FOUND, error_message="the online upgrade is disabled")
    found = str(world.member.error)
    assert "(group g: the online upgrade is disabled)" in found and "group.consumer.migration.policy" in found


def test_a_former_expression_is_ended_again_if_that_heartbeat_was_lost(world):
    """Without the field, the coordinator would keep the expression, and assign topics that are not subscribed to."""
    regex = "t.*"
    world.member._read_subscription = lambda: (frozenset() if regex else world.topics, regex)
    world.settle()
    regex = None
    request, message = world.heartbeat()
    assert message.subscribed_topic_regex == ""
    world.member.handle(Answer(request, 1, error=KafkaConnectionError("reset")), world.now)
    world.now += 2
    world.find()
    request, message = world.heartbeat()
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == (["t"], "")
    assert request.build(0).subscribed_topic_regex is None


def test_a_stale_epoch_of_a_commit_makes_a_full_heartbeat_due(world):
    world.settle()
    world.member.expelled(KafkaConnectionError("x"), world.member.identity, world.now)
    assert owned(world.beat(epoch=4)) == [0, 1] and world.member.identity.generation_id == 4


@pytest.mark.parametrize("epoch", [0, -1, 6])
def test_impossible_epochs_are_not_taken_over(world, epoch):
    world.settle(epoch=7)
    world.now += 5
    request, _ = world.heartbeat()
    world.respond(request, epoch=epoch, partitions=[])
    assert world.member.identity.generation_id == 7 and world.partitions
    world.now += 1
    assert owned(world.beat(epoch=7)) == [0, 1]


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.UNSUPPORTED_ASSIGNOR])
def test_no_heartbeat_is_sent_while_the_listener_runs_after_an_expulsion(world, code):
    """It would join, and the listener could commit offsets of lost partitions under the new epoch."""
    sent = []

    def lose_membership():
        world.now += 5
        request, _ = world.heartbeat()
        world.respond(request, code=code)
        assert world.member.state is S.RECONCILING and not world.member.identity.is_member
        world.now += 60
        sent.extend(world.member.step(world.now))

    world.settle()
    world.now += 5
    world.revocation.call_assigned = lose_membership
    request, _ = world.heartbeat()
    world.respond(request, epoch=2, partitions=[0, 1, 2])
    world.member.work(world.now)
    assert sent == [] and not world.member.identity.is_member
    expelled = code == Code.UNKNOWN_MEMBER_ID
    assert world.member.state is (S.FENCED if expelled else S.FATAL)
    world.work()
    assert world.member.state is (S.JOINING if expelled else S.FATAL) and not (expelled and world.partitions)


def test_partitions_that_are_taken_away_before_they_were_owned_are_acknowledged(world):
    """The coordinator waits for a heartbeat without them, although what the member owns has not changed."""
    world.settle(partitions=[0])
    world.now += 5
    request, _ = world.heartbeat()
    world.respond(request, epoch=2, partitions=[0, 1, 2])  # the application does not poll before the next heartbeat
    world.now += 5
    assert owned(world.beat(epoch=2, partitions=[0])) is None
    assert world.member.state is S.ACKNOWLEDGING and world.revocation.calls[-1] == ("assigned", [0])
    assert owned(world.beat(epoch=3)) == [0] and world.member.is_settled
    assert world.member.step(world.now) == []


def test_partitions_of_an_unknown_topic_that_are_taken_away_are_acknowledged(world):
    world.metadata.topics.clear()
    world.beat(partitions=[0, 1])
    world.now += 5
    world.beat(epoch=1, partitions=[])
    assert owned(world.beat(epoch=2)) == [] and world.member.is_settled


def test_a_heartbeat_that_was_abandoned_is_not_written(world):
    """Otherwise a consumer that has unsubscribed before its connection was ready would join nevertheless."""
    (request,) = world.member.step(world.now)
    world.member.leave("unsubscribed", world.now)
    assert world.member.has_left
    with pytest.raises(IllegalStateError, match="abandoned"):
        request.build(1)
    world.subscribe()
    (newer,) = world.member.step(world.now)
    with pytest.raises(IllegalStateError, match="abandoned"):
        request.build(1)
    assert newer.build(1).member_epoch == 0


def test_a_subscription_while_the_member_leaves_after_the_poll_timeout_is_not_repeated_later(world):
    world.settle()
    world.now += 60
    request, _ = world.heartbeat()
    world.member.subscribe("another subscription")
    world.respond(request, epoch=-1)
    world.member.step(world.now)
    world.member.called(world.now, polls=True)
    world.work()
    world.settle(epoch=5)
    world.member.leave("closing", world.now)
    request, _ = world.heartbeat()
    world.respond(request, epoch=-1)
    assert world.member.step(world.now) == [] and world.member.has_left


def test_a_member_joins_in_a_poll_only(world):
    """Otherwise a consumer that subscribes, and does something else first, would own partitions that nobody reads."""
    world.settle()
    world.member.leave("unsubscribed", world.now)
    request, _ = world.heartbeat()
    world.member.subscribe("again")
    world.respond(request, epoch=-1)
    world.member.step(world.now)
    assert world.member.state is S.JOINING
    world.find()
    assert world.member.step(world.now) == []
    world.member.called(world.now, polls=True)
    assert world.heartbeat()[1].member_epoch == 0


def test_memberships_that_end_at_their_first_heartbeat_do_not_follow_each_other_without_pause(world):
    joins = 0
    while joins < 10 and (requests := world.member.step(world.now)):
        joins += 1
        world.respond(requests[0], partitions=[0])
        world.work()
        world.beat(code=Code.UNKNOWN_MEMBER_ID)
    assert joins == 2 and 0 < world.wait() < 2


def test_a_restart_of_the_engine_looks_up_unknown_topics_again(world):
    """It drops the Metadata requests in progress."""
    world.metadata.topics.clear()
    world.beat(partitions=[0])
    world.member.step(world.now)
    world.metadata.restart(world.now)
    world.member.restart(world.now)
    world.now += 2
    world.member.step(world.now)
    assert len(world.metadata.step(world.now)) == 1


def test_a_restart_of_the_engine_sends_a_full_heartbeat(world):
    world.settle()
    world.now += 5
    request, _ = world.heartbeat()
    world.member.restart(world.now)
    assert owned(world.beat()) == [0, 1]
    world.respond(request, epoch=9)  # a response to the abandoned request
    assert world.member.identity.generation_id == 1


def test_a_member_is_not_due_while_the_names_of_topics_are_looked_up(world):
    """The response may take longer than the backoff: a program that polls when a step is due would loop until then."""
    world.metadata.topics.clear()
    world.beat(partitions=[0, 1])
    world.member.step(world.now)
    world.now += 2
    world.agenda.take(world.now)
    world.member.step(world.now)
    assert not world.agenda.is_due(world.now)
