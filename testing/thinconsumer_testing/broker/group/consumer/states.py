"""The states of a consumer group and of its members.

Follows Kafka's ``ConsumerGroup.ConsumerGroupState`` and ``MemberState``.
"""

from __future__ import annotations

import enum


class ConsumerGroupState(enum.Enum):
    """The state of a consumer group, with Kafka's names. It follows from the members and epochs of the group."""

    EMPTY = "Empty"  #: The group has no members.
    ASSIGNING = "Assigning"  #: The target assignment is older than the group epoch.
    RECONCILING = "Reconciling"  #: At least one member has not reached its target assignment yet.
    STABLE = "Stable"  #: All members have their target assignments.
    DEAD = "Dead"  #: The group does not exist.


class AssignmentState(enum.IntEnum):
    """How far a member is on the way to its target assignment; the values are those of the log's records."""

    STABLE = 0  #: The member has its target assignment, in the epoch of that assignment.
    UNREVOKED_PARTITIONS = 1  #: The member has to revoke partitions before it moves to the next epoch.
    UNRELEASED_PARTITIONS = 2  #: The member waits for partitions that other members have not revoked yet.
    UNKNOWN = 127  #: The log has a state of a later version; the member has to rejoin without partitions.

    @classmethod
    def of(cls, value: int) -> AssignmentState:
        """Return the state with this value in the log, UNKNOWN if there is none."""
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN
