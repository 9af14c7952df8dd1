"""A subscription without a group: the consumer gets all partitions of the subscribed topics.

The partitions follow the topics' metadata. As in aiokafka, no listener is called: kafka-python calls one only in
``close()``, without an assignment before. Java's consumer refuses such a subscription.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ..config import OffsetResetStrategy
from ..errors import IllegalArgumentError, UnknownTopicOrPartitionError
from ..network.metadata import Metadata
from ..positions.partitions import Partition, Partitions, Reset
from ..positions.states import PositionEvent
from ..types import TopicPartition
from .subscription import Mode, SubscribedTopics, Subscriber, UserSubscription

if TYPE_CHECKING:
    from ..config import ConsumerConfig

log = logging.getLogger(__name__)

#: Maximum number of removed partitions whose positions are kept: topics of a pattern may come and go for years.
GONE_MAX = 10_000


class WholeTopics(Subscriber):
    """Assigns all partitions of the subscribed topics.

    A partition that metadata no longer have is removed at once. Its position is kept, as no group has it: a broker that
    lags behind, or a lost permission, may have hidden a topic that still exists.
    """

    def __init__(
        self, config: ConsumerConfig, partitions: Partitions, metadata: Metadata, wall_time: Callable[[], float]
    ) -> None:
        self.subscription = UserSubscription()
        if partitions:
            self.subscription.assign()  # before the first subscribe(), all partitions were assigned by hand
        self._partitions = partitions
        self._metadata = metadata
        self._wall_time = wall_time
        self._begins_at_end = config.auto_offset_reset.strategy is OffsetResetStrategy.LATEST
        self._subscribed = SubscribedTopics(self.subscription, metadata, internal=not config.exclude_internal_topics)
        #: The removed partitions of subscribed topics, until metadata have them again.
        self.gone: dict[TopicPartition, Partition] = {}
        #: With the policy ``latest``: when each partition that was not new was first assigned, as a reset to that time.
        self._ends: dict[TopicPartition, Reset] = {}
        #: The versions of metadata and subscription that the assignment was made of.
        self._seen = (-1, -1)
        #: The metadata refresh that must have succeeded: older metadata may lack topics and partitions.
        self._least_refresh = 0

    def topics(self) -> frozenset[str]:
        return self._subscribed.names()

    def own_topics(self) -> frozenset[str]:
        return self._subscribed.names()

    @property
    def is_settled(self) -> bool:
        """Whether metadata of all subscribed topics have arrived since the subscription; missing topics count."""
        if self._metadata.refreshed < self._least_refresh:
            return False
        if self.wants_all_topics:
            return self._metadata.has_listed
        return all(map(self._is_known, self.subscription.topics))

    def _is_known(self, name: str) -> bool:
        topic = self._metadata.topics.get(name)
        return topic is not None and (bool(topic.partitions) or isinstance(topic.error, UnknownTopicOrPartitionError))

    @property
    def matches_nothing(self) -> bool:
        return self.is_settled and super().matches_nothing

    @property
    def situation(self) -> str:
        return "the partitions of the subscribed topics are looked up"

    def require_broker_patterns(self) -> None:
        raise IllegalArgumentError(
            "a SubscriptionPattern is evaluated by the coordinator of a group: pass group_id and "
            "group_protocol='consumer' (Kafka 4.0), or pass pattern as a str, which is matched in the client"
        )

    def subscribed(self) -> None:
        """Assign the partitions that metadata have already; :meth:`follow_metadata` assigns the others."""
        if self.subscription.listener is not None:
            log.warning("without group_id there is no rebalance: the listener of subscribe() is never called")
        self._least_refresh = self._metadata.refresh_from_now("the subscription has changed")
        self.follow_metadata()

    def unsubscribed(self) -> None:
        """Forget the subscription and the kept positions."""
        self.subscription.clear()
        self.gone.clear()
        self._ends.clear()

    def assign_by_hand(self, tps: Collection[TopicPartition], now: float) -> None:
        self.subscription.assign()
        self._partitions.assign(tps)

    def follow_metadata(self) -> None:
        """Make the partitions of the subscribed topics the assignment, if metadata or subscription have changed."""
        if self.subscription.mode is Mode.NONE and self._partitions:
            self.unsubscribed()  # Ctrl-C has struck inside of unsubscribe()
            self._partitions.assign(())
        seen = self._metadata.version, self.subscription.version
        if self._seen != seen and self.subscription.is_subscribed:
            names, topics = self._subscribed.names(), self._metadata.topics
            found = {name: topics[name].partitions for name in names if name in topics}
            self._assign({TopicPartition(name, number) for name, numbers in found.items() for number in numbers})
        self._seen = seen  # last: if Ctrl-C strikes before, the next step repeats all this

    def _assign(self, wanted: set[TopicPartition]) -> None:
        before = self._partitions.assigned
        gone = {tp: partition for tp, partition in before.items() if tp not in wanted}
        kept = {tp: partition for tp, partition in (self.gone | gone).items() if self._has(tp.topic)}
        self.gone = dict(list(kept.items())[-GONE_MAX:])
        if wanted != before.keys():
            self._partitions.assign(sorted(wanted))
            self._note_ends(wanted - before.keys())
            counts = len(wanted), len(wanted - before.keys()), len(gone)
            log.info("subscribed without a group: %d partitions, %d new, %d gone", *counts)
            if not gone.keys().isdisjoint(self.gone):
                # Another broker may still have them. The next refresh may be ``metadata_max_age_ms`` away.
                self._metadata.request_update("partitions of subscribed topics are gone")
        for tp in self.gone.keys() & wanted:
            self._restore(self.gone[tp])
            del self.gone[tp]
        self._ends = {tp: end for tp, end in self._ends.items() if tp in wanted or tp in self.gone}

    def _note_ends(self, added: Collection[TopicPartition]) -> None:
        """Note when partitions that are to be read from their end were assigned, until their position is known.

        A broker that hides a topic makes metadata forget that it existed before: it would be read from its beginning.
        """
        if self._begins_at_end and added:
            end = Reset(int(self._wall_time() * 1000), "no position, auto_offset_reset=latest, as of the first sight")
            old = (tp for tp in added if tp not in self.gone and not self._metadata.is_new_partition(tp))
            self._ends.update(dict.fromkeys(old, end))

    def _has(self, topic: str) -> bool:
        return topic in self.subscription.topics or self.subscription.matches(topic)

    def _restore(self, gone: Partition) -> None:
        """Let a partition that is assigned again continue where it was, unless its topic is another one by now."""
        partition, topic_id = self._partitions.require(gone.tp), self._metadata.topic_id(gone.tp.topic)
        partition.paused = gone.paused
        if gone.topic_id == topic_id:
            if gone.has_position:
                partition.place(PositionEvent.SEEK_VALIDATED, gone.cursor.offset, gone.cursor.epoch)
            elif gone.reset is not None:
                partition.ask_reset(gone.reset)
            elif gone.tp in self._ends:
                partition.ask_reset(self._ends[gone.tp])
