"""The tutorial on Spark: its programs run one after the other, and print what the page says."""

from tests.pages import DOCS, code
from thinconsumer.testing import NewRecord

PAGE = DOCS / "tutorials" / "spark.md"


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

    table, stream = code(PAGE)
    shown, count = code(PAGE, "text")
    assert run(table).strip() == shown.strip()
    assert run(stream) == count
    broker.produce(topic, [NewRecord(b"figs", b"10")], 1)
    assert run(stream) == "5\n"
