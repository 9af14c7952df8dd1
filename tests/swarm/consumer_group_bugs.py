"""Deliberate bugs in the consumer group protocol (KIP-848), of the client and of the broker; see ``planting.py``."""

import copy
import functools

from lab import ConsumerGroupSwarm
from lab.knobs import Knobs
from planting import Plant, bug, meanwhile, returns, returns_itself, within

from thinconsumer.group.consumer import member as client_member
from thinconsumer.group.consumer.assignment import MemberAssignment
from thinconsumer.group.consumer.heartbeat import FIRST_INTERVAL
from thinconsumer.group.consumer.member import ConsumerMember
from thinconsumer.group.identity import Identity
from thinconsumer_testing.broker.group import committing, shard
from thinconsumer_testing.broker.group.consumer import fencing, heartbeat, reconciliation, regex_refresh
from thinconsumer_testing.broker.group.consumer.draft import Draft
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.member import LEAVE_EPOCH
from thinconsumer_testing.broker.group.consumer.states import AssignmentState
from thinconsumer_testing.broker.group.timers import TimerKind

coordinated = functools.partial(bug, ConsumerGroupSwarm)

# -- the worlds that a bug needs: in others it does nothing, and they need not be searched


def static(knobs: Knobs) -> object:
    """Some members are static."""
    return any(group.static_share for group in knobs.group_knobs)


def errors(knobs: Knobs) -> object:
    """Coordinators reject requests."""
    return knobs.group_error_rate


def absences(knobs: Knobs) -> object:
    """Members are away for longer than their session."""
    return knobs.absences or knobs.stalls


def new_partitions(knobs: Knobs) -> object:
    """Topics appear or grow."""
    return knobs.growths or knobs.appearances


def broker_patterns(knobs: Knobs) -> object:
    """Members subscribe by regular expressions that the broker evaluates."""
    return any(group.broker_pattern for group in knobs.group_knobs)


def broker_patterns_of_new_topics(knobs: Knobs) -> object:
    """Topics appear that such regular expressions match."""
    return broker_patterns(knobs) and knobs.appearances


# -- the coordinator


def may_own_if_said(may_own, owned, partitions):
    return owned is not None and may_own(owned, partitions)


def next_in_the_same_epoch(next_step, member, epoch, goal):
    return next_step(member, epoch, goal._replace(epoch=max(1, epoch)))


def next_without_revoking(next_step, member, epoch, goal):
    after = next_step(member, epoch, goal)
    if after.state is not AssignmentState.UNREVOKED_PARTITIONS:
        return after
    return member.moved(goal.epoch, AssignmentState.STABLE, after.assigned, {})


def schedule_session_once(schedule_session, shard, group_id, member_id):
    if (group_id, member_id, TimerKind.SESSION) not in shard.member_timers:
        schedule_session(shard, group_id, member_id)


def update_epoch_if_told(update_epoch, self, *, must_bump):
    if must_bump:
        update_epoch(self, must_bump=True)


def leave_for_good(leave, shard, request):
    final = copy.copy(request)  # checkers see the request
    final.member_epoch = LEAVE_EPOCH
    return leave(shard, final)


def is_due_without_new_topics(is_due, shard, group, change):
    group.regex_version = shard.image.created_version
    return is_due(shard, group, change)


COORDINATOR = (
    coordinated(
        "assigned before it was released",
        "A partition is assigned while its former owner has not acknowledged the revocation.",
        returns(reconciliation, "_is_free", True),
    ),
    coordinated(
        "silence taken as an acknowledgement",
        "A heartbeat without owned partitions counts as one of a member that owns nothing.",
        Plant(reconciliation, "_may_own", may_own_if_said),
    ),
    coordinated(
        "member epoch not bumped",
        "A member that has reconciled stays in its epoch.",
        Plant(reconciliation, "_next", next_in_the_same_epoch),
    ),
    coordinated(
        "unrevoked partitions in the next epoch",
        "A member gets the epoch of the target assignment before it has revoked what is not in it.",
        Plant(reconciliation, "_next", next_without_revoking),
    ),
    coordinated(
        "session timer not restarted",
        "A heartbeat does not restart the session timeout, so the coordinator fences members that are alive.",
        Plant(heartbeat, "schedule_session", schedule_session_once),
    ),
    coordinated(
        "no epoch after a departure",
        "A member that leaves does not begin an epoch, so that no member gets its partitions.",
        within(fencing, "remove_members", returns(Draft, "update_epoch")),
    ),
    coordinated(
        "target from before a metadata change",
        "The coordinator does not notice that topics have changed since it computed the target assignment.",
        Plant(Draft, "update_epoch", update_epoch_if_told),
        needs=new_partitions,
    ),
    coordinated(
        "stale commit accepted",
        "Commits in an older epoch, or after the end of a membership, are accepted for partitions of other members.",
        returns(committing, "_owned_since", ()),
        returns(ConsumerGroup, "check_commit"),
        needs=absences,
    ),
    coordinated(
        "static leave taken for a final one",
        "A static member that leaves for a while is removed, so its partitions move at once.",
        Plant(heartbeat, "leave", leave_for_good),
        needs=static,
    ),
    coordinated(
        "no session timers after a failover",
        "A coordinator that has loaded a group waits for ever for its members, also for those that died meanwhile.",
        returns(shard, "schedule_all"),
        needs=lambda knobs: knobs.coordinator_kills or knobs.coordinator_moves or knobs.coordinator_pauses,
    ),
    coordinated(
        "regular expressions resolved once",
        "The coordinator does not match regular expressions with topics that are created later.",
        Plant(regex_refresh, "is_due", is_due_without_new_topics),
        needs=broker_patterns_of_new_topics,
    ),
)


# -- the member


def owned_without_revoked(owned, self):
    return owned(self) if self.target is None else owned(self) & self.target


def fields_as_assigned(fields, self):
    found = fields(self)
    return found and found._replace(owned=self.assignment.target or frozenset())


def difference_without_revoked(difference, self):
    return difference(self)._replace(revoke=frozenset())


def fail_as_known(failed, self, *args):
    known = self._known.fields
    failed(self, *args)
    self._known.fields = self._known.fields or known


def heartbeat_without_regex(heartbeat, who, rack, fields, sent, **options):
    request = heartbeat(who, rack, fields, sent, **options)
    if (sent is None or not who.is_member) and (who.is_member or who.incarnation):
        request.subscribed_topic_regex = None
    return request


def accept_without_interval(accept, self, response, now):
    response.heartbeat_interval_ms = int(FIRST_INTERVAL * 1000)
    return accept(self, response, now)


def receive_known(receive, self, target):
    known = {topic.topic_id for topic in self._metadata.topics.values()}
    receive(self, frozenset(one for one in target if one[0] in known))


def may_send_another(may_send, self):
    self._heartbeats.in_flight = None
    return may_send(self)


def step_and_heartbeat(step, self, now):
    leaves = self.is_outside
    requests = step(self, now)
    request = self._heartbeat(now) if leaves else None
    return requests if request is None else [*requests, request]


def withholds_if_lost(withholds, self, *, may_wait):
    gaps = self._gaps._replace(is_outpaced=True)
    return meanwhile(_gaps=gaps)(withholds, self, may_wait=False)


def withholds_after_no_gap(withholds, self, *, may_wait):
    return meanwhile(_gaps=self._gaps._replace(longest=0.0))(withholds, self, may_wait=may_wait)


MEMBER = (
    coordinated(
        "acknowledged before the callback",
        "A heartbeat leaves out partitions before on_partitions_revoked has returned.",
        Plant(MemberAssignment, "owned", owned_without_revoked),
    ),
    coordinated(
        "acknowledged before it was assigned",
        "A heartbeat reports the assignment, and not what the member owns.",
        Plant(ConsumerMember, "_fields", fields_as_assigned),
    ),
    coordinated(
        "assigned before it has revoked",
        "A member adds partitions first, and never revokes.",
        within(MemberAssignment, "advance", Plant(MemberAssignment, "difference", difference_without_revoked)),
    ),
    coordinated(
        "partitions kept when fenced",
        "A member that was fenced joins again with its partitions, which others own by now.",
        Plant(MemberAssignment, "lose", lambda lose, self, now: self.forget()),
        needs=errors,
    ),
    coordinated(
        "epoch kept when fenced",
        "A member that was fenced goes on with its old epoch.",
        within(ConsumerMember, "_expel", returns_itself(Identity, "outside")),
        needs=errors,
    ),
    coordinated(
        "delta heartbeat after a loss",
        "After an error, a heartbeat leaves out what the coordinator may not have seen.",
        Plant(ConsumerMember, "_failed", fail_as_known),
    ),
    coordinated(
        "regular expression forgotten",
        "A member that joins again, or repeats all fields after an error, leaves out its regular expression.",
        Plant(client_member, "heartbeat", heartbeat_without_regex),
        needs=broker_patterns,
    ),
    coordinated(
        "static member leaves for good",
        "A static member that closes leaves with epoch -1, so its partitions move at once.",
        Plant(client_member, "leave_epoch", lambda leave_epoch, who, leave_group: leave_epoch(who, True)),
        needs=static,
    ),
    coordinated(
        "two heartbeats at once",
        "A heartbeat is sent while another is unanswered; both change the same state of the coordinator.",
        Plant(ConsumerMember, "_may_send", may_send_another),
    ),
    coordinated(
        "own heartbeat interval",
        "The member ignores the broker's heartbeat interval, so its session ends between two heartbeats.",
        Plant(ConsumerMember, "_accept", accept_without_interval),
    ),
    coordinated(
        "unknown topic ids dropped",
        "Assigned partitions of a topic that no metadata has named yet are left out, and not waited for.",
        Plant(MemberAssignment, "receive", receive_known),
        needs=new_partitions,
    ),
    coordinated(
        "heartbeat after leaving",
        "A member that leaves goes on with its heartbeats, so it joins again at once.",
        Plant(ConsumerMember, "step", step_and_heartbeat),
        Plant(ConsumerMember, "_may_send", lambda may_send, self: self._heartbeats.is_open),
    ),
    coordinated(
        "long absence ignored",
        "After an absence longer than the session records are handed out; they may be another member's by now.",
        returns(ConsumerMember, "called", False),
        needs=absences,
    ),
    coordinated(
        "session of another coordinator trusted",
        "A gap counts as survived by its length alone; the coordinator may have changed in the gap that was survived.",
        Plant(ConsumerMember, "withholds", withholds_if_lost),
        needs=lambda knobs: knobs.double_absences,
    ),
    coordinated(
        "gap trusted that nothing has survived",
        "A program whose polls never wait gets records after each gap, also after one longer than any survived.",
        Plant(ConsumerMember, "withholds", withholds_after_no_gap),
        needs=lambda knobs: knobs.naps,
    ),
)

CONSUMER_GROUP_BUGS = (*COORDINATOR, *MEMBER)
