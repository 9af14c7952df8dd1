"""Negotiate versions: send ApiVersions, then intersect the broker's ranges with this client's.

A broker that lacks the requested version of ApiVersions answers UNSUPPORTED_VERSION in version 0 (KIP-511) and names
the versions that it has. Brokers before 2.4 name none; the client then sends version 0. From version 3 on, the request
contains the client's software name and version; from version 5 on, also the cluster and the node that the client
expects, which the broker compares with its own (KIP-1242). After Java's ``NetworkClient.handleApiVersionsResponse``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._version import __version__
from ..errors import KafkaConnectionError, KafkaProtocolError, UnsupportedVersionError
from ..wire import Message
from ..wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..wire.error_codes import Code, to_error
from ..wire.extensions import FIRST_API_KEY
from .framing import Frame
from .states import ConnectionState

SOFTWARE_NAME = "thinconsumer"
#: This client's version for ApiVersions. Brokers accept only letters, digits, dots and hyphens in it, and neither a dot
#: nor a hyphen at the ends.
SOFTWARE_VERSION = re.sub(r"[^a-zA-Z0-9.-]+", "-", __version__).strip(".-") or "0"

Ranges = Mapping[int, tuple[int, int]]


def api_name(api: type[Message]) -> str:
    """Return the API's name as in Kafka's protocol, such as ``"Fetch"``."""
    return api.__name__.removesuffix("Request")


#: The first version of ApiVersions with the expected cluster and node.
FIRST_WITH_CLUSTER = 5


class ApiVersionsCache:
    """What new connections of one client send in ApiVersions."""

    def __init__(self) -> None:
        #: The version of the first request. After a broker has rejected a version, this is the lower version of the
        #: second request. Most brokers of a cluster have the same version, so usually only one connection loses a round
        #: trip to a rejection.
        self.version = ApiVersionsRequest.VERSIONS[1]
        #: The id of the cluster whose nodes are known; None if it is unknown, or not to be checked.
        self.cluster_id: str | None = None

    def request(self, node_id: int = -1) -> ApiVersionsRequest:
        """Return the request. With a ``node_id``, it names cluster and node, unless the cluster id is None.

        Brokers reject a request that names only one of the two.
        """
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        if self.cluster_id is not None and node_id >= 0:
            request.cluster_id, request.node_id = self.cluster_id, node_id
        return request

    def can_check(self, node_id: int, ranges: Ranges) -> bool:
        """Return whether cluster and node are known, and a broker with these version ranges compares them."""
        highest = ranges.get(ApiVersionsRequest.API_KEY, (0, 0))[1]
        return self.cluster_id is not None and node_id >= 0 and highest >= FIRST_WITH_CLUSTER


def take_api_versions(frame: Frame, body: int, version: int) -> tuple[ApiVersionsResponse, Ranges, int]:
    """Decode the response to ApiVersions in ``version``; return it, the version ranges by API key, and a version.

    The returned version is ``version``, or a lower one if the broker has rejected ``version``: the caller must then
    send ApiVersions again, in the lower version.

    Raises:
        KafkaProtocolError: the bytes are not an ApiVersions response, or the broker offers no lower version.
        KafkaConnectionError: the broker belongs to another cluster, or is another node (``is_misrouted``).
        BrokerResponseError: the broker answered with another error, except for UNSUPPORTED_VERSION.
    """
    rejected = int.from_bytes(frame[body : body + 2], "big", signed=True) == Code.UNSUPPORTED_VERSION
    response = ApiVersionsResponse.decode(frame, 0 if rejected else version, body)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    for api in response.extension_api_keys:
        if api.api_key >= FIRST_API_KEY:
            ranges[api.api_key] = (api.min_version, api.max_version)
    if not rejected:
        if response.error_code == Code.REBOOTSTRAP_REQUIRED:
            raise KafkaConnectionError("the broker is not the one that metadata names", is_misrouted=True)
        if response.error_code:
            raise to_error(response.error_code, api="ApiVersions")
        return response, ranges, version
    lowest, highest = ranges.get(ApiVersionsRequest.API_KEY, (0, 0))
    lower = min(highest, ApiVersionsRequest.VERSIONS[1])
    # Each request has a lower version than the last, or a broker that rejects all would cause an endless loop.
    if not max(0, lowest) <= lower < version:
        raise KafkaProtocolError(f"the broker rejects ApiVersions {version} and offers versions {lowest} to {highest}")
    return response, ranges, lower


def choose_version(
    api: type[Message], ranges: Ranges, node_id: int, min_version: int = 0, max_version: int | None = None
) -> int:
    """Return the highest version that the broker and this client share, from ``min_version`` to ``max_version``.

    Raises:
        UnsupportedVersionError: no such version is shared. The message names the API and the versions of both sides.
    """
    lowest, highest = max(api.VERSIONS[0], min_version), api.VERSIONS[1]
    if max_version is not None:
        highest = min(highest, max_version)
    offered = ranges.get(api.API_KEY)
    if offered is not None and max(lowest, offered[0]) <= min(highest, offered[1]):
        return min(highest, offered[1])
    theirs = "does not have this API" if offered is None else f"has versions {offered[0]} to {offered[1]}"
    name = api_name(api)
    broker = f"broker {node_id}" if node_id >= 0 else "the broker"
    raise UnsupportedVersionError(
        f"this request needs {name} versions {lowest} to {highest}, but {broker} {theirs}",
        code=int(Code.UNSUPPORTED_VERSION),
        name=Code.UNSUPPORTED_VERSION.name,
        api=name,
        node_id=node_id,
    )


def wrong_port(security_protocol: str) -> str:
    """Return a likely reason why a port does not answer ApiVersions."""
    if security_protocol.endswith("SSL"):
        return "it is not a Kafka listener (check host and port)"
    return f"{needs_tls(security_protocol)} or is not a Kafka listener (check host and port)"


def needs_tls(security_protocol: str) -> str:
    """Return the text for a port that expects TLS, with the option to set."""
    wanted = "SASL_SSL" if security_protocol.startswith("SASL") else "SSL"
    return f"the port expects TLS (set security_protocol={wanted!r})"


def likely_cause(ended_in: ConnectionState, protocol: str, unanswered: str | None) -> str:
    """Return why the peer has probably closed the connection, to append to an error's text; empty if unknown.

    ``unanswered`` names the API of the oldest request in flight; None without one, or if requests were answered before.
    """
    if ended_in is ConnectionState.NEGOTIATING:
        return f" before it answered ApiVersions: {wrong_port(protocol)}"
    if ended_in is ConnectionState.AUTHENTICATING:
        return f" during the login: check security_protocol, which is {protocol!r}"
    if ended_in is ConnectionState.REAUTHENTICATING:
        return " while it logged in again"
    if ended_in is ConnectionState.READY and unanswered is not None:
        text = f" after ApiVersions, without an answer to {unanswered}"
        if protocol.startswith("SASL"):
            return text
        return f"{text}: the listener may require a login (security_protocol='SASL_PLAINTEXT' or 'SASL_SSL')"
    return ""


def setup_timeout(state: ConnectionState, seconds: float, protocol: str) -> str:
    """Return the text of the error for a step of the setup that has not ended after ``seconds``."""
    within = f"within {seconds:.1f} s"
    if state is ConnectionState.CONNECTING:
        return f"timed out: no connection {within}"
    if state is ConnectionState.AUTHENTICATING:
        return f"timed out: the login did not end {within}"
    return (
        f"timed out: connected, but no answer to ApiVersions {within}: the broker is overloaded or stopped, "
        f"or {wrong_port(protocol)}"
    )
