"""Programs that process a topic for ``workers_peers.py``, each in a process of its own, until they are killed.

``python workers_programs.py LIBRARY SERVERS TOPIC GROUP ORDER CONCURRENCY HANDLER EVERY DIARY``. A program writes how
many records are done after each EVERY of them, and the place of each record into DIARY, unless that is empty.
``WorkersProgram.java`` is the same for parallel-consumer. Handlers: "wait" for 10 ms; "compute" for 1 ms of CPU time;
"stick" waits, for a minute with records whose key is "stuck".
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

WAIT_S, STUCK_S, CPU_S = 0.01, 60.0, 0.001
STUCK = b"stuck"


def compute(record: Any) -> None:
    until = time.thread_time() + CPU_S
    while time.thread_time() < until:
        pass


class Progress:
    """Writes how many records are done, and which."""

    def __init__(self, every: str, diary: str) -> None:
        self._done, self._every, self._next = 0, int(every), int(every)
        self._diary = Path(diary).open("ab", buffering=0) if diary else None  # noqa: SIM115 - until the end

    def note(self, partition: int, offset: int) -> None:
        if self._diary is not None:
            self._diary.write(b"%d %d\n" % (partition, offset))
        self.count(self._done + 1)

    def count(self, done: int) -> None:
        self._done = done
        if done >= self._next:
            print(done, flush=True)
            self._next = (done // self._every + 1) * self._every


def thinconsumer(
    servers: str, topic: str, group: str, order: Any, concurrency: str, handler: str, every: str, diary: str
) -> None:
    from thinconsumer.workers import WorkerSettings

    options: dict[str, Any] = {
        "bootstrap_servers": servers, "group_id": group, "group_instance_id": "one", "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }  # fmt: skip
    pool: Any = "processes" if handler == "compute" else "tasks"
    settings = WorkerSettings(order=order, concurrency=int(concurrency), commit_interval_ms=1_000, pool=pool)
    progress = Progress(every, diary)
    if handler == "compute":
        _in_processes(topic, options, settings, progress)
    else:
        asyncio.run(_in_tasks(topic, options, settings, progress, STUCK_S if handler == "stick" else WAIT_S))


def _in_processes(topic: str, options: dict[str, Any], settings: Any, progress: Progress) -> None:
    from thinconsumer import Consumer
    from thinconsumer.workers import Workers

    with Consumer(topic, **options) as consumer, Workers(consumer, compute, settings) as workers:
        while True:
            workers.wait(workers.step())
            progress.count(workers._work.finished_count)


async def _in_tasks(topic: str, options: dict[str, Any], settings: Any, progress: Progress, stuck_s: float) -> None:
    from thinconsumer.aio import AsyncConsumer
    from thinconsumer.workers import AsyncWorkers

    async def wait(record: Any) -> None:
        await asyncio.sleep(stuck_s if record.key == STUCK else WAIT_S)
        progress.note(record.partition, record.offset)

    async with AsyncConsumer(topic, **options) as consumer, AsyncWorkers(consumer, wait, settings) as workers:
        await workers.run()


def prosody(
    servers: str, topic: str, group: str, order: str, concurrency: str, handler: str, every: str, diary: str
) -> None:
    """Use prosody-events, whose Cassandra PROSODY_CASSANDRA_NODES names. Its order is by key."""
    from prosody import EventHandler, ProsodyClient

    progress = Progress(every, diary)
    stuck_s = STUCK_S if handler == "stick" else WAIT_S

    class Handler(EventHandler):  # type: ignore[misc]
        async def on_message(self, context: Any, message: Any) -> None:
            if handler == "compute":
                compute(message)
            else:
                await asyncio.sleep(stuck_s if message.key == "stuck" else WAIT_S)
            progress.note(message.partition, message.offset)

        async def on_excise(self, context: Any, message: Any) -> None:
            pass

        async def on_timer(self, context: Any, timer: Any) -> None:
            pass

    async def run() -> None:
        client = await ProsodyClient.create(
            bootstrap_servers=servers, group_id=group, source_system="benchmark", subscribed_topics=topic,
            max_concurrency=int(concurrency), max_uncommitted=4 * int(concurrency), commit_interval=1.0, timeout=90.0,
            telemetry_enabled=False, probe_port=None, peer_bind_address="127.0.0.1:0",
        )  # fmt: skip
        await client.subscribe(Handler())
        await asyncio.Event().wait()

    asyncio.run(run())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
