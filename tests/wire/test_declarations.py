"""Declarations against Kafka's: names, order, types, versions, nullability, defaults, tags, flexible versions.

``kafka_messages.json`` holds Kafka's definitions of these APIs without comments (Apache-2.0, The Apache Software
Foundation): ``current`` from the jar of kafka-clients, and in ``removed`` the older definitions of messages with
removed first versions. Both are compared, each for its valid versions.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinconsumer.wire import ZERO_UUID, Message, Struct
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.extensions import FIRST_API_KEY, FIRST_ERROR_CODE, FIRST_TAG
from thinconsumer.wire.schema import OPEN_END, Primitive, WireField, parse_versions, wire_fields
from thinconsumer_testing.broker.wire.requests import REQUESTS

JUDGED_BY_KAFKA = True
FACTS = json.loads((Path(__file__).parent / "kafka_messages.json").read_text())
#: Fields that Kafka has renamed since the definitions under ``removed``.
RENAMED = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}
#: Structs with a name that is not unique in Kafka, or that stand for two of Kafka's structs.
OUR_NAMES = {
    ("ConsumerGroupDescribeResponse", "Assignment"): "DescribedAssignment",
    ("ConsumerGroupDescribeResponse", "DescribedGroup"): "DescribedConsumerGroup",
    ("ConsumerGroupDescribeResponse", "Member"): "DescribedConsumerMember",
    ("ConsumerGroupDescribeResponse", "TopicPartitions"): "DescribedTopicPartitions",
    ("ConsumerGroupHeartbeatResponse", "Assignment"): "HeartbeatAssignment",
    ("FetchResponse", "EpochEndOffset"): "FetchEpochEndOffset",
    ("FindCoordinatorResponse", "Coordinator"): "FindCoordinatorResult",
    ("OffsetFetchResponse", "OffsetFetchResponsePartitions"): "OffsetFetchResponsePartition",
}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafka_default(field: dict[str, Any]) -> Any:
    """Return Kafka's default of a field as in declarations here; ``"struct"`` for a nested one with defaults."""
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return ZERO_UUID
    if kind == "string":
        return default or ""
    if kind == "bool":
        return str(default or "false").lower() == "true"
    return int(str(default or 0), 0) if kind.startswith("int") else "struct"


def our_default(wire: WireField) -> Any:
    if wire.default is list:
        return []
    return "struct" if callable(wire.default) else wire.default


def kafka_fields(facts: dict[str, Any], version: int) -> Iterator[tuple[Any, ...]]:
    """Yield every field of one version as a row, nested ones with their path."""
    common = {item["name"]: item["fields"] for item in facts.get("commonStructs", ())}

    def walk(fields: list[dict[str, Any]], path: str) -> Iterator[tuple[Any, ...]]:
        for field in fields:
            if version not in parse_versions(field["versions"]):
                continue
            name = RENAMED.get((facts["name"], field["name"]), field["name"])
            here = f"{path}.{snake(name)}"
            nullable = version in parse_versions(field.get("nullableVersions", "none"))
            tagged = version in parse_versions(field.get("taggedVersions", "none"))
            tag = field["tag"] if tagged else -1
            ignorable = str(field.get("ignorable", False)).lower() == "true"
            array, element = "[]" * field["type"].startswith("[]"), field["type"].removeprefix("[]")
            kind = array + OUR_NAMES.get((facts["name"], element), element)
            yield here, kind, nullable, tag, ignorable, kafka_default(field)
            yield from walk(field.get("fields") or common.get(element, []), here)

    return walk(facts["fields"], facts["name"])


def our_fields(cls: type[Message], version: int) -> Iterator[tuple[Any, ...]]:
    def walk(struct: type[Struct], path: str) -> Iterator[tuple[Any, ...]]:
        for name, wire in wire_fields(struct):
            if version not in wire.versions or wire.tag >= FIRST_TAG:
                continue
            here = f"{path}.{name}"
            kind = wire.of.name if isinstance(wire.of, Primitive) else wire.of.__name__
            nullable = version in wire.nullable
            yield here, "[]" * wire.array + kind, nullable, wire.tag, wire.ignorable, our_default(wire)
            if not isinstance(wire.of, Primitive):
                yield from walk(wire.of, here)

    return walk(cls, cls.__name__)


def comparisons(cls: type[Message]) -> Iterator[tuple[dict[str, Any], int]]:
    for source in ("removed", "current"):
        facts = FACTS[source].get(cls.__name__)
        if facts is not None:
            first, last = parse_versions(facts["validVersions"])
            yield from ((facts, version) for version in range(first, last + 1))


def test_fields_equal_kafkas(message: type[Message]) -> None:
    """Field by field and version by version, in Kafka's order, which is the wire order."""
    compared = set()
    for facts, version in comparisons(message):
        ours = list(our_fields(message, version))
        kafkas = list(kafka_fields(facts, version))
        if facts is FACTS["removed"].get(message.__name__):
            # Some ignorable flags of 3.9, which do not affect the bytes, were corrected later.
            ours, kafkas = ([row[:4] + row[5:] for row in rows] for rows in (ours, kafkas))
        assert ours == kafkas, f"version {version}"
        compared.add(version)
    assert compared == set(range(message.VERSIONS[0], message.VERSIONS[1] + 1))


def test_ignorable_and_defaults_equal_kafkas_in_all_versions(message: type[Message]) -> None:
    """They apply just in versions without the field."""
    facts = FACTS["current"][message.__name__]
    common = {item["name"]: item["fields"] for item in facts.get("commonStructs", ())}

    def compare(struct: type[Struct], fields: list[dict[str, Any]]) -> None:
        ours = dict(wire_fields(struct))
        for field in fields:
            wire = ours[snake(field["name"])]
            ignorable = str(field.get("ignorable", False)).lower() == "true"
            assert (wire.ignorable, our_default(wire)) == (ignorable, kafka_default(field)), field["name"]
            if not isinstance(wire.of, Primitive):
                compare(wire.of, field.get("fields") or common[field["type"].removeprefix("[]")])

    compare(message, facts["fields"])


def test_key_and_flexible_versions_equal_kafkas(message: type[Message]) -> None:
    facts = FACTS["current"][message.__name__]
    assert facts["apiKey"] == message.API_KEY
    request = REQUESTS[message.API_KEY]
    assert message.__name__ == request.__name__.removesuffix("Request") + facts["type"].title()
    assert message is (request if facts["type"] == "request" else request.RESPONSE)
    flexible = facts["flexibleVersions"]
    assert (OPEN_END if flexible == "none" else parse_versions(flexible).first) == message.FLEXIBLE


def test_kafka_messages_json_covers_every_api() -> None:
    """A new API is compared, too."""
    requests = [request for request in REQUESTS.values() if request.API_KEY < FIRST_API_KEY]
    names = {cls.__name__ for request in requests for cls in (request, request.RESPONSE)}
    assert names | {"RequestHeader", "ResponseHeader"} == set(FACTS["current"])


def test_additions_of_this_project_are_far_from_kafkas_numbers() -> None:
    """Kafka adds keys, tags and codes one by one: none of them can collide soon."""
    facts = FACTS["current"].values()
    assert max(fact["apiKey"] for fact in facts if "apiKey" in fact) < FIRST_API_KEY // 100
    tags = {wire.tag for request in REQUESTS.values() for cls in (request, request.RESPONSE) for wire in tagged(cls)}
    assert all(tag < FIRST_TAG // 100 or tag >= FIRST_TAG for tag in tags)
    assert max(code for code in Code if code != Code.INVALID_PARTITION_METADATA) < FIRST_ERROR_CODE // 100


def tagged(struct: type[Struct]) -> Iterator[WireField]:
    for _, wire in wire_fields(struct):
        if wire.tag >= 0:
            yield wire
        if not isinstance(wire.of, Primitive):
            yield from tagged(wire.of)
