"""Parsing of the topics in a consumer's subscription, the only part of member metadata that a coordinator uses.

The coordinator keeps offsets of topics that a stable group subscribes to. Follows Kafka's
``ConsumerProtocolSubscription``: its first field has been the topics in every version.
"""

from __future__ import annotations

from struct import Struct

from ...errors import KafkaProtocolError

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics; later fields are ignored.

    Raises:
        KafkaProtocolError: The bytes are no consumer subscription.
    """
    size = len(metadata)
    if size < _HEAD.size:
        raise KafkaProtocolError(f"subscription of {size} bytes")
    version, count = _HEAD.unpack_from(metadata)
    if version < 0 or not 0 <= count <= (size - _HEAD.size) // _LENGTH.size:
        raise KafkaProtocolError(f"subscription version {version} with {count} topics in {size} bytes")
    position = _HEAD.size
    topics = []
    for _ in range(count):
        if position + _LENGTH.size > size:
            raise KafkaProtocolError("subscription ends early")
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= size - position:
            raise KafkaProtocolError(f"topic of {length} bytes in a subscription with {size - position} left")
        try:
            topics.append(metadata[position : position + length].decode())
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"topic in a subscription is not UTF-8: {error}") from None
        position += length
    return frozenset(topics)
