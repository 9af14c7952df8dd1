"""The data of one rebalance, and what a retried join resets."""

from thinconsumer.group.classic.rebalance_attempt import READY_WITHIN, RebalanceAttempt
from thinconsumer.group.identity import Identity
from thinconsumer.group.role import JoinedMember
from thinconsumer.wire.join_group import JoinGroupResponse, JoinGroupResponseMember


def response(**more):
    members = [JoinGroupResponseMember(member_id="m", group_instance_id="i", metadata=memoryview(b"x"))]
    fields = {"protocol_name": "a", "leader": "m", "member_id": "m", "generation_id": 1, "members": members}
    return JoinGroupResponse(**(fields | more))


def test_a_leader_has_no_assignments_after_the_join():
    attempt = RebalanceAttempt("why", 0.0)
    attempt.joined(Identity("g"), response(skip_assignment=True), 5.0)
    assert attempt.leads and attempt.skips and attempt.plan is None and not attempt.ready
    assert attempt.ready_by == 5.0 + READY_WITHIN
    assert attempt.members == (JoinedMember("m", "i", b"x"),) and isinstance(attempt.members[0].metadata, bytes)


def test_a_retried_join_resets_protocols_and_assignments():
    attempt = RebalanceAttempt("why", 3.0, protocols=[("a", b"")])
    attempt.joined(Identity("g"), response(), 5.0)
    attempt.ready, attempt.plan = True, {"m": b""}
    attempt.restart_join()
    assert attempt.protocols is None and not attempt.leads
    assert (attempt.reason, attempt.started_at) == ("why", 3.0), "a retried join belongs to the same rebalance"
    attempt.joined(Identity("g"), response(), 6.0)
    assert attempt.plan is None and not attempt.ready
