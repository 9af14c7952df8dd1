"""DescribeConfigs (key 32): the settings of topics, brokers and groups, and the source of each value (KIP-133).

Version 1 replaces ``is_default`` by the config source and adds synonyms (KIP-226), version 3 adds types and
documentation (KIP-569), version 4 is flexible. Brokers from 4.0 on support version 1 and above.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int8, int16, int32, string


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
    """The settings of one resource (topic, broker or group), or an error."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message):
    """The settings of each resource (topic, broker or group) in the request."""

    API_KEY = 32
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")


class DescribeConfigsResource(Struct):
    """A topic (type 2), broker (4) or group (32), and the names of the settings wanted; None means all."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array(string, "0+", nullable="0+")


class DescribeConfigsRequest(Message):
    """Request the settings of topics, brokers or groups."""

    RESPONSE = DescribeConfigsResponse

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")
