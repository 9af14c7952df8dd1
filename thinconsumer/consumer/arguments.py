"""What users pass in, checked at the door: a wrong type found three rooms further in explains nothing."""

from __future__ import annotations

from ..errors import IllegalArgumentError
from ..types import TopicPartition


def topic_partition(tp: object) -> TopicPartition:
    """Return a TopicPartition from anything of its shape, kafka-python's own class too."""
    if isinstance(tp, tuple) and len(tp) == 2 and isinstance(tp[0], str) and isinstance(tp[1], int):
        return tp if isinstance(tp, TopicPartition) else TopicPartition(tp[0], tp[1])
    raise IllegalArgumentError(f"expected a TopicPartition(topic, partition), not {tp!r}")


def is_whole(value: object, least: int) -> bool:
    """Return whether it is an int of Kafka's INT64, and not one of Python's bools."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def to_seconds(timeout_ms: object) -> float:
    """Return a user's timeout in seconds.

    Raises:
        IllegalArgumentError: it is not a number of milliseconds from 0 on.
    """
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, (int, float)) or not timeout_ms >= 0:
        raise IllegalArgumentError(f"a timeout is a number of milliseconds from 0 on, not {timeout_ms!r}")
    return timeout_ms / 1000
