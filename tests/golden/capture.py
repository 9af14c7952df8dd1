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
from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.schema import Struct, wire_fields
from thinconsumer_testing.broker.wire.requests import REQUESTS

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


#: The requests of all APIs by their names, such as ``join_group``.
BY_NAME = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", request.__name__.removesuffix("Request")).lower(): request
    for request in REQUESTS.values()
}
#: The fields of a struct by name; nested structs are dicts, too.
Fields = dict[str, Any]


def build(cls: type[Struct], fields: Fields) -> Any:
    """Return a struct with these fields."""
    of = {name: field.of for name, field in wire_fields(cls)}
    return cls(
        **{
            name: [build(of[name], one) if isinstance(one, dict) else one for one in value]
            if isinstance(value, list)
            else value
            for name, value in fields.items()
        }
    )


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
    """The requests of all APIs; the newest versions create the topics and groups that older ones refer to.

    The method with the name of an API yields the fields of its requests.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        answer = broker.ask(ApiVersionsRequest(client_software_name="golden", client_software_version="1"), 3)
        self.offered = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        self.topic_id = b""

    def range(self, name: str) -> range:
        request = BY_NAME[name]
        lowest, highest = self.offered.get(request.API_KEY, (0, -1))
        return range(max(lowest, request.VERSIONS[0]), min(highest, request.VERSIONS[1]) + 1)

    def newest(self, name: str, **fields: Any) -> Any:
        """Send a request in the newest common version; return the response."""
        message = build(BY_NAME[name], fields)
        for _ in range(250):
            answer = self.broker.ask(message, self.range(name)[-1])
            if getattr(answer, "error_code", 0) not in (14, 15, 16, 51):  # Coordinator loading, moving, or busy.
                break
            time.sleep(0.02)
        return answer

    def prepare(self) -> None:
        self.newest("create_topics", topics=[{"name": TOPIC, "num_partitions": 2, "replication_factor": 1}])
        found = None
        while found is None or found.error_code or any(partition.error_code for partition in found.partitions):
            found = self.newest("metadata", topics=[{"name": TOPIC}]).topics[0]
        self.topic_id = found.topic_id
        # A new coordinator first answers that it is loading; such responses are not recorded.
        for key_type in (0, 1):
            request: Fields = {"coordinator_keys": ["warm-up"], "key_type": key_type}
            while self.newest("find_coordinator", **request).coordinators[0].error_code:
                time.sleep(0.02)
        self.member("warm-up")
        self.producer("warm-up")

    def api_versions(self, version: int) -> Iterator[Fields]:
        yield {"client_software_name": "golden", "client_software_version": "1"}

    def metadata(self, version: int) -> Iterator[Fields]:
        yield {"topics": [{"name": TOPIC}, {"name": "missing"}], "allow_auto_topic_creation": version < 4}
        yield {"topics": None if version else []}
        if version >= 12:
            yield {"topics": [{"topic_id": b"\1" * 16, "name": None}]}

    def produce(self, version: int) -> Iterator[Fields]:
        if version < 3 and self.range("fetch")[0] > 0:
            return  # Brokers from 4.0 on advertise these versions, but close the connection.
        data = [{"index": int(version < 3), "records": BATCH if version >= 3 else MESSAGES[version]}]
        topic = {"name": TOPIC, "topic_id": self.topic_id, "partition_data": data}
        yield {"acks": -1, "timeout_ms": 5000, "topic_data": [topic]}
        missing = {"name": "missing", "topic_id": b"\1" * 16, "partition_data": data}
        yield {"acks": 1, "timeout_ms": 5000, "topic_data": [missing]}

    def fetch(self, version: int) -> Iterator[Fields]:
        def topic(name: str, topic_id: bytes, offset: int) -> Fields:
            partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 300}
            return {"topic": name, "topic_id": topic_id, "partitions": [partition]}

        here, missing = topic(TOPIC, self.topic_id, 0), topic("missing", b"\1" * 16, 0)
        yield {"max_wait_ms": 100, "max_bytes": 400, "topics": [here]}
        yield {"max_wait_ms": 100, "topics": [topic(TOPIC, self.topic_id, 10**6)]}
        yield {"max_wait_ms": 100, "topics": [missing]}
        if version >= 4:
            yield {"max_wait_ms": 100, "isolation_level": 1, "session_epoch": 0, "topics": [here]}

    def list_offsets(self, version: int) -> Iterator[Fields]:
        partitions = [{"partition_index": index, "timestamp": -2} for index in (0, 1, 9)]
        yield {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": partitions}]}

    def offset_for_leader_epoch(self, version: int) -> Iterator[Fields]:
        partitions = [{"partition": index, "leader_epoch": 0} for index in (0, 9)]
        yield {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": partitions}]}

    def find_coordinator(self, version: int) -> Iterator[Fields]:
        if version < 4:
            yield {"key": "golden-group"}
        else:
            yield {"coordinator_keys": ["golden-group", "another"]}

    def joined(self, group: str, version: int | None = None) -> Iterator[Fields]:
        """Join twice, because from version 4 on the first request only gets a member id."""
        request: Fields = {
            "group_id": group,
            "session_timeout_ms": 30000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}],
        }
        if version is None or version >= 1:
            request["rebalance_timeout_ms"] = 30000
        yield request
        if version is None or version >= 4:
            yield {**request, "member_id": self.broker.answer.member_id}

    def joined_member(self, group: str, assignment: bytes) -> Fields:
        """Let a member join; return the fields of its SyncGroup, with which the group is stable."""
        for request in self.joined(group):
            answer = self.newest("join_group", **request)
        return {
            "group_id": group,
            "generation_id": answer.generation_id,
            "member_id": answer.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": answer.member_id, "assignment": assignment}],
        }

    def member(self, group: str) -> tuple[str, int]:
        """Create a stable group with one member; return member id and generation."""
        request = self.joined_member(group, b"\0\1\0\0\0\0")
        self.newest("sync_group", **request)
        return request["member_id"], request["generation_id"]

    def join_group(self, version: int) -> Iterator[Fields]:
        yield from self.joined(f"join-{version}", version)

    def sync_group(self, version: int) -> Iterator[Fields]:
        yield self.joined_member(f"sync-{version}", b"assigned")

    def heartbeat(self, version: int) -> Iterator[Fields]:
        group = f"heartbeat-{version}"
        member, generation = self.member(group)
        yield {"group_id": group, "generation_id": generation, "member_id": member}
        yield {"group_id": group, "generation_id": generation + 1, "member_id": member}

    def leave_group(self, version: int) -> Iterator[Fields]:
        group = f"leave-{version}"
        member, _ = self.member(group)
        if version < 3:
            yield {"group_id": group, "member_id": member}
            return
        yield {"group_id": group, "members": [{"member_id": name, "reason": "test"} for name in (member, "nobody")]}

    def offset_commit(self, version: int) -> Iterator[Fields]:
        partitions = [{"partition_index": index, "committed_offset": 2, "committed_metadata": "m"} for index in (0, 9)]
        topic = {"name": TOPIC, "topic_id": self.topic_id, "partitions": partitions}
        yield {"group_id": "golden-group", "topics": [topic]}

    def offset_delete(self, version: int) -> Iterator[Fields]:
        self.newest("offset_commit", **next(self.offset_commit(version)) | {"group_id": "deleting"})
        topic = {"name": TOPIC, "partitions": [{"partition_index": index} for index in (0, 1, 9)]}
        yield {"group_id": "deleting", "topics": [topic]}
        for name in ("missing", ""):
            yield {"group_id": name, "topics": [topic]}

    def offset_fetch(self, version: int) -> Iterator[Fields]:
        topic: Fields = {"name": TOPIC, "partition_indexes": [0, 1]}
        if version < 8:
            yield {"group_id": "golden-group", "topics": [topic]}
            if version >= 2:
                yield {"group_id": "golden-group", "topics": None}
            return
        topic["topic_id"] = self.topic_id
        yield {"groups": [{"group_id": "golden-group", "topics": [topic]}], "require_stable": True}
        yield {"groups": [{"group_id": "golden-group", "topics": None}]}

    def describe_groups(self, version: int) -> Iterator[Fields]:
        self.member(f"describe-{version}")
        yield {"groups": [f"describe-{version}", "missing"]}

    def consumer_group_join(self, group: str, version: int, **options: Any) -> Fields:
        """Return the first heartbeat of a member. From version 1 on, the client makes the member id."""
        return {
            "group_id": group,
            "member_id": f"member-of-{group}" if version else "",
            "member_epoch": 0,
            "rebalance_timeout_ms": 30000,
            "topic_partitions": [],
            **options,
        }

    def consumer_group_heartbeat(self, version: int) -> Iterator[Fields]:
        group = f"consumers-{version}"
        yield self.consumer_group_join(group, version, rack_id="r1", subscribed_topic_names=[TOPIC, "missing"])
        member = {"group_id": group, "member_id": self.broker.answer.member_id}
        epoch = self.broker.answer.member_epoch
        # A heartbeat without changes, a full one, and one of an epoch that the coordinator does not know.
        yield {**member, "member_epoch": epoch}
        yield {
            **member,
            "member_epoch": epoch,
            "rebalance_timeout_ms": 30000,
            "subscribed_topic_names": [TOPIC],
            "server_assignor": "range",
            "topic_partitions": [{"topic_id": self.topic_id, "partitions": [0, 1]}],
        }
        yield {**member, "member_epoch": epoch + 9}
        yield {**member, "member_epoch": -1}
        yield self.consumer_group_join(group, version, instance_id="i", subscribed_topic_names=[TOPIC])
        member["member_id"] = self.broker.answer.member_id
        yield {**member, "member_epoch": -2, "instance_id": "i"}
        if version >= 1:
            yield self.consumer_group_join(f"{group}-regex", version, subscribed_topic_regex=f"{TOPIC}.*")
            yield self.consumer_group_join(f"{group}-regex", version, subscribed_topic_regex="(")

    def consumer_group_describe(self, version: int) -> Iterator[Fields]:
        group, api = f"described-{version}", "consumer_group_heartbeat"
        newest = self.range(api)[-1]
        options = {"instance_id": "i", "rack_id": "r1", "subscribed_topic_names": [TOPIC]}
        self.newest(api, **self.consumer_group_join(group, newest, **options))
        self.newest(api, **self.consumer_group_join(f"{group}-regex", newest, subscribed_topic_regex=f"{TOPIC}.*"))
        self.member(f"classic-{version}")
        groups = [group, f"{group}-regex", f"classic-{version}", "missing"]
        yield {"group_ids": groups, "include_authorized_operations": True}

    def list_groups(self, version: int) -> Iterator[Fields]:
        yield {}

    def delete_groups(self, version: int) -> Iterator[Fields]:
        yield {"groups_names": ["missing", "warm-up"]}

    def init_producer_id(self, version: int) -> Iterator[Fields]:
        yield {"transactional_id": None, "transaction_timeout_ms": 1000}
        yield {"transactional_id": f"init-{version}", "transaction_timeout_ms": 1000}

    def producer(self, name: str) -> Fields:
        answer = self.newest("init_producer_id", transactional_id=name, transaction_timeout_ms=10000)
        return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}

    def add_partitions_to_txn(self, version: int) -> Iterator[Fields]:
        name = f"partitions-{version}"
        topics = [{"name": TOPIC, "partitions": [0, 1]}]
        transaction = {"transactional_id": name, "topics": topics, **self.producer(name)}
        if version < 4:
            yield {f"v3_and_below_{field}": value for field, value in transaction.items()}
        else:
            yield {"transactions": [transaction]}

    def add_offsets_to_txn(self, version: int) -> Iterator[Fields]:
        name = f"offsets-{version}"
        yield {"transactional_id": name, "group_id": f"g-{name}", **self.producer(name)}

    def transaction(self, name: str) -> Fields:
        """Begin a transaction with offsets of a group; return its fields."""
        fields = {"transactional_id": name, **self.producer(name)}
        self.newest("add_offsets_to_txn", group_id=f"g-{name}", **fields)
        return fields

    def txn_offset_commit(self, version: int) -> Iterator[Fields]:
        name = f"commit-{version}"
        topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
        yield {"group_id": f"g-{name}", "topics": [topic], **self.transaction(name)}

    def end_txn(self, version: int) -> Iterator[Fields]:
        yield {"committed": True, **self.transaction(f"end-{version}")}

    def create_topics(self, version: int) -> Iterator[Fields]:
        one = {"num_partitions": 1, "replication_factor": 1}
        new = {"name": f"made-{version}", "configs": [{"name": "retention.ms", "value": "60000"}], **one}
        yield {"topics": [new, {"name": TOPIC, **one}]}

    def create_partitions(self, version: int) -> Iterator[Fields]:
        topics = [
            {"name": name, "count": count, "assignments": None}
            for name, count in (("made-5", version + 2), ("missing", 1))
        ]
        yield {"topics": topics, "timeout_ms": 5000}

    def delete_topics(self, version: int) -> Iterator[Fields]:
        names = [f"made-{version}", "missing"]
        if version < 6:
            yield {"topic_names": names, "timeout_ms": 5000}
        else:
            yield {"topics": [{"name": name} for name in names], "timeout_ms": 5000}

    def delete_records(self, version: int) -> Iterator[Fields]:
        partitions = [{"partition_index": index, "offset": 0} for index in (0, 9)]
        yield {"topics": [{"name": TOPIC, "partitions": partitions}], "timeout_ms": 5000}

    def describe_configs(self, version: int) -> Iterator[Fields]:
        keys = ["retention.ms", "cleanup.policy"]
        resources = [
            {"resource_type": 2, "resource_name": name, "configuration_keys": keys} for name in (TOPIC, "missing")
        ]
        yield {"resources": resources, "include_synonyms": version >= 1}

    def describe_cluster(self, version: int) -> Iterator[Fields]:
        yield {}

    # On a PLAINTEXT listener, brokers answer both SASL requests with ILLEGAL_SASL_STATE.

    def sasl_handshake(self, version: int) -> Iterator[Fields]:
        yield {"mechanism": "PLAIN"}

    def sasl_authenticate(self, version: int) -> Iterator[Fields]:
        yield {"auth_bytes": b"\0user\0password"}

    def alter_user_scram_credentials(self, version: int) -> Iterator[Fields]:
        set_one = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
        yield {"deletions": [{"name": "missing", "mechanism": 2}], "upsertions": [set_one]}

    def describe_user_scram_credentials(self, version: int) -> Iterator[Fields]:
        yield {"users": [{"name": "alice"}, {"name": "missing"}]}
        yield {"users": None}

    def create_acls(self, version: int) -> Iterator[Fields]:
        invalid = {"resource_type": 2, "principal": "alice", "host": "*", "operation": 3, "permission_type": 3}
        names = {"resource_name": f"topic-{version}", "resource_pattern_type": 4, "principal": "User:alice"}
        yield {"creations": [{**invalid, **names}, invalid]}

    def acl_filter(self, resource_type: int, name: str | None, principal: str | None) -> Fields:
        return {
            "resource_type_filter": resource_type,
            "resource_name_filter": name,
            "pattern_type_filter": 1,  # Matches literal and prefixed patterns.
            "principal_filter": principal,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }

    def delete_acls(self, version: int) -> Iterator[Fields]:
        # The ACL that create_acls has added in this version.
        yield {"filters": [self.acl_filter(2, name, None) for name in (f"topic-{version}", "missing")]}

    def describe_acls(self, version: int) -> Iterator[Fields]:
        self.newest("create_acls", **next(self.create_acls(9)))
        request = self.acl_filter(1, None, "User:alice")
        while not self.newest("describe_acls", **request).resources:
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
    for name in dict.fromkeys(["create_topics", "produce", *sorted(BY_NAME)]):
        writer = Writer(folder, name)
        for version in session.range(name) if hasattr(Session, name) else ():
            for fields in getattr(session, name)(version):
                writer.ask(broker, build(BY_NAME[name], fields), version)
        if writer.lines:
            writer.close()
    version = session.range("api_versions")[-1] + 1
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
