"""Traces of simulated clients, among brokers and connections that fail, replay to the same requests."""

import os
import random
import sys
from collections import Counter
from contextlib import contextmanager

import thinconsumer
from tests.replay.elsewhere import line_of, lines_elsewhere
from thinconsumer import TopicPartition
from thinconsumer.errors import KafkaError
from thinconsumer.replay import RecordingConsumer, read_trace, replay
from thinconsumer_testing.simulation import Simulation

CLIENT = os.path.dirname(thinconsumer.__file__) + os.sep


class Program:
    """A program with one consumer, or two in a group, that calls them at random."""

    def __init__(self, seed, path):
        self.draws = draws = random.Random(seed)
        self.sim = Simulation(seed=seed, brokers=3, topics={"orders": 4})
        faults = self.sim.network.faults
        faults.reset_rate, faults.refuse_rate = 0.01 * draws.random(), 0.1 * draws.random()
        faults.split_rate, faults.dns_failure_rate = 0.3 * draws.random(), 0.1 * draws.random()
        faults.jitter_s = 0.01 * draws.random()
        kind = draws.choice(["reader", "range", "cooperative-sticky", "consumer"])
        self.interrupt_rate = draws.choice([0.0, 0.05])
        options = {
            "trace_bytes_max": draws.choice([40_000, 1 << 28]),
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 1000,
            "max_poll_records": draws.choice([1, 7, 500]),
        }
        if kind != "reader":
            options |= {"group_id": "readers", "enable_auto_commit": draws.random() < 0.5}
            options |= (
                {"group_protocol": "consumer"} if kind == "consumer" else {"partition_assignment_strategy": [kind]}
            )
        self.is_group = kind != "reader"
        self.paths = [f"{path}/{number}" for number in range(1 + self.is_group)]
        self.consumers = [self.consumer(path, options) for path in self.paths]
        self.down = None

    def consumer(self, path, options):
        servers = self.sim.bootstrap_servers
        consumer = RecordingConsumer(trace=path, driver=self.sim.driver(), bootstrap_servers=servers, **options)
        if self.is_group:
            consumer.subscribe(["orders"], listener=Listener(consumer, self.draws))
        else:
            consumer.assign([TopicPartition("orders", number) for number in range(4)])
        return consumer

    def run(self, turns):
        for _ in range(turns):
            self.change()
            for consumer in self.consumers:
                self.call(consumer)
        for consumer in self.consumers:
            try:
                consumer.close(timeout_ms=2000)
            except KafkaError:
                pass

    def change(self):
        for _ in range(self.draws.randrange(3)):
            values = [b"x" * self.draws.randrange(200) for _ in range(self.draws.randrange(1, 20))]
            try:
                self.sim.produce("orders", self.draws.randrange(4), values)
            except LookupError:
                pass  # the partition has no leader
        if self.draws.random() < 0.08:
            if self.down is None:
                self.down = self.draws.randrange(1, 4)
                self.sim.kill(self.down)
            else:
                self.sim.start(self.down)
                self.down = None

    def call(self, consumer):
        draws, assigned = self.draws, sorted(consumer.assignment())
        calls = [lambda: consumer.poll(draws.choice([0, 5, 100, 1000]))] * 12
        calls += [
            lambda: (consumer.lag(), consumer.health(), consumer.metrics()),
            lambda: consumer.topics(timeout_ms=200),
        ]
        if assigned:
            calls += [
                lambda: [record for record, _ in zip(consumer, range(3))],
                lambda: consumer.seek(draws.choice(assigned), draws.randrange(10)),
                lambda: consumer.position(draws.choice(assigned), timeout_ms=500),
            ]
        if self.is_group:
            calls += [
                lambda: consumer.commit(timeout_ms=300),
                lambda: consumer.commit_async(callback=lambda *found: None),
            ]
        lines = draws.randrange(1, 400) if draws.random() < self.interrupt_rate else 0
        try:
            with interrupted_after(lines):
                draws.choice(calls)()
        except (KafkaError, KeyboardInterrupt):
            pass


@contextmanager
def interrupted_after(lines):
    """Raise KeyboardInterrupt after so many lines of the client; 0: never."""
    left = lines

    def enter(frame, event, what):
        path = frame.f_code.co_filename
        return step if CLIENT in path and f"{CLIENT}replay" not in path else None

    def step(frame, event, what):
        nonlocal left
        if event == "line":
            left -= 1
            if left <= 0 and not in_broker(frame):
                sys.settrace(None)
                raise KeyboardInterrupt
        return step

    before = sys.gettrace()
    if lines:
        sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def in_broker(frame):
    while frame is not None and "thinconsumer_testing" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


class Listener:
    def __init__(self, consumer, draws):
        self.consumer, self.draws = consumer, draws

    def on_partitions_assigned(self, assigned):
        pass

    def on_partitions_revoked(self, revoked):
        if self.draws.random() < 0.5:
            self.consumer.commit()


def blocks(soak):
    """Return ranges of seeds: a few of them, and 300 more in the soak."""
    return [range(first, first + 50) for first in range(0, 300, 50)] if soak else [range(50, 52)]


def pytest_generate_tests(metafunc):
    metafunc.parametrize("seeds", blocks(metafunc.config.getoption("--soak")), ids=lambda seeds: f"{seeds.start}")


def test_traces_replay_here_and_in_processes_of_other_hash_seeds(seeds, tmp_path, monkeypatch):
    """Also those that lost their beginning, as they were full, and those of calls that Ctrl-C has cut off."""
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 100)
    requests, lines, paths, kinds = 0, [], [], Counter()
    for seed in seeds:
        (tmp_path / str(seed)).mkdir()
        program = Program(seed, tmp_path / str(seed))
        program.run(60)
        for path in program.paths:
            there = replay(path)
            assert there.divergence is None, f"seed {seed}: {there.divergence}"
            events = [event for event, _ in read_trace(path)]
            assert there.events == len(events)
            kinds.update(event[0] for event in events if isinstance(event, list))
            assert there.requests == sum(isinstance(event, list) and event[0] == "request" for event in events)
            requests += there.requests
            lines.append(line_of(there))
            paths.append(path)
    for hash_seed in "1", "2":
        assert lines_elsewhere(paths, hash_seed) == lines
    assert requests > 20 * len(seeds)
    assert kinds["cut"] >= len(seeds) // 4
    assert kinds["checkpoint"] > kinds["cut"] // 2
