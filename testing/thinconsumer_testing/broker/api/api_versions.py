"""ApiVersions versions 0 to 5: the supported versions of every API.

Follows ``ApiVersionsRequest.isValid`` and ``ApiVersionsResponse``. If the request's version is too new, ``connection``
responds in version 0 (KIP-511), without this handler. From version 3 on clients send their software name, and the
response lists features (KIP-584); version 3 omits features with minimum level 0, because old clients cannot read them.
From version 5 on, a client that expects another cluster or node is told to start from its bootstrap servers again
(KIP-1242); the request must name both or neither, and before a login nothing is compared, as in Kafka. The APIs of
``wire.extensions`` are listed in a tagged field, which clients without these extensions skip. The APIs of share groups
and streams groups are not listed, because this broker does not implement them.
"""

import re

from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.extensions import FIRST_API_KEY
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

from ..call import Api, ApiCall, error_code_in

FIRST_WITH_SOFTWARE = 3
FIRST_WITH_LEVEL_0 = 4
FIRST_WITH_CLUSTER = 5
#: Features of the response (KIP-584): (name, lowest supported level, highest supported level, finalized level).
FEATURES = (("group.version", 0, 1, 1), ("metadata.version", 7, 30, 30), ("transaction.version", 0, 2, 2))
FEATURES_EPOCH = 1
#: Listed only if something receives what clients push. As in Kafka, they are answered in any case.
TELEMETRY = (GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


def _handle(call: ApiCall) -> Message:
    request: ApiVersionsRequest = call.request
    names = (request.client_software_name, request.client_software_version)
    if call.version >= FIRST_WITH_SOFTWARE and not all(_SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=int(Code.INVALID_REQUEST))
    if call.version >= FIRST_WITH_CLUSTER and (request.cluster_id is None) != (request.node_id == -1):
        return ApiVersionsResponse(error_code=int(Code.INVALID_REQUEST))
    is_logged_in = call.authenticator is None or call.authenticator.is_complete
    expected = (call.node.cluster.cluster_id, call.node.node_id)
    if is_logged_in and request.cluster_id is not None and (request.cluster_id, request.node_id) != expected:
        return ApiVersionsResponse(error_code=int(Code.REBOOTSTRAP_REQUIRED))
    if call.authenticator is not None:
        call.authenticator.on_api_versions()
    apis = [
        ApiVersion(api_key=key, min_version=api.lowest, max_version=api.highest)
        for key, api in sorted(call.node.apis.items())
        if call.node.config.metric_reporters or key not in TELEMETRY
    ]
    return ApiVersionsResponse(
        api_keys=[one for one in apis if one.api_key < FIRST_API_KEY],
        extension_api_keys=[one for one in apis if one.api_key >= FIRST_API_KEY],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, low, high, _ in FEATURES
            if low > 0 or call.version >= FIRST_WITH_LEVEL_0
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, _, _, level in FEATURES
        ],
    )


#: Version 5 is of Kafka 4.4: `MemoryCluster.set_versions` enables it. The other APIs are those of Kafka 4.3.
API = Api(ApiVersionsRequest, 0, 4, _handle, error_code_in(ApiVersionsResponse))
