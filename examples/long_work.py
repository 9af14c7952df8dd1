"""A member of a group whose records take longer than its session: ``keep_alive`` lets it stay in the group.

    python examples/long_work.py [BOOTSTRAP_SERVERS TOPIC [SECONDS]]

Without arguments it starts an embedded broker and writes two records. For each record it computes for SECONDS (default:
5), in pure Python and on one thread, while the session is 3 s.
"""

from __future__ import annotations

import contextlib
import sys
import time

from thinconsumer import Consumer
from thinconsumer.broker import BrokerProcess

#: Seconds from the start of the program until it ends without records.
PATIENCE = 30


def count_primes(seconds: float) -> int:
    """Compute for some seconds, and call nothing of Kafka."""
    end, found, number = time.monotonic() + seconds, 0, 2
    while time.monotonic() < end:
        found += all(number % divisor for divisor in range(2, int(number**0.5) + 1))
        number += 1
    return found


def main(servers: str, topic: str, seconds: float) -> None:
    with Consumer(
        topic, bootstrap_servers=servers, group_id="long-work", auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=3000, heartbeat_interval_ms=1000, consumer_timeout_ms=PATIENCE * 1000,
    ) as consumer:  # fmt: skip
        for record in consumer:
            began, before = time.monotonic(), consumer.group_metadata().generation_id
            with consumer.keep_alive():
                found = count_primes(seconds)
            consumer.commit(record)
            same = "the same generation" if consumer.group_metadata().generation_id == before else "another generation"
            print(f"{record.value!r}: {found} primes in {time.monotonic() - began:.1f} s, {same}", flush=True)
            if record.value == b"last":
                return


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        given = sys.argv[1:3]
        if not given:
            broker = stack.enter_context(BrokerProcess(topics={"tasks": 1}))
            broker.produce("tasks", [b"first", b"last"])
            given = [broker.bootstrap_servers, "tasks"]
        main(*given, float(sys.argv[3]) if sys.argv[3:] else 5.0)
