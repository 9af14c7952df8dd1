"""The programs and recipes of docs/workers.md do what the page says."""

import asyncio
import functools
import re
import sqlite3
import sys
import threading
import time
import types
from collections import Counter

import pytest

import thinconsumer.workers
from tests.pages import DOCS, code
from tests.workers import handlers
from thinconsumer import Consumer
from thinconsumer.aio import AsyncConsumer
from thinconsumer.workers import AsyncWorkers, Workers, WorkerSettings, dead_letter

pytestmark = pytest.mark.once

PAGE = DOCS / "workers.md"
BLOCKS = code(PAGE)


@pytest.fixture
def page(world, monkeypatch):
    """Return a function that runs the block with some words, on the tests' topic; its ``run`` ends after 60 records."""

    def run(consumer, handler, **options):
        settings = WorkerSettings(**{**options, "concurrency": min(options.get("concurrency", 8), 20)})
        if not isinstance(consumer, Consumer):
            return run_tasks(consumer, handler, settings)
        with Workers(consumer, handler, settings) as workers:
            while world.processed(workers) < 60:
                workers.wait(workers.step())
        return None

    async def run_tasks(consumer, handler, settings):
        async with AsyncWorkers(consumer, handler, settings) as workers:
            while world.processed(workers) < 60:
                await workers.step()

    def execute(words, names, *changes):
        (source,) = (block for block in BLOCKS if words in block)
        servers = f"bootstrap_servers={world.broker.bootstrap_servers!r}"
        for old, new in (('bootstrap_servers="localhost:9092"', servers), ('"orders"', repr(world.topic)), *changes):
            assert old in source or not changes or (old, new) not in changes, old
            source = source.replace(old, new)
        names = {"__name__": "page", "run": run, **names}
        exec(compile(source, str(PAGE), "exec"), names)
        return names

    monkeypatch.setattr(thinconsumer.workers, "run", run)
    return execute


def test_the_program_at_the_top_of_the_page_processes_all(page, world):
    printed = []
    page("def send_invoice", {"__name__": "__main__", "print": lambda *words: printed.append(words)})
    assert sorted(int(value) for _, value in printed) == list(range(60))


def test_a_loop_of_its_own_prints_what_handlers_return(page, world):
    printed = []
    names = {
        "Consumer": functools.partial(
            Consumer, bootstrap_servers=world.broker.bootstrap_servers, auto_offset_reset="earliest"
        ),
        "Workers": Workers, "WorkerSettings": functools.partial(WorkerSettings, concurrency=1),
        "price": handlers.double, "print": lambda *words: printed.append(words), "printed": printed,
    }  # fmt: skip
    page("workers.submit(consumer.poll(0))", names, ("while True", "while len(printed) < 60"))
    assert {value for _, value in printed} == {2 * str(n).encode() for n in range(60)}


def test_a_loop_of_its_own_names_the_record_that_is_stuck(page, world):
    stuck, lines = threading.Event(), []

    def send_invoice(record):
        if record.value == 13:
            stuck.wait()

    def warning(text, *words):
        lines.append(text % words)

    names = {
        "Workers": Workers, "WorkerSettings": WorkerSettings, "send_invoice": send_invoice, "time": time,
        "log": types.SimpleNamespace(warning=warning), "lines": lines,
    }  # fmt: skip
    changes = ("while True", "while not lines"), ("+ 10", "+ 0.01"), ("consumer.health()", "workers.health(500)")
    with world.consumer() as consumer:
        threading.Timer(1, stuck.set).start()
        page("consumer.health().reason", {**names, "consumer": consumer}, *changes)
    assert re.search(
        rf"^not well: .*{world.topic}-0 offset 5, key b'k6', is unfinished since .* running, 1 attempts", lines[0]
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the recipe uses asyncio.timeout")
def test_calls_over_http_are_limited_for_each_host(page, world):
    running, most, called = Counter(), Counter(), []

    async def post(url, json):
        running[url] += 1
        most[url] = max(most[url], running[url])
        await asyncio.sleep(0.002)
        running[url] -= 1
        called.append(json["n"])

    def deserialize(data):
        return {"n": int(data), "url": f"http://host-{int(data) % 2}/call"}

    names = page("async def notify", {"session": types.SimpleNamespace(post=post), "dead_letter": dead_letter})
    names["limits"].update({f"host-{n}": asyncio.Semaphore(2) for n in range(2)})

    async def main():
        options = {
            "bootstrap_servers": world.broker.bootstrap_servers,
            "group_id": "notify",
            "enable_auto_commit": False,
        }
        options |= {"auto_offset_reset": "earliest", "value_deserializer": deserialize}
        async with AsyncConsumer(world.topic, **options) as consumer:
            await names["main"](consumer)

    asyncio.run(main())
    assert sorted(called) == list(range(60))
    assert set(most.values()) == {2}


def test_work_that_computes_runs_in_processes(page, world):
    with world.consumer() as consumer:
        names = {"__name__": "__main__", "consumer": consumer, "resize": handlers.log_record}
        page("os.cpu_count()", {**names, "os": types.SimpleNamespace(cpu_count=lambda: 1)})
    assert sorted(world.values()) == list(range(60))


def test_rows_are_written_in_batches_and_once(page, world, tmp_path):
    file = tmp_path / "orders.db"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE orders (topic, part, offset, value, PRIMARY KEY (topic, part, offset))")
    batches = []

    class Connection(sqlite3.Connection):
        def executemany(self, statement, rows):
            batches.append(rows)
            return super().executemany(statement, rows)

    def connection():
        return sqlite3.connect(file, timeout=60, factory=Connection)

    with world.consumer() as consumer:
        names = {"pool": types.SimpleNamespace(connection=connection), "consumer": consumer}
        names = page("def store", names, ("%s", "?"))
    assert max(map(len, batches)) > 1
    record = types.SimpleNamespace
    names["store"]([record(topic=t, partition=p, offset=o, value=v) for t, p, o, v in batches[0]])  # again
    with sqlite3.connect(file) as db:
        rows = db.execute("SELECT topic, value FROM orders").fetchall()
    assert sorted(rows) == sorted((world.topic, n) for n in range(60))


def test_no_more_calls_begin_than_the_rate_allows(page):
    names = page("class Rate", {"asyncio": asyncio})

    async def main():
        rate, began = names["Rate"](1_000), time.monotonic()
        await asyncio.gather(*(rate.wait() for _ in range(30)))
        assert time.monotonic() - began >= 0.029
        await names["call"](None)

    asyncio.run(main())
