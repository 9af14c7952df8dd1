"""DescribeCluster versions 0 to 2: the cluster id, a controller id, and the brokers.

Follows ``AuthHelper.computeDescribeClusterResponse`` (KIP-700). Version 1 adds the endpoint type (KIP-919), version 2
fenced brokers, which this broker never lists: its copy of the cluster metadata has only live brokers.
"""

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from ..acl.checks import cluster_operations
from ..call import Api, ApiCall, error_code_in
from ..wire.administration import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from .metadata import any_broker

BROKERS, CONTROLLERS = 1, 2


def _handle(call: ApiCall) -> Message:
    request: DescribeClusterRequest = call.request
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        code = Code.MISMATCHED_ENDPOINT_TYPE if known else Code.UNSUPPORTED_ENDPOINT_TYPE
        text = f"This is a broker, not an endpoint of type {request.endpoint_type}."
        return DescribeClusterResponse(error_code=int(code), error_message=text, cluster_id="")
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
        response.cluster_authorized_operations = cluster_operations(call)
    return response


API = Api(DescribeClusterRequest, 0, 2, _handle, error_code_in(DescribeClusterResponse))
