"""Cache the cluster's brokers, topics, partition leaders and leader epochs, and refresh them.

:mod:`.topic_metadata` decides which leaders of a response count. Other components notice changes by
:attr:`Metadata.version`. After Java's ``Metadata`` and ``MetadataCache``; KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

from ..config import ClientOptions
from ..errors import BrokerResponseError, KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..linear_hashing import PartitionCounts
from ..support.agenda import Agenda
from ..support.calls import Call
from ..support.lazy_dataclass import dataclass
from ..support.timers import Backoff, Random, Retry
from ..types import ClusterView, Node, PartitionInfo, TopicPartition
from ..wire import ZERO_UUID, Message
from ..wire.error_codes import Code, to_error
from ..wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from .request import ANY_NODE, Answer, Request
from .topic_metadata import TopicMetadata, partition_info

__all__ = ["ASKER", "IDS_SINCE", "Inquiry", "Metadata", "TopicMetadata"]

log = logging.getLogger(__name__)

ASKER = "metadata"
#: The first version in which a request may name topics by id.
IDS_SINCE = 12


@dataclass(slots=True)
class Inquiry:
    """A user's call that asks the brokers about topics (``None``: all) and does not use the cache."""

    topics: tuple[str, ...] | None
    call: Call[dict[str, TopicMetadata]]
    retry: Retry
    ids: tuple[bytes, ...] = ()  #: Topic ids to request in place of names.


class Metadata:
    """Caches cluster metadata and requests its refreshes, of which at most one is in flight."""

    asker = ASKER

    def __init__(self, settings: ClientOptions, random: Random, agenda: Agenda) -> None:
        self._settings = settings
        self._random = random
        self._agenda = agenda
        self._backoff = Backoff.from_settings(settings)
        self._retry = Retry(self._backoff, random, agenda)
        self._wanted: frozenset[str] = frozenset()
        self._everything = False
        self._listing = False  #: Whether the refresh in flight requests all topics.
        self.has_listed = False  #: Whether a list of all topics was received; topics first seen later are new.
        self.refresh_reason: str | None = None  #: Why a refresh is requested; None if it is not.
        self._demanded = False  #: Whether the refresh in flight was requested, and not just due by metadata_max_age_ms.
        self._expiry = agenda.alarm(ASKER)  #: ``metadata_max_age_ms`` after the last refresh.
        self._expiry.expire()
        self._failing_since: float | None = None
        #: The error of the last refresh if it is final, so that the next poll raises it; else None.
        self.refresh_error: KafkaError | None = None
        #: The error with which a broker has rejected the last refresh, if a later refresh may succeed; else None.
        self.rejection: BrokerResponseError | None = None
        self.outages = OutageLog(log)
        self._inquiries: list[Inquiry] = []
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._failing: dict[str, None] = {}  #: Names of the topics in ``topics`` that have an error.
        #: Whether a Metadata response has listed the brokers; ``nodes`` may also have some from :meth:`learn_node`.
        self.has_brokers = False
        self.cluster_id: str | None = None
        #: The node to which requests for the controller are sent; -1 if unknown. With KRaft, it is an arbitrary broker,
        #: which forwards the requests.
        self.controller_id = -1
        self.rebootstrap_reason: str | None = None  #: If set, the engine rebootstraps (KIP-1102) and resets it to None.
        self.version = 0  #: Incremented with each response or other event that may change nodes or topics.
        self._refreshes_sent = 0
        #: The number of the last refresh that has succeeded. Refreshes are numbered from 1 on, as they are sent.
        self.refreshed = 0

    def leader(self, tp: TopicPartition) -> PartitionInfo | None:
        """Return the partition's metadata if it has a leader with a known address, else None."""
        topic = self.topics.get(tp.topic)
        info = topic.partitions.get(tp.partition) if topic else None
        return info if info is not None and info.leader in self.nodes else None

    def counted(self) -> dict[str, PartitionCounts]:
        """Return the partition counts of the counted topics, by name."""
        return {name: topic.counts for name, topic in self.topics.items() if topic.counts is not None}

    def newest_epoch(self, tp: TopicPartition) -> int:
        """Return the newest leader epoch seen of the partition, also while it has no leader; -1 if none is known."""
        topic = self.topics.get(tp.topic)
        return -1 if topic is None else topic.epochs.get(tp.partition, -1)

    def topic_id(self, name: str) -> bytes:
        """Return the topic's id, or ZERO_UUID if it is unknown."""
        topic = self.topics.get(name)
        return topic.topic_id if topic else ZERO_UUID

    def has_topic_ids(self, names: Iterable[str]) -> bool:
        """Return whether the ids of all these topics are known, so that requests can carry ids in place of names."""
        return ZERO_UUID not in map(self.topic_id, names)

    def is_new_partition(self, tp: TopicPartition) -> bool:
        """Return whether metadata show that the partition was created while this client was running."""
        topic = self.topics.get(tp.topic)
        return topic is not None and topic.first_seen is not None and tp.partition not in topic.first_seen

    def has_looked_up(self, name: str) -> bool:
        """Return whether partitions or an error of the topic are known."""
        topic = self.topics.get(name)
        return topic is not None and (bool(topic.partitions) or topic.error is not None)

    def awaits(self, name: str) -> bool:
        """Return whether a wanted topic is not looked up yet, but a refresh is requested or in flight."""
        is_asked = self._retry.in_flight or self.refresh_reason is not None
        return is_asked and name in self._wanted and not self.has_looked_up(name)

    def view(self, topics: Iterable[str]) -> ClusterView:
        """Return the metadata of these topics as assignors get it; topics without known partitions are omitted."""
        known = {name: self.topics[name].partitions for name in topics if name in self.topics}
        partitions = {name: tuple([found[n] for n in sorted(found)]) for name, found in known.items() if found}
        return ClusterView(partitions, dict(self.nodes))

    def final_errors(self, topics: Collection[str] | None = None) -> list[KafkaError]:
        """Return the non-retriable errors of the last refresh and of these topics (default: all wanted ones)."""
        names = self._wanted if topics is None else topics
        errors = [self.refresh_error, *[self.topics[name].error for name in self._failing if name in names]]
        return [error for error in errors if error is not None and not error.retriable]

    def missing_topics(self, topics: Collection[str]) -> Iterator[KafkaError]:
        """Yield one error for each of these topics that does not exist according to the brokers."""
        for name in sorted(self._failing):
            error = self.topics[name].error
            if name in topics and isinstance(error, UnknownTopicOrPartitionError):
                yield error

    def missing_partitions(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return those of ``tps`` that their topic lacks, with the topic's partition count; none of unknown topics."""
        known = ((tp, self.topics[tp.topic].partitions) for tp in tps if tp.topic in self.topics)
        return {tp: len(found) for tp, found in known if found and tp.partition not in found}

    def want(self, topics: Iterable[str], *, everything: bool = False) -> None:
        """Refresh exactly these topics from now on, or all of the cluster with ``everything``.

        Topics without cached partitions are requested at once.
        """
        wanted = frozenset(topics)
        if everything != self._everything:
            self._everything = everything
            if everything:
                self._demand("topics are chosen by a pattern")
        if wanted == self._wanted:
            return
        for name in self._wanted - wanted:
            if name in self.topics and not self.topics[name].partitions:
                self._forget(name)
        for name in wanted ^ self._wanted:
            # The topic's error may be outdated when the topic is wanted again. Its id and epochs stay: it is then not a
            # new topic, and its epochs still cannot decrease.
            if (topic := self.topics.get(name)) is not None:
                self._set_error(topic, None)
        if any(name not in self.topics or not self.topics[name].partitions for name in wanted - self._wanted):
            self._demand("topics not known yet")
        self._wanted = wanted
        self._agenda.touch(ASKER)

    def request_update(self, why: str) -> None:
        """Refresh as soon as the backoff ends; ``why`` is for the log."""
        if self.refresh_reason is None:
            log.debug("metadata refresh requested: %s", why)
            self.refresh_reason = why
            self._agenda.touch(ASKER)

    def refresh_from_now(self, why: str) -> int:
        """Request a refresh, and return the number that :attr:`refreshed` reaches when the refresh has succeeded.

        A refresh in flight does not count, since the broker may have answered it already.
        """
        self.request_update(why)
        return self._refreshes_sent + 1

    def inquire(
        self, topics: Iterable[str] | None, what: str, *, ids: Iterable[bytes] = ()
    ) -> Call[dict[str, TopicMetadata]]:
        """Request these topics (``None``: all) for a user's call; the result omits topics that do not exist.

        With ``ids`` (KIP-516), request the topics with these ids in place of names; the result has them by name. A
        broker ignores the names in a request that has ids.
        """
        call: Call[dict[str, TopicMetadata]] = Call(what)
        names = None if topics is None else tuple(topics)
        self._inquiries.append(Inquiry(names, call, self._new_retry(), tuple(sorted(ids))))
        self._agenda.touch(ASKER)
        return call

    def _new_retry(self) -> Retry:
        return Retry(self._backoff, self._random, self._agenda)

    def learn_node(self, node: Node) -> None:
        """Add a node from another API's response: a coordinator may have joined after the last Metadata response."""
        if self.nodes.get(node.node_id, node) != node or node.node_id not in self.nodes:
            self.nodes[node.node_id] = node
            self.version += 1

    def hint_leader(self, tp: TopicPartition, node: Node | None, leader: int, epoch: int) -> bool:
        """Accept a leader named in a Fetch or Produce error (KIP-951) if its epoch is newer.

        Return whether the leader was accepted. A counted topic's leader is only accepted if the topic's partition count
        has never changed. Otherwise the epoch may be from after another change of the count, which the response does
        not mention: if the count goes from 2 to 4 and back to 2, a Fetch with the newest epoch and the first count
        would be answered with records that have to be held. Before the first change there is no such risk: a broker
        that has seen a change names no leader.
        """
        topic = self.topics.get(tp.topic)
        info = topic.partitions.get(tp.partition) if topic else None
        if topic is None or info is None or leader < 0 or epoch <= info.leader_epoch:
            return False
        if topic.counts is not None and topic.partition_count_epoch != 0:
            return False
        if node is not None and node.node_id == leader:
            self.nodes[leader] = node
        if leader not in self.nodes:
            return False
        topic.partitions[tp.partition] = info._replace(leader=leader, leader_epoch=epoch)
        topic.epochs[tp.partition] = epoch
        topic.doubts.pop(tp.partition, None)
        self.version += 1
        return True

    def leader_refused(self, tp: TopicPartition, node_id: int, code: int, now: float) -> None:
        """Note an error code of a node for a partition, which may be due to a wrong epoch: see :class:`.EpochDoubt`."""
        topic = self.topics.get(tp.topic)
        if topic is None or code not in (Code.UNKNOWN_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER):
            return
        next_refresh = self.refresh_from_now(f"node {node_id} rejects the leader epoch of {tp}, or is not its leader")
        is_epoch_unknown = code == Code.UNKNOWN_LEADER_EPOCH
        if topic.refused(tp.partition, node_id, now, next_refresh, is_epoch_unknown=is_epoch_unknown):
            self.version += 1

    def epoch_accepted(self, tp: TopicPartition) -> None:
        """Note that a broker has accepted a request with the newest leader epoch."""
        topic = self.topics.get(tp.topic)
        if topic is not None and topic.doubts:
            topic.doubts.pop(tp.partition, None)

    def has_lowered_epoch(self, tp: TopicPartition) -> bool:
        """Return whether the partition's leader epoch was taken although a newer one had been seen."""
        topic = self.topics.get(tp.topic)
        return topic is not None and 0 <= topic.epochs.get(tp.partition, -1) == topic.lowered.get(tp.partition, -1)

    def restart(self, now: float) -> None:
        """Drop the requests, as their connections are closed, and the wanted topics. The cached metadata stay."""
        self._retry = self._new_retry()
        self._inquiries = []
        self._wanted = frozenset()
        self._everything = False
        self.refresh_reason = None
        self._expiry.expire()
        self.version += 1

    def step(self, now: float) -> list[Request]:
        requests = []
        is_due = self.refresh_reason is not None or self._expiry.is_over(now)
        if is_due and (self._wanted or self._everything) and self._retry.may_send(now):
            self._retry.sent()
            self._refreshes_sent += 1
            self._demanded = self.refresh_reason is not None
            requests.append(self._request(None, now, None))
            self.refresh_reason = None
        self._inquiries = [inquiry for inquiry in self._inquiries if not inquiry.call.over]
        for inquiry in self._inquiries:
            if inquiry.retry.may_send(now):
                inquiry.retry.sent()
                requests.append(self._request(inquiry.topics, now, inquiry))
        return requests

    def handle(self, answer: Answer, now: float) -> None:
        inquiry: Inquiry | None = answer.request.context
        retry = self._retry if inquiry is None else inquiry.retry
        response: MetadataResponse | None = answer.response
        error = answer.error
        if response is not None and response.error_code:
            error = to_error(response.error_code, api="Metadata", node_id=answer.node_id)
        if response is None or error is not None:
            is_final = _is_final(error)
            if isinstance(error, BrokerResponseError):  # connections log their own failures
                self.outages.failed(error.code, now, f"Metadata cannot be refreshed: {error}")
            self._consider_rebootstrap(response, now)
            retry.failed(now)
            if inquiry is None:
                self.request_update(f"the last refresh failed: {error}")
                # The next poll raises a final error. Otherwise a rejected login or an unsupported version would not be
                # reported.
                self.refresh_error = error if is_final else None
                self.rejection = error if isinstance(error, BrokerResponseError) and not is_final else None
            else:
                inquiry.call.last_error = error
                if error is not None and is_final:
                    inquiry.call.fail(error)
            return
        self._failing_since = None
        self.refresh_error = self.rejection = None
        self.outages.recovered(None, now, "brokers answer Metadata requests again")
        changed = self._take(response, answer.version, self._refreshes_sent if inquiry is None else -1)
        if inquiry is None:
            if self._listing:
                self._take_listing({raw.name for raw in response.topics})
            self.refreshed = self._refreshes_sent
            self._after_refresh(changed, now)
        else:
            self._settle(inquiry, response, now)

    def _consider_rebootstrap(self, response: MetadataResponse | None, now: float) -> None:
        """Make the engine start from the bootstrap servers again, if the options allow it (KIP-1102).

        A broker must have asked for that, or there was no metadata for ``metadata_recovery_rebootstrap_trigger_ms``.
        """
        if self._failing_since is None:
            self._failing_since = now
        if self._settings.metadata_recovery_strategy != "rebootstrap":
            return
        code = Code.NONE if response is None else response.error_code
        if rule("Metadata", code, Scope.CONSUMER).action is Action.REBOOTSTRAP:
            self.rebootstrap_reason = "a broker answered REBOOTSTRAP_REQUIRED"
        elif now - self._failing_since >= self._settings.metadata_recovery_rebootstrap_trigger_ms / 1000:
            self.rebootstrap_reason = f"no metadata for {now - self._failing_since:.0f} s"
            self._failing_since = now

    def _demand(self, why: str) -> None:
        """Refresh at once, without the backoff of earlier failures, since the wanted topics have changed."""
        if not self._retry.in_flight:
            self._retry.succeeded()
        self.refresh_reason = self.refresh_reason or why
        self._agenda.touch(ASKER)

    def _request(self, topics: Iterable[str] | None, now: float, inquiry: Inquiry | None) -> Request:
        create = inquiry is None and self._settings.allow_auto_create_topics

        def build(version: int) -> Message:
            # The wanted topics may have changed since the refresh was queued.
            names = topics if inquiry is not None else None if self._everything else sorted(self._wanted)
            if inquiry is None:
                self._listing = names is None
            wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            if inquiry is not None and inquiry.ids:
                wanted = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in inquiry.ids]
            if wanted is None and version == 0:
                wanted = []  # in version 0, an empty list means all topics
            # Versions below 4 lack this field, so only its default, True, can be encoded: the broker's setting decides.
            return MetadataRequest(topics=wanted, allow_auto_topic_creation=create if version >= 4 else True)

        deadline = now + self._settings.request_timeout_ms / 1000
        lowest = IDS_SINCE if inquiry is not None and inquiry.ids else 0
        return Request(ASKER, MetadataRequest, ANY_NODE, build, deadline, inquiry, lowest)

    def _after_refresh(self, changed: bool, now: float) -> None:
        self._expiry.set(now + self._settings.metadata_max_age_ms / 1000)
        incomplete = [name for name in sorted(self._wanted) if self._incomplete(name)]
        self._note_incomplete(incomplete, now)
        if incomplete:
            # Repeat the refresh, with a growing backoff: otherwise refreshes would be as fast as the broker answers.
            self._retry.failed(now)
            self.refresh_reason = self.refresh_reason or "a wanted topic is missing or has a partition without a leader"
            return
        # Even after a success the next refresh waits for the backoff, so that several errors with one cause trigger
        # only one refresh. The backoff grows with each requested refresh that changed nothing (KIP-580): otherwise
        # partitions that do not exist would be requested at the same pace for ever.
        attempts = self._retry.attempts + 1 if self._demanded and not changed else 0
        self._retry.succeeded()
        self._retry.attempts = attempts
        self._retry.pause.set(now + self._backoff.delay(max(1, attempts), self._random))

    def _note_incomplete(self, names: list[str], now: float) -> None:
        for name in names:
            topic = self.topics.get(name)
            error = None if topic is None else topic.error
            text = f"topic {name}: {error or 'a partition has no leader'}"
            grace = GRACE if error is None or error.retriable else 0.0
            if not isinstance(error, UnknownTopicOrPartitionError):  # the consumer or producer reports a missing topic
                self.outages.failed(("topic", getattr(error, "code", None)), now, text, subject=name, grace=grace)
        for name in self._wanted.difference(names):
            self.outages.recovered(name, now, f"topic {name} has leaders again")

    def _incomplete(self, name: str) -> bool:
        topic = self.topics.get(name)
        if topic is None or topic.error is not None or not topic.partitions:
            return True
        return any(p.leader not in self.nodes for p in topic.partitions.values())

    def _settle(self, inquiry: Inquiry, response: MetadataResponse, now: float) -> None:
        found: dict[str, TopicMetadata] = {}
        for raw in response.topics:
            if rule("DescribeTopics", raw.error_code, Scope.TOPIC).action.is_retried:
                inquiry.call.last_error = to_error(raw.error_code, api="Metadata", detail=raw.name or "")
                inquiry.retry.failed(now)
                return
            if raw.error_code in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION):
                if raw.error_code == Code.NONE and raw.name is not None:
                    found[raw.name] = self.topics[raw.name]
            elif inquiry.topics:
                inquiry.call.fail(_topic_error(raw))
        inquiry.retry.succeeded()
        inquiry.call.succeed(found)

    def _take(self, response: MetadataResponse, version: int, refresh: int) -> bool:
        """Update the cache from a response; return whether nodes or topics changed."""
        before = self.nodes, [self._known(raw.name) for raw in response.topics]
        # A broker that has not loaded the metadata yet names no brokers. If its empty list replaced the known nodes, no
        # request could be sent.
        if response.brokers:
            self.has_brokers = True
            self.nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        for raw in response.topics:
            if raw.name is not None:
                self._take_topic(raw, raw.name, version, refresh, caught_up=bool(response.brokers))
        self.version += 1
        return before != (self.nodes, [self._known(raw.name) for raw in response.topics])

    def _take_listing(self, names: set[str | None]) -> None:
        """Treat cached topics that are not among ``names``, a list of all topics, as deleted.

        A wanted topic stays, without partitions, but with its topic id: a later topic of the same name is recognized as
        a new one by its id.
        """
        for name in self.topics.keys() - names:
            if name in self._wanted:
                self.topics[name].partitions = {}
            else:
                self._forget(name)
        self.has_listed = True

    def _forget(self, name: str) -> None:
        """Drop a topic; otherwise short-lived topics would accumulate."""
        del self.topics[name]
        self._failing.pop(name, None)
        self.outages.forget(name)

    def _set_error(self, topic: TopicMetadata, error: KafkaError | None) -> None:
        topic.error = error
        if error is None:
            self._failing.pop(topic.name, None)
        else:
            self._failing[topic.name] = None

    def _known(self, name: str | None) -> tuple[object, ...] | None:
        """Return the parts of a topic's metadata that count as a change of the metadata if they differ."""
        topic = self.topics.get(name) if name is not None else None
        if topic is None:
            return None
        code = getattr(topic.error, "code", None)
        return topic.topic_id, code, dict(topic.partitions), topic.counts, topic.partition_count_epoch

    def _take_topic(
        self, raw: MetadataResponseTopic, name: str, version: int, refresh: int, *, caught_up: bool
    ) -> None:
        known = self.topics.get(name)
        if raw.error_code and (raw.error_code != Code.LEADER_NOT_AVAILABLE or not raw.partitions):
            self._take_topic_error(raw, name, known, caught_up=caught_up)
            return
        if known is None or (raw.topic_id != ZERO_UUID and known.topic_id not in (raw.topic_id, ZERO_UUID)):
            if known is not None:
                log.warning("topic %s was deleted and created again: its positions are reset", name)
            known = TopicMetadata(name, first_seen=None if known is None else frozenset())
            self.topics[name] = known
        known.topic_id = raw.topic_id if raw.topic_id != ZERO_UUID else known.topic_id
        known.internal = raw.is_internal
        self._set_error(known, None)
        is_outdated = known.has_newer_counts(raw)
        found = {
            p.partition_index: known.newer(partition_info(name, p, version), self.nodes, refresh)
            for p in raw.partitions
        }
        if is_outdated:
            # A producer that took these counts would send records to partitions that their keys have left.
            found = known.partitions | found
        else:
            known.counts = PartitionCounts.checked(raw.initial_partition_count, raw.undeleted_partition_count)
            known.partition_count_epoch = raw.partition_count_epoch
        known.partitions = found
        if known.first_seen is None:
            known.first_seen = frozenset() if self.has_listed else frozenset(known.partitions)

    def _take_topic_error(
        self, raw: MetadataResponseTopic, name: str, known: TopicMetadata | None, *, caught_up: bool
    ) -> None:
        if raw.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION and name not in self._wanted:
            self.topics.pop(name, None)
            self._failing.pop(name, None)
            return
        topic = known if known is not None else self.topics.setdefault(name, TopicMetadata(name))
        self._set_error(topic, _topic_error(raw))
        if raw.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            # Keep the deleted topic's id: if the topic reappears with another id, it is a new topic.
            topic.partitions = {}
            if topic.topic_id == ZERO_UUID:
                # The brokers send no topic ids, so only this error shows that the topic was deleted. If it is created
                # again, its leader epochs begin at 0: compared with the old ones, they would be ignored as outdated.
                topic.epochs = {}
                # All partitions of a topic that appears later are new. But a response without brokers comes from a
                # broker that has just started and may lack an old topic.
                topic.first_seen = frozenset() if caught_up else None


def _is_final(error: KafkaError | None) -> bool:
    if not isinstance(error, BrokerResponseError):
        return False
    return rule("Metadata", error.code, Scope.CONSUMER).action is Action.RAISE


def _topic_error(raw: MetadataResponseTopic) -> KafkaError:
    detail = f"topic {raw.name}"
    if raw.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        detail += ": create it, check its name, set allow_auto_create_topics, or grant DESCRIBE on it"
    error = to_error(raw.error_code, api="Metadata", detail=detail)
    if isinstance(error, TopicAuthorizationFailedError):
        error.topics = (raw.name or "",)
    return error
