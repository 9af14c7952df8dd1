"""Ctrl-C anywhere inside the client: every request still gets its one answer, and the next one works.

Python raises KeyboardInterrupt where the interpreter looks for signals: when a function begins, after a call, and when
a loop goes round. A trace function counts those places in our code and raises at one of them.
"""

from __future__ import annotations

import dis
import inspect
import os
import random
import sys
from collections import Counter

import pytest

import thinconsumer
from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import ANY_NODE, Request, Target
from thinconsumer.network_client import NetworkClient
from thinconsumer.testing import MemoryCluster
from thinconsumer.types import Node
from thinconsumer.wire.metadata import MetadataRequest

LOOKS_FOR_SIGNALS = {
    "CALL", "CALL_FUNCTION", "CALL_FUNCTION_EX", "CALL_FUNCTION_KW", "CALL_KW", "CALL_METHOD",
    "JUMP_ABSOLUTE", "JUMP_BACKWARD", "RESUME",
}  # fmt: skip
pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="3.12 and later trace the opcodes of a frame only now and then: no place is the same twice",
)
PACKAGE = os.path.dirname(thinconsumer.__file__)
OURS = (os.path.join(PACKAGE, "connection") + os.sep, os.path.join(PACKAGE, "network_client.py"))
#: Of all places, one in so many; 1 tries each, which takes a minute or two.
STRIDE = int(os.environ.get("THINCONSUMER_TEST_INTERRUPT_STRIDE", "97"))


class Interrupter:
    """Raises KeyboardInterrupt at one place, by number, counted over everything run within."""

    def __init__(self, place=0):
        self.place = place
        self.passed = 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *about):
        sys.settrace(self._before)

    def _call(self, frame, event, arg):
        # Not in generators: one that is closed by being forgotten swallows what is raised in it.
        if not frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        last = None

        def local(frame, event, arg):
            nonlocal last
            if event == "opcode":
                before, last = last, dis.opname[frame.f_code.co_code[frame.f_lasti]]
                if before in LOOKS_FOR_SIGNALS:
                    self._pass()
            return local

        self._pass()
        return local

    def _pass(self):
        self.passed += 1
        if self.passed == self.place:
            raise KeyboardInterrupt


class Story:
    """Bootstrap, learn the nodes, ask them, lose one, ask again. The part that is interrupted is given up."""

    def __init__(self):
        self.cluster = MemoryCluster(2)
        self.driver = self.cluster.driver()
        config = ConsumerConfig.from_options(bootstrap_servers=self.cluster.bootstrap_servers)
        self.client = NetworkClient(config, random.Random(1))
        self.requests = []
        self.answers = []

    def turn(self, deadline):
        self.driver.step(self.client, min(deadline, self.client.wake_at()))
        self.client.step(self.driver.now())
        self.answers += self.client.take_answers()

    def run(self, seconds):
        deadline = self.driver.now() + seconds
        while self.driver.now() < deadline:
            self.turn(deadline)

    def send(self, target):
        request = Request("test", MetadataRequest, target, lambda v: MetadataRequest(), self.driver.now() + 30.0)
        try:
            self.client.send(request, self.driver.now())
        finally:
            answered = any(answer.request is request for answer in self.client._shared.answers)
            if answered or request in self.client._shared.unanswered:
                self.requests.append(request)  # the client has it; an interruption before that raises in send()

    def know(self):
        self.client.update_nodes([Node(n, f"kafka{n}", 9092) for n in (1, 2)])

    def lose(self):
        self.cluster.network.reset("kafka1", 9092)

    def tell(self):
        """Everything, each part on its own, as one poll after the other."""
        yield lambda: self.send(ANY_NODE)
        yield lambda: self.run(0.01)
        yield self.know
        yield lambda: self.send(Target(1))
        yield lambda: self.send(Target(2, "coordinator"))
        yield lambda: self.run(0.01)
        yield self.lose
        yield lambda: self.send(Target(1))
        yield lambda: self.run(0.2)
        yield lambda: self.client.rebootstrap(self.driver.now())
        yield lambda: self.send(ANY_NODE)
        yield lambda: self.run(0.01)

    def go(self, place=0):
        interrupts = 0
        with Interrupter(place) as interrupter:
            for part in self.tell():
                try:
                    part()
                except KeyboardInterrupt:
                    interrupts += 1
        assert interrupts == (place > 0)
        return interrupter.passed

    def check(self):
        self.know()
        self.run(35.0)
        last = [Target(1), Target(2), ANY_NODE]
        for target in last:
            self.send(target)
        self.run(35.0)
        counts = Counter(self.requests.index(answer.request) for answer in self.answers)
        assert counts == Counter(range(len(self.requests)))
        works = [a.response is not None for a in self.answers if a.request in self.requests[-len(last) :]]
        assert works == [True] * len(last)
        open_streams = [s for s in self.driver.streams if not s.has_ended]
        assert len(open_streams) == len(self.driver.streams), "a connection without an owner is left open"


PLACES = Story().go()


def test_the_scenario_works_without_an_interruption():
    story = Story()
    assert story.go() == PLACES > 1000
    story.check()
    assert all(answer.error is None for answer in story.answers)


def test_pain_J1_interrupted_anywhere_every_request_gets_one_answer_and_the_next_one_works():
    for place in range(1, PLACES + 1, STRIDE):
        story = Story()
        story.go(place)
        try:
            story.check()
        except BaseException as error:
            raise AssertionError(f"interrupted at place {place} of {PLACES}") from error
