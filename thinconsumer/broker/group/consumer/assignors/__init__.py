"""The assignors of the coordinator: pure functions from members and partition counts to a target assignment.

They are not those of classic groups, which run in the client and get other input.
"""

from collections.abc import Mapping
from types import MappingProxyType

from .range_assignor import assign_ranges
from .spec import ServerAssignor
from .uniform import assign_uniformly

#: The assignors by their names in ``group.consumer.assignors``; the first one is the default.
SERVER_ASSIGNORS: Mapping[str, ServerAssignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
