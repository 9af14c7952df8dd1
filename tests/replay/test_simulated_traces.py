"""Traces of simulated clients, among brokers and connections that fail, replay to the same requests."""

import random
import subprocess
import sys

from thinconsumer import TopicPartition
from thinconsumer.errors import KafkaError
from thinconsumer.replay import RecordingConsumer, read_trace, replay
from thinconsumer_testing.simulation import Simulation

AGAIN = "import sys; from thinconsumer.replay import replay; [print(replay(p).requests) for p in sys.argv[1:]]"


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
        options = {
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
        consumer = RecordingConsumer(path, driver=self.sim.driver(), bootstrap_servers=servers, **options)
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
        try:
            draws.choice(calls)()
        except KafkaError:
            pass


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
    return [range(first, first + 50) for first in range(0, 300, 50)] if soak else [range(4)]


def pytest_generate_tests(metafunc):
    metafunc.parametrize("seeds", blocks(metafunc.config.getoption("--soak")), ids=lambda seeds: f"{seeds.start}")


def test_traces_replay_here_and_in_processes_of_other_hash_seeds(seeds, tmp_path):
    counts, paths = [], []
    for seed in seeds:
        (tmp_path / str(seed)).mkdir()
        program = Program(seed, tmp_path / str(seed))
        program.run(60)
        for path in program.paths:
            there = replay(path)
            assert there.divergence is None, f"seed {seed}: {there.divergence}"
            assert there.events == len(read_trace(path))
            counts.append(str(there.requests))
            paths.append(path)
    for hash_seed in "1", "2":
        done = subprocess.run(
            [sys.executable, "-c", AGAIN, *paths], env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == counts
    assert sum(map(int, counts)) > 20 * len(seeds)
