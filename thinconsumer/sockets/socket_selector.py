"""The sockets that a driver watches: over epoll by default, else over the user's or the system's selector.

``select.epoll`` is used directly, since each wait of ``selectors.EpollSelector`` makes eight more function calls.

With ``select()``, every wait raises if a descriptor's number (Linux, macOS) or the count of descriptors (Windows) is
too large: all connections would fail. Here, registering a descriptor beyond that limit raises, so only one fails.
"""

from __future__ import annotations

import io
import math
import select
import selectors
import sys
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import IllegalArgumentError

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_EPOLLIN, _EPOLLOUT = getattr(select, "EPOLLIN", 0), getattr(select, "EPOLLOUT", 0)

#: FD_SETSIZE of ``select()``. On Windows, this is the maximum number of sockets; elsewhere, all descriptors must be
#: below it.
SELECT_LIMIT = 512 if sys.platform == "win32" else 1024

#: Maximum length of a single wait, in seconds. Some selectors reject a day or more, and Windows handles Ctrl-C only
#: between two waits.
LONGEST_WAIT = 0.5 if sys.platform == "win32" else 3600.0


class Sockets(Protocol):
    """The watched descriptors, each with its events and an owner: any object, which :meth:`wait` returns."""

    def set(self, fd: int, mask: int, owner: Any) -> None:
        """Watch ``fd`` for exactly the events in ``mask``.

        Raises:
            OSError: the selector can watch no more descriptors, or none with such a high number.
        """

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``. Call this before closing the descriptor, as the next socket may get the same number."""

    def wait(self, seconds: float) -> list[tuple[Any, int]]:
        """Return (owner, events) of ready descriptors; wait up to ``seconds`` for the first one (0 or less: no wait).

        Waits for at most :data:`LONGEST_WAIT`. ``seconds`` is rounded up to the system's unit (1 ms for epoll and
        poll): rounded down, the rest of a unit would be a busy loop of waits for 0 ms.
        """

    def fileno(self) -> int:
        """Return the selector's own descriptor, which is readable when a watched one is ready.

        Raises:
            io.UnsupportedOperation: the selector has none (poll and select).
        """

    def close(self) -> None:
        """Close the selector. Nothing is unregistered: in a forked child, that would change the parent's epoll set."""


class EpollSockets:
    """Implements :class:`Sockets` over ``select.epoll``."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._masks: dict[int, int] = {}
        self._owners: dict[int, Any] = {}

    def set(self, fd: int, mask: int, owner: Any) -> None:
        known = self._masks.get(fd)
        if known == mask:
            return
        events = (select.EPOLLIN if mask & READ else 0) | (select.EPOLLOUT if mask & WRITE else 0)
        self._owners[fd] = owner  # before _masks: if Ctrl-C comes in between, wait() misses no owner
        if known is None:
            self._epoll.register(fd, events)
        else:
            self._epoll.modify(fd, events)
        self._masks[fd] = mask

    def forget(self, fd: int) -> None:
        self._masks.pop(fd, None)
        self._owners.pop(fd, None)
        try:
            self._epoll.unregister(fd)
        except (OSError, ValueError):
            pass  # the descriptor is not registered: set() was not called, failed or was interrupted

    def wait(self, seconds: float) -> list[tuple[Any, int]]:
        # As in ``selectors``, a hang-up or an error counts as both events: the socket's next call reports it.
        timeout = 0.0 if seconds <= 0 else math.ceil(min(seconds, LONGEST_WAIT) * 1e3) * 1e-3
        found = []
        for fd, events in self._epoll.poll(timeout):
            occurred = (WRITE if events & ~_EPOLLIN else 0) | (READ if events & ~_EPOLLOUT else 0)
            mask = occurred & self._masks.get(fd, 0)
            if mask:
                found.append((self._owners[fd], mask))
        return found

    def fileno(self) -> int:
        return self._epoll.fileno()

    def close(self) -> None:
        self._masks.clear()
        self._owners.clear()
        self._epoll.close()


class SocketSelector:
    """Implements :class:`Sockets` over any selector of ``selectors``."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._limited = isinstance(self._selector, selectors.SelectSelector)
        self._masks: dict[int, int] = {}

    def set(self, fd: int, mask: int, owner: Any) -> None:
        known = self._masks.get(fd)
        if known == mask:
            return
        if known is not None:
            self._selector.modify(fd, mask, owner)
        elif self._limited and (len(self._masks) if sys.platform == "win32" else fd) >= SELECT_LIMIT:
            raise OSError(
                f"select() cannot watch descriptor {fd}, since its limit is {SELECT_LIMIT}: "
                "use another selector, or keep fewer files open"
            )
        else:
            self._selector.register(fd, mask, owner)
        self._masks[fd] = mask

    def forget(self, fd: int) -> None:
        self._masks.pop(fd, None)
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            pass  # the descriptor is not registered: set() was not called, failed or was interrupted

    def wait(self, seconds: float) -> list[tuple[Any, int]]:
        ready = self._selector.select(max(0.0, min(seconds, LONGEST_WAIT)))
        return [(key.data, mask) for key, mask in ready]

    def fileno(self) -> int:
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise io.UnsupportedOperation(f"{type(self._selector).__name__} has no descriptor: use epoll or kqueue")
        return int(fileno())

    def close(self) -> None:
        self._masks.clear()
        self._selector.close()


#: A selector, or a function that makes one.
SelectorLike = selectors.BaseSelector | Callable[[], selectors.BaseSelector | EpollSockets]


def open_sockets(selector: SelectorLike | None) -> Sockets:
    """Return :class:`Sockets` over ``selector``. None means epoll, or, without epoll, the default of ``selectors``.

    Raises:
        OSError: the system refuses another descriptor.
        IllegalArgumentError: ``selector`` is or makes something else than a selector.
    """
    if selector is None:
        selector = EpollSockets if hasattr(select, "epoll") else selectors.DefaultSelector
    # Methods are tested, not the class: eventlet replaces the standard selectors and their class BaseSelector.
    is_instance = hasattr(selector, "select") and not isinstance(selector, type)
    made: Any = selector() if callable(selector) and not is_instance else selector
    sockets: Sockets = SocketSelector(made) if hasattr(made, "register") and hasattr(made, "select") else made
    if hasattr(sockets, "set") and hasattr(sockets, "wait"):
        return sockets
    raise IllegalArgumentError(f"selector={selector!r} gives {made!r}, which lacks the methods of a selector")
