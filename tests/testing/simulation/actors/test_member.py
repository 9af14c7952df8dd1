"""Applications in a group process, commit, handle errors and callbacks, and close."""

import pytest
from lab import MemberActor

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Checker, Simulation, Violation
from thinconsumer_testing.simulation.checkers.base import Member
from thinconsumer_testing.simulation.client_tap import GROUP_APIS

TP = TopicPartition("t", 0)


class Notes(Checker):
    """Notes what a member does."""

    def __init__(self):
        super().__init__(lambda words: None, lambda tp: None)
        self.processed_offsets = []
        self.heard_of = []
        self.said_names = []
        self.calls = []

    def processed(self, member, records):
        self.processed_offsets += [record.offset for record in records]

    def callback_finished(self, member, what, tps, error):
        self.heard_of.append((what, len(tps), error is not None))

    def request_written(self, member, line, sent, before):
        if isinstance(member, Member) and sent.api_key in GROUP_APIS:
            self.said_names.append(type(sent.message).__name__.removesuffix("Request"))

    def call_began(self, member, polls):
        self.calls.append("poll" if polls else "other")


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def sim():
    return Simulation(seed=1, topics={"t": 2}, checkers=())


@pytest.fixture
def start(sim, notes, start_member):
    sim.jury.add(notes)

    def start(name="ann", *, pattern=None, **behaviour):
        options = {
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 2000,
            "enable_auto_commit": behaviour.get("commits", "auto") == "auto",
            "auto_commit_interval_ms": 100,
        }
        return start_member(MemberActor, name, "g", options, behaviour, topics=["t"], pattern=pattern)

    return start


def committed(sim, tp=TP):
    """Return the group's committed offsets, requested by another application."""
    from thinconsumer import Consumer

    with Consumer(driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, group_id="g") as consumer:
        return consumer.committed(tp)


@pytest.mark.parametrize("commits", ["auto", "sync", "async", "offsets"])
@pytest.mark.parametrize("blocks", [True, False])
def test_member_reads_processes_and_commits(sim, start, notes, commits, blocks):
    ann = start(commits=commits, blocks=blocks)
    for n in range(5):
        sim.produce("t", 0, [b"%d" % n])
        sim.run_for(1.0)
    sim.run_until(lambda: notes.processed_offsets == [0, 1, 2, 3, 4])
    with ann.busy():
        ann.close()
    assert committed(sim) == 5
    assert notes.heard_of == [("assigned", 2, False), ("revoked", 2, False)]
    assert notes.said_names[-1] == "LeaveGroup" and not ann.is_running and ann.assignment() == set()


def test_polling_continues_after_callbacks_raise(sim, start, notes):
    ann = start(raise_rate=0.7, asks=True, rewinds=True)
    sim.produce("t", 0, [b"a"] * 5)
    sim.run_until(lambda: 4 in notes.processed_offsets)
    raised = [what for what, _, failed in notes.heard_of if failed]
    assert raised and set(raised) == {"assigned"}
    ann.calm()
    ann.soon(lambda: ann.subscribe(["t"]))
    sim.run_for(5)


def test_unexpected_error_is_a_violation(sim, start):
    ann = start()
    ann._cope_with(IllegalStateError("surprise"))
    with pytest.raises(Violation, match="unexpected error: IllegalStateError"):
        sim.run_for(1)


def test_missing_commit_callback_is_a_violation(sim, start):
    ann = start(commits="async")
    sim.run_until(ann.assignment)
    ann.pending_callbacks = 1
    with ann.busy():
        ann.close()
    with pytest.raises(Violation, match="before 1 commit callbacks were called"):
        sim.check()
