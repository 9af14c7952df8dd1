"""What the small internal clients, :mod:`thinconsumer.produce` and :mod:`thinconsumer.admin`, are made of.

Owns what both have in common: the options of any client, an engine that wires links, metadata and managers, and a
shell that drives it within a time limit. Knows nothing of records, topics to create or groups. The consumer has an
engine and a shell of its own: what it promises about positions and interruptions reaches into every step there.
"""

from .engine import ClientEngine, Manager
from .options import ClientOptions, shared
from .shell import ClientShell, to_seconds

__all__ = ["ClientEngine", "ClientOptions", "ClientShell", "Manager", "shared", "to_seconds"]
