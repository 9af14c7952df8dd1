"""The authorizer of one broker, or of the controller: it decides whether a principal may perform an operation.

Follows Kafka's ``StandardAuthorizer`` and, for :meth:`Authorizer.is_allowed_for_any`, Kafka's interface ``Authorizer``.
"""

from __future__ import annotations

from collections.abc import Mapping

from thinconsumer.errors import IllegalArgumentError

from .bindings import ANYONE, WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from .index import AclIndex

#: The value of authorizer.class.name with which brokers check ACLs; by default they check none.
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

#: An ACL that allows one of the operations on the right also allows the one on the left. An ACL that denies an
#: operation denies only that one.
_IMPLIED_BY: Mapping[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset((AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
}
_NOTHING: frozenset[AclOperation] = frozenset()


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals in super.users, which are separated by semicolons.

    Raises:
        IllegalArgumentError: A principal lacks its type or its name, as in "User:admin".
    """
    principals = frozenset(one.strip() for one in text.split(";") if one.strip())
    for principal in principals:
        kind, _, name = principal.partition(":")
        if not (kind and name):
            raise IllegalArgumentError(
                f"Invalid value {text!r} for configuration super.users: {principal!r} has no type, as in 'User:admin'"
            )
    return principals


class Authorizer:
    """Decides by ACLs. ``acls`` is the caller's index: changes to it take effect in the next decision.

    Args:
        acls: The ACLs.
        super_users: The principals that may do everything, whatever the ACLs say.
        is_open: Whether a resource without any ACL is open to everyone (allow.everyone.if.no.acl.found).
    """

    __slots__ = ("_acls", "_is_open", "_super_users")

    def __init__(self, acls: AclIndex, super_users: frozenset[str] = frozenset(), *, is_open: bool = False) -> None:
        self._acls = acls
        self._super_users = super_users
        self._is_open = is_open

    def is_allowed(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a principal on a host may perform an operation on a resource.

        One ACL that denies outweighs any number that allow. If ACLs exist for the resource, but none allows the
        operation, it is denied even with allow.everyone.if.no.acl.found. A super user may do everything.
        """
        if principal in self._super_users:
            return True
        has_acls = is_allowed = False
        for binding in self._acls.applying_to(resource_type, name):
            has_acls = True
            if _concerns(binding, principal, host) and _covers(binding, operation):
                if binding.permission is AclPermission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (self._is_open and not has_acls)

    def is_allowed_for_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may perform an operation on at least one resource of a type (KIP-679).

        The name "hardcode" is checked first, as in Kafka: it stands for every resource without ACLs of its own. If the
        operation is denied on it, some ACL must allow the operation (or ALL) with a pattern that no denying one covers.
        """
        if self.is_allowed(principal, host, operation, resource_type, "hardcode"):
            return True
        denied: list[AclBinding] = []
        allowed: list[AclBinding] = []
        for binding in self._acls:
            if binding.resource_type is not resource_type or binding.operation not in (operation, AclOperation.ALL):
                continue
            if _concerns(binding, principal, host):
                (denied if binding.permission is AclPermission.DENY else allowed).append(binding)
        if any(_is_wildcard(binding) for binding in denied):
            return False
        literals = {one.resource_name for one in denied if one.pattern_type is PatternType.LITERAL}
        prefixes = tuple(one.resource_name for one in denied if one.pattern_type is PatternType.PREFIXED)
        return any(
            _is_wildcard(binding)
            or not (
                (binding.pattern_type is PatternType.LITERAL and binding.resource_name in literals)
                or binding.resource_name.startswith(prefixes)
            )
            for binding in allowed
        )


def _concerns(binding: AclBinding, principal: str, host: str) -> bool:
    return binding.principal in (principal, ANYONE) and binding.host in (host, WILDCARD)


def _covers(binding: AclBinding, operation: AclOperation) -> bool:
    if binding.operation in (operation, AclOperation.ALL):
        return True
    is_allowing = binding.permission is AclPermission.ALLOW
    return is_allowing and binding.operation in _IMPLIED_BY.get(operation, _NOTHING)


def _is_wildcard(binding: AclBinding) -> bool:
    return binding.pattern_type is PatternType.LITERAL and binding.resource_name == WILDCARD
