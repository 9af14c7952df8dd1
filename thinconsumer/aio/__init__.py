"""A consumer for programs on an event loop: asyncio, uvloop, or trio. ``thinconsumer`` itself does not import it."""

from .consumer import AsyncConsumer
from .loops import UnsupportedLoopError

__all__ = ["AsyncConsumer", "UnsupportedLoopError"]
