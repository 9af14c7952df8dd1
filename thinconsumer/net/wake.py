"""Waking a driver that waits, from a signal handler or another thread: a pair of sockets and a flag.

The only part of the client that more than one thread may enter. There is no lock, since a signal handler could
interrupt its own thread while it holds one; instead the flag is set before the byte is written, and the pair is opened
before the flag is looked at, so that in every order of events either the byte is in the socket or the flag is seen.
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
        """Open the pair; return the descriptor to watch. A wakeup asked for earlier is readable at once."""
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._pid = os.getpid()
        self._writer = writer
        if self._asked:
            self._write()
        return self._reader.fileno()

    def wake(self) -> None:
        """Make the descriptor readable. Safe from signal handlers and other threads; never raises."""
        self._asked = True
        self._write()

    def ring(self) -> None:
        """Make the descriptor readable, and nothing more: nobody has asked."""
        self._write()

    def _write(self) -> None:
        writer = self._writer
        # A forked child shares the pair with its parent, whom it must not wake.
        if writer is None or self._pid != os.getpid():
            return
        try:
            writer.send(b"\0")
        except OSError:
            pass  # Full: it is readable already. Closed meanwhile: nobody is left to wake.

    def drain(self) -> None:
        """Make the descriptor unreadable again; whether somebody asked stays known."""
        try:
            while self._reader is not None and len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            pass  # Empty.

    def take(self) -> bool:
        """Return whether :meth:`wake` was called since this was last asked."""
        asked, self._asked = self._asked, False
        return asked

    def close(self) -> None:
        """Close the pair."""
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        for sock in (writer, reader):
            if sock is not None:
                sock.close()
