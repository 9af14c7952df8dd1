"""The examples of docs/questions.md, and of docs/asyncio.md for FastAPI, run as they stand on an embedded broker."""

import asyncio
import sys
from types import SimpleNamespace

import pytest

from tests.pages import DOCS, code
from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import BrokerProcess

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(topics={"orders": 2}) as process:
        for partition, count in enumerate((30, 4)):
            process.produce("orders", [b"%d" % number for number in range(count)], partition)
        yield process


def test_the_last_records_of_each_partition_are_read(broker):
    (block,) = code(DOCS / "questions.md")
    found = {}
    exec(block.replace("localhost:9092", broker.bootstrap_servers), found)
    offsets = [(record.partition, record.offset) for record in found["last"]]
    assert sorted(offsets) == [(0, offset) for offset in range(20, 30)] + [(1, offset) for offset in range(4)]


def test_a_consumer_in_fastapi_commits_when_the_application_ends(broker, monkeypatch):
    """The application's server enters and leaves ``lifespan``; the example needs nothing else of FastAPI."""
    block = next(block for block in code(DOCS / "asyncio.md") if "fastapi" in block)
    monkeypatch.setitem(sys.modules, "fastapi", SimpleNamespace(FastAPI=SimpleNamespace))
    processed = []

    async def process(record):
        processed.append(record)
        if len(processed) == 34:
            done.set()

    async def serve():
        async with found["app"].lifespan(found["app"]):
            await asyncio.wait_for(done.wait(), 20)

    done = asyncio.Event()
    found = {"process": process}
    options = f'"{broker.bootstrap_servers}", auto_offset_reset="earliest"'
    exec(block.replace('"localhost:9092"', options), found)
    asyncio.run(serve())
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing") as consumer:
        partitions = [TopicPartition("orders", number) for number in range(2)]
        committed = consumer.committed(partitions)
    assert sum(committed.values()) in (33, 34)  # the last one, if the loop had asked for the next one
