"""The exceptions of this package, all derived from :class:`KafkaError`. Every one can be pickled.

Names are kafka-python's where it has the same error. Whether an error code is retriable is a column of
:mod:`thinconsumer.wire.error_codes`, not a class. ``help(thinconsumer.errors)`` shows the class tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
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
    "DeserializerNotReadyError",
    "FencedInstanceIdError",
    "GroupAuthorizationFailedError",
    "GroupError",
    "GroupMaxSizeReachedError",
    "IllegalArgumentError",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidAssignmentError",
    "InvalidGroupIdError",
    "InvalidRegularExpressionError",
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
    "PartitionNotOwnedError",
    "ProxyAuthenticationFailedError",
    "RebalanceInProgressError",
    "RecordError",
    "RetriableDeserializationError",
    "SaslAuthenticationFailedError",
    "SslAuthenticationFailedError",
    "TopicAuthorizationFailedError",
    "UnknownTopicOrPartitionError",
    "UnreleasedInstanceIdError",
    "UnsupportedAssignorError",
    "UnsupportedCodecError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "WakeupError",
]


class KafkaError(Exception):
    """The base of this package's exceptions."""

    #: Whether the same call may succeed later.
    retriable: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By default unpickling calls cls(*args), which fails if the constructor takes more than the message. With
        # multiprocessing or Spark, that TypeError would hide the cause. ``args`` is also in the state, since OSError's
        # __new__ ignores the arguments.
        return type(self).__new__, (type(self), *self.args), {"args": self.args, **self.__dict__}


class IllegalStateError(KafkaError):
    """The client's present state does not allow the call."""


class ConcurrentAccessError(IllegalStateError):
    """The client is in use: by another thread, by a call on this thread (one that a signal handler has interrupted,
    for example), or by the process from which this process was forked.
    """


class IllegalArgumentError(KafkaError, ValueError):
    """An argument has the wrong type or value."""


class KafkaConfigurationError(IllegalArgumentError):
    """An option is unknown, has a wrong value, or contradicts another."""


class WakeupError(KafkaError):
    """``wakeup()`` ended the call. The consumer is unchanged and can be used."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """The call had no result within its ``timeout_ms``."""

    retriable = True


class KafkaConnectionError(KafkaError, ConnectionError):
    """A connection could not be established, failed, or was closed with requests in flight.

    ``is_certificate_rejected`` marks a TLS handshake that would fail again: an untrusted certificate, a host name that
    does not match, a missing client certificate, no protocol or cipher in common. ``is_handshake_cut`` marks a TLS
    handshake that the peer ended without an answer: the peer restarts, or its port does not use TLS.
    ``is_proxy_login_rejected`` marks a proxy that rejects the user and password of ``proxy_url``, or requires some.
    ``is_misrouted`` marks a connection that was rejected because the broker is not the expected one (KIP-1242).
    """

    retriable = True

    def __init__(
        self,
        message: str,
        *,
        host: str = "",
        port: int = 0,
        node_id: int | None = None,
        is_certificate_rejected: bool = False,
        is_handshake_cut: bool = False,
        is_proxy_login_rejected: bool = False,
        is_misrouted: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_proxy_login_rejected = is_proxy_login_rejected
        self.is_misrouted = is_misrouted
        self.is_handshake_cut = is_handshake_cut
        self.is_certificate_rejected = is_certificate_rejected
        self.host = host
        self.port = port
        self.node_id = node_id


class NoBrokersAvailable(KafkaConnectionError):
    """No broker answered within ``bootstrap_timeout_ms``, or only bootstrap servers did.

    ``causes`` maps each ``host:port`` to its last failure, for bootstrap servers and for the addresses that brokers
    advertise. The next poll tries again.
    """

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        super().__init__(message)
        self.causes: dict[str, str] = dict(causes)


class KafkaProtocolError(KafkaError):
    """A broker, or a member of the group, sent bytes that violate the Kafka protocol."""


class InvalidAssignmentError(KafkaError):
    """The group leader's assignor returned an invalid assignment, which was not sent; the group rebalances again.

    ``assignor`` is the name of the assignor to fix.
    """

    def __init__(self, message: str, assignor: str) -> None:
        super().__init__(f"assignor {assignor!r} {message}")
        self.assignor = assignor


class CommitFailedError(KafkaError):
    """Offsets were not committed.

    ``reason`` is one of ``"unknown_member"``, ``"illegal_generation"``, ``"rebalance_in_progress"``, ``"fenced"``,
    ``"coordinator"`` (not found, not reachable or not ready in time), ``"authorization"``, ``"metadata_too_large"``,
    ``"timeout"``, ``"not_owned"`` and ``"refused"``. ``partitions`` are those whose offsets were not committed.
    ``seconds_since_poll`` is the time from the last ``poll`` to the failure, or the time between the last two if the
    commit fails inside a ``poll``; None without such polls. A long time is not always the cause.
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
        self.partitions: tuple[TopicPartition, ...] = tuple(sorted(partitions))
        self.retriable = retriable
        self.seconds_since_poll = seconds_since_poll


class RebalanceInProgressError(CommitFailedError):
    """The group is rebalancing: ``poll()`` until it is over, then commit the partitions that are still assigned."""


class PartitionNotOwnedError(CommitFailedError):
    """This member does not own these ``partitions``: their offsets were not committed, because they would replace those
    of the owners.

    Offsets of other partitions in the same call were committed. With ``allow_foreign_commits=True`` all are committed,
    as by Java's consumer.
    """


class NoOffsetForPartitionError(KafkaError):
    """The ``partitions`` have no position and ``auto_offset_reset`` is ``"none"``; ``seek`` them."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions: tuple[TopicPartition, ...] = tuple(sorted(partitions))
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        super().__init__(f"no offset to start from for {names}, and auto_offset_reset='none': call seek() first")


class LogTruncationError(KafkaError):
    """The new leader's log diverges below the position (KIP-320), and ``auto_offset_reset`` is ``"none"``.

    ``divergent_offset`` is where the logs diverge, or None if the broker does not know. ``seek`` to it, or to the
    ``position`` that the consumer had.
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None) -> None:
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset
        where = "at an unknown offset" if divergent_offset is None else f"at offset {divergent_offset}"
        super().__init__(
            f"log of {partition.topic}-{partition.partition} was truncated: position {position}, logs diverge {where}, "
            "and auto_offset_reset='none': seek() to the offset to continue from"
        )


class RecordError(KafkaError):
    """The record at ``partition`` and ``offset`` cannot be returned. ``seek`` past it, or ``Consumer.skip(error)``.

    ``next_offset`` is the first offset after the affected batch or record.
    """

    def __init__(self, message: str, partition: TopicPartition, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class CorruptRecordError(RecordError):
    """A checksum, length or count in a record batch is wrong. ``Consumer.skip(error)`` passes that batch only."""

    def __str__(self) -> str:
        return f"{super().__str__()}; skip(error) or seek to {self.next_offset} to continue after it"


class UnsupportedCodecError(RecordError):
    """A batch's ``codec`` is unknown, or its package is not installed; ``extra`` names what to install."""

    def __init__(
        self, message: str, partition: TopicPartition, offset: int, next_offset: int, *, codec: str, extra: str
    ) -> None:
        super().__init__(message, partition, offset, next_offset)
        self.codec = codec
        self.extra = extra


class DeserializationError(RecordError):
    """A deserializer raised; its exception is the ``__cause__``. The attributes include the record's raw bytes."""

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


class RetriableDeserializationError(DeserializationError):
    """A deserializer has raised :class:`DeserializerNotReadyError`. Polls do not raise it, but try the record again."""

    retriable = True
    since: float = inf  #: When a poll has first called the deserializer for this record, in seconds as ``tried_at``.
    tried_at: float = 0.0  #: When a poll has called the deserializer, in seconds by the clock of the consumer's driver.
    retry_after_ms: float = 0.0  #: After how long it is called again.

    @property
    def again_at(self) -> float:
        """When it is called again, in seconds as ``tried_at``."""
        return self.tried_at + self.retry_after_ms / 1000


class DeserializerNotReadyError(KafkaError):
    """A deserializer raises it for a record that it cannot read yet, as while a schema registry cannot be reached.

    The record is not bad: the poll returns records of other partitions, and calls the deserializer again after
    ``retry_after_ms``, or the next poll does.
    """

    retriable = True

    def __init__(self, message: str, retry_after_ms: float = 100.0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class BrokerResponseError(KafkaError):
    """A broker answered with an error code.

    ``code``, ``name`` and ``retriable`` are Kafka's; ``api`` and ``node_id`` are those of the request; ``partition`` is
    set if the error concerns one.
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

    ``log_start`` and ``log_end`` are the log's offsets, each None if unknown.
    """

    position: int | None = None
    log_start: int | None = None
    log_end: int | None = None


class UnknownTopicOrPartitionError(BrokerResponseError):
    """The topic or partition does not exist, or an ACL hides it."""


class UnsupportedVersionError(BrokerResponseError):
    """Client and broker have no version of the API in common."""


class GroupError(BrokerResponseError):
    """The coordinator rejects this member. A retry succeeds only after the group or a configuration has changed."""


class FencedInstanceIdError(GroupError):
    """Another member with the same ``group_instance_id`` has taken over (KIP-345). This member cannot rejoin."""


class InconsistentGroupProtocolError(GroupError):
    """The group has another protocol type, or its members have no assignor in common."""


class InvalidSessionTimeoutError(GroupError):
    """``session_timeout_ms`` is below the broker's ``group.min.session.timeout.ms``, or above the maximum."""


class InvalidGroupIdError(GroupError):
    """The broker rejects this ``group_id``."""


class GroupMaxSizeReachedError(GroupError):
    """The group has ``group.max.size`` members already."""


class UnreleasedInstanceIdError(GroupError):
    """A member with the same ``group_instance_id`` has not left yet (KIP-848). The member that came first stays."""


class UnsupportedAssignorError(GroupError):
    """The broker does not have the assignor that ``group_remote_assignor`` names (KIP-848)."""


class InvalidRegularExpressionError(GroupError):
    """The broker could not compile the regular expression of a ``SubscriptionPattern`` (KIP-848)."""


class AuthorizationError(BrokerResponseError):
    """An ACL, the login, the TLS handshake or a proxy denies the request."""


class TopicAuthorizationFailedError(AuthorizationError):
    """An ACL denies reading, writing or describing the ``topics``."""

    topics: tuple[str, ...] = ()


class GroupAuthorizationFailedError(AuthorizationError):
    """An ACL denies access to the group ``group_id``."""

    group_id: str = ""


class ClusterAuthorizationFailedError(AuthorizationError):
    """An ACL denies this operation on the cluster."""


class SaslAuthenticationFailedError(AuthorizationError):
    """The broker rejected the credentials, or did not prove that it knows them (SCRAM)."""


class UnsupportedSaslMechanismError(AuthorizationError):
    """The broker does not accept ``sasl_mechanism`` on this listener. No credentials were sent."""


class SslAuthenticationFailedError(AuthorizationError):
    """The TLS handshake failed because of a certificate, a protocol version or a cipher; the text names the option.

    Repeating the handshake cannot succeed until the configuration of the client or the broker changes. ``code`` is that
    of SASL_AUTHENTICATION_FAILED, since Kafka has no error code for TLS.
    """


class ProxyAuthenticationFailedError(AuthorizationError):
    """The proxy of ``proxy_url`` rejects its user and password, or requires some. No broker was reached.

    ``code`` is that of SASL_AUTHENTICATION_FAILED, since Kafka has no error code for proxies.
    """
