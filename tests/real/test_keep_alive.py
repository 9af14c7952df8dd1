"""Members stay in their groups while a block of ``keep_alive`` computes and sleeps for many sessions."""

import logging
import os
import random
import time
from contextlib import ExitStack

import pytest

from thinconsumer import Consumer

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="no interval timer there"),
    pytest.mark.filterwarnings("ignore:max_poll_interval_ms=.* is above"),
]

#: The session of the brokers for the consumer protocol is as long.
CLASSIC = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000}


def compute(seconds):
    """Sort lists in pure Python, until the time is over; return how often."""
    end, draw, rounds = time.monotonic() + seconds, random.Random(1), 0
    while time.monotonic() < end:
        numbers = [draw.random() for _ in range(2000)]
        for i in range(1, 200):
            while i and numbers[i - 1] > numbers[i]:
                numbers[i - 1], numbers[i] = numbers[i], numbers[i - 1]
                i -= 1
        rounds += 1
    return rounds


@pytest.mark.soak(60)
@pytest.mark.timeout(400)
def test_no_rebalance_in_blocks_that_compute_and_sleep(
    request, secured_kafka, new_topic, soak_seconds, caplog, record_property
):
    """Classic and consumer protocol, each with a plaintext and a TLS listener: four consumers, and one block."""
    seconds = soak_seconds if request.config.getoption("--soak") else 8.0
    caplog.set_level(logging.INFO, "thinconsumer")
    topic = new_topic(secured_kafka, 2)
    with ExitStack() as stack:
        members = []
        for listener in ("PLAINTEXT", "TLS"):
            plain = {"bootstrap_servers": secured_kafka.bootstrap}
            reached = secured_kafka.client_options("TLS") if listener == "TLS" else plain
            for protocol, options in (("classic", CLASSIC), ("consumer", {"group_protocol": "consumer"})):
                member = Consumer(
                    topic, group_id=f"{topic}-{listener}-{protocol}", auto_offset_reset="earliest", **options, **reached
                )
                members.append(stack.enter_context(member))
        while not all(len(member.assignment()) == 2 for member in members):
            for member in members:
                member.poll(100)
        before = [member.group_metadata() for member in members]
        caplog.clear()
        for work in (compute, time.sleep):
            heartbeats = [member.metrics()["consumer-coordinator-metrics"]["heartbeat-total"] for member in members]
            spent = time.process_time()
            with ExitStack() as blocks:
                for member in members:
                    blocks.enter_context(member.keep_alive())
                work(seconds)
            record_property(f"{work.__name__} for {seconds} s, CPU", time.process_time() - spent)
            for member, count in zip(members, heartbeats, strict=True):
                member.poll(0)
                made = member.metrics()["consumer-coordinator-metrics"]["heartbeat-total"] - count
                assert made >= seconds / 3, (work, member)
        assert [member.group_metadata() for member in members] == before
        text = [record.getMessage() for record in caplog.records]
        assert not any("rebalanc" in line or "between polls" in line for line in text), text
