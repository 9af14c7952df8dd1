"""GroupMember: the order of its callbacks, the leader's assignment, and calls that are rejected."""

import itertools

import pytest

from thinconsumer import GroupMember, HealthState
from thinconsumer.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaConfigurationError,
    WakeupError,
)
from thinconsumer.testing import Simulation

TASKS = [b"%d" % n for n in range(6)]


class Worker(GroupMember):
    """Records its callbacks; as the leader, assigns the tasks round-robin."""

    def __init__(self, sim, name="w", kind="tasks", **options):
        self.name, self.share, self.heard, self.fails, self.reason = name, [], [], {}, None
        options = {"group_id": "g", "heartbeat_interval_ms": 300, **options}
        protocols = options.pop("protocols", ["deal"])
        super().__init__(kind, protocols, driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options)

    def hear(self, what):
        self.heard.append(what)
        error = self.fails.pop(what, None)
        if error is not None:
            raise error

    def metadata(self, protocol):
        return f"{self.name} by {protocol}".encode()

    def perform_assignment(self, leader_id, protocol, members):
        assert leader_id == self.group_metadata().member_id
        self.hear("perform")
        self.seen = {metadata.decode() for metadata in members.values()}
        turns = itertools.cycle(sorted(members))
        shares = {member: [] for member in members}
        for task in TASKS:
            shares[next(turns)].append(task)
        return {member: b",".join(tasks) for member, tasks in shares.items()}

    def on_join_prepare(self):
        self.hear("prepare")
        self.share = []

    def on_join_complete(self, protocol, share):
        self.hear("complete")
        self.share = share.split(b",") if share else []

    def rejoin_reason(self):
        reason, self.reason = self.reason, None
        return reason


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=3)


@pytest.fixture
def worker(sim, closed_at_end):
    return lambda *args, **options: closed_at_end(Worker(sim, *args, **options))


def settle(sim, *workers, seconds=60):
    """Poll in turn until every task has one worker and each worker has some."""
    deadline = sim.now() + seconds
    while sorted(task for w in workers for task in w.share) != TASKS or not all(
        w.is_stable and w.share for w in workers
    ):
        assert sim.now() < deadline, [(w, w.heard) for w in workers]
        for found in workers:
            found.poll(20)


def until(sim, member, condition, seconds=120):
    deadline = sim.now() + seconds
    while not condition():
        assert sim.now() < deadline, (member, member.health())
        member.poll(500)


def test_work_is_shared_by_who_is_there(sim, worker):
    ann = worker("ann")
    settle(sim, ann)
    assert ann.heard == ["perform", "complete"]
    bob = worker("bob")
    settle(sim, ann, bob)
    assert ann.heard[2:] == ["prepare", "perform", "complete"] and bob.heard == ["complete"]
    assert ann.seen == {"ann by deal", "bob by deal"}
    assert len(ann.share) == len(bob.share) == 3
    assert ann.group_metadata().generation_id == bob.group_metadata().generation_id == 2
    bob.close()
    assert bob.heard == ["complete", "prepare"] and bob.share == []
    settle(sim, ann)


def test_the_coordinator_elects_a_protocol_that_all_know(sim, worker):
    ann, bob = worker("ann", protocols=["new", "old"]), worker("bob", protocols=["old"])
    settle(sim, ann, bob)
    leader = next(w for w in (ann, bob) if "perform" in w.heard)
    assert leader.seen == {"ann by old", "bob by old"}


def test_a_member_that_was_away_has_lost_its_share(sim, worker):
    short = {"session_timeout_ms": 6000, "max_poll_interval_ms": 6000}
    ann, bob = worker("ann", **short), worker("bob", **short)
    settle(sim, ann, bob)
    kept = list(bob.share)
    deadline = sim.now() + 20
    while sorted(ann.share) != TASKS:
        assert sim.now() < deadline
        ann.poll(100)
    assert bob.share == kept, "nobody has told it"
    settle(sim, ann, bob)
    assert bob.heard[-2:] == ["prepare", "complete"], "lost counts as prepare unless it is told apart"


def test_new_work_makes_the_group_plan_anew(sim, worker):
    ann = worker("ann")
    settle(sim, ann)
    for ask in (lambda: setattr(ann, "reason", "new work"), lambda: ann.request_rejoin("new work")):
        del ann.heard[:]
        ask()
        while ann.heard != ["prepare", "perform", "complete"]:
            ann.poll(20)
            assert len(ann.heard) <= 3


@pytest.mark.parametrize(
    ("what", "calls"),
    [("perform", ["perform", "perform", "complete"]), ("complete", ["perform", "complete", "complete"])],
)
def test_what_is_raised_comes_out_of_poll_and_is_tried_again(sim, worker, what, calls):
    ann = worker("ann")
    ann.fails = {what: LookupError()}
    with pytest.raises(LookupError):
        settle(sim, ann)
    settle(sim, ann)
    assert ann.heard == calls


def test_what_prepare_raises_comes_out_and_the_group_goes_on(sim, worker):
    ann = worker("ann")
    settle(sim, ann)
    ann.fails = {"prepare": LookupError()}
    ann.request_rejoin("why not")
    with pytest.raises(LookupError):
        ann.poll(5000)
    ann.share = []
    settle(sim, ann)
    assert ann.heard == ["perform", "complete", "prepare", "perform", "complete"]


def test_shares_for_strangers_are_refused(sim, worker):
    ann = worker("ann")
    ann.perform_assignment = lambda leader_id, protocol, members: {"stranger": b""}
    with pytest.raises(IllegalStateError, match="stranger"):
        settle(sim, ann)


def test_driving_keeps_alive_and_calls_nothing_back(sim, worker):
    short = {"session_timeout_ms": 6000}
    ann = worker("ann", **short)
    settle(sim, ann)
    heard = list(ann.heard)
    for _ in range(100):
        ann.drive()
        sim.run_for(0.2)
    assert ann.heard == heard and ann.is_stable
    ann.poll(0)
    assert ann.is_stable and ann.heard == heard


def test_a_wakeup_ends_the_poll_that_waits(sim, worker):
    ann = worker("ann")
    ann.wakeup()
    with pytest.raises(WakeupError):
        ann.poll(1000)
    settle(sim, ann)


@pytest.mark.filterwarnings("ignore:without group_id")
def test_what_cannot_be_is_refused_at_once(sim):
    with pytest.raises(IllegalArgumentError, match="consumer"):
        Worker(sim, kind="consumer")
    for protocols in ([], ["a", "a"], "deal"):
        with pytest.raises(IllegalArgumentError, match="protocols"):
            Worker(sim, protocols=protocols)
    with pytest.raises(KafkaConfigurationError, match="group_id"):
        Worker(sim, group_id=None, heartbeat_interval_ms=3000)
    with pytest.raises(KafkaConfigurationError, match="session_timeout_ms"):
        Worker(sim, session_timeout=5)


def test_after_closing_nothing_works_but_closing_again(sim, worker):
    ann = worker("ann")
    settle(sim, ann)
    ann.close()
    ann.close()
    with pytest.raises(IllegalStateError, match="closed"):
        ann.poll(0)


def test_who_waits_in_a_poll_for_longer_than_the_limit_stays(sim, worker):
    ann = worker("ann", session_timeout_ms=6000, max_poll_interval_ms=6000)
    settle(sim, ann)
    ann.poll(20_000)
    assert ann.is_stable and ann.heard == ["perform", "complete"]


# -- health and metrics


def test_health_tells_what_a_member_waits_for(sim, worker):
    ann = worker()
    health = ann.health()
    assert (health.state, health.group_state, health.last_poll_age) == (HealthState.WORKING, "unjoined", None)
    assert "the coordinator of group g is not known" in health.reason
    settle(sim, ann)
    health = ann.health()
    assert (health.state, health.reason, health.since) == (HealthState.OK, "", None)
    assert (health.generation_id, health.member_id) == ann.group_metadata()[1:3]
    assert health.coordinator == ann._coordinator.node_id
    assert 0 <= health.last_heartbeat_age < 5 and health.last_poll_age < 1
    sim.partition({1, 2, 3}, {"client-1"})
    until(sim, ann, lambda: ann.health().state is HealthState.WORKING)
    assert ann.health().last_error is None
    until(sim, ann, lambda: ann.health().state is HealthState.STUCK)
    assert ann.health().since >= 22.5 and ann.health().reason
    sim.heal()
    until(sim, ann, lambda: ann.health().state is HealthState.OK)


def test_an_error_that_lasts_is_in_health_at_once(sim, worker):
    ann, bob = worker(), worker(kind="other")
    settle(sim, ann)
    with pytest.raises(InconsistentGroupProtocolError):
        until(sim, bob, lambda: False)
    health = bob.health()
    assert health.state is HealthState.STUCK and isinstance(health.last_error, InconsistentGroupProtocolError)


def test_metrics_have_the_consumers_names(sim, worker):
    ann = worker()
    settle(sim, ann)
    ann.poll(3000)
    metrics = ann.metrics()
    assert set(metrics) == {"member-coordinator-metrics", "member-metrics"}
    group, connections = metrics["member-coordinator-metrics"], metrics["member-metrics"]
    assert group["join-total"] == group["sync-total"] == group["rebalance-total"] == 1
    assert group["rebalance-latency-max"] > 0 and group["heartbeat-total"] >= 9
    assert 0 <= group["last-heartbeat-seconds-ago"] < 1
    assert connections["connection-count"] >= 1 and connections["connection-creation-total"] >= 1
    assert not {"commit-total", "assigned-partitions", "poll-idle-ratio-avg"} & (group.keys() | connections.keys())
    bob = worker()
    settle(sim, bob, ann)
    assert ann.metrics()["member-coordinator-metrics"]["rebalance-total"] == 2


# -- cooperative protocols (KIP-415)


class Cooperative(Worker):
    """Claims its tasks in its metadata, goes on working in rebalances, and never does what another worker does."""

    def __init__(self, sim, crew, name, protocols=("gradual", "deal"), cooperative=("gradual",), **options):
        self.crew, self.done = crew, []
        crew.append(self)
        super().__init__(sim, name, protocols=list(protocols), cooperative_protocols=cooperative, **options)

    def metadata(self, protocol):
        return f"{self.held_generation}:{','.join(task.decode() for task in self.share)}".encode()

    def perform_assignment(self, leader_id, protocol, members):
        self.hear("perform")
        claims, shares = {}, {}
        for member, metadata in members.items():
            generation, tasks = metadata.decode().split(":")
            claims[member] = int(generation), [task.encode() for task in tasks.split(",") if task]
            shares[member] = []
        free = list(TASKS)
        for member in sorted(claims, key=lambda one: -len(claims[one][1])):
            kept = [task for task in claims[member][1] if task in free][: len(TASKS) // len(members)]
            shares[member] += kept
            free = [task for task in free if task not in kept]
        for task in free:
            min(shares.values(), key=len).append(task)
        return {member: b",".join(tasks) for member, tasks in self.withhold(shares, claims).items()}

    def on_revoke(self, protocol, share):
        assert protocol == "gradual"
        kept = [task for task in self.share if task in share.split(b",")]
        gone, self.share = len(kept) < len(self.share), kept
        self.hear("revoke" if gone else "keep")
        return gone

    def on_join_complete(self, protocol, share):
        super().on_join_complete(protocol, share)
        tasks = [task for one in self.crew for task in one.share]
        assert len(tasks) == len(set(tasks)), "a task is done by two"

    def on_lost(self):
        self.hear("lost")
        self.share = []


@pytest.fixture
def crew(sim, closed_at_end):
    members = []
    return lambda name, **options: closed_at_end(Cooperative(sim, members, name, **options))


def test_cooperative_members_go_on_with_what_they_keep(sim, crew):
    ann = crew("ann")
    settle(sim, ann)
    kept, began = set(ann.share), sim.now()
    bob = crew("bob")
    while not bob.share or not ann.is_stable:
        ann.poll(20), bob.poll(20)
        kept &= set(ann.share)
    settle(sim, ann, bob)
    assert sim.now() - began < 5, "the second rebalance follows at once"
    assert kept == set(ann.share) and len(kept) == 3, "what it keeps was never given up"
    assert "prepare" not in ann.heard + bob.heard
    assert ann.heard.count("revoke") == 1
    generation = ann.group_metadata().generation_id
    assert generation == bob.group_metadata().generation_id == 3, "the third rebalance assigns what was given up"
    assert ann.held_generation == bob.held_generation == generation
    bob.close()
    assert bob.heard[-1] == "prepare" and bob.share == [] and bob.held_generation == -1
    settle(sim, ann)
    assert ann.heard[-3:] == ["perform", "keep", "complete"]


def test_a_group_changes_to_a_cooperative_protocol_and_back_one_member_at_a_time(sim, crew):
    """While a member has only the eager protocol, all are eager; nothing is done by two on either way."""
    old = [crew(name, protocols=["deal"], cooperative=()) for name in ("ann", "bob")]
    settle(sim, *old)
    new = []
    for member in old:
        new.append(crew(f"new {member.name}"))
        member.close()
        settle(sim, *new, *old[len(new) :])
        assert len(new) == 2 or "keep" not in new[0].heard
    third = crew("cid")
    settle(sim, *new, third)
    assert new[0].heard[-1] == "complete" and new[0].heard[-2] in ("keep", "revoke")
    eager = crew("dan", protocols=["deal"], cooperative=())
    new[0].heard.clear()
    settle(sim, *new, third, eager)
    assert set(new[0].heard) - {"perform"} == {"prepare", "complete"}


def test_work_is_given_up_also_if_revoke_raises(sim, crew):
    ann = crew("ann")
    settle(sim, ann)
    ann.fails["revoke"] = ZeroDivisionError("by design")
    bob = crew("bob")
    with pytest.raises(ZeroDivisionError):
        settle(sim, ann, bob)
    settle(sim, ann, bob)


def test_a_removed_member_loses_what_it_did(sim, crew):
    short = {"session_timeout_ms": 6000, "max_poll_interval_ms": 6000}
    ann, bob = crew("ann", **short), crew("bob", **short)
    settle(sim, ann, bob)
    ann.crew.remove(bob)  # it does not notice what others do meanwhile
    deadline = sim.now() + 20
    while sorted(ann.share) != TASKS:
        assert sim.now() < deadline
        ann.poll(100)
    bob.poll(0)
    while "lost" not in bob.heard:
        bob.poll(20)
    assert bob.share == [] and bob.held_generation == -1
    ann.crew.append(bob)
    settle(sim, ann, bob)


def test_a_member_that_missed_a_generation_loses_what_it_did(sim, crew):
    """As a static member can whose JoinGroup is answered late: others may do its work by then."""
    ann = crew("ann")
    settle(sim, ann)
    ann._role.accept(ann._member.identity, "gradual", b"0", sim.now(), missed=True)
    assert ann.heard[-1] == "lost" and ann.share == [] and ann.held_generation == -1


def test_a_leader_does_not_wait_for_ever_for_what_a_static_member_has_to_give_up(sim, crew):
    """It restarts before it joins again, and gets its assignment without a rebalance (KIP-345)."""
    short = {"session_timeout_ms": 6000, "max_poll_interval_ms": 6000}
    ann = crew("ann", **short)
    bob = crew("bob", group_instance_id="bob", **short)
    settle(sim, ann, bob)
    bob.fails["revoke"] = KeyboardInterrupt()
    cid = crew("cid", **short)
    with pytest.raises(KeyboardInterrupt):
        settle(sim, ann, cid, bob)
    bob.close()
    began, again = sim.now(), crew("bob again", group_instance_id="bob", **short)
    while not again.share:
        ann.poll(20), cid.poll(20), again.poll(20)
    assert len(ann.share + cid.share + again.share) < len(TASKS), "what was withheld has no worker"
    settle(sim, ann, cid, again)
    assert 5 < sim.now() - began < 10


def test_withheld_is_what_another_member_does_by_its_newest_claim(sim, crew):
    ann = crew("ann")
    plan = {"a": ["1", "2", "3", "4"], "b": ["5"], "c": []}
    claims = {"a": (4, ["1", "2"]), "b": (5, ["2", "3"]), "c": (5, ["3"])}
    assert ann.withhold(plan, claims) == {"a": ["1", "4"], "b": ["5"], "c": []}
    assert ann.withhold({"b": ["2"], "a": ["1"]}, claims) == {"b": ["2"], "a": ["1"]}


def test_cooperative_protocols_are_checked(sim):
    with pytest.raises(IllegalArgumentError, match="must be some of"):
        Worker(sim, protocols=["deal"], cooperative_protocols=["other"])
    with pytest.raises(IllegalArgumentError, match="must be some of"):
        Worker(sim, protocols=["deal"], cooperative_protocols="deal")
    with pytest.raises(IllegalArgumentError, match="on_revoke"):
        Worker(sim, protocols=["deal"], cooperative_protocols=["deal"])


def test_a_reason_to_join_again_does_not_wait_for_a_heartbeat(sim, worker):
    ann = worker("ann", heartbeat_interval_ms=3000)
    settle(sim, ann)
    for seconds in (0.5, 1.0):  # the heartbeats are at other times
        ann.poll(seconds * 1000)
        began, ann.reason, ann.heard = sim.now(), "more tasks", []
        until(sim, ann, lambda: "complete" in ann.heard)
        assert sim.now() - began < 2.0, ann.heard
