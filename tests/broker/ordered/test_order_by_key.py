"""Writers with outdated metadata, brokers and controllers that fail: what is recorded at changes of the partition count
always tells records of the same key in different partitions apart (KIP-253).

A consumer that obeys the gates of ``ordered/gates.py`` then gets the records of each key in the order of their appends.
"""

import random

import pytest

from thinconsumer.linear_hashing import partition_of
from thinconsumer.ordered.gates import END, TopicHistory, gates_of
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.broker.ordered.control import PartitionCountManager
from thinconsumer_testing.broker.ordered.topic import CountChange

pytestmark = pytest.mark.once  # simulated clusters come out the same on each interpreter

INITIAL = 2
KEYS = range(6)
STEPS = 200
MODES = ("cut", "kill", "pause")


class Story:
    """One cluster with its faults, drawn from a seed."""

    def __init__(self, new_cluster, client_of, seed):
        self.random = random.Random(seed)
        self.client_of = client_of
        self.cluster = new_cluster(
            3,
            metadata_lag_s=self.random.choice([0.0, 0.3, 2.0, 2.0]),
            replication_s=self.random.choice([0.0, 0.05]),
            unclean_leader_election_enable=False,
        )
        self.cluster.create_topic("t", INITIAL, self.random.randrange(1, 4), {"enable.ordered.delivery": "true"})
        self.serial = 0
        self.wrong = {}  # The fault of each broker that does not work.
        self.found = []  # Violations, looked for before each change of the count.

    @property
    def topic(self):
        return self.cluster.controller.image.topics["t"]

    def run(self):
        for _ in range(STEPS):
            chance = self.random.random()
            if chance < 0.7:
                self.write()
            elif chance < 0.77:
                self.change_count()
            elif chance < 0.82:
                self.hurt_or_mend()
            elif chance < 0.85:
                self.move_leader()
            elif self.cluster.controller.is_active and chance < 0.87:
                self.cluster.kill_controller()
            elif chance < 0.9:
                self.cluster.start_controller()
            else:
                self.cluster.advance(self.cluster.schedule.now + self.random.choice([0.01, 0.1, 0.5, 3.0]))
        return self

    def write(self):
        """Write to the leader that some broker names, with that broker's count."""
        key = self.random.choice(KEYS)
        image = self.random.choice(list(self.cluster.nodes.values())).image.topics.get("t")
        if image is None:
            return
        count = image.ordered.undeleted_partition_count
        number = partition_of(key, INITIAL, count)
        leader = self.cluster.nodes.get(image.partitions[number].leader)
        if leader is None or not leader.is_running:
            return  # A paused broker would write the record at some later time.
        self.serial += 1
        batch = build_batch([NewRecord(b"%d" % self.serial, b"%d" % key, timestamp=self.cluster.schedule.wall_ms())])
        data = TopicProduceData(
            topic_id=image.topic_id,
            undeleted_partition_count=count,
            partition_data=[PartitionProduceData(index=number, records=batch)],
        )
        self.client_of(self.cluster, leader.node_id).send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))

    def change_count(self):
        have = self.topic.ordered.undeleted_partition_count
        try:
            self.found += self.violations()
            if len(self.topic.partitions) > have and self.random.random() < 0.5:
                for row in self.topic.partitions[have:]:
                    self.cluster.delete_records(row.tp, self.cluster.leader(row.tp).high_watermark)
            self.cluster.expand("t", self.random.randrange(INITIAL, 3 * INITIAL + 4))
        except (ControllerError, LookupError):
            pass

    def move_leader(self):
        try:
            self.cluster.move_leader(self.random.choice(self.topic.partitions).tp)
        except ControllerError:
            pass

    def hurt_or_mend(self):
        node_id = self.random.randrange(1, 4)
        if node_id in self.wrong:
            self.mend(node_id)
        else:
            how = self.wrong[node_id] = self.random.choice(MODES)
            getattr(self.cluster, how)(node_id)

    def mend(self, node_id):
        how = self.wrong.pop(node_id)
        if how == "cut":
            self.cluster.heal(but=[(one, -1) for one, other in self.wrong.items() if other == "cut"])
        elif how == "kill":
            self.cluster.start(node_id)
        else:
            self.cluster.resume(node_id)

    def mend_all(self):
        self.cluster.start_controller()
        for node_id in list(self.wrong):
            self.mend(node_id)
        self.cluster.advance(self.cluster.schedule.now + 60)

    def records(self, number):
        """Yield (leader epoch, key, serial) of each committed record in a partition."""
        leader = self.cluster.leader(TopicPartition("t", number))
        for batch in leader.log.read_batches(leader.log.start_offset, leader.high_watermark):
            for record in batch.decode("t", number):
                yield batch.leader_epoch, int(record.key), int(record.value)

    def violations(self):
        """Return the pairs of records of one key that a consumer would get in the wrong order."""
        rows = self.topic.partitions
        history = TopicHistory(
            INITIAL,
            frozenset(range(len(rows))),
            {r.partition: r.leader_epochs_after_creation for r in rows if r.leader_epochs_after_creation},
            {r.partition: r.leader_epochs_before_deletion for r in rows if r.leader_epochs_before_deletion},
        )
        found = {row.partition: list(self.records(row.partition)) for row in rows}
        wrong = []
        for number, own in found.items():
            last = {}
            for _, key, serial in own:
                if serial < last.get(key, 0):
                    wrong.append((key, last[key], serial))
                last[key] = serial
            for gate in gates_of(history, number):
                for place, end in gate.requires:
                    wrong += [
                        (key, first, then)
                        for epoch, key, then in own
                        for other_epoch, other_key, first in found[place]
                        if key == other_key
                        and epoch > gate.after
                        and (end == END or other_epoch <= end)
                        and first > then
                    ]
        return wrong


@pytest.mark.parametrize("seed", range(60))
def test_records_of_a_key_are_told_apart_and_every_change_is_completed(new_cluster, client_of, seed):
    story = Story(new_cluster, client_of, seed).run()
    story.mend_all()
    ordered = story.topic.ordered
    assert ordered.change is CountChange.NONE
    count = ordered.undeleted_partition_count
    assert all(story.cluster.leader(TopicPartition("t", number)).accepts_count(count) for number in range(count))
    assert story.found + story.violations() == []


def test_changes_in_one_step_break_the_order(new_cluster, client_of, monkeypatch):
    """Expansions and shrinkings that wait for no leader: the check finds them."""
    monkeypatch.setattr(PartitionCountManager, "_has_applied", lambda self, row, is_shrinking: True)
    found = 0
    for seed in range(60):
        story = Story(new_cluster, client_of, seed).run()
        story.mend_all()
        found += bool(story.found + story.violations())
        if found >= 2:
            return
    pytest.fail(f"{found} of 60 stories show a violation")
