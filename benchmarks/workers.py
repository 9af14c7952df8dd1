"""How fast workers are beside what the machine can do: ``python benchmarks/workers.py``.

* **processes**: handlers that compute for 1 ms of CPU time, in eight processes, in order by key and in no order, beside
  **bare** processes, one for each core, that do nothing else.
* **tasks**: 1,000 coroutines that each wait 10 ms, in order by key and in no order.
* **inline**: handlers that do nothing, in order by key and in no order: what the dispatcher itself costs.

Each run is a fresh process, in turns, and the medians of the rounds count. Fails if a bar is not held: processes reach
0.9 of the bare ones, tasks 25,000 records per second, and order by key takes at most 15 % off the rate without order.
The five rounds take about six minutes on an idle machine with two cores; the broker runs on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from clusters import broker, child, say, unique, verdict
from topics import TOPICS, write

TOPIC = next(topic for topic in TOPICS if topic.name == "json16")
CPU_S, WAIT_S = 0.001, 0.01
PROCESSES, TASKS = 8, 1_000
ENOUGH_PROCESSES, ENOUGH_TASKS, ENOUGH_ORDERED = 0.9, 25_000, 0.85
#: By name of a run: the share of all records that it processes.
RUNS = {
    "bare": 0.05, "processes key": 0.05, "processes none": 0.05,
    "tasks key": 0.9, "tasks none": 0.9, "inline key": 0.9, "inline none": 0.9,
}  # fmt: skip


def main() -> int:
    """Run the rounds, print the table, and return 1 if a bar is not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster; without it a broker is started")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=lambda text: text.split(","), default=list(RUNS))
    parser.add_argument("--tree", help="a checkout whose thinconsumer is measured instead of this one")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.runs}
    with broker(arguments.bootstrap) as cluster:
        topic = cluster.create_topic(unique("workers"), TOPIC.partitions, 1, {"compression.type": "producer"})
        write(cluster.bootstrap, TOPIC, topic, arguments.records)
        for number in range(arguments.rounds):
            for name in arguments.runs:
                count = round(arguments.records * RUNS[name])
                place = (cluster.bootstrap, topic, f"{topic}-{number}-{name.replace(' ', '-')}", count)
                result = child(Path(__file__), "run", *name.split(), *place, tree=arguments.tree)
                found[name].append(result)
                say(f"round {number + 1}, {name}: {result['per_second']:,.0f} records/s, CPU {result['cpu_us']:.0f} us")
        cluster.delete_topic(topic)
    print("| run | records/s, median (least to most) | CPU us per record, without worker processes |\n|---|---|---|")
    for name, results in found.items():
        rates, cpu = ([each[what] for each in results] for what in ("per_second", "cpu_us"))
        print(f"| {name} | {median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {median(cpu):.0f} |")
    print()
    medians = {name: median(each["per_second"] for each in results) for name, results in found.items()}
    return 0 if all(_verdicts(medians)) else 1


def _verdicts(rates: dict[str, float]) -> list[bool]:
    held = []
    if {"bare", "processes key"} <= rates.keys():
        share = rates["processes key"] / rates["bare"]
        held.append(verdict(share >= ENOUGH_PROCESSES, f"processes reach {share:.2f} (at least {ENOUGH_PROCESSES})"))
    if (rate := rates.get("tasks key")) is not None:
        held.append(verdict(rate >= ENOUGH_TASKS, f"tasks: {rate:,.0f} records/s (at least {ENOUGH_TASKS:,})"))
    for pool in ("processes", "tasks", "inline"):
        if {f"{pool} key", f"{pool} none"} <= rates.keys():
            share = rates[f"{pool} key"] / rates[f"{pool} none"]
            words = f"{pool}, order by key: {share:.2f} of the rate without order (at least {ENOUGH_ORDERED})"
            held.append(verdict(share >= ENOUGH_ORDERED, words))
    return held


# -- the runs, each in a process of its own


class Meter:
    """Counts records from the first one on, which has the rebalance and the start of processes before it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.began = self.cpu = 0.0

    def add(self, records: int) -> bool:
        """Return whether all are done."""
        if not self.began:
            self.began, self.cpu = time.perf_counter(), time.process_time()
            self.count += records
        self.done += records
        return self.done >= self.count

    def result(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.began
        return {"per_second": self.done / seconds, "cpu_us": 1e6 * (time.process_time() - self.cpu) / self.done}


def compute(record: Any) -> None:
    """Compute for 1 ms."""
    until = time.thread_time() + CPU_S
    while time.thread_time() < until:
        pass


def _compute_all(count: int) -> None:
    for _ in range(count):
        compute(None)


def bare(bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    """Compute in one process for each core, without Kafka."""
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_compute_all, args=(count // cores,)) for _ in range(cores)]
    meter = Meter(count)
    meter.add(0)
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    meter.done = count // cores * cores
    return meter.result()


def _options(bootstrap: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap, "group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest",
    }  # fmt: skip


def _work(handler: Any, bootstrap: str, topic: str, group: str, count: int, **settings: Any) -> dict[str, float]:
    from thinconsumer import Consumer
    from thinconsumer.workers import Workers, WorkerSettings

    meter = Meter(count)
    with (
        Consumer(topic, **_options(bootstrap, group)) as consumer,
        Workers(consumer, handler, WorkerSettings(drain_timeout_ms=0, **settings)) as workers,
    ):
        before = 0
        while True:
            workers.wait(workers.step())
            now = workers._work.finished_count
            if now > before and meter.add(now - before):
                return meter.result()
            before = now


def processes(order: Any, bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    return _work(compute, bootstrap, topic, group, count, order=order, pool="processes", concurrency=PROCESSES)


def inline(order: Any, bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    return _work(lambda record: None, bootstrap, topic, group, count, order=order)


def tasks(order: Any, bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    from thinconsumer.aio import AsyncConsumer
    from thinconsumer.workers import AsyncWorkers, WorkerSettings

    meter = Meter(count)
    results = []

    async def handle(record: Any) -> None:
        await asyncio.sleep(WAIT_S)
        if meter.add(1) and not results:
            results.append(meter.result())
            workers.stop()

    async def run() -> None:
        nonlocal workers
        async with AsyncConsumer(topic, **_options(bootstrap, group)) as consumer:
            settings = WorkerSettings(order=order, concurrency=TASKS, pool="tasks", drain_timeout_ms=0)
            async with AsyncWorkers(consumer, handle, settings) as workers:
                await workers.run()

    workers: Any = None
    asyncio.run(run())
    return results[0]


def run() -> None:
    """``python workers.py run RUN [ORDER] BOOTSTRAP TOPIC GROUP RECORDS``."""
    name, *words, count = sys.argv[2:]
    print(json.dumps(globals()[name](*words, int(count))), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run()
    else:
        sys.exit(main())
