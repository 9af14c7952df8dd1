"""ApiVersions (key 18): the APIs and versions that a broker supports; the first request on every connection.

Version 3 is flexible and carries the client's software name and version (KIP-511). A broker that does not support the
request's version answers UNSUPPORTED_VERSION in version 0, so the response always has header version 0. Version 4 lets
a feature's lowest supported version be 0. Version 5 carries the cluster id and node id that the client expects, so that
a broker at a reused address can answer REBOOTSTRAP_REQUIRED (KIP-1242). The last tagged field of the response is the
project's own: it lists the APIs of ``wire.extensions``.
"""

from .message import Message
from .schema import Struct, array, boolean, int16, int32, int64, string


class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Struct):
    """The versions of one cluster feature that this broker supports (KIP-584)."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    """The finalized versions of one cluster feature; unknown while ``finalized_features_epoch`` is -1."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, key=18, versions=(0, 5), flexible=3):
    """The supported APIs; with UNSUPPORTED_VERSION in version 0 if the request's version is not supported."""

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
    extension_api_keys: list[ApiVersion] = array(ApiVersion, "3+", tag=25_300, ignorable=True)


class ApiVersionsRequest(Message, response=ApiVersionsResponse):
    """Ask for the supported APIs. From version 3 on brokers reject an empty software name or version."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)
