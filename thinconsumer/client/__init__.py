"""The common base of every client: an engine that steps managers, and a shell that runs the engine in public calls.

``Consumer``, ``GroupMember``, the internal producer and the internal admin use it with different managers. This package
contains no code for records, positions, topic administration or groups.
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
