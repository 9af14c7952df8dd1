"""What can go wrong, as one tree; every error says what, where and what next, and survives pickling.

::

    KafkaError
    ├── IllegalStateError                 you called this at the wrong time
    │   └── ConcurrentAccessError         ... from a second thread, or in a forked child
    ├── IllegalArgumentError              you called this with the wrong thing
    │   └── KafkaConfigurationError       ... when building a Consumer
    ├── WakeupError                       wakeup() ended the call
    ├── KafkaTimeoutError                 the call's own timeout passed first; retriable
    ├── KafkaConnectionError              a connection failed or ended; retriable
    │   └── NoBrokersAvailable            no broker answers; names the cause for each
    ├── KafkaProtocolError                the peer sent bytes we cannot believe, or is not Kafka
    ├── InvalidAssignmentError            an assignor's plan cannot be carried out; has assignor
    ├── CommitFailedError                 offsets were not written down; has reason and partitions
    │   └── RebalanceInProgressError      ... since the group is rebalancing: poll(), then decide again
    ├── NoOffsetForPartitionError         no position, and auto_offset_reset="none"
    ├── LogTruncationError                the log was truncated below the position, and policy "none"
    ├── RecordError                       a record cannot be handed out; has partition and offset; see Consumer.skip()
    │   ├── CorruptRecordError            the bytes are broken
    │   ├── UnsupportedCodecError         the codec's package is missing
    │   └── DeserializationError          your deserializer raised; has the raw bytes
    └── BrokerResponseError               a broker answered with an error code
        ├── OffsetOutOfRangeError         position outside the log, and policy "none"
        ├── UnknownTopicOrPartitionError
        ├── UnsupportedVersionError       the broker is too old (or too new) for what was asked
        ├── GroupError                    the coordinator refuses this member, whatever it does
        │   ├── FencedInstanceIdError     another member has taken this group_instance_id
        │   ├── InconsistentGroupProtocolError  no assignor that all members list, or another kind of group
        │   ├── InvalidSessionTimeoutError      outside what the broker allows
        │   ├── InvalidGroupIdError
        │   └── GroupMaxSizeReachedError
        └── AuthorizationError
            ├── TopicAuthorizationFailedError
            ├── GroupAuthorizationFailedError
            ├── ClusterAuthorizationFailedError
            └── SaslAuthenticationFailedError

Names are kafka-python's where it has the thing. Whether a broker's code is retriable is a column of
:mod:`thinconsumer.wire.error_codes`, not a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .types import TopicPartition

__all__ = [
    "AuthorizationError",
    "BrokerResponseError",
    "ClusterAuthorizationFailedError",
    "CommitFailedError",
    "ConcurrentAccessError",
    "CorruptRecordError",
    "DeserializationError",
    "FencedInstanceIdError",
    "GroupAuthorizationFailedError",
    "GroupError",
    "GroupMaxSizeReachedError",
    "IllegalArgumentError",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidAssignmentError",
    "InvalidGroupIdError",
    "InvalidSessionTimeoutError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaProtocolError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NoBrokersAvailable",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
    "RebalanceInProgressError",
    "RecordError",
    "SaslAuthenticationFailedError",
    "TopicAuthorizationFailedError",
    "UnknownTopicOrPartitionError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
    "WakeupError",
]


def _rebuild(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class KafkaError(Exception):
    """Root of everything this package raises on purpose."""

    #: Whether the same call can succeed later without anything being changed.
    retriable: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls cls(*args), which fails for every constructor that takes more than the message. Errors
        # cross process borders (multiprocessing, Spark), where that would hide the cause.
        return _rebuild, (type(self), self.args, self.__dict__)


class IllegalStateError(KafkaError):
    """The call makes no sense in the consumer's present state."""


class ConcurrentAccessError(IllegalStateError):
    """The consumer is in use by another thread, or was connected before this process was forked."""


class IllegalArgumentError(KafkaError, ValueError):
    """An argument has the wrong type or value."""


class KafkaConfigurationError(IllegalArgumentError):
    """An option is unknown, has a wrong value, or contradicts another."""


class WakeupError(KafkaError):
    """``wakeup()`` was called; the consumer is as it was and can be used on."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """The answer did not come within the call's ``timeout_ms``."""

    retriable = True


class KafkaConnectionError(KafkaError, ConnectionError):
    """A connection could not be made, failed, or was closed with requests under way."""

    retriable = True

    def __init__(self, message: str, *, host: str = "", port: int = 0, node_id: int | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.port = port
        self.node_id = node_id


class NoBrokersAvailable(KafkaConnectionError):
    """No broker answered for ``bootstrap_timeout_ms``, or only bootstrap servers did.

    ``causes`` maps each ``host:port`` to its last failure, for bootstrap servers and for the addresses that brokers
    advertise. The next poll tries again.
    """

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        super().__init__(message)
        self.causes = dict(causes)


class KafkaProtocolError(KafkaError):
    """The peer sent something that is not the Kafka protocol as we know it; its connection has been closed."""


class InvalidAssignmentError(KafkaError):
    """The leader's assignor made a plan that cannot be carried out, so it was not sent; the group tries again.

    ``assignor`` is the name of the one to mend.
    """

    def __init__(self, message: str, assignor: str) -> None:
        super().__init__(f"assignor {assignor!r} {message}")
        self.assignor = assignor


class CommitFailedError(KafkaError):
    """Offsets were not written down.

    ``reason`` is one of ``"unknown_member"``, ``"illegal_generation"``, ``"rebalance_in_progress"``, ``"fenced"``,
    ``"coordinator"`` (not found, not reachable or not ready in time), ``"authorization"``, ``"metadata_too_large"``,
    ``"timeout"`` and ``"refused"``. ``partitions`` were to be committed. ``seconds_since_poll`` is how long before the
    attempt ``poll`` was last called (None if never), a fact and not a verdict; in a ``poll``, how long before that one.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        partitions: Iterable[TopicPartition] = (),
        retriable: bool = False,
        seconds_since_poll: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.partitions = tuple(sorted(partitions))
        self.retriable = retriable
        self.seconds_since_poll = seconds_since_poll


class RebalanceInProgressError(CommitFailedError):
    """The group is rebalancing, and it is not known yet what this member will own: ``poll()``, then decide again."""


class NoOffsetForPartitionError(KafkaError):
    """These partitions have no position and ``auto_offset_reset`` is ``"none"``; ``seek`` them."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = tuple(sorted(partitions))
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        super().__init__(f"no offset to start from for {names}, and auto_offset_reset='none': call seek() first")


class LogTruncationError(KafkaError):
    """The log no longer holds what was read: a new leader's log diverges below the position (KIP-320).

    ``position`` is where the consumer was; ``divergent_offset`` is where the logs part, or None when the broker does
    not know. ``seek`` to one of them.
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None) -> None:
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset
        where = "at an unknown offset" if divergent_offset is None else f"at offset {divergent_offset}"
        super().__init__(
            f"log of {partition.topic}-{partition.partition} was truncated: position {position}, logs diverge {where}, "
            "and auto_offset_reset='none': seek() to where you want to go on"
        )


class RecordError(KafkaError):
    """What stands at ``partition`` and ``offset`` cannot be handed out. ``seek`` past it, or ``Consumer.skip(error)``.

    ``next_offset`` is the first offset after what is affected: a whole batch, or the one record.
    """

    def __init__(self, message: str, partition: TopicPartition, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class CorruptRecordError(RecordError):
    """A checksum, length or count in a record batch is wrong."""


class UnsupportedCodecError(RecordError):
    """A batch is compressed with ``codec``, whose package is not installed; ``extra`` names what to install."""

    def __init__(
        self, message: str, partition: TopicPartition, offset: int, next_offset: int, *, codec: str, extra: str
    ) -> None:
        super().__init__(message, partition, offset, next_offset)
        self.codec = codec
        self.extra = extra


class DeserializationError(RecordError):
    """A deserializer raised (its exception is the ``__cause__``). The raw bytes are here; nothing was lost."""

    def __init__(
        self,
        message: str,
        partition: TopicPartition,
        offset: int,
        next_offset: int,
        *,
        field: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        timestamp: int,
    ) -> None:
        super().__init__(message, partition, offset, next_offset)
        self.field = field  #: ``"key"`` or ``"value"``: which deserializer raised.
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp = timestamp


class BrokerResponseError(KafkaError):
    """A broker answered with an error code.

    ``code`` and ``name`` are Kafka's; ``retriable`` is Kafka's verdict for it; ``api`` and ``node_id`` say who was
    asked for what; ``partition`` is set where the error concerns one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int,
        name: str,
        retriable: bool = False,
        api: str = "",
        node_id: int | None = None,
        partition: TopicPartition | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retriable = retriable
        self.api = api
        self.node_id = node_id
        self.partition = partition


class OffsetOutOfRangeError(BrokerResponseError):
    """The position is outside the log and ``auto_offset_reset`` is ``"none"``.

    ``position`` is what was wanted; ``log_start`` and ``log_end`` are what there is (None where unknown).
    """

    position: int | None = None
    log_start: int | None = None
    log_end: int | None = None


class UnknownTopicOrPartitionError(BrokerResponseError):
    """The topic or partition does not exist (or may not be seen)."""


class UnsupportedVersionError(BrokerResponseError):
    """No version of the API is spoken by both sides."""


class GroupError(BrokerResponseError):
    """The coordinator refuses this member, and trying again as it is will not help."""


class FencedInstanceIdError(GroupError):
    """Another member with the same ``group_instance_id`` has taken over (KIP-345). This one is out for good."""


class InconsistentGroupProtocolError(GroupError):
    """The group has another protocol type, or no assignor is listed by all of its members."""


class InvalidSessionTimeoutError(GroupError):
    """``session_timeout_ms`` is outside the broker's ``group.min.session.timeout.ms`` and ``group.max...``."""


class InvalidGroupIdError(GroupError):
    """The broker does not take this ``group_id``."""


class GroupMaxSizeReachedError(GroupError):
    """The group is full: the broker's ``group.max.size``."""


class AuthorizationError(BrokerResponseError):
    """An ACL or a login stands in the way."""


class TopicAuthorizationFailedError(AuthorizationError):
    """Not allowed to read or describe these topics."""

    topics: tuple[str, ...] = ()


class GroupAuthorizationFailedError(AuthorizationError):
    """Not allowed to use this group."""

    group_id: str = ""


class ClusterAuthorizationFailedError(AuthorizationError):
    """Not allowed to do this to the cluster."""


class SaslAuthenticationFailedError(AuthorizationError):
    """The broker refused the credentials."""
