"""The tutorial on Spark: its programs run one after the other, and print what the page says."""

import importlib.util
from pathlib import Path

from thinconsumer.testing import NewRecord

DOCS = Path(__file__).parents[3] / "docs"


def blocks(language):
    spec = importlib.util.spec_from_file_location("check", DOCS / "check.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    text = (DOCS / "tutorials" / "spark.md").read_text(encoding="utf-8")
    return [match["body"] for match in check.FENCE.finditer(text) if match["language"] == language]


def test_the_first_spark_job(spark, broker, tmp_path, capsys):
    topic = "orders-of-the-tutorial"
    broker.create_topic(topic, 3)
    for partition, key, items in ((2, b"9", [b"apples", b"plums"]), (1, b"10", [b"pears", b"cherries"])):
        broker.produce(topic, [NewRecord(item, key) for item in items], partition)

    changes = {
        "localhost:9092": broker.bootstrap_servers,
        '"subscribe", "orders"': f'"subscribe", "{topic}"',
        '"path", "orders"': f'"path", "{tmp_path}/orders"',
        'json("orders")': f'json("{tmp_path}/orders")',
        '"checkpoint"': f'"{tmp_path}/checkpoint"',
    }

    def run(program):
        for old, new in changes.items():
            program = program.replace(old, new)
        exec(program, {})
        return capsys.readouterr().out

    table, stream = blocks("python")
    shown, count = blocks("text")
    assert run(table).strip() == shown.strip()
    assert run(stream) == count
    broker.produce(topic, [NewRecord(b"figs", b"10")], 1)
    assert run(stream) == "5\n"
