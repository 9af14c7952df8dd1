"""The driver for real connections. It provides sockets and clocks for the engine, which itself uses neither."""

from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["SelectorDriver", "system_resolver"]
