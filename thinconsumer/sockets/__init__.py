"""The driver for real connections: it gives the engine, which uses neither sockets nor clocks itself, both."""

from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["SelectorDriver", "system_resolver"]
