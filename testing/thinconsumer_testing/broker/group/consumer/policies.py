"""The values of ``group.consumer.migration.policy``, which the configuration checks and ``migration`` applies."""

from collections.abc import Mapping
from types import MappingProxyType

UPGRADE, DOWNGRADE = "upgrade", "downgrade"
#: The directions in which groups with members may move, by policy.
MIGRATION_POLICIES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "disabled": frozenset(),
        UPGRADE: frozenset({UPGRADE}),
        DOWNGRADE: frozenset({DOWNGRADE}),
        "bidirectional": frozenset({UPGRADE, DOWNGRADE}),
    }
)
