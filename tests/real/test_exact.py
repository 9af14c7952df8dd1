"""Records of any codec, format and producer are read exactly as the Java consumer reads them.

Every topic of ``proving.topics`` is dumped by the Java consumer under both isolation levels, and read by ours with
usual limits and with limits so small that most answers end inside a batch. Positions must end where Java's do, behind
control batches and holes too, and lag must be 0 there.
"""

import selectors
import uuid
from typing import Any

import pytest
from proving.lines import ISOLATIONS, by_java, by_us
from proving.topics import TOPICS, fill
from realkafka import KafkaCluster

pytestmark = pytest.mark.timeout(300)

SMALL = {"max_partition_fetch_bytes": 1500, "fetch_max_bytes": 4000}


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> tuple[str, dict[str, str], dict[tuple[str, str], list[str]]]:
    """Bootstrap address, real topic names, and what Java sees of them: by isolation level and real name."""
    run = uuid.uuid4().hex[:6]
    ours = isinstance(kafka, KafkaCluster)  # when the cleaner has been there shows only in a broker's files
    names = {name: f"exact-{name}-{run}" for name in TOPICS if ours or not name.startswith("compacted")}
    fill(kafka, names)
    return kafka.bootstrap, names, by_java(kafka.bootstrap, names.values())


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("name", TOPICS)
def test_yields_what_java_yields(filled: Any, name: str, isolation: str) -> None:
    """Every record, in every field, and where positions end; with usual limits and tiny ones."""
    bootstrap, names, java = filled
    if name not in names:
        pytest.skip("needs a cluster of our own")
    expected = java[isolation, names[name]]
    least = {"empty": 3, "large": 6, "compacted-transactions": 30, "compacted": 60, "compacted-tombstones-gone": 60}
    assert len(expected) >= least.get(name, 300), "there is too little to compare"
    assert by_us(bootstrap, names[name], isolation) == expected
    assert by_us(bootstrap, names[name], isolation, **SMALL) == expected
    if isolation == "read_committed":  # on what Windows has, too
        assert by_us(bootstrap, names[name], isolation, selector=selectors.SelectSelector) == expected


def test_there_is_something_to_get_wrong(filled: Any) -> None:
    """The topics contain what they are here for: holes, tombstones, aborted records, ends behind the last record."""
    _, names, java = filled

    def offsets(name: str, isolation: str = "read_uncommitted") -> list[int]:
        return [
            int(row.split("\t")[2])
            for row in java[isolation, names[name]]
            if row.split("\t")[1] == "0" and "ends" not in row
        ]

    if "compacted" not in names:
        pytest.skip("needs a cluster of our own")
    for name in ("compacted", "compacted-tombstones-gone"):
        assert offsets(name)[-1] - offsets(name)[0] > 1.5 * len(offsets(name)), f"{name} has hardly any holes"
    tombstones = {n: sum("\tnull\t" in row for row in java["read_uncommitted", names[n]]) for n in names}
    assert tombstones["compacted"] > tombstones["compacted-tombstones-gone"]
    assert len(offsets("transactions", "read_committed")) < 0.9 * len(offsets("transactions"))
    assert offsets("deleted-records")[0] == 77
