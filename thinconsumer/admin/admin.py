"""The internal admin's calls: engine and driver under one roof, one method per thing that can be asked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from ..calls import Call
from ..client import ClientOptions, Engine, Shell, to_seconds
from ..driver import Driver
from ..errors import IllegalArgumentError, KafkaError
from ..metadata import Metadata
from ..timers import NEVER
from ..types import OffsetAndMetadata, TopicPartition
from . import operations
from .operations import ALL, DELETE_GROUPS, DELETE_RECORDS, DELETE_TOPICS, DESCRIBE_GROUPS, DESCRIBE_TOPICS
from .questions import Operation, Questions
from .results import CreatedTopic, GroupDescription, GroupListing, GroupsListed, NewTopic, TopicDescription

A = TypeVar("A", bound="Admin")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Offsets = dict[TopicPartition, OffsetAndMetadata | KafkaError]


class Admin:
    """Asks brokers to create, delete and describe; see the package for what is promised. Closing it closes the driver.

    Each method takes ``timeout_ms`` (``default_api_timeout_ms`` by default) and returns within it.
    """

    def __init__(self, settings: ClientOptions, *, driver: Driver) -> None:
        self.settings = settings
        metadata = Metadata(settings, driver.random)
        self._questions = Questions(settings, metadata, driver.random)
        self._shell = Shell("admin", Engine(settings, driver.random, metadata, (self._questions,)), driver)
        self._questions.obstacle = self._shell.engine.obstacle

    def __enter__(self: A) -> A:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up. Closed twice, it does nothing."""
        if not self._shell.closed:
            self._shell.close()

    # -- topics

    def create_topics(
        self, topics: Mapping[str, NewTopic | int], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics, each given as a :class:`NewTopic` or as its number of partitions.

        Tried again after a lost answer, a topic may be said to exist already because the first attempt created it; the
        error says so.
        """
        new = {name: NewTopic(what) if isinstance(what, int) else what for name, what in topics.items()}
        return self._run(operations.create_topics(validate_only=validate_only), new, timeout_ms)

    def delete_topics(self, names: Iterable[str], *, timeout_ms: float | None = None) -> dict[str, KafkaError | None]:
        """Delete topics and everything in them."""
        return self._run(DELETE_TOPICS, _each(names), timeout_ms)

    def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> dict[str, KafkaError | None]:
        """Give topics more partitions; what is given is the new total of each."""
        return self._run(operations.create_partitions(validate_only=validate_only), totals, timeout_ms)

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete what lies before these offsets (-1: everything there is); returns where each log begins now."""
        items = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        return self._run(DELETE_RECORDS, items, timeout_ms)

    def list_topics(self, *, timeout_ms: float | None = None) -> dict[str, TopicDescription]:
        """Describe every topic that this user may see; raises what went wrong."""
        result = self._run(operations.LIST_TOPICS, {ALL: None}, timeout_ms)[ALL]
        if isinstance(result, KafkaError):
            raise result
        return result

    def describe_topics(
        self, names: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription | KafkaError]:
        """Describe these topics."""
        return self._run(DESCRIBE_TOPICS, _each(names), timeout_ms)

    # -- groups

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: float | None = None
    ) -> GroupsListed:
        """List the groups of all brokers, those in one of these states and of one of these types if any are given.

        Raises:
            KafkaTimeoutError: not even the brokers became known.
        """
        groups: dict[str, GroupListing] = {}
        errors: dict[int, KafkaError] = {}
        for node_id, found in self._run(operations.list_groups(states, types), None, timeout_ms).items():
            if isinstance(found, KafkaError):
                errors[node_id] = found
            else:
                groups.update((group.group_id, group) for group in found)
        return GroupsListed(groups, errors)

    def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Describe these classic groups."""
        return self._run(DESCRIBE_GROUPS, _each(group_ids), timeout_ms)

    def list_group_offsets(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, Offsets | KafkaError]:
        """Return everything that these groups have committed. A group that does not exist has committed nothing."""
        return self._run(operations.LIST_GROUP_OFFSETS, _each(group_ids), timeout_ms)

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups without members, and what they have committed."""
        return self._run(DELETE_GROUPS, _each(group_ids), timeout_ms)

    # -- for an event loop

    def begin(
        self, operation: Operation[K, V], items: Mapping[K, Any] | None, *, timeout_ms: float | None = None
    ) -> Call[dict[K, V | KafkaError]]:
        """Begin one of :mod:`.operations` without waiting; :meth:`poll` until the call is done."""
        seconds = to_seconds(timeout_ms, self.settings.default_api_timeout_ms)
        with self._shell.change():
            return self._questions.ask(operation, items, self._shell.driver.now() + seconds)

    def poll(self, timeout_ms: float = 0) -> None:
        """Go on with what :meth:`begin` began, for so long; 0 is one non-blocking step."""
        with self._shell.enter():
            self._shell.wait_until(lambda: False, to_seconds(timeout_ms))

    def wake_at(self) -> float:
        """Return when to poll next at the latest, in the driver's monotonic seconds."""
        return self._shell.wake_at()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is I/O to do; ``io.UnsupportedOperation`` if none."""
        return self._shell.driver.fileno()

    # -- inside

    def _run(
        self, operation: Operation[K, V], items: Mapping[K, Any] | None, timeout_ms: float | None
    ) -> dict[K, V | KafkaError]:
        call = self.begin(operation, items, timeout_ms=timeout_ms)
        try:
            with self._shell.enter():
                self._shell.wait_until(lambda: call.done, NEVER)  # the call settles in the step after its deadline
        finally:
            call.abandoned = True
        return call.result()


def _each(names: Iterable[str]) -> dict[str, None]:
    if isinstance(names, str):
        raise IllegalArgumentError(f"several names are wanted, and {names!r} is one: put it into a list")
    return dict.fromkeys(names)
