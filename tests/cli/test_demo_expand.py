"""The demo with --expand: partitions are doubled and halved, and each customer's orders stay in order."""

import re

import pytest

from thinconsumer_testing.cli.customer_audit import CustomerAudit
from thinconsumer_testing.cli.demo_expand import report

pytestmark = pytest.mark.once


def test_orders_stay_in_order_while_partitions_are_added_and_deleted(commands):
    code, out, err = commands.run("demo", "--expand", "--seconds", 1.2, "--rate", 2_000)
    assert (code, err) == (0, ""), out
    assert re.search(r"\d s  \* 4 partitions become 8: ", out)
    assert re.search(r"\d s  \* 8 partitions become 4 again: ", out)
    assert re.search(r"\d s  \* no longer held: [4-7]", out)
    written = re.search(r"([\d,]+) orders of \d+ customers, 4 -> 8 -> 4 partitions; both groups have read all", out)
    assert written and int(written[1].replace(",", "")) > 100
    assert re.search(r"^  with ordered delivery +0 orders$", out, re.MULTILINE)
    # The groups read only some of the orders while they are written, and so have unread ones at each change.
    late = re.search(r"^  without +([\d,]+) orders of \d+ customers$", out, re.MULTILINE)
    assert late and int(late[1].replace(",", "")) > 0
    assert re.search(r"^orders of customer \d+ as they were read", out, re.MULTILINE)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 110
    pictures = re.findall(r"^  0 +[█░]+ +(?:waits for [\d,]+ +)?[█░]+(?: +[\d,]+ late)?$", out, re.MULTILINE)
    assert len(pictures) == 3


def test_the_report_without_a_late_order_has_no_example():
    demo = type("Demo", (), {})()
    demo.counts, demo.customers = [4, 8, 4], {b"a"}
    demo.shop = type("Shop", (), {"sent": 1})
    demo.ordered = demo.unordered = type("Group", (), {"audit": CustomerAudit()})
    lines = report(demo)
    assert lines[-1].split() == ["without", "0", "orders"]
