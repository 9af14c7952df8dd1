"""CreateAcls (key 30): add ACLs (KIP-140).

Version 1 adds pattern types (KIP-290), version 2 is flexible, version 3 adds the resource type USER (KIP-373).
Version 0 is not supported: Kafka 4.0 has removed it, and it cannot express prefixed patterns.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int8, int16, int32, string


class AclCreationResult(Struct):
    """The outcome for one ACL."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Message):
    """The outcome for each ACL, in the order of the request."""

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE = 2

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


class CreateAclsRequest(Message):
    """Add these ACLs; an ACL that exists already is no error."""

    RESPONSE = CreateAclsResponse

    creations: list[AclCreation] = array(AclCreation, "0+")
