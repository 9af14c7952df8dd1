"""An admin on a cluster in memory."""

import pytest

from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.broker import Edit, Reply
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


class World:
    """A cluster and an admin."""

    def __init__(self, nodes=3, topics=None, **options):
        self.cluster = MemoryCluster(nodes, topics)
        self.network = self.cluster.network
        self.clock = self.cluster.clock
        settings = ClientOptions.from_options(bootstrap_servers=self.cluster.bootstrap_servers, **options)
        self.admin = Admin(settings, driver=self.cluster.driver())
        self._controller_rules = []

    def topic_names(self):
        return list(self.cluster.controller.image.topics)

    def partition(self, topic, number=0):
        return self.cluster.controller.image.partition(topic, number)

    def elect_controller(self, node_id):
        """Make this node (-1: none) the only one that accepts controller requests, as before KIP-590."""
        for rule in self._controller_rules:
            self.cluster.rules.remove(rule)

        def name_controller(call, response):
            response.controller_id = node_id

        self._controller_rules = [
            self.cluster.on(api, Reply(Code.NOT_CONTROLLER), where=lambda call: call.node.node_id != node_id)
            for api in ("CreateTopics", "DeleteTopics", "CreatePartitions")
        ]
        self._controller_rules.append(self.cluster.on("Metadata", Edit(name_controller)))

    def add_group(self, group, node=1, offsets=None):
        """Create a group without members on a coordinator, with committed offsets by (topic, partition)."""
        self.cluster.move_coordinator(group, node)
        topics = []
        for (topic, number), (offset, metadata) in (offsets or {("none", 0): (0, "")}).items():
            part = OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_leader_epoch=7, committed_metadata=metadata
            )
            topics.append(OffsetCommitRequestTopic(name=topic, partitions=[part]))
        replies = []
        request = OffsetCommitRequest(group_id=group, topics=topics)
        self.cluster.nodes[node].group_coordinator.commit(request, 9, replies.append)
        assert [next(replies[0]) for _ in topics] == [0] * len(topics)

    def requests(self, api):
        return self.cluster.received(api)

    def close(self):
        self.admin.close()
        assert self.cluster.bugs == []
        assert not self.cluster.invalid_requests


@pytest.fixture
def world(closed_at_end):
    return lambda *args, **about: closed_at_end(World(*args, **about))
