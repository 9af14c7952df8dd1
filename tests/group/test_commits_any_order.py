"""Commits under random sequences of calls, responses, rebalances, lost connections and restarts.

Each offset is the number of its call. So the order of the offsets that the coordinator writes can be checked: it must
never go back to an earlier call.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from thinconsumer.errors import CommitFailedError, IllegalStateError, KafkaError
from thinconsumer.group.identity import Identity
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire.error_codes import Code

pytestmark = pytest.mark.once

TPS = [TopicPartition("t", n) for n in range(4)]
PASSING = [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE]


def conftest() -> Any:
    """Return ``conftest.py`` as a module: a state machine gets no fixtures."""
    spec = importlib.util.spec_from_file_location("commits_conftest", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HELP = conftest()


class AnyOrder(RuleBasedStateMachine):
    """One member's commits, and a coordinator that records the offsets it accepts."""

    @initialize()
    def begin(self) -> None:
        self.world = HELP.World()
        self.world.membership.owned = set(TPS)
        self.calls: list[tuple[Any, set[TopicPartition]]] = []
        self.heard: list[int] = []
        self.errors: dict[int, KafkaError | None] = {}
        self.written: dict[TopicPartition, list[int]] = {tp: [] for tp in TPS}
        self.queued: list[Any] = []  # requests that are not written yet
        self.out: list[Any] = []  # read by the coordinator, without a response
        self.members = 0
        self.step()

    @property
    def group(self) -> Any:
        return self.world.membership

    def step(self) -> None:
        self.queued += self.world.commits.step(self.world.now)
        assert len([r for r in self.queued if self.is_live(r)]) + len(self.live()) <= 1

    def is_live(self, request: Any) -> bool:
        return self.world.commits._requests.in_flight is request

    def live(self) -> list[Any]:
        return [sent for sent in self.out if self.is_live(sent.request)]

    # -- the user

    @rule(tps=st.sets(st.sampled_from(TPS), min_size=0), seconds=st.sampled_from([0.05, 1.0, 600.0]))
    def add(self, tps: set[TopicPartition], seconds: float) -> None:
        number = len(self.calls)

        def callback(offsets: Any, error: KafkaError | None) -> None:
            self.heard.append(number)
            self.errors[number] = error

        offsets = {tp: OffsetAndMetadata(number) for tp in tps}
        call = self.world.commits.add(offsets, self.world.now + seconds, callback)
        self.calls.append((call, tps))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.calls))[0].abandoned = True

    # -- time and network

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.2, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.coordinator.step(self.world.now)
        self.step()

    @precondition(lambda self: self.queued)
    @rule()
    def write(self) -> None:
        request = self.queued.pop(0)
        if not self.is_live(request):
            with pytest.raises(IllegalStateError):
                request.build(9)
            return
        sent = HELP.Sent(request, 9)
        if sent.offsets:
            assert sent.stamp == (self.group.identity.generation_id, self.group.identity.member_id)
            assert sent.stamp[0] >= 0
            assert sent.stamp[1]
        self.out.append(sent)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        sent = self.out.pop(0)
        if not self.is_live(sent.request):
            # A request to a former coordinator, which wrote it before the new one took over.
            self.world.answer(sent)
            return
        who = self.group.identity
        if sent.offsets and sent.stamp != (who.generation_id, who.member_id):
            self.world.answer(sent, data.draw(st.sampled_from([Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID])))
        elif self.group.rebalancing and data.draw(st.booleans()):
            self.world.answer(sent, data.draw(st.sampled_from([Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS])))
        elif data.draw(st.integers(0, 3)) == 0:
            self.world.answer(sent, data.draw(st.sampled_from(PASSING)))
        else:
            refused = data.draw(st.dictionaries(st.sampled_from(TPS), st.sampled_from([3, 12]), max_size=1))
            self.coordinator_writes(sent, set(refused))
            self.world.answer(sent, refused)
        self.step()

    def coordinator_writes(self, sent: Any, but: set[TopicPartition]) -> None:
        for tp, number in sent.offsets.items():
            if tp not in but:
                self.written[tp].append(number)

    @precondition(lambda self: self.out or self.queued)
    @rule(arrived=st.booleans())
    def connection_breaks(self, arrived: bool) -> None:
        sent = self.out.pop(0) if self.out else None
        if sent is not None and arrived and self.is_live(sent.request):
            self.coordinator_writes(sent, set())
        self.world.break_off(sent.request if sent is not None else self.queued.pop(0))
        self.step()

    @rule(node=st.sampled_from([1, 2]))
    def coordinator_is_found(self, node: int) -> None:
        if self.world.coordinator.node_id not in (None, node):
            self.world.coordinator.lost(self.world.coordinator.node_id, "moved", self.world.now)
        if self.world.coordinator.node_id is None:
            self.world.find(node)
        self.step()

    @rule()
    def restart(self) -> None:
        self.queued.clear()
        self.out.clear()
        self.world.commits.restart(self.world.now)
        self.step()

    # -- the group

    @precondition(lambda self: not self.group.rebalancing)
    @rule()
    def rebalance_begins(self) -> None:
        self.group.rebalancing = True
        self.step()

    @precondition(lambda self: self.group.rebalancing)
    @rule()
    def joined(self) -> None:
        who = self.group.identity
        self.members += not who.is_member
        member_id = who.member_id or f"member-{self.members}"
        self.group.identity = Identity("g", max(who.generation_id, 5 + len(self.heard)) + 1, member_id)
        self.step()

    @precondition(lambda self: self.group.rebalancing and self.group.identity.is_member)
    @rule(owned=st.sets(st.sampled_from(TPS)))
    def synced(self, owned: set[TopicPartition]) -> None:
        self.group.owned = owned
        self.group.rebalancing = False
        self.step()

    @rule(behind=st.booleans())
    def expelled(self, behind: bool) -> None:
        who = self.group.identity
        self.group.identity = who.behind() if behind else who.lost()
        self.step()

    # -- invariants

    @invariant()
    def offsets_never_go_back_to_an_earlier_call(self) -> None:
        for tp, numbers in getattr(self, "written", {}).items():
            assert numbers == sorted(numbers), f"{tp} was written in the order {numbers}"

    @invariant()
    def callbacks_are_told_once(self) -> None:
        if not hasattr(self, "world"):
            return
        while self.world.commits.queue.finished:
            self.world.commits.queue.run_first_callback()
        assert len(self.heard) == len(set(self.heard))
        assert set(self.heard) == {number for number, (call, _) in enumerate(self.calls) if call.done}

    def teardown(self) -> None:
        """Without further faults every call settles, and offsets of successful calls were written."""
        if not hasattr(self, "world"):
            return
        self.group.rebalancing = False
        if not self.group.identity.is_member:
            self.group.identity = Identity("g", 900, "at last")
        for _ in range(200):
            self.coordinator_is_found(1)
            while self.queued:
                self.write()
            while self.out:
                sent = self.out.pop(0)
                stale = sent.offsets and sent.stamp != (
                    self.group.identity.generation_id,
                    self.group.identity.member_id,
                )
                if self.is_live(sent.request) and not stale:
                    self.coordinator_writes(sent, set())
                self.world.answer(sent, Code.ILLEGAL_GENERATION if stale else 0)
            if not self.world.commits.queue.calls:
                break
            self.time_passes(0.5)
        assert not self.world.commits.queue.calls
        self.callbacks_are_told_once()
        self.offsets_never_go_back_to_an_earlier_call()
        assert len(self.heard) == len(self.calls)
        for number, (call, tps) in enumerate(self.calls):
            if self.errors[number] is None:
                call.result()
                for tp in tps:
                    assert any(written >= number for written in self.written[tp]), (number, tp)
            else:
                error = self.errors[number]
                assert isinstance(error, CommitFailedError)
                assert set(error.partitions) <= tps


AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
