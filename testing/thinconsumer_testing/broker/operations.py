"""The operations on embedded brokers, the same for brokers in this process and in a process of their own."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition

from .client_metrics import DEFAULT_INTERVAL_MS, PushedMetrics
from .image import TopicImage
from .new_records import as_list, new_records

_BrokerT = TypeVar("_BrokerT", bound="BrokerOperations")
Partition = TopicPartition | tuple[str, int]


class BrokerOperations(abc.ABC):
    """Operations on a cluster of brokers. For their errors see :class:`.cluster.Cluster`, which performs them."""

    def __enter__(self: _BrokerT) -> _BrokerT:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @abc.abstractmethod
    def close(self) -> None:
        """Stop the brokers and release all resources; idempotent."""

    @abc.abstractmethod
    def _perform(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method ``name`` of :class:`.cluster.Cluster`, in the process that runs it, and return its result."""

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> TopicImage | None:
        """Create a topic (-1: the brokers' defaults); return it, or None if the broker runs in another process."""
        created: TopicImage | None = self._perform(
            "create_topic", name, partitions, replication_factor, dict(configs or {})
        )
        return created

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its data."""
        self._perform("delete_topic", name)

    def expand(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic to ``partitions``."""
        self._perform("expand", topic, partitions)

    def shrink(self, topic: str, partitions: int) -> None:
        """Decrease the partition count of a topic with the config ``enable.ordered.delivery`` to ``partitions``.
        Partitions with this or a higher number are marked for deletion, and removed once they are empty.
        """
        self._perform("shrink", topic, partitions)

    def set_password(self, user: str, password: str | None) -> None:
        """Set a user's password for logins with PLAIN and SCRAM; None removes the user. Open connections stay open."""
        self._perform("set_password", user, password)

    def create_acls(self, principal: str, operations: str | Iterable[str], **resources: Any) -> None:
        """Create ACLs that allow a principal operations, or deny them. The brokers need the config
        ``authorizer.class.name``.

        ``create_acls("User:alice", ["READ", "DESCRIBE"], topic="orders", group="billing")`` creates an ACL for each
        operation on each resource.

        Args:
            principal: For example "User:alice", or ``User:*`` for all users.
            operations: Kafka's names: "READ", "WRITE", "ALL", ...
            resources: ``topic``, ``group`` and ``transactional_id`` are names; ``*`` means all. ``cluster=True`` is the
                cluster. ``prefixed=True`` makes the names prefixes, ``deny=True`` denies the operations, and ``host``
                limits the ACLs to one IP address.

        Raises:
            IllegalArgumentError: An invalid or missing operation or resource, or a principal without its type.
        """
        self._perform("create_acls", principal, _listed(operations), **resources)

    def delete_acls(self, principal: str, operations: str | Iterable[str], **resources: Any) -> None:
        """Delete the ACLs that :meth:`create_acls` created with the same arguments."""
        self._perform("delete_acls", principal, _listed(operations), **resources)

    def produce(self, topic: str, values: Iterable[bytes | NewRecord | None], partition: int = 0, **batch: Any) -> int:
        """Append a batch like a producer with acks=1; return its base offset. ``batch``: as in ``Cluster.produce``."""
        given = as_list(values)
        new_records(given)  # for its errors: a wrong value may have no form in which another process gets it
        return int(self._perform("produce", topic, given, partition, **batch))

    def set_client_metrics(
        self,
        name: str,
        metrics: Iterable[str] | None,
        *,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        match: Mapping[str, str] | None = None,
    ) -> None:
        """Have clients push metrics (KIP-714), as the resource ``name`` of the type client-metrics does in Kafka.

        The brokers need the config ``metric.reporters=ClientTelemetryReceiver``.

        Args:
            metrics: Prefixes of metric names; ``["*"]`` for all, an empty list for none. None removes the subscription.
            interval_ms: The time between two pushes.
            match: The clients that push: regular expressions for their "client_id", "client_instance_id" (as
                ``Consumer.client_instance_id`` returns it) and "client_source_address". All clients without.

        Raises:
            IllegalArgumentError: An interval below 100 or above 3,600,000 ms, or an invalid ``match``.
        """
        listed = None if metrics is None else list(metrics)
        self._perform("set_client_metrics", name, listed, interval_ms=interval_ms, match=dict(match or {}))

    def pushed_metrics(self) -> list[PushedMetrics]:
        """Return what clients have pushed, oldest first; of many pushes the latest 1,000."""
        pushed: list[PushedMetrics] = self._perform("pushed_metrics")
        return pushed

    def delete_records(self, tp: Partition, before: int) -> None:
        """Delete a partition's records below the offset ``before``, or below the high watermark if that is lower."""
        self._perform("delete_records", TopicPartition(*tp), before)

    def compact(self, tp: Partition) -> None:
        """Run the log cleaner on all replicas of a partition now."""
        self._perform("compact", TopicPartition(*tp))

    def kill(self, node: int, *, noticed_after_s: float | None = None) -> None:
        """Stop a broker like ``kill -9``: its connections are reset, and its port refuses new ones until :meth:`start`.
        The controller elects other leaders after ``noticed_after_s`` seconds (None: the broker's session timeout).
        """
        self._perform("kill", node, noticed_after_s=noticed_after_s)

    def start(self, node: int) -> None:
        """Start a killed broker again, with its logs, on the same port."""
        self._perform("start", node)

    def kill_controller(self) -> None:
        """Stop the controller: until :meth:`start_controller`, leaders and topics stay as they are."""
        self._perform("kill_controller")

    def start_controller(self) -> None:
        """Start a controller with the metadata of the killed one, whose unfinished changes it completes."""
        self._perform("start_controller")

    def pause(self, node: int) -> None:
        """Suspend a broker like SIGSTOP: it stops responding, and its connections stay open."""
        self._perform("pause", node)

    def resume(self, node: int) -> None:
        """Continue a paused broker like SIGCONT."""
        self._perform("resume", node)

    def move_leader(self, tp: Partition, to: int | None = None) -> int:
        """Make another broker (``to``, if given) the leader; return the leader after the call. A broker without an
        in-sync replica becomes leader only later, once it has copied the records.
        """
        return int(self._perform("move_leader", TopicPartition(*tp), to))

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Make another broker (``to``, if given) the coordinator of a group and of all groups in the same partition of
        ``__consumer_offsets``; return the coordinator's node id.
        """
        return int(self._perform("move_coordinator", group, to))

    def cut(self, one: int, other: int = -1) -> None:
        """Cut the network between two brokers, or a broker and the controller (-1). Clients still reach the brokers."""
        self._perform("cut", one, other)

    def heal(self) -> None:
        """End all network cuts."""
        self._perform("heal")


def _listed(operations: str | Iterable[str]) -> list[str]:
    return [operations] if isinstance(operations, str) else list(operations)
