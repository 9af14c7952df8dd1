"""Alarms of the event loops that a consumer may run in."""

import socket
import time

import anyio
import pytest

from thinconsumer.aio.loops import running_loop


@pytest.mark.parametrize("alarms", [(20, 0), (20, 0, 0.0001), (0, 0.1), (0.0001, 10, 0.1)])
def test_the_last_alarm_rings_in_place_of_those_before(run, alarms):
    """Also if that is due at once: uvloop's timer for a time within half a millisecond lacks the methods of others."""

    async def main():
        rung = anyio.Event()
        loop = running_loop(rung.set)
        one, other = socket.socketpair()
        with one, other:
            loop.watch(one.fileno())
            began = time.monotonic()
            try:
                for seconds in alarms:
                    loop.alarm(seconds)
                await rung.wait()
            finally:
                loop.unwatch()
            await loop.ended()
        assert began + alarms[-1] - 0.001 <= time.monotonic() < began + 5

    run(main)
