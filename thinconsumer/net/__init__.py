"""The :class:`~thinconsumer.driver.Driver` over ``selectors``: the only sockets and clocks of the client."""

from .resolver import system_resolver
from .selector_driver import SelectorDriver

__all__ = ["SelectorDriver", "system_resolver"]
