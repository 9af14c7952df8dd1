"""ApiVersions 0 to 4: what this broker speaks.

Follows ``ApiVersionsRequest.isValid`` and ``ApiVersionsResponse``. A version that is too new never comes here: the
connection answers it in version 0 (KIP-511). From version 3 on the client names its software, and the broker its
features (KIP-584); up to version 3 features whose levels begin at 0 are hidden, as old clients cannot read that. Of
Kafka 4.3's features only those are told that hold here: there are no new-style groups and no share groups.
"""

from __future__ import annotations

import re

from ...wire import Message
from ...wire.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ...wire.error_codes import Code
from ..call import Api, ApiCall

FIRST_WITH_SOFTWARE = 3
FIRST_WITH_LEVEL_0 = 4
#: Name, lowest and highest level that is supported, level in force.
FEATURES = (("metadata.version", 7, 30, 30), ("transaction.version", 0, 2, 2))
FEATURES_EPOCH = 1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


def handle(call: ApiCall) -> Message:
    """Tell the versions of every API, or refuse clients that do not say who they are."""
    request: ApiVersionsRequest = call.request
    names = (request.client_software_name, request.client_software_version)
    if call.version >= FIRST_WITH_SOFTWARE and not all(_SOFTWARE.fullmatch(name) for name in names):
        return refuse(request, call.version, int(Code.INVALID_REQUEST))
    apis = sorted(call.node.apis.items())
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=api.lowest, max_version=api.highest) for key, api in apis],
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


def refuse(request: ApiVersionsRequest, version: int, code: int) -> ApiVersionsResponse:
    """Tell nothing but the error."""
    return ApiVersionsResponse(error_code=code)


API = Api(ApiVersionsRequest, 0, 4, handle, refuse)
