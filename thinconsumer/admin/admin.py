"""The internal admin's public calls, one method per operation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from ..config import ClientOptions
from ..driver import Driver
from ..engine import BaseClient, Engine, Shell, to_seconds
from ..errors import IllegalArgumentError, KafkaError
from ..network.metadata import Metadata
from ..support.agenda import Agenda
from ..types import OffsetAndMetadata, TopicPartition
from . import operations
from .operation_run import OperationRun
from .operations import (
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupListings,
    NewTopic,
    Operation,
    TopicDescription,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Offsets = dict[TopicPartition, OffsetAndMetadata | KafkaError]


class Admin(BaseClient):
    """Creates, deletes and describes topics and groups. Closing it closes the driver.

    The docstring of the package :mod:`thinconsumer.admin` says how long a call takes and how errors are returned.
    """

    def __init__(self, settings: ClientOptions, *, driver: Driver) -> None:
        self.settings = settings
        random, agenda = driver.random, Agenda()
        metadata = Metadata(settings, random, agenda)
        self._parts = settings, metadata, random, agenda
        self._shell = Shell("admin", Engine(settings, random, metadata, (), driver.wall_time, agenda), driver)

    def close(self) -> None:
        if not self._shell.closed:
            self._shell.close()

    def create_topics(self, topics: Mapping[str, NewTopic]) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; return each created topic, or its error.

        After a lost response, the error TOPIC_ALREADY_EXISTS may mean that the first attempt created the topic.
        """
        return self._run(operations.CREATE_TOPICS, topics)

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics; return each topic's error, None if it was deleted."""
        return self._run(operations.DELETE_TOPICS, _unique(names))

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, KafkaError | None]:
        """Add partitions to topics; return each topic's error, None if it was changed.

        ``totals`` are the new partition counts. On counted topics (``wire.extensions``) a lower count marks partitions
        for deletion; on others it is an error.
        """
        return self._run(operations.CREATE_PARTITIONS, totals)

    def list_topics(self, *, timeout_ms: float | None = None) -> dict[str, TopicDescription]:
        """Describe the topics that the ACLs let this client see. If the request fails, its error is raised."""
        result = self._run(operations.LIST_TOPICS, {operations.ALL: None}, timeout_ms)[operations.ALL]
        if isinstance(result, KafkaError):
            raise result
        return result

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription | KafkaError]:
        """Return each topic's description, or its error."""
        return self._run(operations.DESCRIBE_TOPICS, _unique(names))

    def list_groups(self, *, types: Iterable[str] = ()) -> GroupListings:
        """List the groups of all brokers, or only those of some types: ``classic``, ``consumer``.

        Raises:
            KafkaTimeoutError: no metadata response came in time, so that no broker is known.
        """
        groups: dict[str, GroupListing] = {}
        errors: dict[int, KafkaError] = {}
        for node_id, found in self._run(operations.list_groups(_unique(types)), None).items():
            if isinstance(found, KafkaError):
                errors[node_id] = found
            else:
                groups.update((group.group_id, group) for group in found)
        return GroupListings(groups, errors)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Return the description of each group, of either type, or its error."""
        return self._run(operations.DESCRIBE_GROUPS, _unique(group_ids))

    def list_group_offsets(self, group_ids: Iterable[str]) -> dict[str, Offsets | KafkaError]:
        """Return each group's committed offsets (an empty dict if the group does not exist), or its error."""
        return self._run(operations.LIST_GROUP_OFFSETS, _unique(group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups without members, with their committed offsets; return each group's error, None if deleted."""
        return self._run(operations.DELETE_GROUPS, _unique(group_ids))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None] | KafkaError:
        """Delete a group's committed offsets; return each partition's error, None if it has no committed offset now.

        A partition of a topic that a member subscribes to has the error GROUP_SUBSCRIBED_TO_TOPIC. An error that
        concerns the whole group is returned in place of the dict: NON_EMPTY_GROUP for a group of other members than
        consumers.
        """
        return self._run(operations.DELETE_GROUP_OFFSETS, {group_id: tuple(partitions)})[group_id]

    def _run(
        self, operation: Operation[K, V], items: Mapping[K, Any] | None, timeout_ms: float | None = None
    ) -> dict[K, V | KafkaError]:
        seconds = to_seconds(timeout_ms, self.settings.default_api_timeout_ms)
        shell = self._shell
        with shell.enter():
            run = OperationRun(operation, items, shell.driver.now() + seconds, *self._parts)
            shell.engine.add(run)  # in place of the last call's run
            if not run.is_done and not shell.complete(shell.wait_until(lambda: run.is_done, seconds)):
                run.time_out(shell.engine.obstacle())
            return run.results


def _unique(names: Iterable[str]) -> dict[str, None]:
    if isinstance(names, str):
        raise IllegalArgumentError(f"expected several names, not the str {names!r}: put it into a list")
    return dict.fromkeys(names)
