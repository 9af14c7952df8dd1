"""The APIs that create, delete and describe ACLs (KIP-140).

CreateAcls (key 30) adds ACLs, DeleteAcls (key 31) deletes those that match filters, and DescribeAcls (key 29) returns
those that match a filter. Version 1 adds pattern types (KIP-290), version 2 is flexible, version 3 adds the resource
type USER (KIP-373). Version 0 is not supported: Kafka 4.0 has removed it, and it cannot express prefixed patterns.
"""

from thinconsumer.wire.message import Message
from thinconsumer.wire.schema import Struct, array, int8, int16, int32, string


class AclCreationResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Message, key=30, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")


class AclCreation(Struct):
    """An ACL to add; pattern type 3 is LITERAL, 4 is PREFIXED."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Message, response=CreateAclsResponse):
    """Add these ACLs; an ACL that exists already is no error."""

    creations: list[AclCreation] = array(AclCreation, "0+")


class DeleteAclsMatchingAcl(Struct):
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
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Message, key=31, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


class DeleteAclsFilter(Struct):
    """A filter: an ACL must match each of its fields. None or 1 (ANY) in a field matches every value."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Message, response=DeleteAclsResponse):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


class AclDescription(Struct):
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResource(Struct):
    """A resource pattern and its ACLs; pattern type 3 is LITERAL, 4 is PREFIXED."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+")


class DescribeAclsResponse(Message, key=29, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")


class DescribeAclsRequest(Message, response=DescribeAclsResponse):
    """Ask for the ACLs that match each of these fields. None or 1 (ANY) in a field matches every value."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")
