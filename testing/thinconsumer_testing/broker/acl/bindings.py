"""ACLs as values: resource types, pattern types, operations, permissions, and filters that select ACLs.

The numbers are those of the protocol. Follows Kafka's ``AclBinding``, ``ResourcePatternFilter`` and
``AccessControlEntryFilter`` (KIP-11, KIP-290).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from thinconsumer.errors import IllegalArgumentError

WILDCARD = "*"  #: As a literal resource name, as a host, and as the name of a user: matches all of them.
ANYONE = "User:*"  #: The principal of ACLs that apply to every principal.
CLUSTER_NAME = "kafka-cluster"  #: The name of the only resource of the type CLUSTER.

_NumberT = TypeVar("_NumberT", bound="_Number")


class _Number(enum.IntEnum):
    """A number of the protocol; numbers that the broker does not know become UNKNOWN."""

    @classmethod
    def of(cls: type[_NumberT], code: int) -> _NumberT:
        """Return the member with this number, or UNKNOWN."""
        try:
            return cls(code)
        except ValueError:
            return cls(0)


class ResourceType(_Number):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Number):
    """How the resource name of an ACL is compared. Only filters have ANY and MATCH."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2  #: All ACLs that apply to the resource with this name: literal, wildcard and prefixed ones.
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Number):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Number):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_OP = AclOperation
#: The operations on topics, groups and the cluster. The responses that describe these resources list the operations
#: that the client may perform (KIP-430).
SUPPORTED_OPERATIONS: Mapping[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        _OP.READ, _OP.WRITE, _OP.CREATE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_OP.READ, _OP.DELETE, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _OP.CREATE, _OP.ALTER, _OP.DESCRIBE, _OP.CLUSTER_ACTION, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS,
        _OP.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


def operations_as_bits(operations: Iterable[AclOperation]) -> int:
    """Return operations as a bit field: the bit ``1 << number`` is set for each operation."""
    return sum(1 << operation for operation in operations)


class AclBinding(NamedTuple):
    """One ACL: ``principal`` may, or may not, perform ``operation`` from ``host`` on the resources of the pattern."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @classmethod
    def of(
        cls,
        resource_type: int,
        name: str,
        pattern_type: int,
        principal: str,
        host: str,
        operation: int,
        permission: int,
    ) -> AclBinding:
        """Build an ACL from the numbers of the protocol."""
        return cls(
            ResourceType.of(resource_type), name, PatternType.of(pattern_type), principal, host,
            AclOperation.of(operation), AclPermission.of(permission),
        )  # fmt: skip

    @property
    def has_any(self) -> bool:
        """Whether a field has a number that only filters may have."""
        return (
            self.resource_type is ResourceType.ANY
            or self.pattern_type in (PatternType.ANY, PatternType.MATCH)
            or self.operation is AclOperation.ANY
            or self.permission is AclPermission.ANY
        )

    def problem(self) -> str | None:
        """Return why this cannot be an ACL, or None if it can."""
        if self.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
            return f"Invalid resourceType {self.resource_type.name}"
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return f"Invalid patternType {self.pattern_type.name}"
        if self.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
            return f"Invalid operation {self.operation.name}"
        if self.permission not in (AclPermission.DENY, AclPermission.ALLOW):
            return f"Invalid permissionType {self.permission.name}"
        if self.resource_type is ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return None if self.resource_name else "Resource name should not be empty"


class AclFilter(NamedTuple):
    """Selects ACLs: every field must match; None, and the numbers ANY, match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def has_unknown(self) -> bool:
        """Whether the filter has a number that the broker does not know."""
        return not (self.resource_type and self.pattern_type and self.operation and self.permission)

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_name(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (AclPermission.ANY, binding.permission)
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == binding.resource_name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if binding.pattern_type is PatternType.LITERAL:
            return binding.resource_name == WILDCARD
        return name.startswith(binding.resource_name)


def acl_bindings(
    principal: str,
    operations: str | Iterable[str],
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    deny: bool = False,
    host: str = WILDCARD,
) -> list[AclBinding]:
    """Return one ACL for each pair of a given operation and a given resource.

    Raises:
        IllegalArgumentError: An operation does not exist for a resource, no operation or no resource is given, a name
            is empty, the name "*" is to be a prefix, or the principal has no type, as in "User:alice".
    """
    kind, colon, _ = principal.partition(":")
    if not (kind and colon):
        raise IllegalArgumentError(f"the principal {principal!r} has no type: did you mean 'User:{principal}'?")
    if prefixed and WILDCARD in (topic, group, transactional_id):
        # As a prefix "*" is an ordinary character: the ACL would apply to no resource, and nothing would show why.
        raise IllegalArgumentError('the name "*" means all resources only without prefixed=True')
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    resources = [
        (ResourceType.TOPIC, topic, pattern),
        (ResourceType.GROUP, group, pattern),
        (ResourceType.TRANSACTIONAL_ID, transactional_id, pattern),
        (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None, PatternType.LITERAL),
    ]
    names = [operations] if isinstance(operations, str) else list(operations)
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    found = [
        AclBinding(resource_type, name, pattern_type, principal, host, _operation(text, resource_type), permission)
        for resource_type, name, pattern_type in resources
        if name is not None
        for text in names
    ]
    if not found:
        raise IllegalArgumentError(
            "an ACL needs an operation, and a topic, a group, a transactional id or cluster=True to apply to"
        )
    for binding in found:
        if (problem := binding.problem()) is not None:
            raise IllegalArgumentError(problem)
    return found


def _operation(text: str, resource_type: ResourceType) -> AclOperation:
    known: Collection[AclOperation] = (*_SELECTABLE[resource_type], AclOperation.ALL)
    for operation in known:
        if operation.name == text.upper():
            return operation
    names = ", ".join(operation.name for operation in known)
    raise IllegalArgumentError(f"{text!r} is no operation on a {resource_type.name}: choose from {names}")


_SELECTABLE: Mapping[ResourceType, tuple[AclOperation, ...]] = {
    **SUPPORTED_OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: (_OP.WRITE, _OP.DESCRIBE, _OP.TWO_PHASE_COMMIT),
}


def acl_to_json(binding: AclBinding) -> list[Any]:
    """Return the JSON form of an ACL: names in place of numbers."""
    return [value.name if isinstance(value, _Number) else value for value in binding]


def acl_from_json(row: list[Any]) -> AclBinding:
    """Return the ACL that :func:`acl_to_json` wrote; raise ValueError or KeyError if it is invalid."""
    kind, name, pattern, principal, host, operation, permission = row
    binding = AclBinding(
        ResourceType[kind], str(name), PatternType[pattern], str(principal), str(host), AclOperation[operation],
        AclPermission[permission],
    )  # fmt: skip
    if (problem := binding.problem()) is not None:
        raise ValueError(f"the ACL {row!r} is invalid: {problem}")
    return binding
