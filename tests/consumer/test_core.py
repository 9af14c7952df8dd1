"""The shell between the public calls and the engine: whatever interrupts a call has delivered nothing and lost nothing.

Python raises KeyboardInterrupt between two bytecodes, but not between any two: only where the interpreter looks for
signals, which is when a function begins, after a call, and when a loop goes round. A trace function finds all those
places in our own code and raises there, so that none of them is left to luck.
"""

import dis
import heapq
import importlib
import importlib.util
import inspect
import os
import random
import sys

import pytest

import thinconsumer
from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import Edit
from thinconsumer.engine import Engine
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.testing import Network

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

#: Instructions after which CPython (3.10 to 3.14) may raise what a signal handler raised.
LOOKS_FOR_SIGNALS = {
    "CALL", "CALL_FUNCTION", "CALL_FUNCTION_EX", "CALL_FUNCTION_KW", "CALL_KW", "CALL_METHOD",
    "JUMP_ABSOLUTE", "JUMP_BACKWARD", "RESUME",
}  # fmt: skip
OURS = os.path.dirname(thinconsumer.__file__) + os.sep
#: Scenery: a network in memory, which no signal can interrupt in a real life.
SCENERY = OURS + "testing" + os.sep


class Interrupter:
    """Raises KeyboardInterrupt at the traced lines with the given numbers."""

    def __init__(self, *places):
        self.places = set(places)
        self.passed = 0
        self.raised = 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *about):
        sys.settrace(self._before)

    def _call(self, frame, event, arg):
        name = frame.f_code.co_filename
        # ``__iter__`` is that of records which poll has returned: with them an interrupt is the application's.
        if not name.startswith(OURS) or name.startswith(SCENERY) or frame.f_code.co_name in ("__del__", "__iter__"):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        last = None

        def local(frame, event, arg):
            nonlocal last
            if event == "opcode":
                here = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                before, last = last, here
                if before in LOOKS_FOR_SIGNALS:
                    self._place()
            return local

        # A generator that is closed is "called", too, and what is raised there goes nowhere; RESUME tells the others.
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:
            self._place()
        return local

    def _place(self):
        self.passed += 1
        if self.passed in self.places:
            self.raised += 1
            raise KeyboardInterrupt


class PatientNetwork(Network):
    """Loses nothing when a callback raises: the rest of what is due happens in the next step."""

    def run_due(self):
        now, any_due = self.clock.now(), False
        last = self._events and max((event[1] for event in self._events if event[0] <= now), default=-1)
        while self._events and self._events[0][0] <= now and self._events[0][1] <= last:
            any_due = True
            heapq.heappop(self._events)[2]()
        return any_due


def fill(w):
    """Three batches of records, one of them with holes, and between them what yields none."""
    w.append(4)
    w.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=7))
    w.cluster.append_batch(T0, build_batch([NewRecord(b"x"), NewRecord(b"x", offset=2)], last_offset_delta=3))
    w.cluster.append_batch(T0, build_marker(ControlType.ABORT, producer_id=8))
    w.append(3)
    return [0, 1, 2, 3, 5, 7, 10, 11, 12]


def by_polling(consumer):
    return [r.offset for r in consumer.poll(1000, max_records=3).get(T0, ())]


def by_iterating(consumer):
    return [next(consumer).offset]


def by_reading_to_end(consumer):
    return [next(consumer.read_to_end()).offset]


def by_batches(consumer):
    found = consumer.poll_batches(1000, max_bytes=40)
    return found[T0].offsets.tolist() if found else []


def by_polling_many(consumer):
    consumer._reader.managers.collector.chunk_decoder.together_min = 1
    return by_polling(consumer)


WAYS = {"poll": by_polling, "iteration": by_iterating, "read_to_end": by_reading_to_end}
if importlib.util.find_spec("numpy"):  # optional; and an import that was interrupted is not to be had again
    importlib.import_module("thinconsumer.records.columnar.decode")
    WAYS["poll_batches"] = by_batches
    WAYS["poll, decoded together"] = by_polling_many


def connected(make, **options):
    w = make(network=PatientNetwork())
    expected = fill(w)
    consumer = w.consumer(**options)
    assert consumer.position(T0) == 0
    consumer.drive()
    return w, consumer, expected


#: Out of how many places each way tries one. Every one of them was tried, too; that takes minutes.
STRIDE = {"poll": 89, "iteration": 97, "read_to_end": 307, "poll_batches": 131, "poll, decoded together": 97}
TRACEABLE = pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="3.12 and later trace the opcodes of a frame only now and then: no place is the same twice",
)


@TRACEABLE
@pytest.mark.parametrize("way", WAYS)
def test_interrupted_anywhere_nothing_is_lost_or_delivered_twice(world, way):
    """Ctrl-C at one of many places of three calls in turn: those that returned have every record once, in order."""
    read = WAYS[way]

    def run(*places):
        w, consumer, expected = connected(world)
        found = []
        with Interrupter(*places) as interrupter:
            for _ in range(3):
                try:
                    found += read(consumer)
                except KeyboardInterrupt:
                    pass
        before = w.clock.now()
        while len(found) < len(expected):
            found += read(consumer)
        assert found == expected, f"interrupted at {places}"
        assert w.clock.now() - before < 6, "lost is nothing, but something is waited for"
        assert consumer.poll(100) == {}
        assert consumer.position(T0) == 13
        return interrupter

    run()  # compiles codecs, which later runs do not
    places = run().passed
    assert places > 1000
    for place in range(1, places + 1, STRIDE[way]):
        assert run(place).raised


@pytest.mark.timeout(240)  # a minute on a machine that is busy with others
@pytest.mark.parametrize("seed", range(3))
def test_interrupted_again_and_again_everything_still_arrives(world, seed):
    """From the first connection on, at random, in all ways of reading mixed: once each, in order, positions right."""
    rng = random.Random(seed)
    w = world(network=PatientNetwork())
    expected = fill(w)
    consumer = w.consumer()
    found, interrupted = [], 0
    while len(found) < len(expected):
        way = rng.choice(list(WAYS))
        # Further each time: a call that runs more lines than that would never end.
        with Interrupter(rng.randrange(1, 3000 + 100 * interrupted)):
            try:
                found += WAYS[way](consumer)
            except KeyboardInterrupt:
                interrupted += 1
        if len(found) == 4 and rng.random() < 0.5:
            assert consumer.position(T0) in (4, 5)
    assert found == expected
    assert interrupted
    assert consumer.position(T0) == 13


@pytest.mark.parametrize("seed", range(2))
def test_interrupted_while_partitions_of_whole_topics_come_and_go_everything_arrives(world, seed):
    """Ctrl-C may strike while partitions are assigned, or continue where they were before metadata lacked them."""
    rng = random.Random(seed)
    w = world(topics={"t": 1}, network=PatientNetwork())
    options = {"bootstrap_servers": w.cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    consumer = Consumer(driver=w.cluster.driver(), metadata_max_age_ms=100, **options)
    w.consumers.append(consumer)
    found, written, interrupted = [], [], 0

    def hide(call, response):
        response.topics = []

    while len(written) < 20 or len(found) < len(written):
        if len(written) < 20 and len(found) == len(written):
            count = len(written) // 4 + 1
            if count > len(w.cluster.controller.image.topics["t"].partitions):
                w.cluster.expand("t", count)
            number = rng.randrange(count)
            written.append(f"{number}:{w.append(1, number)}")
            w.cluster.on("Metadata", Edit(hide), times=rng.choice([1, 2]))
        with Interrupter(rng.randrange(1, 3000 + 100 * interrupted)):
            try:
                if not consumer.subscription():
                    consumer.subscribe(pattern="t.*")
                for records in consumer.poll(300).values():
                    found += [bytes(record.value).decode() for record in records]
            except KeyboardInterrupt:
                interrupted += 1
        assert found == written[: len(found)]
    assert interrupted


def test_interrupted_wait_costs_nothing(reading, offsets):
    """Ctrl-C while a poll only waits, which is when it nearly always comes: the connections and the buffer stay."""
    w, consumer = reading(5)
    assert offsets(consumer.poll(1000, max_records=2)) == {0: [0, 1]}
    consumer.pause(T0)
    consumer.poll(700)
    driver, dials = consumer._shell.driver, len(w.network.dials)
    fetches = len(w.fetches())

    class Waiting:
        """A driver whose selector was interrupted."""

        waiting = True

        def __getattr__(self, name):
            return getattr(driver, name)

        def step(self, endpoint, deadline):
            raise KeyboardInterrupt

    consumer._shell.driver = Waiting()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(1000)
    consumer._shell.driver = driver
    consumer.resume(T0)
    assert offsets(consumer.poll(0)) == {0: [2, 3, 4]}
    assert (len(w.network.dials), len(w.fetches()) - fetches) == (dials, 0)


def test_what_a_broken_step_leaves_behind_is_given_up(world, offsets, monkeypatch):
    """Any exception out of a step, not only Ctrl-C: the next call starts over from the positions, settings kept."""
    w = world(topics={"t": 2})
    w.append(4, 0)
    w.append(4, 1)
    consumer = w.consumer(("t", 0), ("t", 1))
    while sum(consumer.position(tp) for tp in (T0, T1)) < 6:
        consumer.poll(1000, max_records=1)
    consumer.pause(T0)
    step = Engine.step_touched

    def broken(*about):
        step(*about)
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "step_touched", broken)
    with pytest.raises(ZeroDivisionError):
        consumer.poll(1000)
    positions = [consumer.position(tp) for tp in (T0, T1)]
    assert sum(positions) == 6
    assert consumer.paused() == {T0}
    found = offsets(consumer.poll(1000))
    assert found.get(1, []) == list(range(positions[1], 4))
    consumer.resume(T0)
    assert consumer._shell.step_interrupted is False


def test_after_an_interruption_an_event_loop_is_told_to_call_at_once_also_after_a_call_without_io(world, monkeypatch):
    """The next call recovers, and drops all requests in flight: only a step sends them again."""
    consumer = world(topics={"t": 1}).consumer()
    consumer.poll(100)
    monkeypatch.setattr(Engine, "step", lambda *about: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        consumer.drive()
    monkeypatch.undo()
    consumer.assignment()
    assert not consumer._shell.step_interrupted
    assert consumer.wake_at() <= consumer._shell.driver.now()


def test_close_after_an_interruption_closes(world):
    w = world(network=PatientNetwork())
    w.append(3)
    consumer = w.consumer()

    def poll_for_ever():
        while True:
            consumer.poll(100)

    with Interrupter(2500), pytest.raises(KeyboardInterrupt):
        poll_for_ever()
    consumer.close()
    assert w.network.connections == []
