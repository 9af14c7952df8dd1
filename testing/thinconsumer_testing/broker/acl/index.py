"""The ACLs of a cluster, with an index that finds the ACLs of one resource without a walk over all ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from .bindings import WILDCARD, AclBinding, AclFilter, PatternType, ResourceType

#: A set of ACLs that keeps its order, so that responses and tests are repeatable.
_Bindings = dict[AclBinding, None]


class AclIndex:
    """A set of ACLs. Finding the ACLs of a resource takes one look-up for its name, one for the wildcard, and one for
    each different length of a prefix.
    """

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._bindings: _Bindings = {}
        self._literal: dict[tuple[ResourceType, str], _Bindings] = {}
        self._prefixed: dict[ResourceType, dict[int, dict[str, _Bindings]]] = {}
        self.add(bindings)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)

    def __contains__(self, binding: AclBinding) -> bool:
        return binding in self._bindings

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclIndex) and self._bindings == other._bindings

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<AclIndex of {len(self)} ACLs>"

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that exist already are left as they are."""
        for binding in bindings:
            kind, name = binding.resource_type, binding.resource_name
            self._bindings[binding] = None
            if binding.pattern_type is PatternType.LITERAL:
                self._literal.setdefault((kind, name), {})[binding] = None
            else:
                by_prefix = self._prefixed.setdefault(kind, {}).setdefault(len(name), {})
                by_prefix.setdefault(name, {})[binding] = None

    def remove(self, bindings: Iterable[AclBinding]) -> None:
        """Remove ACLs; those that do not exist are ignored."""
        for binding in bindings:
            if binding not in self._bindings:
                continue
            kind, name = binding.resource_type, binding.resource_name
            del self._bindings[binding]
            if binding.pattern_type is PatternType.LITERAL:
                found = self._literal[kind, name]
                del found[binding]
                if not found:
                    del self._literal[kind, name]
                continue
            by_length = self._prefixed[kind]
            by_prefix = by_length[len(name)]
            del by_prefix[name][binding]
            if not by_prefix[name]:
                del by_prefix[name]
            if not by_prefix:
                del by_length[len(name)]

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        return [binding for binding in self._bindings if wanted.matches(binding)]

    def applying_to(self, resource_type: ResourceType, name: str) -> Iterator[AclBinding]:
        """Yield the ACLs with a pattern that matches a resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length, by_prefix in self._prefixed.get(resource_type, {}).items():
            if length <= len(name):
                yield from by_prefix.get(name[:length], ())
