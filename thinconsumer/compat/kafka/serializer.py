"""The deserializers that kafka-python has, under the names of its module ``kafka.serializer``.

They are kafka-python's own classes where it is installed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..peer_types import KAFKA_PYTHON

__all__ = ["DefaultSerializer", "Deserializer", "JsonSerializer", "Serializer"]

Headers = Iterable[tuple[str, "bytes | None"]]


class _Base:
    def close(self) -> None:
        """Release what the object holds; the client's ``close`` calls it."""


class _Serializer(_Base, ABC):
    """The base class of a producer's serializers."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes of a key or value."""


class _Deserializer(_Base, ABC):
    """The base class of a consumer's deserializers."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Return the key or value that the bytes contain."""


class _DefaultSerializer(_Serializer, _Deserializer):
    """Convert between str and bytes."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: str | bytes | None) -> bytes | None:
        """Return the bytes of a str; bytes and None stay as they are."""
        return data.encode(self.encoding) if isinstance(data, str) else data

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Return the str that the bytes contain; None stays None."""
        return None if data is None else data.decode(self.encoding)


class _JsonSerializer(_DefaultSerializer):
    """Convert between JSON's types and bytes."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes of the value's JSON; None stays None."""
        return None if data is None else json.dumps(data).encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Return the value of the JSON text that the bytes contain; None stays None."""
        return None if data is None else json.loads(data.decode(self.encoding))


if TYPE_CHECKING:
    DefaultSerializer = _DefaultSerializer
    Deserializer = _Deserializer
    JsonSerializer = _JsonSerializer
    Serializer = _Serializer
else:
    DefaultSerializer = KAFKA_PYTHON.find("serializer.DefaultSerializer", _DefaultSerializer)
    Deserializer = KAFKA_PYTHON.find("serializer.Deserializer", _Deserializer)
    JsonSerializer = KAFKA_PYTHON.find("serializer.JsonSerializer", _JsonSerializer)
    Serializer = KAFKA_PYTHON.find("serializer.Serializer", _Serializer)
