"""The parts of the pipeline example besides Spark: orders, sums and the picture."""

import ast
import importlib
import itertools
import json
import signal
import sys
import time
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer.testing import MemoryCluster

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[1] / "examples" / "pipeline"


@pytest.fixture
def part(monkeypatch):
    """Import one file of the example as it does itself, by its plain name; and forget it afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


@pytest.fixture
def orders(part):
    return part("orders")


@pytest.fixture
def totals(part):
    return part("totals")


@pytest.fixture
def picture(part):
    return part("picture")


def constants(name: str) -> dict[str, object]:
    tree = ast.parse((FOLDER / name).read_text())
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            targets, values = (
                (target.elts, node.value.elts) if isinstance(target, ast.Tuple) else ([target], [node.value])
            )
            for one, value in zip(targets, values):
                if isinstance(value, ast.Constant):
                    found[one.id] = value.value
    return found


# -- orders


def some(orders, count=2000, seed=1, rate=100):
    return list(itertools.islice(orders.orders(seed, rate), count))


def test_orders_are_the_same_for_the_same_seed(orders):
    assert some(orders) == some(orders)
    assert some(orders) != some(orders, seed=2)


def test_orders_come_in_time_or_a_little_late(orders):
    late = [order for order in some(orders) if order.at < orders.OPENS + timedelta(seconds=order.number / 100 - 0.001)]
    assert 0 < len(late) < 200
    for order in late:
        assert order.at > orders.OPENS + timedelta(seconds=order.number / 100 - orders.LATE_S - 0.001)


def test_no_order_is_later_than_the_job_waits_for_it(orders):
    seconds, unit = str(constants("job.py")["LATE"]).split()
    assert unit == "seconds"
    assert int(seconds) > orders.LATE_S


def test_conductor_and_job_have_the_same_windows():
    assert constants("job.py")["WINDOW"] == f"{constants('__main__.py')['WINDOW_S']} seconds"


def test_closing_order_closes_every_window_and_is_worth_nothing(orders):
    last, closing = some(orders)[-1], orders.closing(2000, 100)
    waits_s = int(str(constants("job.py")["LATE"]).split()[0]) + int(str(constants("job.py")["WINDOW"]).split()[0])
    assert closing.at > last.at + timedelta(seconds=waits_s)
    assert (closing.number, closing.cents) == (2000, 0)


def test_line_has_what_is_ordered_and_not_what_it_is_worth(orders):
    order = some(orders, 1)[0]
    line = json.loads(order.line())
    assert line["key"] == "0"
    value = json.loads(line["value"])
    assert set(value) == {"number", "product", "quantity", "at"}
    assert datetime.fromisoformat(value["at"]) == order.at


def test_last_lines_of_the_table_are_what_is_sold(orders):
    table = {}
    for line in map(json.loads, orders.product_lines()):
        table[line["key"]] = line["value"] and json.loads(line["value"])
    sold = {name: value for name, value in table.items() if value is not None}
    assert sold == {name: {"category": category, "cents": cents} for name, category, cents in orders.GOODS}
    assert len(table) == len(sold) + 1  # one is not sold any more
    lines = list(orders.product_lines())
    assert len(lines) > 2 * len(sold)  # and all had another price once


# -- products


@pytest.fixture
def catalogue(part, closed_at_end):
    """Return a cluster in memory with a topic of one partition, and the job's table of it."""
    cluster = MemoryCluster(1, {"products": 1})
    options = {"driver": cluster.driver(), "bootstrap_servers": cluster.bootstrap_servers}
    return cluster, closed_at_end(part("products").Products("products", **options))


def price(cluster, product, cents, written, partition=0):
    value = None if cents is None else json.dumps({"category": "tea", "cents": cents}).encode()
    cluster.produce("products", [NewRecord(value, product.encode(), timestamp=written)], partition)


def test_last_price_is_by_time_and_not_by_offset(catalogue):
    """After an expansion the later price of a product may have a lower offset, in another partition."""
    cluster, table = catalogue
    for cents in (1, 2, 3, 100):
        price(cluster, "green tea", cents, 1000 + cents)
    assert table.refresh().find("green tea", 2000) == ("tea", 100)
    cluster.expand("products", 2)
    price(cluster, "green tea", 120, 1500, partition=1)
    assert table.refresh().find("green tea", 2000) == ("tea", 120)


def test_prices_of_one_time_are_in_the_order_of_their_offsets(catalogue):
    cluster, table = catalogue
    for cents in (30, 20, 10):
        price(cluster, "green tea", cents, 1000)
    assert table.refresh().find("green tea", 1000) == ("tea", 10)


def test_order_gets_the_price_of_its_time_whenever_it_is_priced(catalogue):
    """A new product is found by orders that come after it, and never by those before, in a repeated batch either."""
    cluster, table = catalogue
    price(cluster, "green tea", 100, 1000)
    before = [table.refresh().find(name, 1999) for name in ("green tea", "white tea")]
    assert before == [("tea", 100), (None, None)]
    price(cluster, "green tea", 110, 2000)
    price(cluster, "white tea", 300, 2000)
    table.refresh()
    assert [table.find(name, 1999) for name in ("green tea", "white tea")] == before
    assert [table.find(name, 2000) for name in ("green tea", "white tea")] == [("tea", 110), ("tea", 300)]


@pytest.mark.parametrize("value", [None, b"{", b"[]", b"{}", b"\xff", b'{"category": "tea", "cents": "many"}', b"7"])
def test_product_that_was_deleted_or_is_malformed_has_no_price(catalogue, value):
    cluster, table = catalogue
    price(cluster, "green tea", 100, 1000)
    cluster.produce("products", [NewRecord(value, b"green tea", timestamp=2000), NewRecord(b"x", timestamp=2000)])
    table.refresh()
    assert [table.find("green tea", at) for at in (999, 1000, 2000)] == [(None, None), ("tea", 100), (None, None)]
    assert table.find(None, 2000) == (None, None)


# -- sums


def test_sums_by_category_and_by_window(orders, totals):
    found = some(orders)
    sums = totals.by_category(found)
    assert sum(total.orders for total in sums.values()) == 2000
    assert sum(total.cents for total in sums.values()) == sum(order.cents for order in found)
    windows = totals.by_window(found, 5)
    assert sum(total.cents for total in windows.values()) == sum(order.cents for order in found)
    assert {start.second % 5 for start, _ in windows} == {0}
    start, category = orders.OPENS + timedelta(seconds=5), "tea"
    inside = [o for o in found if o.category == category and start <= o.at < start + timedelta(seconds=5)]
    assert windows[start, category] == (len(inside), sum(order.cents for order in inside))


def test_last_total_counts_repeated_or_not(totals):
    published = totals.Published()
    for batch, count in ((1, 10), (2, 25), (2, 25)):
        published.take(b"tea", json.dumps({"orders": count, "cents": count * 5, "batch": batch}).encode())
    published.take(b"cups", b'{"orders": 1, "cents": 1400, "batch": 0}')
    published.take(b"tea", b'{"orders": 20, "cents": 90, "batch": 1}')  # what a dead job wrote late
    assert published.totals == {"tea": (25, 125), "cups": (1, 1400)}
    assert published.orders == 26


def test_differences_are_said(totals):
    expected = {"tea": totals.Total(2, 250), "cups": totals.Total(1, 1400)}
    assert totals.differences(expected, dict(expected)) == []
    assert totals.differences(expected, {"tea": totals.Total(2, 251), "gear": totals.Total(1, 1)}) == [
        "cups: nothing instead of 1 orders, 14.00 EUR",
        "gear: 1 orders, 0.01 EUR instead of nothing",
        "tea: 2 orders, 2.51 EUR instead of 2 orders, 2.50 EUR",
    ]


def test_window_that_is_there_twice_is_wrong(totals):
    window = (datetime(2026, 1, 5, 9, tzinfo=timezone.utc), "tea")
    expected = {window: totals.Total(1, 5)}
    assert totals.window_differences(expected, [(window, totals.Total(1, 5))]) == []
    assert totals.window_differences(expected, [(window, totals.Total(1, 5))] * 2) == ["tea from 09:00:00: twice"]


def test_only_files_that_spark_has_noted_are_looked_at(totals, tmp_path):
    notes = tmp_path / "_spark_metadata"
    notes.mkdir()

    def note(name, *files):
        lines = [json.dumps({"path": f"file://{tmp_path}/{file}", "action": "add"}) for file in files]
        (notes / name).write_text("\n".join(["v1", *lines]))

    note("9.compact", "a.parquet", "b%20c.parquet")
    note("9", "b%20c.parquet")
    note("10")
    note(".11.crc", "hidden.parquet")
    (tmp_path / "of-a-dead-job.parquet").touch()
    assert totals.committed_files(tmp_path) == [tmp_path / "a.parquet", tmp_path / "b c.parquet"]


# -- picture


@pytest.fixture
def story(picture):
    """100 orders a second for a minute, a kill after 20 s, nothing for 10 s, and then all at once."""
    story = picture.Story()
    for tenth in range(700):
        at, written = tenth / 10, min(tenth, 600) * 10
        story.count(at, written, 2000 if 20 <= at < 30 else written // 100 * 100)
        if not tenth % 10 and not 20 <= at < 30:
            story.lags.append((at, "totals" if tenth % 20 else "windows", tenth % 7))
    story.kills.append(20.0)
    story.restarts.append(23.0)
    return story


def shapes(text):
    return list(ET.fromstring(text).iter())


def test_picture_is_inside_its_frame(picture, story):
    for shape in shapes(picture.draw(story, "title", "subtitle"))[1:]:
        numbers = {name: float(shape.get(name)) for name in ("x", "x1", "x2", "cx") if shape.get(name)}
        heights = {name: float(shape.get(name)) for name in ("y", "y1", "y2", "cy") if shape.get(name)}
        for point in (shape.get("points") or "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= picture.WIDTH
            assert 0 <= y <= picture.HEIGHT
        assert all(0 <= x <= picture.WIDTH for x in numbers.values()), shape.attrib
        assert all(0 <= y <= picture.HEIGHT for y in heights.values()), shape.attrib


def test_kill_is_marked_in_both_panels(picture, story):
    text = picture.draw(story, "title", "subtitle")
    lines = [shape for shape in shapes(text) if shape.get("stroke") == picture.KILL]
    assert len(lines) == 2
    assert {line.get("x1") for line in lines} == {line.get("x2") for line in lines}
    words = [shape.text for shape in shapes(text) if shape.tag.endswith("text")]
    assert "kill -9" in words
    assert "started again" in words
    assert "10.0 s" in words
    assert list(story.outages()) == [(20.0, 30.0)]


def test_run_without_a_kill_or_without_anything_has_a_picture_too(picture):
    text = picture.draw(picture.Story(), "none & nothing", "<>")
    assert "kill -9" not in text
    assert shapes(text)


# -- programs


@pytest.fixture
def program(part, tmp_path):
    """Start a line of shell; end what is left of it."""
    started = []

    def start(script, **more):
        started.append(part("programs").Program("sh", "-c", script, log=tmp_path / "log", **more))
        return started[-1]

    yield start
    for one in started:
        one.end(0)
        assert one.left() == []


posix = pytest.mark.skipif(sys.platform == "win32", reason="sessions of processes are POSIX")


@posix
def test_program_ends_by_itself_when_its_input_does(program, tmp_path):
    child = program("cat; echo words >&2; exit 3", takes_input=True, output=tmp_path / "out")
    child.input.write(b"line\n")
    assert child.code is None
    assert child.wait(30) == 3
    assert (tmp_path / "out").read_text() == "line\n"
    assert child.log_tail == "words"


@posix
def test_program_that_goes_on_is_ended(program):
    assert program("exec sleep 100").wait(0.01) == -signal.SIGTERM


@posix
def test_children_of_one_that_was_killed_are_found_and_ended(program):
    """A process group of its own does not hide a child: Spark's workers have one."""
    worker = "import os, time; os.setpgid(0, 0); print(1, flush=True); time.sleep(100)"
    child = program(f"{sys.executable} -c '{worker}' & wait")
    deadline = time.monotonic() + 30
    while child.log_tail != "1":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.kill()
    assert len(child.left()) == 1
    child.end(0)
    assert child.left() == []
