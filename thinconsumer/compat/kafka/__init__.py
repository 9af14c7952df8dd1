"""kafka-python's consumer, for programs that change only their imports.

Write ``from thinconsumer.compat.kafka import KafkaConsumer`` instead of ``from kafka import KafkaConsumer``.
docs/migrating.md has what differs. kafka-python need not be installed. Where it is, values and errors are of its
classes.
"""

from . import errors, serializer, structs
from .consumer import KafkaConsumer
from .listener import ConsumerRebalanceListener
from .options import IsolationLevel
from .serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
from .structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaConsumer",
    "OffsetAndMetadata",
    "Serializer",
    "TopicPartition",
    "errors",
    "serializer",
    "structs",
]
