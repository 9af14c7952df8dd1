"""Deserializers for the options ``key_deserializer`` and ``value_deserializer``; see docs/deserializers.md.

A null (a tombstone's value, a missing key) stays None: the consumer calls no deserializer for it.
"""

from .plain import (
    BooleanDeserializer,
    DoubleDeserializer,
    FloatDeserializer,
    IntegerDeserializer,
    JSONDeserializer,
    ListDeserializer,
    LongDeserializer,
    ShortDeserializer,
    StringDeserializer,
    UUIDDeserializer,
    VoidDeserializer,
)
from .schema_registry import AvroDeserializer, ConfluentDeserializer, confluent

__all__ = [
    "AvroDeserializer",
    "BooleanDeserializer",
    "ConfluentDeserializer",
    "DoubleDeserializer",
    "FloatDeserializer",
    "IntegerDeserializer",
    "JSONDeserializer",
    "ListDeserializer",
    "LongDeserializer",
    "ShortDeserializer",
    "StringDeserializer",
    "UUIDDeserializer",
    "VoidDeserializer",
    "confluent",
]
