"""The examples of docs/deserializers.md run as they stand, on an embedded broker and the registry of these tests."""

import builtins
import json

import pytest

from tests.pages import DOCS, code

PAGE = DOCS / "deserializers.md"
BLOCKS = code(PAGE)
SCHEMA = {"type": "record", "name": "Payment", "fields": [{"name": "amount", "type": "double"}]}


class EnoughError(Exception):
    """Ends the loop of an example."""


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_print_amounts(block, broker, topic, registry, monkeypatch):
    needed = {"Avro": "fastavro", "confluent_kafka": "confluent_kafka.schema_registry", "pyarrow": "pyarrow"}
    for word, name in needed.items():
        if word in block:
            pytest.importorskip(name)
    printed = []

    def show(*words):
        printed.append(words)
        raise EnoughError

    monkeypatch.setattr(builtins, "print", show)
    registry.register("payments-value", {"schema": json.dumps(SCHEMA)})
    is_json = "JSON" in block or "json_array" in block
    topic.produce((bytes(8), b'{"amount": 2.5}' if is_json else bytes(4) + b"\1" + bytes(6) + b"\x04\x40", []))
    where = f'"{topic.name}", auto_offset_reset="earliest", bootstrap_servers="{broker.bootstrap_servers}"'
    for old, new in (('"orders"', where), ('"payments"', where), ("http://localhost:8081", registry.url)):
        block = block.replace(old, new)
    with pytest.raises(EnoughError):
        exec(compile(block, str(PAGE), "exec"), {})
    assert [words[-1] for words in printed] == [2.5]
