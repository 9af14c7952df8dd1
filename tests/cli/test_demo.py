"""The demo: every order is read once although a broker is killed, and errors are reported."""

import re
import signal
import time

import pytest

from thinconsumer_testing.cli.demo import Demo, report
from thinconsumer_testing.cli.order_audit import OrderAudit, PartitionAudit

pytestmark = pytest.mark.once


def test_every_order_is_read_once_despite_a_crash(commands):
    code, out, err = commands.run("demo", "--seconds", 1, "--rate", 4_000)
    assert (code, err) == (0, ""), out
    written = re.search(
        r"([\d,]+) orders written, ([\d,]+) read: none missing, none twice, each partition in order", out
    )
    assert written
    assert written[1] == written[2]
    assert int(written[1].replace(",", "")) > 100
    assert re.search(r"\* broker \d is killed; it led partitions \d and \d\n", out)
    assert re.search(r"\* partitions \d and \d continue with new leaders after \d\.\d\d s\n", out)
    assert re.search(r"the crash: partitions \d and \d paused for \d\.\d\d s", out)
    assert len(re.findall(r"^ +\d   +[\d,]+   +[\d,]+   +\d+\.\d\d s$", out, re.MULTILINE)) == 6
    assert "revenue: DE " in out


def test_ctrl_c_ends_the_demo_and_its_brokers(commands):
    child = commands.start("demo")
    assert child.stdout.readline().startswith("3 brokers in one process")
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = child.communicate(timeout=50)  # waits for the brokers too, which share standard error
    assert (child.returncode, err) == (130, "")
    assert time.monotonic() - started < 5


def test_a_crash_without_affected_orders_is_reported(commands):
    """No order goes to a partition of the killed broker."""
    code, out, err = commands.run("demo", "--seconds", 0.1, "--rate", 1)
    assert (code, err) == (0, "")
    assert re.search(r"the crash: no order was written to partitions \d and \d after it\n", out)


def test_the_report_names_missing_orders():
    demo = Demo.__new__(Demo)
    demo.audit, demo.seconds, demo.paused, demo.orphans = OrderAudit(), 2.0, 1.25, (0, 3)
    demo.audit._seen.extend(b"\1\1\0")
    demo.audit.read = 2
    demo.audit.partitions = {0: PartitionAudit(1, 1, longest_pause=1.25), 1: PartitionAudit(1, 1, longest_pause=0.5)}
    lines = report(demo, 0.5)
    assert "3 orders written, 2 read: 1 missing" in lines
    assert any("partitions 0 and 3 paused for 1.25 s" in line for line in lines)
    assert any("dead replica: up to 0.50 s" in line for line in lines)
