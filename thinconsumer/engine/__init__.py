"""The common base of every client: an engine that steps managers, and a shell that runs the engine in public calls.

``Consumer``, ``GroupMember``, the internal producer and the internal admin client differ in their managers.
"""

from .engine import Engine, Manager, ManagerParts
from .guard import Guard
from .shell import BaseClient, ListenerPendingError, Shell, UserCallback, Waiting, to_seconds

__all__ = [
    "BaseClient", "Engine", "Guard", "ListenerPendingError", "Manager", "ManagerParts", "Shell", "UserCallback",
    "Waiting", "to_seconds",
]  # fmt: skip
