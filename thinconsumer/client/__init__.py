"""The kernel of every client: an engine that steps managers, and a shell that runs it within public calls.

``Consumer``, ``GroupMember``, the internal producer and the internal admin are this kernel with different managers. It
knows nothing of records, positions, topics to create or groups.
"""

from .engine import Engine, Manager, ManagerParts
from .guard import Guard
from .options import ClientOptions, shared
from .shell import InternalClient, Shell, UserCallback, to_seconds

__all__ = [
    "ClientOptions",
    "Engine",
    "Guard",
    "InternalClient",
    "Manager",
    "ManagerParts",
    "Shell",
    "UserCallback",
    "shared",
    "to_seconds",
]
