"""Topic names: which are valid, and which belong to internal topics. Follows Kafka's ``Topic``."""

import re

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
NAME_LENGTH_MAX = 249
#: The controllers' metadata log on real brokers; CreateTopics rejects this name.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_INTERNAL = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"))
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def is_internal(name: str | None) -> bool:
    """Return whether a topic of that name is internal, whether it exists or not."""
    return name in _INTERNAL


def topic_name_error(name: str) -> str | None:
    """Return why a topic name is invalid, as a message for the client; None if it is valid."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"'{name}' is longer than {NAME_LENGTH_MAX} characters"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' has characters other than ASCII letters and digits, '.', '_' and '-'"
    return reason and f"Topic name is invalid: {reason}"
