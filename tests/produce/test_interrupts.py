"""Ctrl-C anywhere inside the producer: records are still written once and in order, and every future is settled.

Python handles signals when a function begins and after a call. A profile function counts both in this package's code
and raises KeyboardInterrupt at one of them.
"""

import os
import sys

import pytest

import thinconsumer
from thinconsumer.broker import Disconnect
from thinconsumer.wire.error_codes import Code

PACKAGE = os.path.dirname(thinconsumer.__file__)
SOURCES = tuple(os.path.join(PACKAGE, room) + os.sep for room in ("produce", "engine"))
#: Interrupt at every n-th place; 1 tries each.
STRIDE = int(os.environ.get("THINCONSUMER_TEST_INTERRUPT_STRIDE", "211"))


class Interrupter:
    """Raises KeyboardInterrupt at one place, by number."""

    def __init__(self, place):
        self.place = place
        self.passed = 0

    def __enter__(self):
        sys.setprofile(self._look)
        return self

    def __exit__(self, *about):
        sys.setprofile(None)

    def _look(self, frame, event, arg):
        if event in ("call", "c_return", "return") and frame.f_code.co_filename.startswith(SOURCES):
            self.passed += 1
            if self.passed == self.place:
                sys.setprofile(None)
                raise KeyboardInterrupt


def story(world, place):
    """Send, split a batch, lose an answer, move a leader, flush.

    Return the world, the producer, values and futures, whether it was interrupted, and how many places there were.
    """
    w, producer = world.start(batch_size=300, buffer_memory=2000, nodes=2, topics={"t": 2})
    w.refuse_produce(Code.MESSAGE_TOO_LARGE)
    lose = Disconnect(after=True, reset=True)
    w.cluster.on("Produce", lose, times=1, where=lambda call: len(w.requests()) >= 3)
    sent = []
    interrupted = False

    def steps():
        for number in range(40):
            value = b"%d" % number
            yield lambda v=value, p=number % 2: sent.append((v, producer.send("t", v, partition=p)))
            if number == 20:
                yield lambda: w.cluster.move_leader(("t", 0), 2)
            if number % 3 == 0:
                yield lambda: producer.poll(2)
        yield producer.flush

    with Interrupter(place) as interrupter:
        for step in steps():
            try:
                step()
            except KeyboardInterrupt:
                interrupted = True
    producer.flush()
    return w, producer, sent, interrupted, interrupter.passed


def check(w, producer, sent):
    """Compare the logs with the futures, and check that the producer still works."""
    for partition in range(2):
        tp = ("t", partition)
        values = w.values(*tp)
        assert values == sorted(set(values), key=int), f"{tp}: {values}"
        good = [(value, future.result()) for value, future in sent if future.error is None]
        wanted = [value for value, found in good if found.partition == partition]
        assert [value for value in values if value in wanted] == wanted
    assert all(future.done for _, future in sent)
    # A batch that may have been appended is not split.
    assert {getattr(future.error, "code", 0) for _, future in sent} <= {0, Code.MESSAGE_TOO_LARGE}
    assert producer.idle
    assert producer._accumulator.buffered_bytes == 0
    late = producer.send("t", b"99", partition=0)
    producer.flush()
    assert late.result().offset == len(w.values()) - 1


def test_ctrl_c_anywhere_loses_and_duplicates_no_record(world):
    w, producer, sent, interrupted, places = story(world, place=0)
    assert not interrupted
    assert len(sent) == 40
    assert all(future.error is None for _, future in sent)
    check(w, producer, sent)
    assert places > 1000
    for place in range(1, places, STRIDE):
        w, producer, sent, interrupted, _ = story(world, place)
        assert interrupted
        assert len(sent) >= 39
        try:
            check(w, producer, sent)
        except BaseException:
            print(f"interrupted at place {place}")
            raise


@pytest.mark.parametrize("place", [50, 400, 900])
def test_close_after_ctrl_c_settles_every_future(world, place):
    """Also if the interrupted call has left the producer inconsistent."""
    w, producer = world.start(topics={"t": 1})
    futures = []
    with Interrupter(place):
        try:
            for number in range(1000):
                futures.append(producer.send("t", b"%d" % number))
                producer.poll(1)
        except KeyboardInterrupt:
            pass
    producer.close()
    assert all(future.done for future in futures)
    acknowledged = [b"%d" % number for number, future in enumerate(futures) if future.error is None]
    assert w.values()[: len(acknowledged)] == acknowledged


def moving_story(world, place):
    """Send with keys while the partition count of an ordered topic changes (KIP-253) and a response is lost.

    Return the world, values and futures, whether it was interrupted, and how many places there were.
    """
    w = world(2, {})
    w.cluster.create_topic("t", 2, 2, {"enable.ordered.delivery": "true"})
    producer = w.producer(batch_size=300, buffer_memory=3000)
    lose = Disconnect(after=True, reset=True)
    w.cluster.on("Produce", lose, times=1, where=lambda call: len(w.requests()) >= 4)
    sent = []
    interrupted = False

    def steps():
        for number in range(40):
            value = b"%d" % number
            yield lambda v=value, k=b"%d" % (number % 7): sent.append((v, producer.send("t", v, key=k)))
            if number in (10, 20, 30):
                yield lambda count={10: 5, 20: 3, 30: 2}[number]: w.cluster.expand("t", count)
            if number % 3 == 0:
                yield lambda: producer.poll(2)
        yield producer.flush

    with Interrupter(place) as interrupter:
        for step in steps():
            try:
                step()
            except KeyboardInterrupt:
                interrupted = True
    producer.flush()
    return w, sent, interrupted, interrupter.passed


def check_moved(w, sent):
    """Every record is in the log once, with its key in order, and its future knows where."""
    found = {}
    for partition in range(len(w.cluster.controller.image.topics["t"].partitions)):
        last = {}
        for record in w.cluster.records("t", partition):
            value = int(record.value)
            assert value not in found
            assert last.get(record.key, -1) < value
            found[value] = partition, record.offset
            last[record.key] = value
    for value, future in sent:
        result = future.result()
        assert found[int(value)] == (result.partition, result.offset)


def test_ctrl_c_while_records_move_to_other_partitions_loses_and_duplicates_none(world):
    w, sent, interrupted, places = moving_story(world, place=0)
    assert not interrupted
    assert len(sent) == 40
    check_moved(w, sent)
    for place in range(1, places, 2 * STRIDE):
        w, sent, interrupted, _ = moving_story(world, place)
        assert interrupted
        assert len(sent) >= 39
        try:
            check_moved(w, sent)
        except BaseException:
            print(f"interrupted at place {place}")
            raise
