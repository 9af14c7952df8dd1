"""A simulated cluster with a group of two members: the subject, which gets the faults, and the other, which gets none.

The test drives the subject through its public calls; the other member is an actor of the simulation.
Requests, listener callbacks and returned records are recorded, and checked alike in all tests.
"""

import itertools
import logging

import pytest

from thinconsumer import Consumer
from thinconsumer.errors import KafkaError
from thinconsumer.testing import Simulation
from thinconsumer.wire.leave_group import MemberIdentity
from thinconsumer.wire.offset_commit import OffsetCommitRequest

GROUP, TOPIC = "g", "t"
EAGER, COOPERATIVE = ("range",), ("cooperative-sticky",)
#: Sessions outlast the faults; a request without a response times out after ten seconds at most.
OPTIONS = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 15_000,
    "heartbeat_interval_ms": 1_000,
    "max_poll_interval_ms": 15_000,
    "request_timeout_ms": 5_000,
    "default_api_timeout_ms": 30_000,
    "fetch_max_wait_ms": 500,
}
#: Seconds between an error and the next poll.
PAUSE = 0.05


class Listener:
    """Record a member's callbacks, and check them against the partitions that it owns."""

    def __init__(self):
        self.heard = []
        self.owned = set()

    def on_partitions_assigned(self, assigned):
        assert not assigned & self.owned, f"assigned {assigned} while {self.owned} are owned"
        self.owned |= assigned
        self.heard.append("assigned")

    def on_partitions_revoked(self, revoked):
        assert revoked <= self.owned, f"revoked {revoked} while {self.owned} are owned"
        self.owned -= revoked
        self.heard.append("revoked")

    def on_partitions_lost(self, lost):
        assert lost, "nothing was lost"
        assert lost <= self.owned, f"lost {lost} while {self.owned} are owned"
        self.owned -= lost
        self.heard.append("lost")


class Member:
    """One consumer, its callbacks, and the records that it returned."""

    def __init__(self, world, name, **options):
        self.world = world
        self.name = name
        self.listener = Listener()
        self.values = []
        self.last_at = {}  #: By partition, when its last record was written.
        self.late_by = {}  #: By partition, the longest time from writing a record to returning it.
        self.raised = []
        self.told = []  #: Times and errors of commit callbacks.
        self.consumer = Consumer(
            driver=world.sim.driver(name),
            client_id=name,
            bootstrap_servers=world.sim.bootstrap_servers,
            **{**OPTIONS, **options},
        )
        self.subscribe()

    def subscribe(self):
        self.consumer.subscribe([TOPIC], listener=self.listener)

    def poll(self, ms=0):
        """Poll once and record an error; return whether there was one."""
        try:
            found = self.consumer.poll(ms)
        except KafkaError as error:
            self.raised.append(error)
            return True
        for tp, records in found.items():
            assert tp in self.listener.owned, f"{tp} was delivered and is not owned: {self.listener.heard}"
            self.values += [record.value for record in records]
            self.last_at[tp] = records[-1].timestamp / 1000
            late = self.world.wall_time() - records[0].timestamp / 1000
            self.late_by[tp] = max(late, self.late_by.get(tp, 0.0))
        return False

    def commit_async(self):
        self.consumer.commit_async(callback=lambda offsets, error: self.told.append((self.world.now(), error)))


class World:
    """A cluster with the subject and the other member."""

    def __init__(self, caplog, *, style=EAGER, seed=1, brokers=3, partitions=3, config=None, **options):
        self.sim = Simulation(
            seed,
            brokers,
            {TOPIC: partitions},
            config={"offsets.topic.num.partitions": 1, **(config or {})},
            traced=False,
            checkers=(),
        )
        self.caplog = caplog
        caplog.set_level(logging.INFO, "thinconsumer")
        self.options = {"partition_assignment_strategy": list(style), **options}
        self.partitions = partitions
        self.said = []  #: Requests that reached a broker: time, client, API, request.
        self.written = []
        self.stop_writing = False
        self.commits = True  #: Whether members commit manually all the time.
        self.rules = []
        self.subject = self.other = None
        self._numbers = itertools.count()
        self.other_is_gone = False
        self._other_lines = set()
        self.sim.cluster.on(None, self._overhear)
        self.sim.actor(self._write, "writer")
        self._next_commit = self._other_commits_at = 0.0

    def now(self):
        return self.sim.now()

    def wall_time(self):
        return self.sim.world.clock.wall_time()

    # -- members

    def join(self, *, leads=True):
        self.add_subject() if leads else self.add_other()
        self.run(lambda: self._have_all())
        self.add_other() if leads else self.add_subject()
        self.run(lambda: self._have_all() and all(member.listener.owned for member in self.members()))
        self.run(lambda: self.in_order_since(self.now() - 1.0), 3.0)
        self.cancel()
        return self

    def cancel(self):
        self.caplog.clear()
        self._other_lines.clear()
        self.said.clear()
        for member in self.members():
            for notes in (member.raised, member.told, member.listener.heard, member.late_by):
                notes.clear()

    def add_subject(self, **options):
        self.subject = Member(self, "subject", **{**self.options, **options})
        return self.subject

    def add_other(self):
        self.other = Member(self, "other", **self.options)
        self.sim.actor(self._other_turn, "other")

    def members(self):
        return [member for member in (self.subject, self.other) if member is not None]

    def _have_all(self):
        owned = [tp for member in self.members() for tp in member.listener.owned]
        return len(owned) == self.partitions == len(set(owned))

    def _other_turn(self):
        if self.other_is_gone:
            return None
        before = len(self.caplog.records)
        failed = self.other.poll(0)
        assert not failed, self.other.raised
        if self.commits and self.now() >= self._other_commits_at:
            self._other_commits_at = self.now() + 1.0
            self.other.commit_async()
        self._other_lines.update(map(id, self.caplog.records[before:]))
        return 0.2

    # -- running

    def _write(self):
        if self.stop_writing:
            return None
        for partition in range(self.partitions):
            value = b"%d" % next(self._numbers)
            self.written.append(value)
            self.sim.produce(TOPIC, partition, [value])
        return 0.5

    def _overhear(self, call):
        self.said.append(
            (self.now(), call.client_id, type(call.request).__name__.removesuffix("Request"), call.request)
        )
        if isinstance(call.request, OffsetCommitRequest) and call.request.topics:
            stamp = call.request.generation_id_or_member_epoch, call.request.member_id
            assert stamp[0] >= 0 and stamp[1], f"{call.client_id} commits without a member id: {stamp}"

    def run(self, until, seconds=70.0):
        """Poll, and commit twice a second, until the condition holds or time is up; return whether it holds."""
        deadline = self.now() + seconds
        while not until():
            if self.now() >= deadline:
                return False
            if self.subject is None:
                self.sim.run_for(0.05)
                continue
            before = self.now()
            failed = self.subject.poll(200)
            if self.commits and self.now() >= self._next_commit:
                self._next_commit = self.now() + 0.5
                self.subject.commit_async()
            if failed and self.now() - before < PAUSE:
                self.sim.run_for(PAUSE)
        return True

    # -- faults

    def break_(self, api, action, *, times=None):
        """Apply a fault to the subject's requests of this API."""
        rule = self.sim.cluster.on(api, action, times=times, where=lambda call: call.client_id == "subject")
        self.rules.append(rule)
        return rule

    def heal(self):
        for rule in self.rules:
            self.sim.cluster.rules.remove(rule)
        self.rules.clear()

    def move_coordinator(self):
        self.sim.cluster.move_coordinator(GROUP)

    def lose_other(self):
        self.other_is_gone = True
        self.other.consumer.close()

    def forget(self, call):
        """Remove the member that sent this request from the group, at the coordinator."""
        member_id = getattr(call.request, "member_id", "")
        if member_id:
            call.node.group_coordinator.leave(GROUP, [MemberIdentity(member_id=member_id)], lambda response: None)

    # -- checks

    def story(self):
        raised = [type(error).__name__ for error in self.subject.raised[:5]]
        told = [(round(at, 2), getattr(error, "reason", error)) for at, error in self.subject.told[-8:]]
        asked = [(round(at, 3), name) for at, who, name, _ in self.said if who == "subject" and name != "Fetch"][-40:]
        return f"{self.subject.listener.heard}, raised {raised}, commits {told}, asked {asked}, {self.lines()}"

    def asked(self, *apis):
        return [at for at, who, name, _ in self.said if who == "subject" and name in apis]

    def forget_member(self, member_id):
        leaving = [MemberIdentity(member_id=member_id)]
        for node in self.sim.cluster.nodes.values():
            node.group_coordinator.leave(GROUP, leaving, lambda response: None)

    def lines(self, level="INFO"):
        return [
            record.getMessage()
            for record in self.caplog.records
            if record.levelno >= getattr(logging, level)
            and not record.name.startswith("thinconsumer_testing")
            and id(record) not in self._other_lines
        ]

    def in_order_since(self, moment):
        """Whether all partitions are owned, read and committed, and the subject has read records written since."""
        subject = self.subject
        owned = subject.listener.owned
        wall = self.wall_time() - (self.now() - moment)
        return (
            owned
            and self._have_all()
            and owned == subject.consumer.assignment()
            and all(subject.last_at.get(tp, 0) >= wall for tp in owned)
            and any(at >= moment and error is None for at, error in subject.told)
        )

    def finish(self):
        """Check that each written record is read at least once, by either member."""
        self.stop_writing = True

        def all_read():
            return set(self.written) <= {value for member in self.members() for value in member.values}

        assert self.run(all_read, 30.0), "records were lost"

    def close(self):
        self.heal()
        self.stop_writing = self.other_is_gone = True
        for member in self.members():
            if member.consumer is not None:
                member.consumer.close(timeout_ms=1000)


@pytest.fixture
def busiest_second():
    """Return a function that returns the largest number of given moments within one second."""
    return lambda moments: max((sum(begin <= at < begin + 1.0 for at in moments) for begin in moments), default=0)


@pytest.fixture
def make_world(caplog, closed_at_end):
    return lambda **options: closed_at_end(World(caplog, **options))
