"""The driver for real connections. No other package of the client uses sockets or clocks."""

from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["SelectorDriver", "system_resolver"]
