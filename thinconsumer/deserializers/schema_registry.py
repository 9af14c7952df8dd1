"""Confluent's deserializers for its Schema Registry, and Avro with a registry of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Any

from .lookups import Lookups, not_ready

#: The bytes before a value: 0, and the id of the schema that it was written by.
PREFIX_SIZE = 5
#: By their first byte, the sizes of all prefixes of Confluent's serializers: with a schema's id, or with its GUID.
PREFIX_SIZES = {b"\0": PREFIX_SIZE, b"\1": 17}
Headers = Sequence[tuple[str, "bytes | None"]]


def confluent(deserializer: Callable[[bytes, Any], Any], field: str = "value") -> ConfluentDeserializer:
    """Adapt a deserializer of confluent-kafka: AvroDeserializer, JSONDeserializer, ProtobufDeserializer, or one's own.

    ``deserializer`` is called with the data and a ``SerializationContext``, which has the record's topic and headers,
    and ``field``: "key" or "value". The first call for each topic and schema, which asks the registry, runs on a thread
    of its own; see docs/deserializers.md for its errors.

    Raises:
        ImportError: confluent-kafka is not installed.
        TypeError, ValueError: an argument is wrong, or the deserializer is asynchronous.
    """
    return ConfluentDeserializer(deserializer, field)


class ConfluentDeserializer:
    """What :func:`confluent` returns."""

    def __init__(self, deserializer: Callable[[bytes, Any], Any], field: str) -> None:
        from inspect import iscoroutinefunction  # on demand, since the import takes long

        try:
            from confluent_kafka.serialization import MessageField, SerializationContext
        except ImportError as error:
            hint = "pip install 'thinconsumer[schema-registry]'"
            raise ImportError(f"confluent() needs confluent-kafka ({error}): {hint}") from error
        if not callable(deserializer):
            raise TypeError(f"the deserializer must be callable, not {type(deserializer).__name__}")
        if iscoroutinefunction(deserializer) or iscoroutinefunction(type(deserializer).__call__):
            raise ValueError("the deserializer must not be asynchronous")
        if field not in ("key", "value"):
            raise ValueError(f"field must be 'key' or 'value', not {field!r}")
        self._deserializer = deserializer
        self._context = SerializationContext
        self._field = MessageField(field)
        self._header = f"__{field}_schema_id"
        self._lookups = Lookups(1000)

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        """Return what the deserializer returns for a key or value."""
        call = partial(self._deserializer, data, self._context(topic, self._field, list(headers)))
        schema_id = next((value for name, value in headers if name == self._header), None)
        if schema_id is None and data[:1] in PREFIX_SIZES:
            schema_id = data[: PREFIX_SIZES[data[:1]]]
        if schema_id is not None:  # else the data are no serializer's, and the call asks no registry
            self._lookups.get((topic, schema_id), partial(_without_result, call))
        try:
            return call()
        except Exception as error:
            if (waits := not_ready(error)) is not None:  # what the registry's client has forgotten meanwhile
                raise waits from error
            raise


def _without_result(call: Callable[[], object]) -> None:
    call()


class AvroDeserializer:
    """Reads Avro values with the prefix of Confluent's serializers: 0, and the schema's id in four bytes.

    ``registry`` returns the schema for an id: a function, or an object with ``get_schema(id)``, such as the client of
    confluent-kafka. A schema is JSON text, what was parsed of it, or an object with ``schema_str``; it refers to no
    other schema. The function may block: it runs on a thread of its own, once for each id; see docs/deserializers.md.

    Values become those of ``reader_schema``, if it is given, else of the schema that they were written by. The last
    ``cache_size`` schemas are kept. Needs fastavro.
    """

    def __init__(
        self,
        registry: Callable[[int], Any] | Any,
        reader_schema: str | dict[str, Any] | list[Any] | None = None,
        *,
        cache_size: int = 1000,
    ) -> None:
        try:
            from fastavro import parse_schema, schemaless_reader
        except ImportError as error:
            hint = "pip install 'thinconsumer[avro]'"
            raise ImportError(f"AvroDeserializer needs fastavro ({error}): {hint}") from error
        self._registry: Callable[[int], Any] = getattr(registry, "get_schema", registry)
        if not callable(self._registry):
            raise TypeError(f"the registry must be a function or have get_schema, not {type(registry).__name__}")
        if cache_size < 1:
            raise ValueError(f"cache_size must be at least 1, not {cache_size}")
        self._parse, self._read = parse_schema, schemaless_reader
        self._reader_schema = None if reader_schema is None else parse_schema(_loaded(reader_schema))
        self._lookups = Lookups(cache_size)

    def __call__(self, data: bytes) -> Any:
        """Return the value. Raises ValueError or an error of fastavro if the data are none, or of another schema."""
        if len(data) < PREFIX_SIZE or data[0]:
            raise ValueError(f"no value of a Confluent serializer: it begins with {data[:PREFIX_SIZE]!r}")
        schema_id = int.from_bytes(data[1:PREFIX_SIZE], "big")
        schema = self._lookups.get(schema_id, partial(self._schema, schema_id))
        if (schema.get("type") if isinstance(schema, dict) else schema) == "bytes":
            return data[PREFIX_SIZE:]  # which serializers write without a length
        stream = BytesIO(data)
        stream.seek(PREFIX_SIZE)
        value = self._read(stream, schema, self._reader_schema)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value of schema {schema_id}")
        return value

    def _schema(self, schema_id: int) -> Any:
        return self._parse(_loaded(self._registry(schema_id)))


def _loaded(schema: Any) -> Any:
    """Return the parsed JSON of an Avro schema."""
    if getattr(schema, "references", None):
        raise ValueError("the schema refers to others: use confluent() with confluent-kafka's AvroDeserializer")
    if getattr(schema, "schema_type", "AVRO") not in ("AVRO", None):
        raise ValueError(f"the schema is none of Avro, but of {schema.schema_type}")
    text = getattr(schema, "schema_str", schema)
    return json.loads(text) if isinstance(text, (str, bytes)) else text
