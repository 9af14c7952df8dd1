"""A program that reads a topic in a group and writes a trace, while Ctrl-C strikes it at random moments.

Run as ``python traced.py OPTIONS TOPIC SEED``, the options in JSON. Prints READY; ends when it reads a line.
"""

import json
import random
import signal
import sys
import threading
from types import FrameType

from thinconsumer import Consumer
from thinconsumer.errors import KafkaError


class Blow:
    """Interrupts a call of the consumer; what this program does otherwise is its own affair."""

    def __init__(self) -> None:
        self.may_strike = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.may_strike and frame is not None and frame.f_globals.get("__name__") not in ("_weakrefset", "weakref"):
            self.may_strike = False
            raise KeyboardInterrupt


class Listener:
    def __init__(self, consumer: Consumer, draws: random.Random) -> None:
        self.consumer, self.draws = consumer, draws

    def on_partitions_assigned(self, assigned: set) -> None:
        pass

    def on_partitions_revoked(self, revoked: set) -> None:
        if self.draws.random() < 0.5:
            self.consumer.commit(timeout_ms=500)


def main() -> None:
    options, topic, seed = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    draws, blow, is_over = random.Random(seed), Blow(), threading.Event()
    signal.signal(signal.SIGINT, blow)
    threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()
    consumer = Consumer(**options)
    consumer.subscribe([topic], listener=Listener(consumer, draws))
    print("READY", flush=True)
    while not is_over.is_set():
        call = draws.choice(
            [lambda: consumer.poll(100, draws.choice([1, 50, 500]))] * 8
            + [lambda: consumer.commit_async(), lambda: consumer.commit(timeout_ms=300), lambda: consumer.lag()]
            # Before the first Fetch an iteration has no timeout, and a killed member may hold up the group for long.
            + [lambda: consumer.assignment() and [record for record, _ in zip(consumer, range(5))]]
            + [lambda: consumer.health()]
        )
        blow.may_strike = True
        try:
            call()
        except (KafkaError, KeyboardInterrupt):
            pass
        blow.may_strike = False
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        consumer.close(timeout_ms=5000)
    except KafkaError:
        pass
    print("DONE", flush=True)


main()
