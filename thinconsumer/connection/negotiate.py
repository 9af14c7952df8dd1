"""Which version of each API to speak: asks the broker with ApiVersions, then intersects its ranges with ours.

ApiVersions itself is negotiated by trying: a broker that does not know the version asked for answers
UNSUPPORTED_VERSION in version 0 (KIP-511), whose body names the range it does speak; brokers before 2.4 leave that out
and mean version 0. The client names its software from version 3 on. After ``NetworkClient.handleApiVersionsResponse``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._version import __version__
from ..errors import KafkaProtocolError, UnsupportedVersionError
from ..wire import Message
from ..wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..wire.error_codes import Code, to_error
from .framing import Frame

SOFTWARE_NAME = "thinconsumer"
#: Brokers refuse anything but letters, digits, dots and hyphens, and no dot or hyphen at either end.
SOFTWARE_VERSION = re.sub(r"[^a-zA-Z0-9.-]+", "-", __version__).strip(".-") or "0"

Ranges = Mapping[int, tuple[int, int]]


def api_name(api: type[Message]) -> str:
    """Return the API's name as Kafka writes it."""
    return api.__name__.removesuffix("Request")


class Opening:
    """The version of ApiVersions to begin with, shared by all connections of one consumer.

    What one broker has refused, its neighbours will mostly refuse too, and each refusal costs a round trip.
    """

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = ApiVersionsRequest.VERSIONS[1]


class Negotiation:
    """One ApiVersions exchange: send :meth:`request` in :attr:`version`, hand the answer to :meth:`take`."""

    __slots__ = ("_opening", "version")

    def __init__(self, opening: Opening | None = None) -> None:
        self._opening = opening or Opening()
        self.version = self._opening.version

    def request(self) -> ApiVersionsRequest:
        """Return the request, the same for every version."""
        return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)

    def take(self, frame: Frame, body: int) -> tuple[ApiVersionsResponse, Ranges | None]:
        """Return the response and the broker's ranges, or None when it has to be asked again, in :attr:`version`.

        Raises:
            KafkaProtocolError: the bytes are not an ApiVersions response.
            BrokerResponseError: the broker refuses to say.
        """
        refused = int.from_bytes(frame[body : body + 2], "big", signed=True) == Code.UNSUPPORTED_VERSION
        response = ApiVersionsResponse.decode(frame, 0 if refused else self.version, body)
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if refused:
            self._fall_back(ranges)
            return response, None
        if response.error_code:
            raise to_error(response.error_code, api="ApiVersions")
        return response, ranges

    def _fall_back(self, ranges: Ranges) -> None:
        lowest, highest = ranges.get(ApiVersionsRequest.API_KEY, (0, 0))
        version = min(highest, ApiVersionsRequest.VERSIONS[1])
        # Strictly downwards, or a broker that keeps refusing would keep us asking.
        if not max(0, lowest) <= version < self.version:
            raise KafkaProtocolError(
                f"the broker refuses ApiVersions {self.version} and offers {lowest} to {highest} instead"
            )
        self.version = self._opening.version = version


def common_range(api: type[Message], ranges: Ranges) -> tuple[int, int] | None:
    """Return the lowest and highest version of an API that both sides speak, if any."""
    offered = ranges.get(api.API_KEY)
    if offered is None:
        return None
    lowest, highest = max(offered[0], api.VERSIONS[0]), min(offered[1], api.VERSIONS[1])
    return (lowest, highest) if lowest <= highest else None


def choose_version(
    api: type[Message], ranges: Ranges, node_id: int, min_version: int = 0, max_version: int | None = None
) -> int:
    """Return the highest version both sides speak between the two bounds.

    Raises:
        UnsupportedVersionError: there is none; names the API and all ranges.
    """
    lowest, highest = max(api.VERSIONS[0], min_version), api.VERSIONS[1]
    if max_version is not None:
        highest = min(highest, max_version)
    offered = ranges.get(api.API_KEY)
    if offered is not None and max(lowest, offered[0]) <= min(highest, offered[1]):
        return min(highest, offered[1])
    theirs = "does not have it at all" if offered is None else f"speaks versions {offered[0]} to {offered[1]}"
    name = api_name(api)
    who = f"broker {node_id}" if node_id >= 0 else "the broker"
    raise UnsupportedVersionError(
        f"{name} versions {lowest} to {highest} are wanted here, but {who} {theirs}",
        code=int(Code.UNSUPPORTED_VERSION),
        name=Code.UNSUPPORTED_VERSION.name,
        api=name,
        node_id=node_id,
    )
