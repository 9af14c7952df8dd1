"""The jury gets each call of a consumer with its result afterwards, and only the error if it raised."""

import gc
import warnings
from types import SimpleNamespace

import pytest

from thinconsumer.errors import IllegalStateError, KafkaTimeoutError
from thinconsumer.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from thinconsumer_testing.clock import VirtualClock
from thinconsumer_testing.simulation import Simulation
from thinconsumer_testing.simulation.checkers.base import EVENTS, SimReader
from thinconsumer_testing.simulation.observed import ObservedConsumer, SimConsumer
from thinconsumer_testing.simulation.trace import Trace

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Says:
    """A fake consumer: records calls between the jury's events, and returns or raises a given result."""

    def __init__(self, heard):
        self.heard = heard
        self.answer = None
        self._reader = SimpleNamespace(managers=SimpleNamespace(buffer=SimpleNamespace(pinned=77)))

    def __getattr__(self, name):
        def call(*args):
            self.heard.append((f"called {name}", *args))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


class Watch:
    """An observed consumer, and all calls and events in order."""

    def __init__(self):
        self.heard = []
        self.raw = Says(self.heard)
        self.trace = Trace(VirtualClock())
        self.reader = SimReader("ann", max_poll_records=9)
        self.consumer = ObservedConsumer(self.reader, self.raw, self, self.trace)

    def tell(self, event, *what):
        assert event in EVENTS
        self.heard.append((event, *what))

    def does(self, name, *args, answer=None):
        """Call a method; return its result and the calls and events meanwhile."""
        self.raw.answer = answer
        del self.heard[:]
        return getattr(self.consumer, name)(*args), self.heard


@pytest.fixture
def watch():
    """A watched consumer."""
    return Watch()


def record(offset):
    return ConsumerRecord("t", 0, 0, offset, -1, 0, None, b"v")


@pytest.mark.parametrize(
    ("name", "args", "called", "told", "line"),
    [
        ("assign", ([TP, OTHER],), ([TP, OTHER],), ("assigned", [TP, OTHER]), "t-0 t-1"),
        ("seek", (TP, 5), (TP, 5), ("sought", TP, 5, -1), "t-0 to 5"),
        (
            "seek",
            (TP, OffsetAndMetadata(5, "", 2)),
            (TP, OffsetAndMetadata(5, "", 2)),
            ("sought", TP, 5, 2),
            "t-0 to 5",
        ),
        ("seek_to_beginning", (TP,), (TP,), ("reset", TP, False), "t-0"),
        ("seek_to_end", (TP,), (TP,), ("reset", TP, True), "t-0"),
        ("pause", (TP, OTHER), (TP, OTHER), ("paused", (TP, OTHER), True), "t-0 t-1"),
        ("resume", (TP,), (TP,), ("paused", (TP,), False), "t-0"),
    ],
)
def test_calls_are_forwarded_reported_and_traced(watch, name, args, called, told, line):
    event, *what = told
    assert watch.does(name, *args)[1] == [(f"called {name}", *called), (event, watch.reader, *what)]
    assert str(watch.trace.lines[-1]).endswith(f" {line}")


def test_returned_position_is_reported(watch):
    offset, heard = watch.does("position", TP, 100, answer=42)
    assert offset == 42
    assert heard == [("called position", TP, 100), ("positioned", watch.reader, TP, 42)]


@pytest.mark.parametrize(("args", "limit"), [((100,), 9), ((100, 4), 4), ((100, None), 9)])
def test_records_are_reported_with_their_limit_and_the_buffered_bytes(watch, args, limit):
    found = {TP: [record(3), record(4)]}
    records, heard = watch.does("poll", *args, answer=found)
    assert records == found
    assert heard[1:] == [("delivered", watch.reader, found, limit), ("polled", watch.reader, 77)]
    assert str(watch.trace.lines[-1]).endswith("t-0: 2 from offset 3")


@pytest.mark.parametrize(("name", "args"), [("poll", (0,)), ("position", (TP,)), ("end_offsets", ([TP],))])
def test_error_is_reported_and_raised(watch, name, args):
    error = KafkaTimeoutError("too late")
    with pytest.raises(KafkaTimeoutError):
        watch.does(name, *args, answer=error)
    assert watch.heard[1:] == [("raised", watch.reader, error)]
    assert str(watch.trace.lines[-1]).endswith(f"{name}: KafkaTimeoutError: too late")


@pytest.mark.parametrize(
    ("name", "args"),
    [("assign", ([TP],)), ("seek", (TP, 1)), ("seek_to_beginning", (TP,)), ("seek_to_end", (TP,)), ("pause", (TP,)),
     ("resume", (TP,))],
)  # fmt: skip
def test_failed_call_is_not_reported_as_done(watch, name, args):
    with pytest.raises(IllegalStateError):
        watch.does(name, *args, answer=IllegalStateError("no"))
    assert [event for event, *_ in watch.heard] == [f"called {name}"]


def test_crashed_consumer_warns_of_nothing():
    """A consumer that is collected without a close warns."""
    sim = Simulation(topics={"t": 1})
    sim.produce("t", 0, [b"a"])
    options = {"bootstrap_servers": sim.bootstrap_servers, "auto_offset_reset": "earliest"}
    consumer = SimConsumer(driver=sim.driver("ann"), **options)
    consumer.assign([TP])
    assert [one.value for one in consumer.poll(5000)[TP]] == [b"a"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert caught == []
