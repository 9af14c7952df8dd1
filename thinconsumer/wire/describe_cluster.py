"""DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700); flexible from the start.

Version 1 can be sent to controllers (KIP-919), version 2 can include fenced brokers (KIP-1073).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int8, int16, int32, string


class DescribeClusterBroker(Struct):
    """A broker, with its address on the listener that received the request."""

    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message):
    """The cluster id, the controller and the brokers that are known to the node that sends the response."""

    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-(2**31))


class DescribeClusterRequest(Message):
    """Ask for the cluster's nodes; ``endpoint_type`` 1 means brokers, 2 controllers."""

    RESPONSE = DescribeClusterResponse

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")
