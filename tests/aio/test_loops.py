"""Alarms of the event loops that a consumer may run in."""

import socket
import time

import anyio

from thinconsumer.aio.loops import running_loop


def test_the_earliest_alarm_rings_also_if_it_was_due_at_once(run):
    """uvloop's timer for a time within half a millisecond lacks the methods of other timers."""

    async def main():
        rung = anyio.Event()
        loop = running_loop(rung.set)
        one, other = socket.socketpair()
        with one, other:
            loop.watch(one.fileno())
            began = time.monotonic()
            try:
                for seconds in (20, 0, 0.0001, 10):
                    loop.alarm(seconds)
                await rung.wait()
            finally:
                loop.unwatch()
            await loop.ended()
        assert time.monotonic() < began + 5

    run(main)
