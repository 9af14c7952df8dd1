"""Each callback of ``commit_async`` is called exactly once, whatever ends its commit; lost commits are logged."""

import contextlib
import itertools
import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import thinconsumer
from thinconsumer import Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from thinconsumer.testing import MemoryCluster, Simulation

TPS = [TopicPartition("t", number) for number in range(2)]
HERE = str(Path(thinconsumer.__file__).parent) + os.sep


class Ended(Exception):
    """Raised by a callback."""


@contextlib.contextmanager
def interrupted(at):
    """Raise KeyboardInterrupt at the entry of a function of the package, the ``at``-th that is entered; never for 0."""
    entered, before = 0, sys.gettrace()

    def trace(frame, event, arg):
        nonlocal entered
        name = frame.f_code.co_filename
        if name.startswith(HERE) and frame.f_code.co_name not in ("__del__", "<genexpr>"):
            entered += 1
            if entered == at:
                raise KeyboardInterrupt

    if at:
        sys.settrace(trace)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


class Commits:
    def __init__(self):
        self.sim = Simulation(seed=1, brokers=1, topics={"t": 2})
        options = {"group_id": "g", "session_timeout_ms": 6000, "default_api_timeout_ms": 8000}
        options["enable_auto_commit"] = False
        self.consumer = Consumer("t", driver=self.sim.driver(), bootstrap_servers=self.sim.bootstrap_servers, **options)
        while not self.consumer.assignment():
            self.consumer.poll(100)
        self.is_up = True
        self.called = {}  #: How often, by number of the call.
        self.certain = set()  #: The calls that returned.

    def commit(self, *, raises=False):
        number = len(self.called)
        self.called[number] = 0

        def callback(offsets, error):
            self.called[number] += 1
            if raises:
                raise Ended

        self.consumer.commit_async({TPS[number % 2]: number}, callback)
        self.certain.add(number)

    def act(self, what):
        """Do one thing; errors of the consumer are as good as answers."""
        with contextlib.suppress(KafkaError, Ended):
            if what in ("commit", "commit and raise"):
                self.commit(raises=what != "commit")
            elif what in ("poll", "unsubscribe", "drive"):
                getattr(self.consumer, what)(*([200] if what == "poll" else []))
            elif what == "subscribe":
                self.consumer.subscribe(["t"])
            elif what == "be away":
                self.sim.run_for(7)
            elif what == "kill" and self.is_up:
                self.sim.kill(1)
                self.is_up = False
            elif what == "start" and not self.is_up:
                self.sim.start(1)
                self.is_up = True


ACTS = ["commit", "commit", "commit and raise", "poll", "drive", "unsubscribe", "subscribe", "be away", "kill", "start"]


@pytest.mark.once
@settings(max_examples=100)
@given(
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from([0, 0, 0, 5, 20, 60, 200])), max_size=12),
    timeout_ms=st.sampled_from([0, 100, 7000]),
    at=st.one_of(st.just(0), st.integers(1, 400)),
)
@example(acts=[("commit", 0), ("kill", 0), ("be away", 0)], timeout_ms=100, at=74).via("inside a step of close()")
def test_each_callback_is_called_exactly_once(acts, timeout_ms, at):
    """After success, failure, lost membership, unsubscribe(), close() that runs out of time, and Ctrl-C anywhere."""
    commits = Commits()
    for what, interrupt in acts:
        with interrupted(interrupt):
            commits.act(what)
    with interrupted(at), contextlib.suppress(Ended, KafkaError):
        commits.consumer.close(timeout_ms=timeout_ms)
    if not commits.consumer._shell.closed:  # Ctrl-C came before close() had begun
        with contextlib.suppress(Ended, KafkaError):
            commits.consumer.close(timeout_ms=timeout_ms)
    assert all(commits.called[number] == 1 for number in commits.certain), (commits.called, commits.certain)
    assert all(count <= 1 for count in commits.called.values())


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_closing_without_a_coordinator_warns_of_the_offsets_that_were_not_committed(how, lines):
    sim = Simulation(seed=1, brokers=1, topics={"t": 2})
    sim.produce("t", 0, [b"a", b"b", b"c"])
    options = {"group_id": "g", "auto_offset_reset": "earliest", "bootstrap_servers": sim.bootstrap_servers}
    consumer = Consumer("t", driver=sim.driver(), **options)
    while not consumer.poll(1000):
        pass
    consumer.commit_async({TPS[1]: 7})
    getattr(sim, how)(1)
    consumer.close(timeout_ms=3000)
    warnings = [line for line in lines(30) if line.startswith("offsets not committed")]
    assert any("t-0 at 3" in line for line in warnings)
    assert any("t-1 at 7" in line for line in warnings)


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_a_callback_that_raises_keeps_neither_the_others_nor_the_leaving_from_happening(how):
    commits = Commits()
    for raises in (True, False, True):
        commits.commit(raises=raises)
    with pytest.raises(Ended):
        getattr(commits.consumer, how)()
    assert commits.called == {0: 1, 1: 1, 2: 1}
    assert commits.consumer._reader.managers.group.member.state.value in ("leaving", "unsubscribed")
    commits.consumer.close()


@pytest.fixture
def paused(closed_at_end):
    """A consumer that has paused its partition, of which the log has a record since, and no Fetch in flight."""
    cluster = MemoryCluster(1, {"t": 1})
    options = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = Consumer("t", driver=cluster.driver(), bootstrap_servers=cluster.bootstrap_servers, **options)
    closed_at_end(consumer)
    while not consumer.assignment():
        consumer.poll(100)
    consumer.pause(TPS[0])
    consumer.poll(2000)
    cluster.produce("t", [b"x"])
    return consumer, cluster.clock


def test_a_partition_that_a_commit_callback_resumes_is_fetched_at_once(paused):
    consumer, clock = paused
    began = clock.now()
    consumer.commit_async({TPS[0]: OffsetAndMetadata(0)}, lambda *result: consumer.resume(TPS[0]))
    assert list(consumer.poll(20_000)) == [TPS[0]]
    assert clock.now() - began < 0.1


def test_ctrl_c_at_the_end_of_resume_does_not_let_the_fetch_wait(paused):
    consumer, clock = paused
    for at in itertools.count(1):
        consumer.pause(TPS[0])
        consumer.poll(0)
        with interrupted(at):
            consumer.resume(TPS[0])
        if not consumer._partitions.require(TPS[0]).paused:  # a public call would make a step due
            break
    began = clock.now()
    assert list(consumer.poll(20_000)) == [TPS[0]]
    assert clock.now() - began < 0.1
