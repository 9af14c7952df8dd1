"""All requests by API key, for servers, tools and tests. Clients import only the APIs that they use."""

from collections.abc import Mapping
from types import MappingProxyType

from .add_offsets_to_txn import AddOffsetsToTxnRequest
from .add_partitions_to_txn import AddPartitionsToTxnRequest
from .alter_user_scram_credentials import AlterUserScramCredentialsRequest
from .api_versions import ApiVersionsRequest
from .consumer_group_describe import ConsumerGroupDescribeRequest
from .consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from .consumer_group_positions import ConsumerGroupPositionsRequest
from .create_acls import CreateAclsRequest
from .create_partitions import CreatePartitionsRequest
from .create_topics import CreateTopicsRequest
from .delete_acls import DeleteAclsRequest
from .delete_groups import DeleteGroupsRequest
from .delete_records import DeleteRecordsRequest
from .delete_topics import DeleteTopicsRequest
from .describe_acls import DescribeAclsRequest
from .describe_cluster import DescribeClusterRequest
from .describe_configs import DescribeConfigsRequest
from .describe_groups import DescribeGroupsRequest
from .describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from .end_txn import EndTxnRequest
from .fetch import FetchRequest
from .find_coordinator import FindCoordinatorRequest
from .heartbeat import HeartbeatRequest
from .init_producer_id import InitProducerIdRequest
from .join_group import JoinGroupRequest
from .leave_group import LeaveGroupRequest
from .list_groups import ListGroupsRequest
from .list_offsets import ListOffsetsRequest
from .message import Message
from .metadata import MetadataRequest
from .offset_commit import OffsetCommitRequest
from .offset_fetch import OffsetFetchRequest
from .offset_for_leader_epoch import OffsetForLeaderEpochRequest
from .partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from .produce import ProduceRequest
from .sasl_authenticate import SaslAuthenticateRequest
from .sasl_handshake import SaslHandshakeRequest
from .sync_group import SyncGroupRequest
from .txn_offset_commit import TxnOffsetCommitRequest

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
    DescribeUserScramCredentialsRequest,
    AlterUserScramCredentialsRequest,
    DescribeClusterRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribeRequest,
    PartitionLeaderEpochsForPartitionsRequest,
    ConsumerGroupPositionsRequest,
)

#: Request classes by API key; ``.RESPONSE`` is the class of the response.
REQUESTS: Mapping[int, type[Message]] = MappingProxyType({request.API_KEY: request for request in _REQUESTS})
