"""Parsing of the topics in a consumer's subscription, the only part of member metadata that a coordinator uses.

The coordinator keeps offsets of topics that a stable group subscribes to. Follows Kafka's
``ConsumerProtocolSubscription``: its first field has been the topics in every version.
"""

from __future__ import annotations

from ...errors import KafkaProtocolError
from ...wire import Message
from ...wire.schema import array, string

_VERSION_SIZE = 2


class SubscribedTopics(Message):
    """The fields of a subscription that the coordinator reads."""

    VERSIONS = (0, 0)

    topics: list[str] = array(string, "0+")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics; later fields are ignored.

    Raises:
        KafkaProtocolError: The bytes are not a consumer subscription.
    """
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        raise KafkaProtocolError(f"subscription of {len(metadata)} bytes is too short or has a negative version")
    return frozenset(SubscribedTopics.decode(metadata, 0, _VERSION_SIZE, ignore_trailing=True).topics)
