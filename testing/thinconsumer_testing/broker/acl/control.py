"""The controller's changes to ACLs: it applies them to its own ACLs, and publishes them to all brokers.

Follows Kafka's ``AclControlManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .bindings import AclBinding, AclFilter
from .index import AclIndex

#: The most ACLs that one request may create.
RECORDS_MAX = 10_000

#: Applies a change to the controller's ACLs at once, and publishes it to the brokers, which apply it on arrival.
CommitAcls = Callable[[Callable[[AclIndex], None]], None]


class AclControlManager:
    """Changes the controller's ACLs; ``commit`` applies each change, stores it and publishes it."""

    def __init__(self, acls: AclIndex, commit: CommitAcls) -> None:
        self._acls = acls
        self._commit = commit

    def create(self, bindings: Sequence[AclBinding]) -> None:
        """Add ACLs, which the caller has found valid; an ACL that exists already is no error."""
        new = [binding for binding in dict.fromkeys(bindings) if binding not in self._acls]
        if new:
            self._commit(lambda acls: acls.add(new))

    def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Delete the ACLs that the filters select; return for each filter the ACLs that it has selected."""
        selected = [self._acls.matching(one) for one in filters]
        found = list(dict.fromkeys(binding for bindings in selected for binding in bindings))
        if found:
            self._commit(lambda acls: acls.remove(found))
        return selected
