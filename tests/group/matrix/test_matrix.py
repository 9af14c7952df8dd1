"""The matrix: every group error and no response, in every API of a group, once and for a while, with a whole consumer.

One table holds the expected result of each cell. In all of them requests back off, at most five lines are logged,
callbacks are about owned partitions, records come from owned partitions, commits have a member id, no record is
lost, and two seconds and the maximum backoff after the fault ends the same consumer reads and commits everything.
A missing response has to time out first.
"""

from typing import NamedTuple

import pytest

from thinconsumer.errors import BrokerResponseError, FencedInstanceIdError, KafkaError
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Disconnect, Reply, Silence

EAGER, COOPERATIVE = ("range",), ("cooperative-sticky",)
FIND, JOIN, SYNC, BEAT = "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"
FETCH, COMMIT, LEAVE = "OffsetFetch", "OffsetCommit", "LeaveGroup"
APIS = (FIND, JOIN, SYNC, BEAT, FETCH, COMMIT, LEAVE)

FAULTS = {
    "COORDINATOR_LOAD_IN_PROGRESS": Reply(Code.COORDINATOR_LOAD_IN_PROGRESS),
    "COORDINATOR_NOT_AVAILABLE": Reply(Code.COORDINATOR_NOT_AVAILABLE),
    "NOT_COORDINATOR": Reply(Code.NOT_COORDINATOR),
    "UNKNOWN_MEMBER_ID": Reply(Code.UNKNOWN_MEMBER_ID),
    "ILLEGAL_GENERATION": Reply(Code.ILLEGAL_GENERATION),
    "REBALANCE_IN_PROGRESS": Reply(Code.REBALANCE_IN_PROGRESS),
    "FENCED_INSTANCE_ID": Reply(Code.FENCED_INSTANCE_ID),
    "MEMBER_ID_REQUIRED": Reply(Code.MEMBER_ID_REQUIRED),
    "reset": Disconnect(reset=True),
    "answer lost": Disconnect(after=True, reset=True),
    "silence": Silence(),
}


class Cell(NamedTuple):
    """The effects of a fault."""

    loses: bool = False  #: Whether owned partitions are lost, unless they were already revoked.
    raises: type[KafkaError] | None = None  #: The error that polls raise meanwhile.
    fatal: bool = False  #: Whether polls raise it until the user unsubscribes.
    commits: str = ""  #: The reason of failed background commits.


KEEPS = Cell()
LOSES = Cell(loses=True)
FENCED = Cell(loses=True, raises=FencedInstanceIdError, fatal=True)
#: An error that Kafka never returns here; it lasts as long as the broker returns it.
NONSENSE = Cell(raises=BrokerResponseError)

#: Effects in responses that concern the membership.
OF_MEMBERS = {
    **dict.fromkeys(FAULTS, KEEPS),
    "UNKNOWN_MEMBER_ID": LOSES,
    "ILLEGAL_GENERATION": LOSES,
    "FENCED_INSTANCE_ID": FENCED,
}
#: Effects in other responses.
OF_OTHERS = {
    **dict.fromkeys(FAULTS, KEEPS),
    **dict.fromkeys(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"), NONSENSE),
    "FENCED_INSTANCE_ID": Cell(raises=FencedInstanceIdError),
    "MEMBER_ID_REQUIRED": NONSENSE,
}
MATRIX = {
    FIND: {fault: cell._replace(commits="coordinator" if cell.raises else "") for fault, cell in OF_OTHERS.items()},
    JOIN: OF_MEMBERS,
    SYNC: OF_MEMBERS,
    BEAT: OF_MEMBERS,
    # Only members of a consumer group name themselves in OffsetFetch (KIP-848): their heartbeat tells what happened.
    FETCH: {**OF_OTHERS, "UNKNOWN_MEMBER_ID": KEEPS},
    COMMIT: {
        **OF_MEMBERS,
        "UNKNOWN_MEMBER_ID": Cell(loses=True, commits="unknown_member"),
        "ILLEGAL_GENERATION": Cell(loses=True, commits="illegal_generation"),
        "FENCED_INSTANCE_ID": FENCED._replace(commits="fenced"),
        "MEMBER_ID_REQUIRED": Cell(commits="refused"),
    },
    # The partitions were revoked before, and the member id was dropped, whatever the response.
    LEAVE: dict.fromkeys(FAULTS, KEEPS),
}

HEALS_IN = 1.0 + 2.0  #: retry_backoff_max_ms and two seconds.
#: Lost partitions return after two cooperative rebalances, which heartbeats announce.
TWO_ROUNDS = 2.0
SESSION = 15.0
#: Seconds until a missing response is noticed: by the request timeout, or five seconds after the rebalance timeout.
#: Another broker is asked for the coordinator sooner, but commits wait behind the request on the same connection.
#: Heartbeats delay nothing.
NOTICED_IN = {FIND: 5.0, JOIN: 20.0, SYNC: 5.0, BEAT: 0.0, FETCH: 5.0, COMMIT: 5.0}
#: Faults after which LeaveGroup was processed or is retried. After all others the coordinator waits for the session
#: to expire.
HEARD = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "reset", "answer lost")
#: Requests of one API within a second, and lines, at most.
BUSY, LINES = {**dict.fromkeys(APIS, 6), JOIN: 10}, 5  # two per join without a member id, four joins at once
WHILE = 10.0

#: The rebalance protocol matters only in rebalances that revoke partitions.
STYLES = {api: (EAGER, COOPERATIVE) if api in (JOIN, SYNC, BEAT, FETCH) else (COOPERATIVE,) for api in APIS}


def patience(api, fault, times):
    if api == LEAVE:
        return HEALS_IN + (0.0 if fault in HEARD and times else SESSION)
    return HEALS_IN + TWO_ROUNDS * MATRIX[api][fault].loses + (NOTICED_IN[api] if fault == "silence" else 0.0)


def action(world, fault):
    """Return the broker's action; with UNKNOWN_MEMBER_ID it also removes the member."""
    if fault != "UNKNOWN_MEMBER_ID":
        return FAULTS[fault]

    def act(call):
        world.forget(call)
        return FAULTS[fault]

    return act


def provoke(world, api, style):
    """Make the subject, in a stable group, send this request."""
    if api == FIND:
        world.move_coordinator()
    elif api == FETCH and style is COOPERATIVE:
        world.lose_other()  # else no partition is new
    elif api in (JOIN, SYNC, FETCH):
        world.subject.consumer.enforce_rebalance("the test says so")
    elif api == LEAVE:
        world.subject.consumer.unsubscribe()
        world.subject.subscribe()


def goes_on(api, fault, style, cell):
    """Whether owned partitions are read during the fault."""
    gives_up = style is EAGER and (api in (JOIN, SYNC, FETCH) or fault == "REBALANCE_IN_PROGRESS")
    return not (cell.raises or cell.loses or gives_up or api == LEAVE)


def cells():
    for api, row in MATRIX.items():
        for fault, cell in row.items():
            for style in STYLES[api]:
                for times in (1, None):
                    words = f"{api}-{fault}-{style[0]}-{'once' if times else 'while'}"
                    yield pytest.param(api, fault, style, times, cell, id=words)


@pytest.mark.parametrize(("api", "fault", "style", "times", "cell"), list(cells()))
def test_a_fault_in_a_stable_group(make_world, busiest_second, api, fault, style, times, cell):
    world = make_world(style=style).join(leads=style is EAGER)
    subject, owned = world.subject, set(world.subject.listener.owned)
    rule = world.break_(api, action(world, fault), times=times)
    provoke(world, api, style)
    if times:
        assert world.run(lambda: rule.hits, 5.0), "the request was never sent"
        world.run(lambda: False, 0.5)
    else:
        world.run(lambda: False, WHILE)
        assert rule.hits
    if not times and goes_on(api, fault, style, cell):
        late = max(subject.late_by.get(tp, WHILE) for tp in owned)
        assert late <= 1.5, f"{owned} were not read for {late} s: {subject.raised}"
    world.heal()
    healed = world.now()
    if cell.fatal:
        stays_out(world, cell)
    else:
        assert world.run(lambda: world.in_order_since(healed), patience(api, fault, times)), world.story()
    if fault == "silence":
        world.run(lambda: False, max(0.0, 6.0 - (world.now() - healed)))  # some requests time out only now
    heard_lost = "lost" in subject.listener.heard
    assert heard_lost <= (cell.loses or (fault == "answer lost" and not times)), world.story()
    assert heard_lost or not cell.loses or (style is EAGER and api in (JOIN, SYNC)), world.story()
    assert {type(error) for error in subject.raised} == ({cell.raises} if cell.raises else set()), world.story()
    reasons = {error.reason for _, error in subject.told if error is not None}
    assert reasons <= {cell.commits} or fault == "answer lost", world.story()
    assert reasons or not cell.commits, world.story()
    for asked in APIS:
        assert busiest_second(world.asked(asked)) <= BUSY[asked], world.story()
    ends = [line for line in world.lines() if line.endswith("failed attempts")]  # each ends an outage that was logged
    assert len(ends) <= len(world.lines("WARNING")), world.lines()
    # If a broker responds to other requests meanwhile, its next missing response begins a second outage.
    assert len(world.lines()) - len(ends) <= LINES + (fault == "silence"), world.lines()
    world.finish()


def stays_out(world, cell):
    """Check a fatal error: every poll raises it, no request is sent, and the consumer recovers by unsubscribe()."""
    subject = world.subject
    asked = len(world.asked(*APIS))
    for _ in range(5):
        subject.raised.clear()
        assert subject.poll(100)
        assert type(subject.raised[0]) is cell.raises
        world.sim.run_for(0.5)
    assert len(world.asked(*APIS)) == asked
    assert subject.consumer.assignment() == subject.listener.owned == set()
    world.sim.run_for(SESSION)
    assert len(world.other.listener.owned) == world.partitions or world.other_is_gone
    raised = list(subject.raised)
    subject.consumer.unsubscribe()
    subject.subscribe()
    again = world.now()
    assert world.run(lambda: world.in_order_since(again), HEALS_IN), world.story()
    assert subject.raised == raised


@pytest.mark.parametrize("times", [1, None], ids=["once", "while"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", [FIND, JOIN, SYNC, FETCH])
def test_a_fault_before_the_first_assignment(make_world, busiest_second, api, fault, times):
    """There are no partitions to lose yet."""
    world = make_world(style=COOPERATIVE)
    cell = MATRIX[api][fault]
    rule = world.break_(api, action(world, fault), times=times)
    subject = world.add_subject()
    began = world.now()
    world.run(lambda: rule.hits if times else world.now() > began + WHILE, WHILE + 1)
    assert rule.hits
    if times:
        world.run(lambda: False, 0.2)
    world.heal()
    healed = world.now()
    if cell.fatal:
        assert not world.run(lambda: world.in_order_since(healed), 3.0)
        subject.consumer.unsubscribe()
        subject.subscribe()
        healed = world.now()
    # The group waits for the session of a member whose response was lost or replaced. Other requests to a broker whose
    # connection is silent wait as well.
    ghost = SESSION if (api, fault) in ((JOIN, "answer lost"), (SYNC, "FENCED_INSTANCE_ID")) else 0.0
    behind = 5.0 if (api, fault) == (FIND, "silence") else 0.0
    assert world.run(lambda: world.in_order_since(healed), patience(api, fault, times) + ghost + behind), world.story()
    assert {type(error) for error in subject.raised} == ({cell.raises} if cell.raises else set()), world.story()
    assert "lost" not in subject.listener.heard
    for asked in APIS:
        assert busiest_second(world.asked(asked)) <= BUSY[asked], world.story()
    world.finish()


@pytest.mark.parametrize("fault", FAULTS)
def test_close_keeps_its_timeout_and_raises_nothing(make_world, fault):
    """The other member gets the partitions at once, or when the session expires."""
    world = make_world(style=COOPERATIVE).join()
    world.break_(LEAVE, FAULTS[fault])
    began = world.now()
    world.subject.consumer.close(timeout_ms=2000)
    assert world.now() - began <= 2.5
    assert world.subject.listener.heard == ["revoked"] and world.subject.listener.owned == set()
    world.subject.consumer = None
    world.sim.run_for(1.0 + 3.0 if fault == "answer lost" else SESSION + 3.0)
    assert len(world.other.listener.owned) == world.partitions
