"""All requests that brokers take; functions that decode a request's header, and encode a response and its header."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from thinconsumer.wire.header import skip_tags
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_delete import OffsetDeleteRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from thinconsumer.wire.produce import ProduceRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from thinconsumer.wire.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from .acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from .administration import DeleteRecordsRequest, DescribeClusterRequest, DescribeConfigsRequest
from .scram_credentials import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from .transactions import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, TxnOffsetCommitRequest

_API_VERSIONS = 18
_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")

_REQUESTS: tuple[type[Message], ...] = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    SaslHandshakeRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    DescribeAclsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeConfigsRequest,
    SaslAuthenticateRequest,
    CreatePartitionsRequest,
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    DescribeUserScramCredentialsRequest,
    AlterUserScramCredentialsRequest,
    DescribeClusterRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribeRequest,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
    PartitionLeaderEpochsForPartitionsRequest,
    ConsumerGroupPositionsRequest,
)

#: Request classes by API key; ``.RESPONSE`` is the class of the response.
REQUESTS: Mapping[int, type[Message]] = MappingProxyType({request.API_KEY: request for request in _REQUESTS})


class RequestHeader(NamedTuple):
    """A decoded request header; the body starts at ``body_offset``."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """Return header and body of a response, without the size field."""
    parts: list[bytes | bytearray | memoryview] = [_CORRELATION_ID.pack(correlation_id)]
    if version >= message.FLEXIBLE and message.API_KEY != _API_VERSIONS:
        parts.append(b"\0")
    message.encode_into(parts.append, version)
    return b"".join(parts)


def decode_request_header(buffer: bytes | bytearray | memoryview) -> RequestHeader:
    """Read a request's header, as a broker does. Does not check whether the request's version is supported.

    Raises:
        KafkaProtocolError: The header is truncated or malformed, or the API key is unknown.
    """
    if len(buffer) < _REQUEST.size:
        raise KafkaProtocolError(f"request has {len(buffer)} bytes, too few for its header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(buffer)
    request = REQUESTS.get(api_key)
    if request is None:
        raise KafkaProtocolError(f"request has the unknown API key {api_key}")
    position = _REQUEST.size
    client_id: str | None = None
    if length != -1:
        end = position + length
        if not position <= end <= len(buffer):
            raise KafkaProtocolError(f"client id claims {length} bytes, but {len(buffer) - position} are left")
        try:
            client_id = str(buffer[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"client id is not UTF-8: {error}") from None
        position = end
    if version >= request.FLEXIBLE:
        position = skip_tags(buffer, position)
    return RequestHeader(api_key, version, correlation_id, client_id, position)
