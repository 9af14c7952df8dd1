"""The only sockets and the only clock of the client: a :class:`~thinconsumer.driver.Driver` over ``selectors``."""

from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["SelectorDriver", "system_resolver"]
