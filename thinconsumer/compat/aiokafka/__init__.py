"""aiokafka's consumer and the names that its users import, on top of :class:`thinconsumer.aio.AsyncConsumer`.

Where aiokafka is installed, these are its own classes, except for the consumer; see docs/migrating.md for what differs.
"""

from .abc import ConsumerRebalanceListener
from .consumer import AIOKafkaConsumer
from .structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
