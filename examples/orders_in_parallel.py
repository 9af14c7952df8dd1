"""Process orders in parallel, in order by customer, and commit only what is finished.

    python examples/orders_in_parallel.py localhost:9092 orders

Keys of records are customers. Eight orders are processed at a time, never two of one customer. An order that fails five
times is written to the topic ORDERS-dead, which has to exist. On Ctrl-C or SIGTERM the program finishes what runs,
commits and leaves. Kill it, and start it again: an order that a commit has named as finished is not processed again.
"""

from __future__ import annotations

import logging
import signal
import sys
import time

from thinconsumer import Consumer, ConsumerRecord
from thinconsumer.workers import Workers, WorkerSettings, dead_letter, exponential


def process(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """Replace this by your work. After a crash it may get an order a second time, so make it idempotent."""
    time.sleep(0.01)  # a request to another service
    if not record.value:
        raise ValueError("an order without items")
    line = f"{record.partition} {record.offset} {(record.key or b'').decode()} {record.value.decode()}\n"
    print(line, end="", flush=True)  # in one piece, as other threads print, too


def main(servers: str, topic: str) -> None:
    """Run until a signal arrives."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    settings = WorkerSettings(
        order="key",
        pool="threads",  # "processes" for work that computes; with AsyncConsumer, "tasks" is the only one
        concurrency=8,
        attempts=5,
        backoff=exponential(first_s=0.1, longest_s=10),
        on_failure=dead_letter(f"{topic}-dead"),
    )
    with (
        Consumer(
            topic,
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # the workers commit
        ) as consumer,
        Workers(consumer, process, settings) as workers,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: workers.stop())
        workers.run()


if __name__ == "__main__":
    main(*sys.argv[1:3])
