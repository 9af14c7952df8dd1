"""The common base of every client: an engine that steps managers, and a shell that runs the engine in public calls.

``Consumer``, ``GroupMember``, the internal producer and the internal admin client are built on this package, each with
its own managers. The package contains no code for records, positions, topic administration or groups.
"""

from .engine import Engine, Manager, ManagerParts
from .guard import Guard
from .shell import BaseClient, Shell, UserCallback, to_seconds

__all__ = ["BaseClient", "Engine", "Guard", "Manager", "ManagerParts", "Shell", "UserCallback", "to_seconds"]
