"""Connections that may have been dropped by a load balancer while the program made no call."""

import pytest

#: The shortest timeouts that a pause of some seconds exceeds.
SHORT = {"request_timeout_ms": 1000, "connections_max_idle_ms": 2000, "fetch_max_wait_ms": 500}


@pytest.mark.parametrize("late", [0.0, 0.4])
@pytest.mark.parametrize("calls", [(), ("pause", "resume")], ids=["nothing", "pause and resume"])
def test_an_answer_that_is_read_after_a_pause_does_not_count_as_use_at_that_time(reading, read, late, calls):
    """The records of the answer are returned, and the next Fetch is sent over a new connection.

    Calls before that poll make a manager step, but read no response.
    """
    w, consumer = reading(1, **SHORT)
    read(consumer, 1)
    consumer.poll(100)  # the next Fetch waits at the broker
    w.clock.advance(late)
    w.append(1)
    dials = len(w.network.dials)
    w.clock.advance(5.0)
    for call in calls:
        getattr(consumer, call)()
    assert read(consumer, 1) == {0: [1]}
    w.append(1)
    elapsed, found = w.elapsed(lambda: read(consumer, 1))
    assert found == {0: [2]}
    assert elapsed < 0.1
    assert len(w.network.dials) == dials + 1


def test_a_program_that_calls_drive_every_second_keeps_its_connections(reading, read):
    w, consumer = reading(1, **SHORT)
    read(consumer, 1)
    dials = len(w.network.dials)
    for _ in range(60):
        consumer.drive()
        w.clock.advance(1.0)
    assert len(w.network.dials) == dials
