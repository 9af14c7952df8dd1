"""The only sockets and the only clock of the client: a :class:`~thinconsumer.driver.Driver` over ``selectors``."""

from .guard import Guard
from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["Guard", "SelectorDriver", "system_resolver"]
