"""One broker of the cluster: what it knows, what it hosts, and how a request finds its handler.

Owns the node's own view of the cluster, its replicas and its two coordinators. When it is killed all of that is gone
but the logs; when it is paused (SIGSTOP), timers, requests and news wait until it is resumed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..timers import Random
from ..types import TopicPartition
from ..wire import Message
from ..wire.error_codes import Code
from .call import Call
from .config import BrokerConfig, TopicConfig
from .controller import CONTROLLER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ControllerError, News
from .group.coordinator import GroupCoordinator
from .group.hashing import partition_for
from .image import BrokerImage, Image, TopicImage
from .partition import Partition
from .schedule import Schedule, Timer
from .sessions import FetchSessions
from .txn.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from .cluster import Cluster
    from .connection import ServerConnection

log = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
#: How long a transaction coordinator waits for another broker to write a marker: its request.timeout.ms.
MARKER_TIMEOUT_S = 30.0


class Node:
    """A broker. ``is_running`` is false while it is down or paused."""

    def __init__(self, cluster: Cluster, node_id: int, host: str, port: int, rack: str | None) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_alive = False
        self.is_paused = False
        self.is_known = False  #: Whether the controller has told it, in this life, what there is.
        self.connections: list[ServerConnection] = []
        self._life = 0  #: Counts starts: what an earlier life has set in motion does not reach a later one.
        self._held: list[Callable[[], None]] = []
        self._news: deque[tuple[float, News]] = deque()  #: When each arrives, and what it says.
        self._news_at = 0.0
        self._learning_life = 0  #: The life that is learning just now, if any.
        self._reset()

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "up" if self.is_alive else "down"
        return f"<Node {self.node_id} {self.host}:{self.port} {state}>"

    def _reset(self) -> None:
        self.image = Image(self.cluster.cluster_id)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.sessions = FetchSessions(self)

    # -- what the whole cluster shares

    @property
    def config(self) -> BrokerConfig:
        """The cluster's settings."""
        return self.cluster.config

    @property
    def schedule(self) -> Schedule:
        """The cluster's time."""
        return self.cluster.schedule

    @property
    def random(self) -> Random:
        """The cluster's randomness."""
        return self.cluster.random

    @property
    def is_running(self) -> bool:
        """Whether it does anything just now."""
        return self.is_alive and not self.is_paused

    @property
    def is_serving(self) -> bool:
        """Whether it works on requests: not before it knows what there is."""
        return self.is_known and self.is_running

    @property
    def own_image(self) -> BrokerImage:
        """What the others are told of it."""
        return BrokerImage(self.node_id, self.host, self.port, self.rack)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while, unless this node is killed meanwhile; not while it is paused, but after."""
        if not self.is_alive:
            dead = Timer(self.schedule.now, callback)
            dead.cancel()
            return dead
        life = self._life
        timer: Timer

        def fire() -> None:
            if self._life != life:
                return
            if self.is_paused:
                # It may still be cancelled, by what happens first after the pause.
                timer.rearm(fire)
                self._held.append(timer.fire)
            else:
                callback()

        timer = self.schedule.call_later(seconds, fire)
        return timer

    # -- its life

    def start(self) -> None:
        """Come up; nothing is known until the controller can be heard: see :meth:`join`."""
        self._begin(is_alive=True)
        self._reset()

    def join(self) -> None:
        """Learn what there is, before being counted. News that come meanwhile come behind it."""
        self.is_known = True
        truth = self.cluster.controller.image
        self.image.brokers.update(truth.brokers)
        now = self.schedule.now
        for topic in truth.topics.values():
            self._news.append((now, News(topic.name, lambda image, topic=topic: image.put_topic(topic))))  # type: ignore[misc]
        self.take_news()
        for connection in list(self.connections):
            connection.go_on()

    def _begin(self, *, is_alive: bool) -> None:
        self._life += 1
        self.is_alive, self.is_paused, self.is_known = is_alive, False, False
        self._held.clear()
        self._news.clear()

    def kill(self) -> None:
        """Stop at once, as ``kill -9`` does: connections break, nothing is said, nothing is finished."""
        self._begin(is_alive=False)
        life, partitions = self._life, list(self.partitions.values())
        for connection in list(self.connections):
            connection.abort()
        for partition in partitions:
            partition.retire()
        if self._life == life:  # who has been told of the end may have started it again
            self._reset()

    def pause(self) -> None:
        """Do nothing more until :meth:`resume`."""
        self.is_paused = self.is_alive

    def resume(self) -> None:
        """Go on with what has come up meanwhile, oldest first."""
        if not self.is_paused:
            return
        self.is_paused = False
        held, self._held = self._held, []
        for callback in held:
            callback()
        for connection in list(self.connections):
            connection.go_on()
        self.take_news()

    # -- news

    def tell(self, news: News) -> None:
        """The controller has news; they arrive in order, after the lag that is drawn for them."""
        if not self.is_known:
            return
        self._news_at = max(self._news_at, self.schedule.now + self.config.metadata_lag_s * self.random.random())
        self._news.append((self._news_at, news))
        if self._news_at > self.schedule.now:
            self.schedule.call_at(self._news_at, self.take_news)

    def take_news(self) -> bool:
        """Learn what has arrived, unless the network to the controller is cut, or the node is paused."""
        life = self._life
        if self._learning_life == life:
            return False  # one after the other: what comes of a piece of news may be news again
        learned = False
        self._learning_life = life
        try:
            while self._life == life and self._news and self._news[0][0] <= self.schedule.now:
                if not self.is_running or not self.cluster.reachable(self.node_id, CONTROLLER):
                    break
                learned = True
                self._learn(self._news.popleft()[1])
        finally:
            if self._learning_life == life:
                self._learning_life = 0
        return learned

    def take_all_news(self) -> None:
        """Learn everything at once, what is still on its way too."""
        while self._news:
            now = self._news_at = self.schedule.now
            self._news = deque((now, news) for _, news in self._news)
            self.take_news()

    def _learn(self, news: News) -> None:
        """Take one piece of news, and take the roles it gives."""
        image, life = self.image, self._life
        old = image.topics.get(news.topic) if news.topic is not None else None
        news.tell(image)
        topic = image.topics.get(news.topic) if news.topic is not None else None
        if topic is old:
            return
        if old is not None and (topic is None or topic.topic_id != old.topic_id):
            self._drop(old)
            if self._life == life:
                self.groups.on_topics_deleted([old.name])
            old = None
        if topic is not None:
            self._take_roles(topic, old)

    def _take_roles(self, topic: TopicImage, old: TopicImage | None) -> None:
        config = TopicConfig.parse(topic.configs, self.config)
        known = old.partitions if old is not None and old.configs == topic.configs else ()
        new = [row for row, before in zip(topic.partitions, known) if row is not before]
        life = self._life
        for row in (*new, *topic.partitions[len(known) :]):
            if self._life != life:
                return  # what came of it has ended this node
            here = self.node_id in row.replicas
            partition = self.partitions.get(row.tp)
            led = partition is not None and partition.is_leader
            epoch = partition.leader_epoch if partition is not None else -1
            if partition is None and here:
                replica_log = self.cluster.log_of(self.node_id, row, config)
                partition = self.partitions[row.tp] = Partition(self, row, config, replica_log)
            elif partition is not None and not here:
                self._leave(partition)
                continue
            if partition is None:
                continue
            partition.take_role(row, config)
            if self._life == life:
                self._tell_coordinators(partition, led, epoch)
                self.cluster.replication.changed(row.tp, row.replicas)

    def _leave(self, partition: Partition) -> None:
        del self.partitions[partition.tp]
        led = partition.is_leader
        epoch = partition.leader_epoch
        partition.retire()
        self._tell_coordinators(partition, led, epoch)
        self.cluster.forget_log(self.node_id, partition.tp, partition.topic_id)

    def _drop(self, topic: TopicImage) -> None:
        for row in topic.partitions:
            partition = self.partitions.get(row.tp)
            if partition is not None and partition.topic_id == topic.topic_id:
                self._leave(partition)

    def _tell_coordinators(self, partition: Partition, led: bool, epoch: int) -> None:
        coordinators: dict[str, GroupCoordinator | TransactionCoordinator] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
        }
        coordinator = coordinators.get(partition.tp.topic)
        if coordinator is None or (led == partition.is_leader and epoch == partition.leader_epoch):
            return
        if led:
            coordinator.resigned(partition.tp.partition)
        if partition.is_leader:
            coordinator.elected(partition.tp.partition, partition.leader_epoch, partition)

    # -- for handlers

    def led(self, tp: TopicPartition, current_leader_epoch: int = -1) -> tuple[Partition | None, int]:
        """Return the replica if this node leads it, in the epoch that the client believes in; else why not."""
        row = self.image.partition(tp.topic, tp.partition)
        if row is None:
            return None, int(Code.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.partitions.get(tp)
        epoch = row.leader_epoch if partition is None else partition.leader_epoch
        if current_leader_epoch != -1 and current_leader_epoch != epoch and partition is not None:
            older = current_leader_epoch < epoch
            return None, int(Code.FENCED_LEADER_EPOCH if older else Code.UNKNOWN_LEADER_EPOCH)
        if partition is None or not partition.is_leader:
            return None, int(Code.NOT_LEADER_OR_FOLLOWER)
        return partition, 0

    def coordinator_for(self, kind: int, key: str) -> tuple[int, BrokerImage | None]:
        """Return who coordinates a group (0) or a transactional id (1); the internal topic is created when missing."""
        name = OFFSETS_TOPIC if kind == GROUP else TRANSACTIONS_TOPIC
        topic = self.image.topics.get(name)
        if topic is None and self.cluster.reachable(self.node_id, CONTROLLER):
            try:
                self.cluster.controller.ensure_internal(name)
            except ControllerError as error:
                log.info("%r: no %s: %s", self, name, error)
            topic = self.image.topics.get(name)
        if topic is None:  # the news is under way
            return int(Code.COORDINATOR_NOT_AVAILABLE), None
        row = topic.partitions[partition_for(key, len(topic.partitions))]
        broker = self.image.brokers.get(row.leader)
        if broker is None:
            return int(Code.COORDINATOR_NOT_AVAILABLE), None
        return 0, broker

    def write_marker(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        done: Callable[[int], None],
        *,
        transaction_version: int = 0,
    ) -> None:
        """Append the end of a transaction on whichever node leads the partition; ``done(code)`` is called once.

        REQUEST_TIMED_OUT after a while, or a leader that is stopped would hold it up for as long. If this node is
        killed first, nobody is told.
        """
        row = self.image.partition(tp.topic, tp.partition)
        if row is None:
            done(int(Code.UNKNOWN_TOPIC_OR_PARTITION))
            return
        leader = self.cluster.nodes.get(row.leader)
        if leader is None or not leader.is_running or not self.cluster.reachable(self.node_id, leader.node_id):
            done(int(Code.NOT_LEADER_OR_FOLLOWER))
            return
        partition, code = leader.led(tp)
        if partition is None:
            done(code)
            return

        life, is_done = self._life, False

        def answer(code: int) -> None:
            nonlocal is_done
            if not is_done and self._life == life:
                is_done = True
                timer.cancel()
                done(code)

        def written(code: int) -> None:
            if not code and tp.topic == OFFSETS_TOPIC:
                leader.groups.on_marker(tp.partition, producer_id, commit)
            answer(code)

        timer = self.call_later(MARKER_TIMEOUT_S, lambda: answer(int(Code.REQUEST_TIMED_OUT)))

        partition.append_marker(
            producer_id, producer_epoch, commit, coordinator_epoch, written, transaction_version=transaction_version
        )

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        return self.cluster.new_producer_id()

    def handle(self, call: Call) -> Message | None:
        """Let the API's handler answer, or park the call."""
        return self.cluster.apis[call.request.API_KEY].handle(call)
