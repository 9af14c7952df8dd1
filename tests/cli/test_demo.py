"""The demo: every order read once although a broker died, and a verdict of its own when not."""

from __future__ import annotations

import re
import signal
import time

from thinconsumer.cli.demo import Show, report
from thinconsumer.cli.tally import Lane, Tally


def test_it_shows_a_crash_and_that_every_order_was_read_once(commands):
    """In a short form; it is a program that somebody sees first of all, so what it says counts."""
    started = time.monotonic()
    code, out, err = commands.run("demo", "--seconds", 1, "--rate", 4_000)
    took = time.monotonic() - started
    assert (code, err) == (0, ""), out
    written = re.search(
        r"([\d,]+) orders written, ([\d,]+) read: none missing, none twice, each partition in order", out
    )
    assert written
    assert written[1] == written[2]
    assert int(written[1].replace(",", "")) > 100
    assert re.search(r"\* broker \d dies, as with kill -9; it led partitions \d and \d\n", out)
    assert re.search(r"\* partitions \d and \d are read again, from new leaders, after \d\.\d\d s\n", out)
    assert re.search(r"the crash: partitions \d and \d paused for \d\.\d\d s", out)
    assert len(re.findall(r"^ +\d   +[\d,]+   +[\d,]+   +\d+\.\d\d s$", out, re.MULTILINE)) == 6
    assert "revenue: DE " in out
    assert took < 25


def test_ctrl_c_ends_it_and_its_brokers(commands):
    child = commands.start("demo")
    assert child.stdout.readline().startswith("3 brokers in one process")
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = child.communicate(timeout=50)  # which waits for the brokers too: they have the same standard error
    assert (child.returncode, err) == (130, "")
    assert time.monotonic() - started < 5


def test_a_crash_that_nobody_could_notice_is_said_too(commands):
    """Of so few orders none goes where the dead broker led."""
    code, out, err = commands.run("demo", "--seconds", 0.1, "--rate", 1)
    assert (code, err) == (0, "")
    assert re.search(r"the crash: nobody ordered what goes to partitions \d and \d any more\n", out)


def test_the_report_says_what_is_wrong():
    show = Show.__new__(Show)
    show.tally, show.seconds, show.paused, show.orphans = Tally(), 2.0, 1.25, (0, 3)
    show.tally._seen.extend(b"\1\1\0")
    show.tally.read = 2
    show.tally.lanes = {0: Lane(1, 1, longest_wait=1.25), 1: Lane(1, 1, longest_wait=0.5)}
    lines = report(show, 0.5)
    assert "3 orders written, 2 read: 1 missing" in lines
    assert any("partitions 0 and 3 paused for 1.25 s" in line for line in lines)
    assert any("dead replica: 0.50 s at most" in line for line in lines)
