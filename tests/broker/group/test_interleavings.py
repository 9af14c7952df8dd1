"""Random interleavings of members, time, slow appends and coordinator failures, with invariants after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer_testing.broker.group import rebalance
from thinconsumer_testing.broker.group.states import GroupState

pytestmark = pytest.mark.once

CLIENTS = 4
SESSION_MS = 4_000
REBALANCE_MS = 6_000
PRODUCER = 7


class Client:
    """A well-behaved client of a group: one request at a time, and each response is obeyed."""

    def __init__(self, interleaving: InterleavingRun, number: int) -> None:
        self.interleaving = interleaving
        self.instance = f"static-{number}" if number == 0 else None
        self.number = number
        self.restart()

    def restart(self) -> None:
        """Restart without leaving the group."""
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.members: list[str] = []
        self.next = "join"  #: The next step of a well-behaved client.
        self.call: Any = None

    def ask(self, asked: Any, then: Callable[[Any], None]) -> None:
        """Wait for a response, which may have arrived already."""
        self.interleaving.outstanding.append(asked)
        self.call = asked
        if asked.is_parked:
            asked.listener = lambda: self.handle_response(asked, then)
        else:
            self.handle_response(asked, then)

    def handle_response(self, asked: Any, then: Callable[[Any], None]) -> None:
        """Handle a response, unless the request was abandoned."""
        if self.call is asked:
            self.call = None
            then(asked.answer)

    def take_code(self, code: int) -> None:
        """React to an error code."""
        if code:
            self.next = "join"
        if code in (25, 82):
            self.member_id, self.generation = "", -1
        elif code == 22:
            self.generation = -1

    # -- requests

    def join(self) -> None:
        version = 9 if self.number != 1 else 3
        asked = self.interleaving.world.join(
            self.member_id,
            instance=self.instance,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=version,
            protocols={"range": bytes([self.interleaving.round % 3])},
        )
        self.ask(asked, self.joined)

    def joined(self, answer: Any) -> None:
        if answer.error_code == 79:
            self.member_id = answer.member_id
        elif answer.error_code:
            self.take_code(answer.error_code)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.is_leader = answer.leader == answer.member_id
            self.members = [member.member_id for member in answer.members]
            self.next = "sync"
            self.interleaving.check_generation(answer.generation_id)

    def sync(self) -> None:
        plan = {}
        if self.is_leader:
            plan = {m: f"{self.generation}:{self.member_id}:{m}".encode() for m in self.members}
        seat = self.interleaving.seat_of(self.member_id, self.generation)
        generation = self.generation
        asked = self.interleaving.world.sync(seat, plan, instance=self.instance)
        self.ask(asked, lambda answer: self.remove_pending_sync(answer, generation))

    def remove_pending_sync(self, answer: Any, generation: int) -> None:
        if answer.error_code:
            self.take_code(answer.error_code)
        else:
            self.next = "heartbeat"
            self.interleaving.check_assignment(generation, answer.assignment)

    def heartbeat(self) -> None:
        seat = self.interleaving.seat_of(self.member_id, self.generation)
        self.ask(self.interleaving.world.heartbeat(seat, instance=self.instance), self.take_code)

    def leave(self) -> None:
        self.ask(self.interleaving.world.leave((self.member_id, self.instance)), lambda answer: self.restart())

    def commit(self) -> None:
        self.interleaving.next_offset += 1
        offset = self.interleaving.next_offset
        seat = self.interleaving.seat_of(self.member_id, self.generation)
        asked = self.interleaving.world.commit(seat, offset, instance=self.instance)

        def then(code: int) -> None:
            self.take_code(code)
            if not code:
                self.interleaving.confirmed = max(self.interleaving.confirmed, offset)

        self.ask(asked, then)

    def txn_commit(self) -> None:
        self.interleaving.next_offset += 1
        offset = self.interleaving.next_offset
        asked = self.interleaving.world.txn_commit(PRODUCER, offset)

        def then(code: int) -> None:
            if not code:
                self.interleaving.pending = max(self.interleaving.pending, offset)

        self.ask(asked, then)


class InterleavingRun:
    """The world, its clients, and everything observed so far."""

    def __init__(self, world: Any, seat_of: Any) -> None:
        self.world = world
        self.seat_of = seat_of
        self.outstanding: list[Any] = []
        self.round = 0
        self.next_offset = 0
        self.confirmed = -1
        self.pending = -1
        self.moved_at = 0
        self.assignments: dict[int, set[bytes]] = {}
        self.clients = [Client(self, number) for number in range(CLIENTS)]

    # -- observations

    def check_generation(self, generation: int) -> None:
        """Check that generations with a received assignment never decrease."""
        assert generation >= max(self.assignments, default=0)

    def check_assignment(self, generation: int, assignment: bytes) -> None:
        """Check that all assignments of one generation come from one leader."""
        assert generation >= max(self.assignments, default=0)
        if assignment:
            found = self.assignments.setdefault(generation, set())
            found.add(assignment.rsplit(b":", 1)[0])
            assert len(found) == 1, found

    # -- steps

    def step(self, name: str, number: int, amount: int) -> None:
        self.round += 1
        client = self.clients[number]
        log = self.world.logs[0]
        if name == "behave":
            name = client.next
        if name in ("join", "sync", "heartbeat", "leave", "commit", "txn_commit"):
            knows = client.member_id if name != "sync" else client.generation >= 0
            if client.call is None and (knows or name in ("join", "txn_commit")):
                getattr(client, name)()
        elif name == "forget":
            client.restart()
        elif name == "advance":
            self.world.advance(amount / 4)
        elif name == "hold":
            self.world.replica.hold = True
        elif name == "release":
            self.world.replica.hold = False
            self.world.replica.replicate()
        elif name == "marker":
            self.world.marker(PRODUCER, commit=amount % 2 == 0)
            if amount % 2 == 0:
                self.confirmed = max(self.confirmed, self.pending)
            self.pending = -1
        elif name == "move":
            self.world.resign()
            assert not [asked for asked in self.outstanding if asked.is_parked]
            self.world.elect()
            self.moved_at = log.end_offset
        elif name == "crash":
            # A coordinator, Kafka's too, applies records above the high watermark when it loads them. They must not be
            # lost later in this test, because members may have received them.
            self.world.crash(losing=amount % 2 == 0 and log.high_watermark >= self.moved_at)
            self.outstanding = [asked for asked in self.outstanding if not asked.is_parked]
            for one in self.clients:
                one.call = None
        self.check()

    def check(self) -> None:
        """Check the group's consistency, and that a timer or request will always cause progress."""
        for group in self.world.shard.latest.groups.values():
            parked_joins = [m for m in group.members.values() if m.join is not None]
            parked_syncs = [m for m in group.members.values() if m.sync is not None]
            assert (group.leader_id in group.members) if group.members else group.leader_id is None
            assert {m.instance_id: m.member_id for m in group.members.values() if m.instance_id} == group.static_members
            assert not group.pending_joins & set(group.members)
            if group.state is GroupState.EMPTY:
                assert not group.members
            elif group.state is GroupState.PREPARING_REBALANCE:
                assert not parked_syncs
                assert rebalance.JOIN in group.timers
            else:
                assert group.members
                assert group.protocol_name == "range"
                assert all(m.instance_id for m in parked_joins), "parked with nothing to wait for"
                assert group.state is not GroupState.STABLE or not parked_syncs
            for member_id in (*group.members, *group.pending_joins):
                waits = member_id in group.members and group.members[member_id].has_satisfied_heartbeat
                assert waits or rebalance.session_timer(member_id) in group.timers

    def finish(self) -> None:
        """Let all requests complete; the next coordinator must have the same offsets."""
        self.world.replica.hold = False
        self.world.replica.replicate()
        self.world.advance(rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS / 1000 + 60)
        assert not [asked for asked in self.outstanding if asked.is_parked]
        offset = self.world.offset()
        assert self.confirmed <= offset <= self.next_offset
        self.world.crash()
        assert self.world.offset() == offset


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["behave"] * 24
            + ["join", "join", "sync", "heartbeat"]
            + ["advance"] * 4
            + ["commit"] * 2
            + ["leave", "forget", "hold", "release", "release", "txn_commit", "marker", "move", "crash"]
        ),
        st.integers(0, CLIENTS - 1),
        st.integers(0, 20),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=250)
@given(steps=STEPS, delay=st.sampled_from([0, 1_000]))
def test_random_interleavings_keep_the_invariants(
    steps: list[tuple[str, int, int]], delay: int, new_world: Any, seat_of: Any
) -> None:
    """One assignment per generation, increasing generations, one response per request, no lost acknowledged offset."""
    interleaving = InterleavingRun(new_world(group_initial_rebalance_delay_ms=delay), seat_of)
    for step in steps:
        interleaving.step(*step)
    interleaving.finish()


def test_orderly_steps_form_generations(new_world: Any, seat_of: Any) -> None:
    """An orderly sequence of steps forms two generations; otherwise the test above would test nothing."""
    interleaving = InterleavingRun(new_world(), seat_of)
    for name in ("join", "join", "advance", "sync", "join", "join", "sync", "heartbeat"):
        for number in (1, 2, 3):
            interleaving.step(name, number, 0)
    interleaving.step("commit", 1, 0)
    interleaving.finish()
    assert len(interleaving.assignments) >= 2
