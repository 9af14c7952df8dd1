"""Wake a waiting driver from a signal handler or another thread, with a pair of sockets and a flag.

The only part of the client that several threads may call. It has no lock, since a signal handler could interrupt its
own thread while that holds the lock. Instead the flag is set before the byte is written, and the pair is opened before
the flag is read: in every order of events the byte is in the socket or the flag is seen.
"""

from __future__ import annotations

import os
import socket


class Waker:
    """Makes a descriptor readable on demand. Opens nothing before :meth:`open`."""

    def __init__(self) -> None:
        self._asked = False
        self._pid = -1
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def open(self) -> int:
        """Open the pair; return the descriptor to watch. It is readable at once after an earlier :meth:`wake`."""
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._pid = os.getpid()
        self._writer = writer
        if self._asked:
            self.ring()
        return self._reader.fileno()

    def wake(self) -> None:
        """Make the descriptor readable. Safe from signal handlers and other threads; never raises."""
        self._asked = True
        self.ring()

    def ring(self) -> None:
        """Make the descriptor readable without a wakeup: :meth:`take` does not report it."""
        writer = self._writer
        # A forked child shares the pair with its parent and must not wake it.
        if writer is None or self._pid != os.getpid():
            return
        try:
            writer.send(b"\0")
        except OSError:
            pass  # the buffer is full, so the descriptor is readable already; or the pair is closed

    def drain(self) -> None:
        """Make the descriptor unreadable again; :meth:`take` still reports the wakeup."""
        try:
            while self._reader is not None and len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            pass  # empty

    def take(self) -> bool:
        """Return whether :meth:`wake` was called since the last call of this method."""
        asked, self._asked = self._asked, False
        return asked

    def close(self) -> None:
        """Close the pair."""
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        for sock in (writer, reader):
            if sock is not None:
                sock.close()
