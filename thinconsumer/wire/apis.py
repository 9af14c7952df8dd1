"""Every request spoken here, by API key. For servers, tools and tests; a client imports the few APIs it uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .api_versions import ApiVersionsRequest
from .fetch import FetchRequest
from .find_coordinator import FindCoordinatorRequest
from .list_offsets import ListOffsetsRequest
from .message import Message
from .metadata import MetadataRequest
from .offset_for_leader_epoch import OffsetForLeaderEpochRequest

_REQUESTS: tuple[type[Message], ...] = (
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    ApiVersionsRequest,
    OffsetForLeaderEpochRequest,
)

#: Request classes by API key; ``.RESPONSE`` is what answers each.
REQUESTS: Mapping[int, type[Message]] = MappingProxyType({request.API_KEY: request for request in _REQUESTS})
