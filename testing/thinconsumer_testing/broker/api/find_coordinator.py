"""FindCoordinator versions 0 to 6: the coordinator of a group or a transactional id.

Version 0 only finds the coordinators of groups; version 4 adds several keys per request (KIP-699), version 6 share
groups (KIP-932), which this broker does not support. Follows ``KafkaApis.handleFindCoordinatorRequest`` and
``FindCoordinatorResponse``.
"""

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import is_authorized, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..image import BrokerImage

MANY_FROM = 4
#: The supported key types (0: group id, 1: transactional id), with the resource type of the ACLs for such keys, and the
#: error code for a client without authorization.
KINDS = {
    0: (ResourceType.GROUP, Code.GROUP_AUTHORIZATION_FAILED),
    1: (ResourceType.TRANSACTIONAL_ID, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
SHARE = 2  #: Key type of share group state (KIP-932).
SHARE_FROM = 6
NO_BROKER = BrokerImage(-1, "", -1)


def _handle(call: ApiCall) -> Message | None:
    """Return each key's coordinator: the leader of its ``__consumer_offsets`` or ``__transaction_state`` partition."""
    request: FindCoordinatorRequest = call.request
    if request.key_type not in KINDS and not (request.key_type == SHARE and call.version >= SHARE_FROM):
        return _refuse(request, call.version, int(Code.INVALID_REQUEST))
    if request.key_type == SHARE and not is_authorized_on_cluster(call, AclOperation.CLUSTER_ACTION):
        return _refuse(request, call.version, int(Code.CLUSTER_AUTHORIZATION_FAILED))
    if call.version < MANY_FROM:
        return _single(*_look_up(call, request.key))
    return FindCoordinatorResponse(
        coordinators=[_one_of_many(key, *_look_up(call, key)) for key in request.coordinator_keys]
    )


def _refuse(request: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    if version < MANY_FROM:
        return _single(code, NO_BROKER)
    refused = [_one_of_many(key, code, NO_BROKER) for key in request.coordinator_keys]
    for one in refused:
        # From version 4 on, Kafka sends error messages only if it rejects the whole request, not for single keys.
        one.error_message = _message(code)
    return FindCoordinatorResponse(coordinators=refused)


API = Api(FindCoordinatorRequest, 0, 6, _handle, _refuse)


def _look_up(call: ApiCall, key: str) -> tuple[int, BrokerImage]:
    if call.request.key_type == SHARE:
        # This broker has no share groups: it rejects their keys with Kafka's code for a malformed share group key.
        return int(Code.INVALID_REQUEST), NO_BROKER
    resource_type, denied = KINDS[call.request.key_type]
    if not is_authorized(call, AclOperation.DESCRIBE, resource_type, key):
        return int(denied), NO_BROKER
    code, broker = call.node.coordinator_for(call.request.key_type, key)
    return code, broker or NO_BROKER


def _single(code: int, broker: BrokerImage) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code, error_message=_message(code), node_id=broker.node_id, host=broker.host, port=broker.port
    )


def _one_of_many(key: str, code: int, broker: BrokerImage) -> FindCoordinatorResult:
    return FindCoordinatorResult(key=key, error_code=code, node_id=broker.node_id, host=broker.host, port=broker.port)


def _message(code: int) -> str:
    """Return the error message for a code: its name, in place of Kafka's text; "NONE" for 0, as in Kafka."""
    return "NONE" if not code else Code(code).name
