"""The codec against two others, in both directions, with random messages of every API and version in common.

kio generates its classes from Kafka's definitions and parses into types of its own (durations, dates, UUIDs);
kafka-python interprets the definitions, and has hand-written schemas of old versions besides. These detect mistakes
that encoder and decoder here have in common, which a round trip does not.
"""

import dataclasses
import datetime
import importlib
import io
import pkgutil
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from thinconsumer.wire import ZERO_UUID, Message, Struct
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.extensions import FIRST_TAG
from thinconsumer.wire.metadata import MetadataResponse, MetadataResponseTopic
from thinconsumer.wire.schema import Primitive, WireField, wire_fields

pytestmark = pytest.mark.once

kio_index = pytest.importorskip("kio.index")
kio_serial = pytest.importorskip("kio.serial")
kio_constants = pytest.importorskip("kio.static.constants")
kio_schema = pytest.importorskip("kio.schema.index")
kafka_protocol = pytest.importorskip("kafka.protocol")

JUDGED_BY_KAFKA = True
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MILLISECOND = datetime.timedelta(milliseconds=1)

#: kafka-python's interpreter reads these removed versions without the fields they had; its old schemas have the fields.
INTERPRETER_CANNOT = {
    ("ListOffsetsRequest", 0),
    ("ListOffsetsResponse", 0),
    ("OffsetCommitRequest", 1),
    ("DescribeConfigsResponse", 0),
}
#: Structs that are declared here under another name than in Kafka, at least in some versions.
KAFKA_NAMES = {
    "FetchEpochEndOffset": "EpochEndOffset",
    "FindCoordinatorResult": "Coordinator",
    "OffsetFetchResponsePartition": "OffsetFetchResponsePartitions",
}
#: APIs of the consumer group protocol (KIP-848) and of client metrics (KIP-714), which kafka-python does not have.
KAFKA_PYTHON_LACKS = {68, 69, 71, 72}
#: kafka-python decodes these bit fields to sets, so only kio's values are compared.
BIT_FIELDS = ("authorized_operations", "cluster_authorized_operations", "topic_authorized_operations")


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def leaves(struct: Struct, version: int) -> list[Any]:
    """Return the values of a message in declaration order, to compare with codecs that use other names."""
    found: list[Any] = []
    for name, wire in wire_fields(type(struct)):
        if version in wire.versions and wire.tag < FIRST_TAG:
            value = getattr(struct, name)
            if isinstance(wire.of, Primitive) or value is None:
                found.append(value)
            elif wire.array:
                found.append([leaves(item, version) for item in value])
            else:
                found.append(leaves(value, version))
    return found


def kio_leaves(value: Any) -> Any:
    """Return the values of a kio entity, with its types converted back to those on the wire."""
    if dataclasses.is_dataclass(value):
        return [
            # kio reads the zero id as None.
            ZERO_UUID if "uuid" in str(field.type).lower() and item is None else kio_leaves(item)
            for field in dataclasses.fields(value)
            for item in [getattr(value, field.name)]
        ]
    if isinstance(value, tuple):
        return [kio_leaves(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def kio_entity(message: type[Message], version: int) -> Any:
    kind, name = ("request", message.__name__.removesuffix("Request"))
    if message.__name__.endswith("Response"):
        kind, name = ("response", message.__name__.removesuffix("Response"))
    entity_type = getattr(kio_constants.EntityType, kind)
    if version not in kio_schema.schema_name_map.get(snake(name), {}):
        return None
    return kio_index.load_entity_schema(snake(name), version, entity_type)


def test_kio_reads_and_writes_the_same_bytes(message: type[Message], generate: Any, versions: Any) -> None:
    judged = 0
    for version in versions(message):
        entity = kio_entity(message, version)
        if entity is None:
            continue
        read, write = kio_serial.entity_reader(entity), kio_serial.entity_writer(entity)
        for seed in range(4):
            ours = generate(message, version, seed, tame=True)
            encoded = ours.encode(version)
            theirs, size = read(encoded, 0)
            assert size == len(encoded)
            assert kio_leaves(theirs) == leaves(ours, version), f"version {version} seed {seed}"
            out = io.BytesIO()
            write(out, theirs)
            assert message.decode(out.getvalue(), version) == message.decode(encoded, version)
            judged += 1
    assert judged


def kafka_python_class(message: type[Message]) -> Any:
    for area in ("consumer", "metadata", "producer", "admin", "sasl"):
        if found := getattr(importlib.import_module(f"kafka.protocol.{area}"), message.__name__, None):
            return found
    raise AssertionError(f"kafka-python has no {message.__name__}")


def judged_fields(struct: type[Struct], version: int) -> Iterator[tuple[str, WireField]]:
    for name, wire in wire_fields(struct):
        if version in wire.versions and name not in BIT_FIELDS and wire.tag < FIRST_TAG:
            yield name, wire


def to_kafka_python(ours: Struct, target: Any, version: int, names: dict[str, str]) -> Any:
    """Return the message as an instance of kafka-python's class."""
    values = {}
    for name, wire in judged_fields(type(ours), version):
        value = getattr(ours, name)
        if not isinstance(wire.of, Primitive) and value is not None:
            name_here = wire.of.__name__
            nested = getattr(target, name_here, None) or getattr(target, KAFKA_NAMES[name_here])
            items = [to_kafka_python(item, nested, version, names) for item in (value if wire.array else [value])]
            value = items if wire.array else items[0]
        elif isinstance(wire.of, Primitive) and wire.of.name == "uuid" and not wire.array:
            value = uuid.UUID(bytes=value)
        values[names.get(name, name)] = value
    return target(version=version, **values)


def same(theirs: Any, ours: Struct, version: int, names: dict[str, str], path: str) -> None:
    """Assert that kafka-python's decoded message has the same values."""
    for name, wire in judged_fields(type(ours), version):
        value, expected = getattr(theirs, names.get(name, name)), getattr(ours, name)
        here = f"{path}.{name}"
        if value is None and wire.tag >= 0:  # Left out; kafka-python does not put the default there.
            assert expected == (wire.default() if callable(wire.default) else wire.default), here
        elif isinstance(wire.of, Primitive) or expected is None:
            assert (value.bytes if isinstance(value, uuid.UUID) else value) == expected, here
        else:
            pairs = zip(value, expected, strict=True) if wire.array else [(value, expected)]
            for left, right in pairs:
                same(left, right, version, names, here)


def test_kafka_python_reads_and_writes_the_same_bytes(message: type[Message], generate: Any, versions: Any) -> None:
    if message.API_KEY in KAFKA_PYTHON_LACKS:
        pytest.skip("kafka-python does not have this API; kio reads and writes it in the test above")
    theirs = kafka_python_class(message)
    names = {"generation_id_or_member_epoch": "generation_id"} if "generation_id" in theirs.fields else {}
    for version in versions(message):
        if version > theirs.max_version or (message.__name__, version) in INTERPRETER_CANNOT:
            continue
        for seed in range(4):
            ours = without_bit_fields(without_version_error(generate(message, version, seed)))
            encoded = ours.encode(version)
            same(theirs.decode(encoded, version=version), ours, version, names, f"version {version} seed {seed}")
            if bits_between(message, version):
                continue  # kafka-python writes these fields as sets, and not their default.
            back = bytes(to_kafka_python(ours, theirs, version, names).encode(version=version))
            assert message.decode(back, version) == message.decode(encoded, version), f"version {version} seed {seed}"


def without_version_error(ours: Any) -> Any:
    if isinstance(ours, ApiVersionsResponse):
        ours.error_code = 0  # kafka-python reads an error response as version 0.
    return ours


@pytest.mark.parametrize("version", range(9, 14))
def test_kafka_python_skips_the_counts_of_ordered_topics(version: int) -> None:
    topic = MetadataResponseTopic(name="t", topic_id=b"t" * 16, initial_partition_count=4, undeleted_partition_count=8)
    kafka_python_skips(MetadataResponse(topics=[topic]), version)


@pytest.mark.parametrize("version", [3, 4])
def test_kafka_python_skips_the_apis_of_this_project(version: int) -> None:
    extension = ApiVersion(api_key=FIRST_TAG, min_version=0, max_version=0)
    kafka_python_skips(ApiVersionsResponse(extension_api_keys=[extension]), version)


def kafka_python_skips(response: Any, version: int) -> None:
    """Assert that kafka-python decodes a response with tagged fields of this project, and finds nothing of them. kio
    rejects unknown tags, against KIP-482.
    """
    decoded = kafka_python_class(type(response)).decode(response.encode(version), version=version)
    same(decoded, response, version, {}, f"version {version}")


def bits_between(struct: type[Struct], version: int) -> bool:
    return any(
        name in BIT_FIELDS or (not isinstance(wire.of, Primitive) and bits_between(wire.of, version))
        for name, wire in wire_fields(struct)
        if version in wire.versions
    )


def without_bit_fields(struct: Any) -> Any:
    for name, wire in wire_fields(type(struct)):
        value = getattr(struct, name)
        if name in BIT_FIELDS:
            setattr(struct, name, wire.default)
        elif not isinstance(wire.of, Primitive) and value is not None:
            for item in value if wire.array else [value]:
                without_bit_fields(item)
    return struct


def old_schema(message: type[Message], version: int) -> Any:
    """Return kafka-python's hand-written class for a non-flexible version, or None."""
    folder = importlib.import_module("kafka.protocol.old").__path__
    for info in pkgutil.iter_modules(folder):
        module = importlib.import_module(f"kafka.protocol.old.{info.name}")
        if hasattr(module, f"{message.__name__}_v{version}"):
            return getattr(module, f"{message.__name__}_v{version}")
    return None


def flat(value: Any) -> list[Any]:
    """Return all leaves in order, because old schemas have bare values for structs of one field."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value]


def test_kafka_pythons_old_schemas_read_and_write_the_same_bytes(
    message: type[Message], generate: Any, versions: Any
) -> None:
    """The only independent check of versions that Kafka's definitions no longer have."""
    judged = set()
    for version in versions(message):
        theirs = old_schema(message, version)
        if theirs is None or version >= message.FLEXIBLE or bits_between(message, version):
            continue
        for seed in range(4):
            ours = without_version_error(generate(message, version, seed))
            encoded = ours.encode(version)
            decoded = theirs.decode(encoded)
            values = [getattr(decoded, name) for name in decoded.SCHEMA.names]
            assert flat(values) == flat(leaves(ours, version)), f"version {version} seed {seed}"
            assert decoded.encode() == encoded, f"version {version} seed {seed}"
        judged.add(version)
    needed = {version for name, version in INTERPRETER_CANNOT if name == message.__name__}
    assert needed <= judged
