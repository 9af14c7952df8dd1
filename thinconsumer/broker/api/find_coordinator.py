"""FindCoordinator 0 to 6: which node coordinates a group or a transactional id.

Version 0 knows groups only; from version 4 on many keys go in one request (KIP-699). Version 6 may ask for share
groups, which there are none of here. Follows ``KafkaApis.handleFindCoordinatorRequest`` and
``FindCoordinatorResponse``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.error_codes import Code
from ...wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult
from ..call import Api, ApiCall
from ..image import BrokerImage

MANY_FROM = 4
KINDS = (0, 1)  #: A group, a transactional id.
SHARE = 2  #: The state of share groups.
SHARE_FROM = 6
NO_BROKER = BrokerImage(-1, "", -1)


def handle(call: ApiCall) -> Message | None:
    """Look up who leads the partition that each key belongs to."""
    request: FindCoordinatorRequest = call.request
    if request.key_type not in KINDS and not (request.key_type == SHARE and call.version >= SHARE_FROM):
        return refuse(request, call.version, int(Code.INVALID_REQUEST))
    if call.version < MANY_FROM:
        return _single(*_look_up(call, request.key))
    if request.key_type == SHARE:  # which nobody coordinates here, and keys of groups are not well-formed there
        return FindCoordinatorResponse(
            coordinators=[_one_of_many(key, int(Code.INVALID_REQUEST), NO_BROKER) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(
        coordinators=[_one_of_many(key, *_look_up(call, key)) for key in request.coordinator_keys]
    )


def refuse(request: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    """Refuse every key with one code."""
    if version < MANY_FROM:
        return _single(code, NO_BROKER)
    refused = [_one_of_many(key, code, NO_BROKER) for key in request.coordinator_keys]
    for one in refused:
        one.error_message = _message(code)  # words there are only for a refusal of the whole
    return FindCoordinatorResponse(coordinators=refused)


API = Api(FindCoordinatorRequest, 0, 6, handle, refuse)


def _look_up(call: ApiCall, key: str) -> tuple[int, BrokerImage]:
    code, broker = call.node.coordinator_for(call.request.key_type, key)
    return code, NO_BROKER if code or broker is None else broker


def _single(code: int, broker: BrokerImage) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=_message(code),
        node_id=broker.node_id,
        host=broker.host,
        port=broker.port,
    )


def _one_of_many(key: str, code: int, broker: BrokerImage) -> FindCoordinatorResult:
    return FindCoordinatorResult(key=key, error_code=code, node_id=broker.node_id, host=broker.host, port=broker.port)


def _message(code: int) -> str:
    """Kafka says NONE where all is well, and its own words where not, which are nobody's to compare."""
    return "NONE" if not code else Code(code).name
