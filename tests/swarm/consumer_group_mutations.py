"""Deliberate bugs in the consumer group protocol (KIP-848), of the client and of the broker; see ``planting.py``."""

import functools

from lab import ConsumerGroupSwarm
from lab.knobs import Knobs
from planting import bug

from thinconsumer.group.consumer import member as client_member
from thinconsumer.group.consumer.assignment import MemberAssignment
from thinconsumer.group.consumer.member import ConsumerMember
from thinconsumer_testing.broker.group import committing, shard
from thinconsumer_testing.broker.group.consumer import fencing, heartbeat, reconciliation, regex_refresh
from thinconsumer_testing.broker.group.consumer.draft import Draft

coordinated = functools.partial(bug, ConsumerGroupSwarm)


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


CONSUMER_GROUP_ROWS = (
    # == the coordinator
    coordinated(
        "assigned before it was released",
        "A partition is assigned while its former owner has not acknowledged the revocation.",
        (reconciliation, "_is_free", "return own or goal.partition_epoch(topic_id, index) == NO_EPOCH", "return True"),
    ),
    coordinated(
        "silence taken as an acknowledgement",
        "A heartbeat that does not say what its member owns counts as if it owned nothing.",
        (reconciliation, "_may_own", "if owned is None:\n        return True",
         "if owned is None:\n        return False"),
    ),
    coordinated(
        "member epoch not bumped",
        "A member that has reconciled stays in its epoch.",
        (reconciliation, "_next", "return member.moved(goal.epoch, state, kept, {})",
         "return member.moved(max(1, epoch), state, kept, {})"),
    ),
    coordinated(
        "unrevoked partitions in the next epoch",
        "A member gets the epoch of the target assignment before it has revoked what is not in it.",
        (reconciliation, "_next", "return member.moved(epoch, AssignmentState.UNREVOKED_PARTITIONS, kept, revoked)",
         "return member.moved(goal.epoch, AssignmentState.STABLE, kept, {})"),
    ),
    coordinated(
        "session timer not restarted",
        "A heartbeat does not restart the session timeout, so the coordinator fences members that are alive.",
        (heartbeat, "_heartbeat", "schedule_session(shard, group_id, member_id)",
         "request.member_epoch or schedule_session(shard, group_id, member_id)"),
    ),
    coordinated(
        "no epoch after a departure",
        "A member that leaves does not begin an epoch, so nobody gets its partitions.",
        (fencing, "remove_members", "draft.update_epoch(must_bump=True)", "pass"),
    ),
    coordinated(
        "target from before a metadata change",
        "The coordinator does not notice that topics have changed since it computed the target assignment.",
        (Draft, "update_epoch", "group.metadata_version == image.version", "group.metadata_version >= 0"),
        needs=new_partitions,
    ),
    coordinated(
        "stale commit accepted",
        "Commits in an older epoch are accepted for partitions that the member no longer owns.",
        (committing, "_check_consumer_commit", "if member is not None and not all(",
         "if False and member is not None and not all("),
    ),
    coordinated(
        "static leave taken for a final one",
        "A static member that leaves for a while is removed, so its partitions move at once.",
        (heartbeat, "leave", "if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:",
         "if False:"),
        needs=static,
    ),
    coordinated(
        "no session timers after a failover",
        "A coordinator that has loaded a group waits for ever for its members, also for those that died meanwhile.",
        (shard, "schedule_all", "for member in group.members.values():", "for member in ():"),
        needs=lambda knobs: knobs.coordinator_kills or knobs.coordinator_moves or knobs.coordinator_pauses,
    ),
    coordinated(
        "regular expressions resolved once",
        "The coordinator does not match regular expressions with topics that are created later.",
        (regex_refresh, "is_due", "or group.regex_version < shard.image.created_version", ""),
        needs=broker_patterns_of_new_topics,
    ),
    # == the member
    coordinated(
        "acknowledged before the callback",
        "A heartbeat leaves out partitions before on_partitions_revoked has returned.",
        (MemberAssignment, "owned",
         ("if self._owned[0] != generation:\n"
          "        ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self._partitions}"),
         ("if True:\n"
          "        ids = {tp: i for tp, i in self._ids.items() if tp in self._partitions"
          " and tp not in (self._revoking or ())}")),
    ),
    coordinated(
        "acknowledged before it was assigned",
        "A heartbeat reports the assignment, and not what the member owns.",
        (ConsumerMember, "_fields", "self.assignment.owned()", "(self.assignment.target or frozenset())"),
    ),
    coordinated(
        "assigned before it has revoked",
        "A member adds partitions first, and never revokes.",
        (MemberAssignment, "advance", "self._revoking is not None or self.difference().revoke:", "False:"),
    ),
    coordinated(
        "partitions kept when fenced",
        "A member that was fenced joins again with its partitions, which others own by now.",
        (MemberAssignment, "lose", "self._revocation.lose(now)", "pass"),
        needs=errors,
    ),
    coordinated(
        "epoch kept when fenced",
        "A member that was fenced goes on with its old epoch.",
        (ConsumerMember, "_expel", "self.identity = self.identity.outside()", "pass"),
        needs=errors,
    ),
    coordinated(
        "delta heartbeat after a loss",
        "After an error, a heartbeat leaves out what the coordinator may not have seen.",
        (ConsumerMember, "_failed", "self._known = None", "pass"),
    ),
    coordinated(
        "regular expression forgotten",
        "A member that joins again, or repeats all fields after an error, leaves out its regular expression.",
        (client_member, "heartbeat", "(had_regex or fields.regex is not None) if sent is None",
         "not (who.is_member or who.incarnation) if sent is None"),
        needs=broker_patterns,
    ),
    coordinated(
        "static member leaves for good",
        "A static member that closes leaves with epoch -1, so its partitions move at once.",
        (client_member, "leave_epoch", "if leave_group is True or (", "if True or ("),
        needs=static,
    ),
    coordinated(
        "two heartbeats at once",
        "A heartbeat is sent while another is unanswered; both change the same state of the coordinator.",
        (ConsumerMember, "_may_send", "return is_allowed and self._heartbeats.is_open",
         ("self._heartbeats.in_flight = None\n"
          "    return is_allowed and self._heartbeats.is_open")),
    ),
    coordinated(
        "own heartbeat interval",
        "The member ignores the broker's heartbeat interval, so its session ends between two heartbeats.",
        (ConsumerMember, "_accept", "max(INTERVAL_MIN, response.heartbeat_interval_ms / 1000)", "FIRST_INTERVAL"),
    ),
    coordinated(
        "unknown topic ids dropped",
        "Assigned partitions of a topic that no metadata has named yet are left out, and not waited for.",
        (ConsumerMember, "_receive", "self.assignment.receive(target)",
         ("known = {topic.topic_id for topic in self.assignment._metadata.topics.values()}\n"
          "    self.assignment.receive(frozenset(one for one in target if one[0] in known))")),
        needs=new_partitions,
    ),
    coordinated(
        "heartbeat after leaving",
        "A member that leaves goes on with its heartbeats, so it joins again at once.",
        (ConsumerMember, "step", "self._finish_leave()\n        return",
         "self._finish_leave()\n        request = request or self._heartbeat(now)\n        return"),
        (ConsumerMember, "_may_send", "and self.state in ACTIVE ", ""),
    ),
    coordinated(
        "long absence ignored",
        "After an absence longer than the session records are handed out; they may be another member's by now.",
        (ConsumerMember, "called", "if gap <= self.heartbeat_interval or", "if True or"),
        needs=absences,
    ),
    coordinated(
        "session of another coordinator trusted",
        "A gap counts as survived by its length alone; the coordinator may have changed in the gap that was survived.",
        (ConsumerMember, "withholds", "may_wait or not self._is_outpaced or", ""),
        needs=lambda knobs: knobs.double_absences,
    ),
    coordinated(
        "gap trusted that nothing has survived",
        "A program whose polls never wait gets records after each gap, also after one longer than any survived.",
        (ConsumerMember, "withholds", "self._gap > self._survived", "False"),
        needs=lambda knobs: knobs.naps,
    ),
)  # fmt: skip
