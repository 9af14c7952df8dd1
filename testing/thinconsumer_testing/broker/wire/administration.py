"""The APIs that delete records, and describe configurations and the cluster.

DeleteRecords (key 21): raise log start offsets, which deletes older records (KIP-107). Version 2 is flexible.

DescribeConfigs (key 32): the settings of topics, brokers and groups, and the source of each value (KIP-133). Version 1
replaces ``is_default`` by the config source and adds synonyms (KIP-226), version 3 adds types and documentation
(KIP-569), version 4 is flexible. Brokers from 4.0 on support version 1 and above.

DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700); flexible from the start. Version 1 can be
sent to controllers (KIP-919), version 2 can include fenced brokers (KIP-1073).
"""

from thinconsumer.wire.message import Message
from thinconsumer.wire.schema import Struct, array, boolean, int8, int16, int32, int64, string


class DeleteRecordsPartitionResult(Struct):
    """The result for one partition: its new log start offset (``low_watermark``), or an error."""

    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message, key=21, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")


class DeleteRecordsPartition(Struct):
    """The offset before which the records of one partition are to be deleted; -1 stands for its high watermark."""

    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsTopic(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message, response=DeleteRecordsResponse):
    """Delete the records before the given offsets; sent to the leader of the partitions."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


class DescribeConfigsSynonym(Struct):
    """A value of the setting at one source; it takes effect if the values before it in the list are removed."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Struct):
    """One setting; ``value`` is None for sensitive settings."""

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message, key=32, versions=(0, 4), flexible=4):
    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")


class DescribeConfigsResource(Struct):
    """A topic (type 2), broker (4) or group (32), and the names of the settings wanted; None means all."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array(string, "0+", nullable="0+")


class DescribeConfigsRequest(Message, response=DescribeConfigsResponse):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeClusterBroker(Struct):
    """A broker, with its address on the listener that received the request."""

    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message, key=60, versions=(0, 2), flexible=0):
    """The cluster id, the controller and the brokers that are known to the node that sends the response."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-(2**31))


class DescribeClusterRequest(Message, response=DescribeClusterResponse):
    """Ask for the cluster's nodes; ``endpoint_type`` 1 means brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")
