"""The examples of docs/data.md run as they stand, on an embedded broker, where their libraries are installed."""

import ast

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tests.pages import DOCS, code
from thinconsumer.broker import BrokerProcess

PAGE = DOCS / "data.md"
BLOCKS = code(PAGE)


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(topics={"orders": 2}) as process:
        for partition in range(2):
            process.produce("orders", [b'{"id": %d, "amount": %d.5}' % (n, n) for n in range(50)], partition)
        yield process


def modules(block):
    nodes = ast.walk(ast.parse(block))
    return {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.fixture(params=range(len(BLOCKS)))
def names(request, broker):
    """Return what an example has computed, by the names of its variables."""
    block = BLOCKS[request.param]
    for name in modules(block):
        pytest.importorskip(name)
    found = {}
    assert "localhost:9092" in block
    exec(compile(block.replace("localhost:9092", broker.bootstrap_servers), str(PAGE), "exec"), found)
    return found


def test_examples_run_and_read_records(names):
    if "amounts" in names:
        assert names["per_hour"]["len"].sum() == names["recent"].height == 100
        assert names["some"]["offset"].to_list() == [40, 41, 42, 43, 44]
        assert names["amounts"].filter(partition=1)["amount"].sum() == 1250
    elif "table" in names:
        assert names["table"].num_rows == 50
        assert names["kept"].to_pylist() == [b'{"id": 0, "amount": 0.5}']
    elif "database" in names:
        assert names["database"].sql("SELECT count(*) FROM orders").fetchall() == [(50,)]
    elif "frames" in names:
        assert sum(map(len, names["frames"])) == 100
    else:
        assert len(names["batch"]) == 50
