"""The checks that request handlers do with the authorizer. Without an authorizer, everything is authorized.

A broker decides with its own ACLs, which may lag behind those of the controller. A request that was forwarded to the
controller is decided with the controller's ACLs. Follows Kafka's ``AuthHelper``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from thinconsumer.wire.error_codes import Code

from .bindings import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, ResourceType, operations_as_bits

if TYPE_CHECKING:
    from thinconsumer.wire import Message

    from ..call import ApiCall, ErrorResponse, Handler

_ALL_BITS = {kind: operations_as_bits(operations) for kind, operations in SUPPORTED_OPERATIONS.items()}


def _host(call: ApiCall) -> str:
    """Return the client's address as ACLs contain it: without the host name and slash before it."""
    return call.client_host.rpartition("/")[2]


def is_authorized(call: ApiCall, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    authorizer = call.authorizer
    return authorizer is None or authorizer.is_allowed(call.principal, _host(call), operation, resource_type, name)


def is_authorized_on_cluster(call: ApiCall, operation: AclOperation) -> bool:
    return is_authorized(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def needs_cluster(operation: AclOperation, handle: Handler, refuse: ErrorResponse) -> Handler:
    """Return a handler that calls ``handle`` only for clients that may perform an operation on the cluster."""

    def checked(call: ApiCall) -> Message | None:
        if is_authorized_on_cluster(call, operation):
            return handle(call)
        return refuse(call.request, call.version, int(Code.CLUSTER_AUTHORIZATION_FAILED))

    return checked


def is_authorized_for_any(call: ApiCall, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Return whether the client may perform an operation on at least one resource of a type."""
    authorizer = call.authorizer
    return authorizer is None or authorizer.is_allowed_for_any(call.principal, _host(call), operation, resource_type)


def denied_names(
    call: ApiCall, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]
) -> Collection[str]:
    """Return the resources on which the client may not perform an operation. Each name is checked once, and
    without an authorizer none.

    The result keeps the order of ``names``: in the order of a set, the responses of a simulation would depend on the
    seed of Python's hashes.
    """
    if call.authorizer is None:
        return ()
    return {name: None for name in dict.fromkeys(names) if not is_authorized(call, operation, resource_type, name)}


def authorized_operations(call: ApiCall, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
    """Return the operations that the client may perform on a resource, as bits (KIP-430)."""
    if call.authorizer is None:
        return _ALL_BITS[resource_type]
    supported = SUPPORTED_OPERATIONS[resource_type]
    return operations_as_bits(one for one in supported if is_authorized(call, one, resource_type, name))


def cluster_operations(call: ApiCall) -> int:
    """Return the operations that the client may perform on the cluster, as bits; 0 if DESCRIBE is not among them."""
    if not is_authorized_on_cluster(call, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER)
