"""CreateAcls, DescribeAcls and DeleteAcls versions 1 to 3: the ACLs of the cluster.

The controller changes ACLs; each broker describes its own copy of them, which may lag behind. Without an authorizer all
three respond SECURITY_DISABLED. Version 3 adds the resource type USER. Follows ``AclApis`` and ``AclControlManager``.
"""

from collections.abc import Callable, Iterable, Sequence

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import BY_CODE, Code

from ..acl.bindings import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from ..acl.checks import needs_cluster
from ..acl.control import RECORDS_MAX
from ..call import Api, ApiCall, ErrorResponse, Handler
from ..forwarding import to_controller
from ..wire.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def _checked(
    handle: Handler, refuse: ErrorResponse, operation: AclOperation, numbers: Callable[[ApiCall], Iterable[int]]
) -> Handler:
    """Return a handler that calls ``handle`` only if there is an authorizer, and the client may perform ``operation``
    on the cluster.

    ``numbers`` returns the resource types, pattern types, operations and permission types in a request. If one of them
    is 0 (unknown), Kafka cannot parse the request, and closes the connection.
    """
    authorized = needs_cluster(operation, handle, refuse)

    def checked(call: ApiCall) -> Message | None:
        if not all(numbers(call)):
            call.close_connection()
            return None
        if call.authorizer is None:
            return refuse(call.request, call.version, int(Code.SECURITY_DISABLED))
        return authorized(call)

    return checked


def _create(call: ApiCall) -> Message:
    request: CreateAclsRequest = call.request
    bindings = [_binding(one) for one in request.creations]
    if any(binding.has_any for binding in bindings):
        # Kafka fails with an unexpected exception on ANY or MATCH, and rejects the other ACLs of the request, too.
        failed = AclCreationResult(error_code=int(Code.UNKNOWN_SERVER_ERROR), error_message=None)
        return CreateAclsResponse(results=[failed] * len(bindings))
    results = []
    for binding in bindings:
        problem = binding.problem()
        code = Code.NONE if problem is None else Code.INVALID_REQUEST
        results.append(AclCreationResult(error_code=int(code), error_message=problem or ""))
    valid = [binding for binding, result in zip(bindings, results) if not result.error_code]
    acls = call.node.cluster.controller.acls
    if len(valid) <= RECORDS_MAX:
        acls.create(valid)
    else:
        excess = AclCreationResult(
            error_code=int(Code.POLICY_VIOLATION), error_message="Unable to perform excessively large batch operation."
        )
        results = [result if result.error_code else excess for result in results]
    return CreateAclsResponse(results=results)


def _binding(one: AclCreation) -> AclBinding:
    return AclBinding.of(
        one.resource_type, one.resource_name, one.resource_pattern_type, one.principal, one.host, one.operation,
        one.permission_type,
    )  # fmt: skip


def _refuse_create(request: CreateAclsRequest, version: int, code: int) -> CreateAclsResponse:
    text = BY_CODE[code].text
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=text) for _ in request.creations]
    )


def _creation_numbers(call: ApiCall) -> Iterable[int]:
    for one in call.request.creations:
        yield from (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)


def _describe(call: ApiCall) -> Message:
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for binding in call.node.image.acls.matching(_filter(call.request)):
        kind, name, pattern = key = binding[:3]
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=int(kind), resource_name=name, pattern_type=int(pattern)
            )
        resource.acls.append(
            AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=int(binding.operation),
                permission_type=int(binding.permission),
            )
        )
    return DescribeAclsResponse(error_code=0, error_message="", resources=list(resources.values()))


def _refuse_describe(request: DescribeAclsRequest, version: int, code: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=BY_CODE[code].text)


def _filter(one: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType.of(one.resource_type_filter),
        one.resource_name_filter,
        PatternType.of(one.pattern_type_filter),
        one.principal_filter,
        one.host_filter,
        AclOperation.of(one.operation),
        AclPermission.of(one.permission_type),
    )


def _filter_numbers(filters: Sequence[DescribeAclsRequest | DeleteAclsFilter]) -> Iterable[int]:
    for one in filters:
        yield from (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)


def _delete(call: ApiCall) -> Message:
    request: DeleteAclsRequest = call.request
    filters = [_filter(one) for one in request.filters]
    deleted = iter(call.node.cluster.controller.acls.delete([one for one in filters if not one.has_unknown]))
    return DeleteAclsResponse(
        filter_results=[
            _filter_error(int(Code.INVALID_REQUEST), "The filter has an unknown type, operation or permission.")
            if one.has_unknown
            else DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[*map(_match, next(deleted))])
            for one in filters
        ]
    )


def _match(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=int(binding.resource_type),
        resource_name=binding.resource_name,
        pattern_type=int(binding.pattern_type),
        principal=binding.principal,
        host=binding.host,
        operation=int(binding.operation),
        permission_type=int(binding.permission),
    )


def _filter_error(code: int, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message)


def _refuse_delete(request: DeleteAclsRequest, version: int, code: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_filter_error(code, BY_CODE[code].text) for _ in request.filters])


_CREATE = _checked(_create, _refuse_create, AclOperation.ALTER, _creation_numbers)
_DESCRIBE = _checked(_describe, _refuse_describe, AclOperation.DESCRIBE, lambda call: _filter_numbers([call.request]))
_DELETE = _checked(_delete, _refuse_delete, AclOperation.ALTER, lambda call: _filter_numbers(call.request.filters))

APIS = (
    Api(DescribeAclsRequest, 1, 3, _DESCRIBE, _refuse_describe),
    Api(CreateAclsRequest, 1, 3, to_controller(_CREATE, _refuse_create), _refuse_create),
    Api(DeleteAclsRequest, 1, 3, to_controller(_DELETE, _refuse_delete), _refuse_delete),
)
