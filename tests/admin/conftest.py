"""A cluster in memory that takes an admin's orders: topics, records and groups, each as a 4.x broker answers."""

from __future__ import annotations

from collections import deque

import pytest

from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.testing import ScriptedCluster
from thinconsumer.testing.handlers import error_of
from thinconsumer.wire.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from thinconsumer.wire.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from thinconsumer.wire.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from thinconsumer.wire.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from thinconsumer.wire.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from thinconsumer.wire.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


class Orders:
    """What the brokers of one cluster do when an admin asks. ``groups`` maps ids to their coordinators."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.controller = next(iter(cluster.brokers))
        self.groups = {}
        self.offsets = {}  #: By group: {(topic, partition): (offset, metadata)}

    def table(self):
        return {
            CreateTopicsRequest: self.create_topics,
            DeleteTopicsRequest: self.delete_topics,
            CreatePartitionsRequest: self.create_partitions,
            DeleteRecordsRequest: self.delete_records,
            FindCoordinatorRequest: self.find_coordinator,
            ListGroupsRequest: self.list_groups,
            DescribeGroupsRequest: self.describe_groups,
            DeleteGroupsRequest: self.delete_groups,
            OffsetFetchRequest: self.offset_fetch,
        }

    def _controls(self, connection):
        return connection.broker.node_id == self.controller

    def metadata(self, request, version, connection):
        answer = self.cluster.handlers.metadata(request, version, connection)
        answer.controller_id = self.controller
        return answer

    def create_topics(self, request, version, connection):
        answer = CreateTopicsResponse()
        for asked in request.topics:
            told = CreatableTopicResult(name=asked.name)
            answer.topics.append(told)
            if not self._controls(connection):
                told.error_code = int(Code.NOT_CONTROLLER)
            elif asked.name in self.cluster.topics.by_name:
                told.error_code, told.error_message = int(Code.TOPIC_ALREADY_EXISTS), "is there"
            else:
                count = len(asked.assignments) or (1 if asked.num_partitions < 0 else asked.num_partitions)
                told.num_partitions, told.replication_factor = count, 1
                if not request.validate_only:
                    told.topic_id = self.cluster.topics.add(asked.name, count).topic_id
        return answer

    def delete_topics(self, request, version, connection):
        answer = DeleteTopicsResponse()
        names = [state.name for state in request.topics] if version >= 6 else request.topic_names
        for name in names:
            code = Code.NONE
            if not self._controls(connection):
                code = Code.NOT_CONTROLLER
            elif name not in self.cluster.topics.by_name:
                code = Code.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.cluster.topics.remove(name)
            answer.responses.append(DeletableTopicResult(name=name, error_code=int(code)))
        return answer

    def create_partitions(self, request, version, connection):
        answer = CreatePartitionsResponse()
        for asked in request.topics:
            code = Code.NONE
            topic = self.cluster.topics.by_name.get(asked.name)
            if not self._controls(connection):
                code = Code.NOT_CONTROLLER
            elif topic is None:
                code = Code.UNKNOWN_TOPIC_OR_PARTITION
            elif asked.count <= len(topic.partitions):
                code = Code.INVALID_PARTITIONS
            answer.results.append(CreatePartitionsTopicResult(name=asked.name, error_code=int(code)))
        return answer

    def delete_records(self, request, version, connection):
        answer = DeleteRecordsResponse()
        for topic in request.topics:
            told = DeleteRecordsTopicResult(name=topic.name)
            answer.topics.append(told)
            for part in topic.partitions:
                found = self.cluster.topics.by_name.get(topic.name)
                log = None if found is None else found.partitions.get(part.partition_index)
                code = error_of(log, connection.broker.node_id, -1)
                low = -1
                if not code:
                    low = log.end_offset if part.offset < 0 else part.offset
                    log.delete_before(low)
                told.partitions.append(
                    DeleteRecordsPartitionResult(
                        partition_index=part.partition_index, low_watermark=low, error_code=code
                    )
                )
        return answer

    def find_coordinator(self, request, version, connection):
        assert request.key_type == 0
        keys = request.coordinator_keys if version >= 4 else [request.key]
        found = []
        for key in keys:
            node_id = self.groups.get(key, min(self.cluster.brokers))
            broker = self.cluster.brokers[node_id]
            found.append(FindCoordinatorResult(key=key, node_id=node_id, host=broker.host, port=broker.port))
        if version >= 4:
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(node_id=found[0].node_id, host=found[0].host, port=found[0].port)

    def _group_code(self, group, connection):
        wrong = self.groups.get(group, min(self.cluster.brokers)) != connection.broker.node_id
        return int(Code.NOT_COORDINATOR if wrong else Code.NONE)

    def list_groups(self, request, version, connection):
        mine = [group for group, node_id in self.groups.items() if node_id == connection.broker.node_id]
        listed = [
            ListedGroup(group_id=group, protocol_type="consumer", group_state="Empty", group_type="classic")
            for group in mine
        ]
        return ListGroupsResponse(groups=listed)

    def describe_groups(self, request, version, connection):
        answer = DescribeGroupsResponse()
        for group in request.groups:
            member = DescribedGroupMember(
                member_id="m", client_id="c", client_host="/h", member_metadata=b"x", member_assignment=b"y"
            )
            told = DescribedGroup(
                error_code=self._group_code(group, connection),
                group_id=group,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
            )
            if not told.error_code and group not in self.groups:
                told = DescribedGroup(
                    error_code=int(Code.GROUP_ID_NOT_FOUND), error_message="no such group", group_id=group
                )
            answer.groups.append(told)
        return answer

    def delete_groups(self, request, version, connection):
        answer = DeleteGroupsResponse()
        for group in request.groups_names:
            code = self._group_code(group, connection)
            if not code and group not in self.groups:
                code = int(Code.GROUP_ID_NOT_FOUND)
            elif not code:
                del self.groups[group]
            answer.results.append(DeletableGroupResult(group_id=group, error_code=code))
        return answer

    def offset_fetch(self, request, version, connection):
        if version >= 8:
            (asked,) = request.groups
            assert asked.topics is None
            code = self._group_code(asked.group_id, connection)
            topics = self._topics(asked.group_id, OffsetFetchResponseTopics)
            group = OffsetFetchResponseGroup(group_id=asked.group_id, topics=[] if code else topics, error_code=code)
            return OffsetFetchResponse(groups=[group])
        assert request.topics is None
        code = self._group_code(request.group_id, connection)
        topics = self._topics(request.group_id, OffsetFetchResponseTopic)
        return OffsetFetchResponse(topics=[] if code else topics, error_code=code)

    def _topics(self, group, topic_type):
        topics = {}
        for (topic, partition), (offset, metadata) in self.offsets.get(group, {}).items():
            code = int(Code.UNSTABLE_OFFSET_COMMIT) if offset == -2 else 0
            topics.setdefault(topic, topic_type(name=topic)).partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=7,
                    metadata=metadata,
                    error_code=code,
                )
            )
        return list(topics.values())


class World:
    """A cluster and an admin."""

    def __init__(self, node_ids=(1, 2, 3), topics=None, **options):
        self.cluster = ScriptedCluster(node_ids, topics or {})
        self.network = self.cluster.network
        self.clock = self.cluster.clock
        self.orders = Orders(self.cluster)
        for broker in self.cluster.brokers.values():
            self.serve(broker)
        settings = ClientOptions.from_options(bootstrap_servers=self.cluster.bootstrap_servers, **options)
        self.admin = Admin(settings, driver=self.cluster.driver())
        self.may_complain = False

    def serve(self, broker):
        broker.handlers.update(self.orders.table())
        broker.handlers[MetadataRequest] = self.orders.metadata

    def before(self, api, hook):
        """Ask ``hook(request, version, connection)`` first; what it returns, unless None, is the reply."""
        for broker in self.cluster.brokers.values():
            usual = broker.handlers[api]

            def handle(request, version, connection, usual=usual):
                reply = hook(request, version, connection)
                return usual(request, version, connection) if reply is None else reply

            broker.handlers[api] = handle

    def first(self, api, *replies):
        """Answer the next requests of an API, at whichever broker, with these; functions are called as handlers are."""
        left = deque(replies)

        def hook(request, version, connection):
            if not left:
                return None
            reply = left.popleft()
            return reply(request, version, connection) if callable(reply) else reply

        self.before(api, hook)

    def requests(self, api):
        """Return every request of one API that reached any broker, in order of time."""
        found = [got for broker in self.cluster.brokers.values() for got in broker.requests if got.api is api]
        return sorted(found, key=lambda received: received.at)

    def finish(self):
        self.admin.close()
        assert self.may_complain or self.cluster.complaints == []


@pytest.fixture
def world():
    """Return a function that makes worlds; admins are closed at the end."""
    made = []

    def make(*args, **about):
        made.append(World(*args, **about))
        return made[-1]

    yield make
    for one in made:
        one.finish()
