"""Send requests of every API in every supported version to a real broker, and record the bytes::

    capture.py FOLDER HOST:PORT [--known FOLDER]

One file per API, one line per exchange: version, request frame and response frame in hexadecimal (header and body, as
on the wire after the four bytes of size). The broker should be fresh, alone, and on PLAINTEXT with
``group.initial.rebalance.delay.ms=0``. Topics and groups created here are not deleted. The requests are encoded by
this package, which is a test, too: a broker closes the connection on a malformed request.
"""

from __future__ import annotations

import argparse
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import (
    Message,
    fetch,
    find_coordinator,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)
from thinconsumer.wire import consumer_group_heartbeat as consumer_heartbeat
from thinconsumer.wire import offset_for_leader_epoch as epochs
from thinconsumer.wire import topics as topic_apis
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.groups import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer_testing.broker.wire import acls, administration, scram_credentials
from thinconsumer_testing.broker.wire import transactions as txn
from thinconsumer_testing.broker.wire.acls import DescribeAclsRequest
from thinconsumer_testing.broker.wire.administration import DescribeClusterRequest
from thinconsumer_testing.broker.wire.requests import REQUESTS
from thinconsumer_testing.broker.wire.transactions import EndTxnRequest

TOPIC = "golden"
#: Three records, one with a header, one without a key, one without a value; made with kafka-python.
BATCH = bytes.fromhex(
    "00000000000000000000005c00000000027f20e91d0000000000020000018bcfe568000000018bcfe56802ffffffffffffffffffffffffffff"
    "0000000326000000046b300e76616c75652d3002026802781a000202010e76616c75652d310010000404046b320100"
)


#: One message in the formats that versions 0 to 2 of Produce take.
MESSAGES = [
    bytes.fromhex("000000000000000000000017c86cc7a60000000000026b300000000776616c75652d30"),
    bytes.fromhex("000000000000000000000017c86cc7a60000000000026b300000000776616c75652d30"),
    bytes.fromhex("00000000000000000000001fb522df8b01000000018bcfe56800000000026b300000000776616c75652d30"),
]


class Broker:
    """A blocking connection that keeps the last request and response."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        self.socket = socket.create_connection(self.address, timeout=10)
        self.last = (b"", b"")  #: The frames of the last exchange.
        self.answer: Any = None  #: Its response, decoded.

    def ask(self, message: Message, version: int) -> Any:
        """Send one request and return the decoded response."""
        frame = encode_request(message, version, 7, "golden")
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = self.receive(struct.unpack(">i", self.receive(4))[0])
        self.last = (frame, answer)
        _, start = decode_response_header(answer, type(message), version)
        try:
            self.answer = message.RESPONSE.decode(answer, version, start)
        except KafkaProtocolError:
            if not isinstance(message, ApiVersionsRequest):
                raise
            self.answer = message.RESPONSE.decode(answer, 0, start)  # an unsupported version of ApiVersions
        return self.answer

    def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"{self.address} hung up after {self.last[0].hex()}")
            data += piece
        return bytes(data)


class Session:
    """The requests of all APIs; the newest versions create the topics and groups that older ones refer to."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        answer = broker.ask(ApiVersionsRequest(client_software_name="golden", client_software_version="1"), 3)
        self.offered = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        self.topic_id = b""

    def range(self, request: type[Message]) -> range:
        lowest, highest = self.offered.get(request.API_KEY, (0, -1))
        return range(max(lowest, request.VERSIONS[0]), min(highest, request.VERSIONS[1]) + 1)

    def newest(self, message: Message) -> Any:
        """Send a request in the newest common version; return the response."""
        for _ in range(250):
            answer = self.broker.ask(message, self.range(type(message))[-1])
            if getattr(answer, "error_code", 0) not in (14, 15, 16, 51):  # Coordinator loading, moving, or busy.
                break
            time.sleep(0.02)
        return answer

    def prepare(self) -> None:
        topic = topic_apis.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        self.newest(topic_apis.CreateTopicsRequest(topics=[topic]))
        wanted = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)])
        found = self.newest(wanted).topics[0]
        while found.error_code or any(partition.error_code for partition in found.partitions):
            found = self.newest(wanted).topics[0]
        self.topic_id = found.topic_id
        # A new coordinator first answers that it is loading; such responses are not recorded.
        for key_type in (0, 1):
            request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["warm-up"], key_type=key_type)
            while self.newest(request).coordinators[0].error_code:
                time.sleep(0.02)
        self.member("warm-up")
        self.producer("warm-up")

    def api_versions(self, version: int) -> Iterator[Message]:
        yield ApiVersionsRequest(client_software_name="golden", client_software_version="1")

    def metadata(self, version: int) -> Iterator[Message]:
        topics = [metadata.MetadataRequestTopic(name=name) for name in (TOPIC, "missing")]
        yield metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
        yield metadata.MetadataRequest(topics=None if version else [])
        if version >= 12:
            yield metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(topic_id=b"\1" * 16, name=None)])

    def produce(self, version: int) -> Iterator[Message]:
        if version < 3 and self.range(fetch.FetchRequest)[0] > 0:
            return  # Brokers from 4.0 on advertise these versions, but close the connection.
        batch = BATCH if version >= 3 else MESSAGES[version]
        data = [produce.PartitionProduceData(index=int(version < 3), records=batch)]
        topic = produce.TopicProduceData(name=TOPIC, topic_id=self.topic_id, partition_data=data)
        yield produce.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        missing = produce.TopicProduceData(name="missing", topic_id=b"\1" * 16, partition_data=data)
        yield produce.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[missing])

    def fetch(self, version: int) -> Iterator[Message]:
        def topic(name: str, topic_id: bytes, offset: int) -> fetch.FetchTopic:
            partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=300)
            return fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])

        here, missing = topic(TOPIC, self.topic_id, 0), topic("missing", b"\1" * 16, 0)
        yield fetch.FetchRequest(max_wait_ms=100, max_bytes=400, topics=[here])
        yield fetch.FetchRequest(max_wait_ms=100, topics=[topic(TOPIC, self.topic_id, 10**6)])
        yield fetch.FetchRequest(max_wait_ms=100, topics=[missing])
        if version >= 4:
            yield fetch.FetchRequest(max_wait_ms=100, isolation_level=1, session_epoch=0, topics=[here])

    def list_offsets(self, version: int) -> Iterator[Message]:
        partitions = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-2) for index in (0, 1, 9)]
        topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=partitions)
        yield list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])

    def offset_for_leader_epoch(self, version: int) -> Iterator[Message]:
        partitions = [epochs.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in (0, 9)]
        topic = epochs.OffsetForLeaderTopic(topic=TOPIC, partitions=partitions)
        yield epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])

    def find_coordinator(self, version: int) -> Iterator[Message]:
        if version < 4:
            yield find_coordinator.FindCoordinatorRequest(key="golden-group")
        else:
            yield find_coordinator.FindCoordinatorRequest(coordinator_keys=["golden-group", "another"])

    def joined(self, group: str, version: int | None = None) -> Iterator[Message]:
        """Join twice, because from version 4 on the first request only gets a member id."""
        protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")
        request = join_group.JoinGroupRequest(
            group_id=group, session_timeout_ms=30000, protocol_type="consumer", protocols=[protocol]
        )
        if version is None or version >= 1:
            request.rebalance_timeout_ms = 30000
        yield request
        if version is None or version >= 4:
            request.member_id = self.broker.answer.member_id
            yield request

    def member(self, group: str) -> tuple[str, int]:
        """Create a stable group with one member; return member id and generation."""
        for request in self.joined(group):
            answer = self.newest(request)
        assignment = sync_group.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"\0\1\0\0\0\0")
        self.newest(
            sync_group.SyncGroupRequest(
                group_id=group,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[assignment],
            )
        )
        return answer.member_id, answer.generation_id

    def join_group(self, version: int) -> Iterator[Message]:
        yield from self.joined(f"join-{version}", version)

    def sync_group(self, version: int) -> Iterator[Message]:
        group = f"sync-{version}"
        for request in self.joined(group):
            answer = self.newest(request)
        assignment = sync_group.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"assigned")
        yield sync_group.SyncGroupRequest(
            group_id=group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )

    def heartbeat(self, version: int) -> Iterator[Message]:
        member, generation = self.member(f"heartbeat-{version}")
        yield HeartbeatRequest(group_id=f"heartbeat-{version}", generation_id=generation, member_id=member)
        yield HeartbeatRequest(group_id=f"heartbeat-{version}", generation_id=generation + 1, member_id=member)

    def leave_group(self, version: int) -> Iterator[Message]:
        member, _ = self.member(f"leave-{version}")
        if version < 3:
            yield leave_group.LeaveGroupRequest(group_id=f"leave-{version}", member_id=member)
            return
        members = [leave_group.MemberIdentity(member_id=name, reason="test") for name in (member, "nobody")]
        yield leave_group.LeaveGroupRequest(group_id=f"leave-{version}", members=members)

    def offset_commit(self, version: int) -> Iterator[Message]:
        partitions = [
            offset_commit.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=2, committed_metadata="m"
            )
            for index in (0, 9)
        ]
        topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, topic_id=self.topic_id, partitions=partitions)
        yield offset_commit.OffsetCommitRequest(group_id="golden-group", topics=[topic])

    def offset_fetch(self, version: int) -> Iterator[Message]:
        if version < 8:
            old = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])
            yield offset_fetch.OffsetFetchRequest(group_id="golden-group", topics=[old])
            if version >= 2:
                yield offset_fetch.OffsetFetchRequest(group_id="golden-group", topics=None)
            return
        topic = offset_fetch.OffsetFetchRequestTopics(name=TOPIC, topic_id=self.topic_id, partition_indexes=[0, 1])
        group = offset_fetch.OffsetFetchRequestGroup(group_id="golden-group", topics=[topic])
        every = offset_fetch.OffsetFetchRequestGroup(group_id="golden-group", topics=None)
        yield offset_fetch.OffsetFetchRequest(groups=[group], require_stable=True)
        yield offset_fetch.OffsetFetchRequest(groups=[every])

    def describe_groups(self, version: int) -> Iterator[Message]:
        self.member(f"describe-{version}")
        yield DescribeGroupsRequest(groups=[f"describe-{version}", "missing"])

    def consumer_group_join(
        self, group: str, version: int, **options: Any
    ) -> consumer_heartbeat.ConsumerGroupHeartbeatRequest:
        """Return the first heartbeat of a member. From version 1 on, the client makes the member id."""
        return consumer_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=f"member-of-{group}" if version else "",
            member_epoch=0,
            rebalance_timeout_ms=30000,
            topic_partitions=[],
            **options,
        )

    def consumer_group_heartbeat(self, version: int) -> Iterator[Message]:
        group = f"consumers-{version}"
        yield self.consumer_group_join(group, version, rack_id="r1", subscribed_topic_names=[TOPIC, "missing"])
        member = {"group_id": group, "member_id": self.broker.answer.member_id}
        epoch = self.broker.answer.member_epoch
        owned = [consumer_heartbeat.TopicPartitions(topic_id=self.topic_id, partitions=[0, 1])]
        # A heartbeat without changes, a full one, and one of an epoch that the coordinator does not know.
        yield consumer_heartbeat.ConsumerGroupHeartbeatRequest(**member, member_epoch=epoch)
        yield consumer_heartbeat.ConsumerGroupHeartbeatRequest(
            **member,
            member_epoch=epoch,
            rebalance_timeout_ms=30000,
            subscribed_topic_names=[TOPIC],
            server_assignor="range",
            topic_partitions=owned,
        )
        yield consumer_heartbeat.ConsumerGroupHeartbeatRequest(**member, member_epoch=epoch + 9)
        yield consumer_heartbeat.ConsumerGroupHeartbeatRequest(**member, member_epoch=-1)
        static = self.consumer_group_join(group, version, instance_id="i", subscribed_topic_names=[TOPIC])
        yield static
        yield consumer_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=self.broker.answer.member_id, member_epoch=-2, instance_id="i"
        )
        if version >= 1:
            yield self.consumer_group_join(f"{group}-regex", version, subscribed_topic_regex=f"{TOPIC}.*")
            yield self.consumer_group_join(f"{group}-regex", version, subscribed_topic_regex="(")

    def consumer_group_describe(self, version: int) -> Iterator[Message]:
        group = f"described-{version}"
        newest = self.range(consumer_heartbeat.ConsumerGroupHeartbeatRequest)[-1]
        self.newest(
            self.consumer_group_join(group, newest, instance_id="i", rack_id="r1", subscribed_topic_names=[TOPIC])
        )
        self.newest(self.consumer_group_join(f"{group}-regex", newest, subscribed_topic_regex=f"{TOPIC}.*"))
        self.member(f"classic-{version}")
        groups = [group, f"{group}-regex", f"classic-{version}", "missing"]
        yield ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=True)

    def list_groups(self, version: int) -> Iterator[Message]:
        yield ListGroupsRequest()

    def delete_groups(self, version: int) -> Iterator[Message]:
        yield DeleteGroupsRequest(groups_names=["missing", "warm-up"])

    def init_producer_id(self, version: int) -> Iterator[Message]:
        yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        yield InitProducerIdRequest(transactional_id=f"init-{version}", transaction_timeout_ms=1000)

    def producer(self, name: str) -> dict[str, Any]:
        answer = self.newest(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10000))
        return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}

    def add_partitions_to_txn(self, version: int) -> Iterator[Message]:
        producer = self.producer(f"partitions-{version}")
        topics = [txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])]
        if version < 4:
            yield txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=f"partitions-{version}",
                v3_and_below_producer_id=producer["producer_id"],
                v3_and_below_producer_epoch=producer["producer_epoch"],
                v3_and_below_topics=topics,
            )
            return
        transaction = txn.AddPartitionsToTxnTransaction(
            transactional_id=f"partitions-{version}", topics=topics, **producer
        )
        yield txn.AddPartitionsToTxnRequest(transactions=[transaction])

    def add_offsets_to_txn(self, version: int) -> Iterator[Message]:
        name = f"offsets-{version}"
        yield txn.AddOffsetsToTxnRequest(transactional_id=name, group_id=f"g-{name}", **self.producer(name))

    def txn_offset_commit(self, version: int) -> Iterator[Message]:
        name = f"commit-{version}"
        producer = self.producer(name)
        self.newest(txn.AddOffsetsToTxnRequest(transactional_id=name, group_id=f"g-{name}", **producer))
        partition = txn.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = txn.TxnOffsetCommitRequestTopic(name=TOPIC, topic_id=self.topic_id, partitions=[partition])
        yield txn.TxnOffsetCommitRequest(transactional_id=name, group_id=f"g-{name}", topics=[topic], **producer)

    def end_txn(self, version: int) -> Iterator[Message]:
        name = f"end-{version}"
        producer = self.producer(name)
        self.newest(txn.AddOffsetsToTxnRequest(transactional_id=name, group_id=f"g-{name}", **producer))
        yield EndTxnRequest(transactional_id=name, committed=True, **producer)

    def create_topics(self, version: int) -> Iterator[Message]:
        config = topic_apis.CreatableTopicConfig(name="retention.ms", value="60000")
        new = topic_apis.CreatableTopic(
            name=f"made-{version}", num_partitions=1, replication_factor=1, configs=[config]
        )
        again = topic_apis.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        yield topic_apis.CreateTopicsRequest(topics=[new, again])

    def create_partitions(self, version: int) -> Iterator[Message]:
        topics = [
            topic_apis.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in (("made-5", version + 2), ("missing", 1))
        ]
        yield topic_apis.CreatePartitionsRequest(topics=topics, timeout_ms=5000)

    def delete_topics(self, version: int) -> Iterator[Message]:
        names = [f"made-{version}", "missing"]
        states = [topic_apis.DeleteTopicState(name=name) for name in names]
        if version < 6:
            yield topic_apis.DeleteTopicsRequest(topic_names=names, timeout_ms=5000)
        else:
            yield topic_apis.DeleteTopicsRequest(topics=states, timeout_ms=5000)

    def delete_records(self, version: int) -> Iterator[Message]:
        partitions = [administration.DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 9)]
        topic = administration.DeleteRecordsTopic(name=TOPIC, partitions=partitions)
        yield administration.DeleteRecordsRequest(topics=[topic], timeout_ms=5000)

    def describe_configs(self, version: int) -> Iterator[Message]:
        keys = ["retention.ms", "cleanup.policy"]
        resources = [
            administration.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)
            for name in (TOPIC, "missing")
        ]
        yield administration.DescribeConfigsRequest(resources=resources, include_synonyms=version >= 1)

    def describe_cluster(self, version: int) -> Iterator[Message]:
        yield DescribeClusterRequest()

    # On a PLAINTEXT listener, brokers answer both SASL requests with ILLEGAL_SASL_STATE.

    def sasl_handshake(self, version: int) -> Iterator[Message]:
        yield SaslHandshakeRequest(mechanism="PLAIN")

    def sasl_authenticate(self, version: int) -> Iterator[Message]:
        yield SaslAuthenticateRequest(auth_bytes=b"\0user\0password")

    def alter_user_scram_credentials(self, version: int) -> Iterator[Message]:
        set_one = scram_credentials.ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
        )
        missing = scram_credentials.ScramCredentialDeletion(name="missing", mechanism=2)
        yield scram_credentials.AlterUserScramCredentialsRequest(deletions=[missing], upsertions=[set_one])

    def describe_user_scram_credentials(self, version: int) -> Iterator[Message]:
        users = [scram_credentials.UserName(name=name) for name in ("alice", "missing")]
        yield scram_credentials.DescribeUserScramCredentialsRequest(users=users)
        yield scram_credentials.DescribeUserScramCredentialsRequest(users=None)

    def create_acls(self, version: int) -> Iterator[Message]:
        allowed = acls.AclCreation(
            resource_type=2,
            resource_name=f"topic-{version}",
            resource_pattern_type=4,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        )
        invalid = acls.AclCreation(resource_type=2, principal="alice", host="*", operation=3, permission_type=3)
        yield acls.CreateAclsRequest(creations=[allowed, invalid])

    def delete_acls(self, version: int) -> Iterator[Message]:
        # The ACL that create_acls has added in this version; pattern type 1 matches literal and prefixed patterns.
        names = (f"topic-{version}", "missing")
        filters = [
            acls.DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter=name,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            for name in names
        ]
        yield acls.DeleteAclsRequest(filters=filters)

    def describe_acls(self, version: int) -> Iterator[Message]:
        self.newest(next(self.create_acls(9)))
        request = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter="User:alice",
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        while not self.newest(request).resources:
            time.sleep(0.02)  # The controller has the ACL before the broker's metadata does.
        yield request


class Writer:
    """Collects the exchanges of one API."""

    known: Path | None = None  #: A folder with recordings; versions in it are not recorded again.

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.txt"
        self.lines: list[str] = []

    def ask(self, broker: Broker, message: Message, version: int) -> None:
        broker.ask(message, version)
        self.lines.append(f"{version} {broker.last[0].hex()} {broker.last[1].hex()}\n")

    def close(self) -> None:
        known = self.known / self.path.name if self.known else None
        if known and known.exists():
            versions = {line.split()[0] for line in known.read_text().splitlines()}
            self.lines = [line for line in self.lines if line.split()[0] not in versions]
        if self.lines:
            self.path.write_text("".join(self.lines))
        print(f"{self.path.stem}: {len(self.lines)}")


def capture(folder: Path, address: str) -> None:
    """Record all APIs."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(address)
    session = Session(broker)
    session.prepare()
    by_name = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", request.__name__.removesuffix("Request")).lower(): request
        for request in REQUESTS.values()
    }
    for name in dict.fromkeys(["create_topics", "produce", *sorted(by_name)]):
        request, writer = by_name[name], Writer(folder, name)
        for version in session.range(request) if hasattr(Session, name) else ():
            for message in getattr(session, name)(version):
                writer.ask(broker, message, version)
        if writer.lines:
            writer.close()
    version = session.range(ApiVersionsRequest)[-1] + 1
    if version <= ApiVersionsRequest.VERSIONS[1]:  # Too new for this broker, which answers in version 0.
        writer = Writer(folder, "api_versions_refused")
        writer.ask(broker, ApiVersionsRequest(client_software_name="golden", client_software_version="1"), version)
        writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("address")
    parser.add_argument("--known", type=Path, help="leave out the versions that this folder has")
    options = parser.parse_args()
    Writer.known = options.known
    capture(options.folder, options.address)
