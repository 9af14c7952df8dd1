"""The interface of the built-in assignors; those of users have another one (:mod:`.user_assignor`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..member import Target


class MemberSpec(NamedTuple):
    """A member as an assignor sees it: the ids of its topics, its last target assignment, and its instance id."""

    subscribed: frozenset[bytes]
    target: Target = MappingProxyType({})
    instance_id: str | None = None


#: A built-in assignor: takes members by member id, and the partition count of each topic id; returns the target
#: assignment of each member.
ServerAssignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, Target]]
