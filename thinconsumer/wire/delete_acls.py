"""DeleteAcls (key 31): delete the ACLs that match filters (KIP-140).

Version 1 adds pattern types (KIP-290), version 2 is flexible, version 3 adds the resource type USER (KIP-373).
Version 0 is not supported: Kafka 4.0 has removed it, and it cannot express prefixed patterns.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int8, int16, int32, string


class DeleteAclsMatchingAcl(Struct):
    """An ACL that matched the filter, and whether it was deleted."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsFilterResult(Struct):
    """The ACLs that matched one filter, or an error."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Message):
    """The outcome for each filter, in the order of the request."""

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


class DeleteAclsFilter(Struct):
    """Matches ACLs by every field; None or type 1 (ANY) matches all."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Message):
    """Delete all ACLs that match one of the filters."""

    RESPONSE = DeleteAclsResponse

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")
