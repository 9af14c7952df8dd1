"""DescribeCluster 0 to 2: the cluster's id, any broker in the controller's place, and the brokers.

Follows ``AuthHelper.computeDescribeClusterResponse`` (KIP-700). From version 1 on clients say what they think they
talk to (KIP-919), from 2 on they may ask for fenced brokers too, of which this broker knows none: news that one is
fenced takes it out of a node's image.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from ...wire.error_codes import Code
from ..call import Api, ApiCall
from .metadata import CLUSTER_OPERATIONS, any_broker

BROKERS, CONTROLLERS = 1, 2


def handle(call: ApiCall) -> Message:
    """Describe the cluster as this node knows it."""
    request: DescribeClusterRequest = call.request
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        code = Code.MISMATCHED_ENDPOINT_TYPE if known else Code.UNSUPPORTED_ENDPOINT_TYPE
        answer = refuse(request, call.version, int(code))
        answer.error_message = f"This is a broker, not an endpoint of type {request.endpoint_type}."
        return answer
    image = call.node.image
    response = DescribeClusterResponse(
        error_code=0,
        cluster_id=image.cluster_id,
        controller_id=any_broker(call),
        brokers=[
            DescribeClusterBroker(broker_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in image.brokers.values()
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def refuse(request: DescribeClusterRequest, version: int, code: int) -> DescribeClusterResponse:
    """Tell nothing but the error."""
    return DescribeClusterResponse(error_code=code, cluster_id="")


API = Api(DescribeClusterRequest, 0, 2, handle, refuse)
