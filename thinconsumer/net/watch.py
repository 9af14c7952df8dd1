"""The selector, and what its kinds do differently.

``select()`` refuses descriptors by number (Linux, macOS) or by count (Windows), and only when it is called, for all
connections at once; here that turns into an error of the one connection that is too many. epoll and kqueue have a
descriptor of their own, the others do not.
"""

from __future__ import annotations

import io
import selectors
import sys
from collections.abc import Callable
from typing import Any

#: A selector, or what makes one.
SelectorLike = selectors.BaseSelector | Callable[[], selectors.BaseSelector]

#: FD_SETSIZE: the numbers that fit into select()'s bit set; on Windows, how many sockets Python lets it watch.
SELECT_LIMIT = 512 if sys.platform == "win32" else 1024

#: Longest single wait. Some selectors refuse a day or more, and on Windows Ctrl-C is only noticed between waits.
LONGEST_WAIT = 0.5 if sys.platform == "win32" else 3600.0


class Watch:
    """Which descriptor is watched for what, and on whose behalf."""

    def __init__(self, selector: SelectorLike) -> None:
        self._selector = selector if isinstance(selector, selectors.BaseSelector) else selector()
        self._limited = isinstance(self._selector, selectors.SelectSelector)
        self._masks: dict[int, int] = {}

    def set(self, fd: int, mask: int, owner: Any) -> None:
        """Watch ``fd`` for ``mask`` and nothing else from now on.

        Raises:
            OSError: this selector cannot watch one more, or not this one.
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
                f"select() can watch descriptors below {SELECT_LIMIT} only, and this is number {fd}: "
                "use another selector, or keep fewer files open"
            )

    def forget(self, fd: int) -> None:
        """Watch ``fd`` no longer. Call this before it is closed, or its successor gets its events."""
        self._masks.pop(fd, None)
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            pass  # Never was registered, or an interrupted set() got only half way.

    def wait(self, seconds: float) -> list[tuple[Any, int]]:
        """Return owners and their events; wait ``seconds`` for the first, not at all when that is 0 or less.

        Waits are rounded up to what the system counts in (1 ms for epoll and poll): rounded down, the last fraction
        of every wait would be spent in a busy loop.
        """
        ready = self._selector.select(max(0.0, min(seconds, LONGEST_WAIT)))
        return [(key.data, mask) for key, mask in ready]

    def fileno(self) -> int:
        """Return the selector's own descriptor."""
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise io.UnsupportedOperation(f"{type(self._selector).__name__} has no descriptor; epoll and kqueue have")
        return int(fileno())

    def close(self) -> None:
        """Close the selector. Nothing is unregistered: a forked child shares its parent's epoll set."""
        self._masks.clear()
        self._selector.close()
