"""A wrapper that makes all selectors of ``selectors`` behave alike.

With ``select()``, every wait raises if a descriptor's number (Linux, macOS) or the count of descriptors (Windows) is
too large. Here, registering a descriptor beyond that limit raises instead, so that only one connection fails. Only
epoll and kqueue selectors have a descriptor of their own.
"""

from __future__ import annotations

import io
import selectors
import sys
from collections.abc import Callable
from typing import Any

#: A selector, or a function that makes one.
SelectorLike = selectors.BaseSelector | Callable[[], selectors.BaseSelector]

#: FD_SETSIZE of ``select()``. On Windows, this is the maximum number of sockets; elsewhere, all descriptors must be
#: below it.
SELECT_LIMIT = 512 if sys.platform == "win32" else 1024

#: Maximum length of a single wait, in seconds. Some selectors reject a day or more, and Windows handles Ctrl-C only
#: between two waits.
LONGEST_WAIT = 0.5 if sys.platform == "win32" else 3600.0


class SocketSelector:
    """The watched descriptors, each with its events and an owner: any object, which :meth:`wait` returns."""

    def __init__(self, selector: SelectorLike) -> None:
        self._selector = selector if isinstance(selector, selectors.BaseSelector) else selector()
        self._limited = isinstance(self._selector, selectors.SelectSelector)
        self._masks: dict[int, int] = {}

    def set(self, fd: int, mask: int, owner: Any) -> None:
        """Watch ``fd`` for exactly the events in ``mask``.

        Raises:
            OSError: the selector can watch no more descriptors, or none with such a high number.
        """
        known = self._masks.get(fd)
        if known == mask:
            return
        if known is None:
            self._check_limit(fd)
            self._selector.register(fd, mask, owner)
        else:
            self._selector.modify(fd, mask, owner)
        self._masks[fd] = mask

    def _check_limit(self, fd: int) -> None:
        over = len(self._masks) >= SELECT_LIMIT if sys.platform == "win32" else fd >= SELECT_LIMIT
        if self._limited and over:
            raise OSError(
                f"select() cannot watch descriptor {fd}, since its limit is {SELECT_LIMIT}: "
                "use another selector, or keep fewer files open"
            )

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``. Call this before closing the descriptor, as the next socket may get the same number."""
        self._masks.pop(fd, None)
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            pass  # the descriptor is not registered: set() failed or was interrupted

    def wait(self, seconds: float) -> list[tuple[Any, int]]:
        """Return (owner, events) of ready descriptors; wait up to ``seconds`` for the first one (0 or less: no wait).

        Selectors round ``seconds`` up to the system's unit (1 ms for epoll and poll). If they rounded down, every wait
        would end with a busy loop.
        """
        ready = self._selector.select(max(0.0, min(seconds, LONGEST_WAIT)))
        return [(key.data, mask) for key, mask in ready]

    def fileno(self) -> int:
        """Return the selector's own descriptor, which is readable when a watched one is ready."""
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise io.UnsupportedOperation(f"{type(self._selector).__name__} has no descriptor: use epoll or kqueue")
        return int(fileno())

    def close(self) -> None:
        """Close the selector without unregistering: in a forked child, that would change the parent's epoll set."""
        self._masks.clear()
        self._selector.close()
