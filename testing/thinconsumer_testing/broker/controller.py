"""The controller: topics, partition leadership, registered brokers, and the publication of metadata to all brokers.

Owns the authoritative metadata image. Every change is published to every broker as a :class:`MetadataDelta`, which
arrives when the network allows it. Elections follow Kafka's ``PartitionChangeBuilder``: the first live replica in the
ISR, else, with unclean elections enabled, the first live replica, else none. A quorum of controllers is not simulated:
a new controller gets the metadata of the one before, and while none is active, brokers keep their images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .acl.control import AclControlManager
from .acl.index import AclIndex
from .config import TopicConfig, new_authorizer
from .image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from .login.scram_credentials import ScramControlManager, ScramCredentials
from .naming import OFFSETS_TOPIC as OFFSETS_TOPIC
from .naming import TRANSACTIONS_TOPIC as TRANSACTIONS_TOPIC
from .naming import topic_name_error
from .ordered.changes import begin_shrinking, may_have_leader, with_first_counts
from .ordered.control import Controls, CountRefused, PartitionCountManager

if TYPE_CHECKING:
    from .acl.authorizer import Authorizer
    from .cluster import Cluster
    from .partition import PartitionReplica

#: The controller's node id in network cuts.
CONTROLLER = -1
PARTITIONS_MAX = 10_000  #: The most partitions that a request without manual assignment may add to a topic.


class MetadataDelta(NamedTuple):
    """One metadata change: the topic that it concerns, if any, and a function that applies it to a node's image."""

    topic: str | None
    apply: Callable[[ClusterImage], object]


class _Reassignment(NamedTuple):
    """The broker that is to become leader, and the broker whose replica it replaces, if any."""

    to: int
    replaced: int | None


class ControllerError(Exception):
    """The controller rejects a request, with an error code and a message for the client."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code: int = int(code)
        self.message = message


class Controller:
    """Owns ``image``, the authoritative metadata; brokers have their own copies."""

    def __init__(self, cluster: Cluster, cluster_id: str, predecessor: Controller | None = None) -> None:
        self.image: ClusterImage = ClusterImage(cluster_id) if predecessor is None else predecessor.image
        self.is_active: bool = True
        self.scram: ScramControlManager = ScramControlManager(self.image.scram_credentials, self._commit_scram)
        self.acls: AclControlManager = AclControlManager(self.image.acls, self._commit_acls)
        #: Decides about requests that brokers forward to the controller; None if the cluster has no authorizer.
        self.authorizer: Authorizer | None = new_authorizer(cluster.config, self.image.acls)
        self._cluster = cluster
        self._next_leader = 0
        self._publishing = False
        #: Leader moves by :meth:`move_leader` that wait, because the new leader's replica was not in the ISR.
        self._reassignments: dict[TopicPartition, _Reassignment] = {}
        if predecessor is not None:  # In Kafka reassignments are part of the metadata, so a new controller has them.
            self._reassignments = predecessor._reassignments
        controls = Controls(self.put_topic, self._elect, cluster.responding_leader, cluster.schedule.call_later)
        self.counts: PartitionCountManager = PartitionCountManager(self.image, controls)

    def stop(self) -> None:
        """End like ``kill -9``: nothing changes the metadata until another controller starts."""
        self.is_active = False
        self.counts.stop()

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        internal: bool = False,
    ) -> TopicImage:
        """Create a topic; raise ControllerError if it exists or its name, counts, assignment or configs are invalid."""
        self.validate_topic_name(name)
        assignments = self._assign_replicas(partitions, replication_factor, assignment)
        try:
            config = TopicConfig.parse(configs or {}, self._cluster.config)
        except IllegalArgumentError as error:
            raise ControllerError(Code.INVALID_CONFIG, str(error)) from None
        topic_id = self._cluster.new_id()
        rows = self._new_partitions(name, topic_id, assignments)
        topic = TopicImage(name, topic_id, rows, dict(configs or {}), internal)
        if config.ordered_delivery and not internal:
            topic = with_first_counts(topic)
        if not validate_only:
            self.put_topic(topic)
        return topic

    def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
    ) -> TopicImage:
        """Increase the partition count of a topic to ``count``; ``assignment`` is for the new partitions.

        The count of a topic with ordered delivery can also be decreased, down to the initial one. Its partitions from
        ``count`` on are then marked for deletion, and removed once they are empty.

        Raises:
            ControllerError: The topic does not exist, or cannot get this count; REASSIGNMENT_IN_PROGRESS if an earlier
                change of its count is not completed, or if it is to grow while marked partitions still have records.
        """
        topic = self._topic(name)
        have = len(topic.partitions)
        if topic.ordered is not None:
            self._check_count(topic, count)
            have = topic.ordered.undeleted_partition_count
            if count > have and not validate_only:
                self.counts.remove_emptied_of(topic)
                topic = self._topic(name)
        elif count <= have:
            problem = f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
            raise ControllerError(Code.INVALID_PARTITIONS, problem)
        if assignment is not None and len(assignment) != max(0, count - have):
            raise ControllerError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - have} additional partition(s), but only {len(assignment)} assignment(s) "
                "were specified.",
            )
        changed = begin_shrinking(topic, count) if count < have else self._grown(topic, count - have, assignment)
        if not validate_only:
            self.put_topic(changed)
        return changed

    def _check_count(self, topic: TopicImage, count: int) -> None:
        try:
            self.counts.check(topic, count)
        except CountRefused as refused:
            raise ControllerError(refused.code, refused.message) from None

    def _grown(self, topic: TopicImage, more: int, assignment: Sequence[Sequence[int]] | None) -> TopicImage:
        by_number = None if assignment is None else dict(enumerate(assignment))
        assignments = self._assign_replicas(more, len(topic.partitions[0].replicas), by_number)
        if topic.ordered is not None:
            return self.counts.expand(topic, assignments)
        rows = self._new_partitions(topic.name, topic.topic_id, assignments, first=len(topic.partitions))
        return topic._replace(partitions=topic.partitions + rows)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its data; raise ControllerError if it does not exist."""
        for row in self._topic(name).partitions:
            self._reassignments.pop(row.tp, None)
        self.image.remove_topic(name)
        self._cluster.save_metadata()
        self._publish(MetadataDelta(name, lambda image: image.remove_topic(name)))

    def put_topic(self, topic: TopicImage) -> None:
        """Set a topic's metadata, and publish it to all brokers; changed partitions get a higher partition epoch.

        Does nothing once this controller was killed, for example by a callback that the previous change has run.
        """
        if not self.is_active:
            return
        old = self.image.topics.get(topic.name)
        if old is not None and old.topic_id == topic.topic_id:
            rows = list(topic.partitions)
            for number, (row, known) in enumerate(zip(rows, old.partitions)):
                if row is not known:
                    rows[number] = row._replace(partition_epoch=known.partition_epoch + 1)
            topic = topic._replace(partitions=tuple(rows))
            for removed in old.partitions[len(rows) :]:
                self._reassignments.pop(removed.tp, None)
        self.image.put_topic(topic)
        self.counts.follow(topic)
        self._cluster.save_metadata()
        self._publish(MetadataDelta(topic.name, lambda image: image.put_topic(topic)))

    def _commit_scram(self, change: Callable[[ScramCredentials], None]) -> None:
        change(self.image.scram_credentials)
        self._cluster.save_metadata()
        self._publish(MetadataDelta(None, lambda image: change(image.scram_credentials)))

    def _commit_acls(self, change: Callable[[AclIndex], None]) -> None:
        change(self.image.acls)
        self._cluster.save_metadata()
        self._publish(MetadataDelta(None, lambda image: change(image.acls)))

    def ensure_internal_topic(self, name: str) -> TopicImage:
        """Return an internal topic; create it if it is missing."""
        topic = self.image.topics.get(name)
        if topic is not None:
            return topic
        config = self._cluster.config
        if name == OFFSETS_TOPIC:
            partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        else:
            partitions = config.transaction_state_log_num_partitions
            replicas = config.transaction_state_log_replication_factor
        replicas = min(replicas, len(self._cluster.nodes))
        return self.create_topic(name, partitions, replicas, {"cleanup.policy": "compact"}, internal=True)

    def register(self, broker: BrokerImage) -> None:
        """Register a live broker: publish it, and elect leaders for partitions without one."""
        self.image.brokers[broker.node_id] = broker
        self._publish(MetadataDelta(None, lambda image: image.brokers.__setitem__(broker.node_id, broker)))
        self._update_partitions(
            lambda row, topic: self._elect(row, topic) if row.leader < 0 and may_have_leader(topic, row) else row
        )

    def fence(self, node_id: int) -> None:
        """Fence a broker that is down or unreachable: it loses its leaderships, and leaves each ISR that has another
        member.
        """
        if self.image.brokers.pop(node_id, None) is None:
            return
        self._publish(MetadataDelta(None, lambda image: image.brokers.pop(node_id, None)))
        self._update_partitions(
            lambda row, _: row if node_id in self.image.brokers else self._without_broker(row, node_id)
        )

    def alter_isr(self, leader: PartitionReplica, isr: Sequence[int]) -> None:
        """Change the ISR for a leader (AlterPartition, KIP-497).

        The change is ignored unless it comes from the current leader with the current partition epoch, from a broker
        that is reachable and not fenced. The leader applies the result immediately, before the delta arrives, because
        its high watermark must count every replica that may be elected from now on.
        """
        row = self.image.partition(*leader.tp)
        me = leader.node.node_id
        if (
            row is None
            or row.topic_id != leader.topic_id
            or row.leader != me
            or row.leader_epoch != leader.leader_epoch
            or row.partition_epoch != leader.image.partition_epoch
        ):
            return
        if not self._cluster.reachable(me, CONTROLLER) or me not in self.image.brokers:
            return
        kept = tuple(n for n in row.replicas if n in isr and n in self.image.brokers)
        if me in kept and kept != row.isr:
            altered = row._replace(isr=kept, partition_epoch=row.partition_epoch + 1)
            self._store_partition(altered)
            leader.isr_altered(altered)
            self._complete_reassignment(leader.tp)

    def move_leader(self, tp: TopicPartition, to: int | None = None) -> int:
        """Make broker ``to`` the leader, by default another member of the ISR or else any other live broker.

        A member of the ISR becomes leader immediately. Otherwise the broker first gets a replica, if it has none, and
        does not become leader before that replica has joined the ISR. Returns the leader after the call, which in the
        second case may still be the old one.

        Raises:
            ControllerError: The partition does not exist or is still being created, or neither ``to`` nor, by default,
                another broker can become its leader.
        """
        row = self._row(tp)
        if not may_have_leader(self.image.topics[row.topic], row):
            raise ControllerError(
                Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"{row.topic}-{row.partition} is still being created"
            )
        others = [n for n in row.isr if n != row.leader and n in self.image.brokers]
        if to is None:
            to = others[0] if others else next((n for n in self.image.brokers if n != row.leader), None)
        if to is None or to not in self.image.brokers:
            raise ControllerError(
                Code.PREFERRED_LEADER_NOT_AVAILABLE, f"no other live broker can lead {row.topic}-{row.partition}"
            )
        if to not in row.isr and row.leader < 0:
            raise ControllerError(
                Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"{row.topic}-{row.partition} has no leader from which broker {to} could copy",
            )
        on_its_way = self._reassignments.get(tp)
        if on_its_way is not None and on_its_way.to != to:
            row = self._cancel_reassignment(tp, row)
        if to in row.isr:
            if to != row.leader:
                self._store_partition(row._replace(leader=to, leader_epoch=row.leader_epoch + 1))
        elif to in row.replicas:
            self._reassignments.setdefault(tp, _Reassignment(to, None))
        else:
            self._reassignments[tp] = _Reassignment(to, row.leader)
            self._store_partition(row._replace(replicas=(*row.replicas, to)))
        return self._row(tp).leader

    def elect_unclean(self, tp: TopicPartition, leader: int) -> None:
        """Make a replica the leader even if it is not in the ISR; records that it lacks are lost.

        Raises:
            ControllerError: The partition does not exist or is still being created, or ``leader`` has no live replica.
        """
        row = self._row(tp)
        is_created = may_have_leader(self.image.topics[row.topic], row)
        if not is_created or leader not in row.replicas or leader not in self.image.brokers:
            raise ControllerError(
                Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"broker {leader} has no live replica of {row.topic}-{row.partition}",
            )
        self._store_partition(row._replace(leader=leader, leader_epoch=row.leader_epoch + 1, isr=(leader,)))

    def _complete_reassignment(self, tp: TopicPartition) -> None:
        """Once the new replica is in the ISR, make it leader and remove the replica that it replaces.

        If a replica is replaced, all replicas that remain must be in the ISR first, as in Kafka. Otherwise fewer
        brokers than before would have all records.
        """
        move = self._reassignments.get(tp)
        row = self.image.partition(*tp)
        if move is None or row is None or move.to not in row.isr:
            return
        if move.replaced is None:
            replicas, isr = row.replicas, row.isr
        else:
            replicas = tuple(move.to if n == move.replaced else n for n in row.replicas if n != move.to)
            isr = replicas
            if not set(replicas) <= set(row.isr):
                return
        del self._reassignments[tp]
        if row.leader != move.to or replicas != row.replicas:
            epoch = row.leader_epoch + 1
            self._store_partition(row._replace(replicas=replicas, isr=isr, leader=move.to, leader_epoch=epoch))

    def _cancel_reassignment(self, tp: TopicPartition, row: PartitionImage) -> PartitionImage:
        """End an unfinished leader move, because the leader is to be moved to another broker instead.

        Removes the replica that the unfinished move has added, unless this replica is the leader already, or the only
        member of the ISR. Returns the partition's metadata afterwards.
        """
        move = self._reassignments.pop(tp)
        if move.replaced is None or move.to not in row.replicas:
            return row
        isr = tuple(n for n in row.isr if n != move.to) or row.isr
        if move.to in (row.leader, *isr):
            return row
        replicas = tuple(n for n in row.replicas if n != move.to)
        self._store_partition(row._replace(replicas=replicas, isr=isr, leader_epoch=row.leader_epoch + 1))
        return self._row(tp)

    def validate_topic_name(self, name: str) -> None:
        """Raise ControllerError if a topic name is invalid or taken, or collides with another topic's name."""
        if (illegal := topic_name_error(name)) is not None:
            raise ControllerError(Code.INVALID_TOPIC_EXCEPTION, illegal)
        if name in self.image.topics:
            raise ControllerError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        # Metric names replace '.' with '_', so the topics 'a.b' and 'a_b' would share their metrics.
        alike = name.replace(".", "_")
        for other in self.image.topics:
            if other.replace(".", "_") == alike:
                raise ControllerError(
                    Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
                )

    def _assign_replicas(
        self, partitions: int, replication_factor: int, assignment: Mapping[int, Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        if assignment is not None:
            return self._checked_assignment(assignment)
        config = self._cluster.config
        nodes = sorted(self._cluster.nodes)  # As in Kafka fenced brokers can get replicas, too.
        alive = sorted(self.image.brokers)
        fenced = [n for n in nodes if n not in self.image.brokers]
        count = config.num_partitions if partitions == -1 else partitions
        factor = replication_factor
        if factor == -1:
            factor = config.default_replication_factor or min(3, len(nodes))
        code, problem = Code.INVALID_REPLICATION_FACTOR, ""
        if factor <= 0:
            problem = "Replication factor must be larger than 0, or -1 to use the default value."
        elif count <= 0:
            code, problem = Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        elif count > PARTITIONS_MAX:
            code = Code.INVALID_PARTITIONS
            problem = f"{count} partitions are more than the {PARTITIONS_MAX} that one request may add"
        elif not alive:
            problem = f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced."
        elif factor > len(nodes):
            problem = (
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
                f"be reached because only {len(nodes)} broker(s) are registered."
            )
        if problem:
            raise ControllerError(code, problem)
        assignments = []
        for _ in range(count):
            start = self._next_leader % len(alive)
            self._next_leader += 1
            assignments.append((*alive[start:], *alive[:start], *fenced)[:factor])
        return assignments

    def _checked_assignment(self, assignment: Mapping[int, Sequence[int]]) -> list[tuple[int, ...]]:
        assignments = []
        sizes = {len(replicas) for replicas in assignment.values()}
        for number in range(len(assignment)):
            replicas, problem = tuple(assignment.get(number, ())), ""
            if not replicas or len(set(replicas)) != len(replicas) or len(sizes) != 1:
                problem = f"The manual assignment of partition {number} is invalid."
            elif unknown := [n for n in replicas if n not in self._cluster.nodes]:
                problem = (
                    f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
                )
            elif not any(n in self.image.brokers for n in replicas):
                problem = (
                    f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                    "controlled shutdown."
                )
            if problem:
                raise ControllerError(Code.INVALID_REPLICA_ASSIGNMENT, problem)
            assignments.append(replicas)
        return assignments

    def _new_partitions(
        self, name: str, topic_id: bytes, assignments: Iterable[tuple[int, ...]], first: int = 0
    ) -> tuple[PartitionImage, ...]:
        rows = []
        for number, replicas in enumerate(assignments, first):
            alive = tuple(n for n in replicas if n in self.image.brokers)
            rows.append(PartitionImage(name, topic_id, number, alive[0], 0, replicas, alive))
        return tuple(rows)

    def _topic(self, name: str) -> TopicImage:
        topic = self.image.topics.get(name)
        if topic is None:
            raise ControllerError(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return topic

    def _row(self, tp: TopicPartition) -> PartitionImage:
        row = self.image.partition(*tp)
        if row is None:
            raise ControllerError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp[0]}-{tp[1]}")
        return row

    def _store_partition(self, row: PartitionImage) -> None:
        topic = self.image.topics[row.topic]
        rows = list(topic.partitions)
        rows[row.partition] = row
        self.put_topic(topic._replace(partitions=tuple(rows)))

    def _update_partitions(self, change: Callable[[PartitionImage, TopicImage], PartitionImage]) -> None:
        for name in list(self.image.topics):
            topic = self.image.topics.get(name)
            if topic is None:
                continue  # put_topic for an earlier topic ran a callback that has deleted this topic.
            rows = tuple(change(row, topic) for row in topic.partitions)
            if rows != topic.partitions:
                self.put_topic(topic._replace(partitions=rows))

    def _without_broker(self, row: PartitionImage, node_id: int) -> PartitionImage:
        if node_id not in row.replicas:
            return row
        # The last member of the ISR stays in it. No other broker has all committed records, so none may become leader
        # (without an unclean election) until this broker returns.
        isr = tuple(n for n in row.isr if n != node_id) or row.isr
        if row.leader != node_id:
            return row._replace(isr=isr)
        return self._elect(row._replace(isr=isr), self.image.topics[row.topic])

    def _elect(self, row: PartitionImage, topic: TopicImage) -> PartitionImage:
        alive = self.image.brokers
        clean = next((n for n in row.replicas if n in row.isr and n in alive), None)
        if clean is not None:
            return row._replace(leader=clean, leader_epoch=row.leader_epoch + 1)
        unclean = next((n for n in row.replicas if n in alive), None)
        if unclean is not None and TopicConfig.parse(topic.configs, self._cluster.config).unclean_leader_election:
            return row._replace(leader=unclean, leader_epoch=row.leader_epoch + 1, isr=(unclean,))
        return row if row.leader < 0 else row._replace(leader=-1, leader_epoch=row.leader_epoch + 1)

    def _publish(self, delta: MetadataDelta) -> None:
        """Send a delta to every broker. Applying the delta may publish further ones, which are queued behind it for
        every broker, so that all brokers apply deltas in the same order.
        """
        nodes = list(self._cluster.nodes.values())
        for node in nodes:
            node.enqueue_delta(delta)
        if self._publishing:
            return
        self._publishing = True
        try:
            while sum(node.apply_due_deltas() for node in nodes):
                pass
        finally:
            self._publishing = False
        self.counts.take_steps()
