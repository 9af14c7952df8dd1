"""Wake a waiting driver from a signal handler or another thread, with a pair of sockets and a flag.

Of all parts of the client, only this one may be called by several threads. It has no lock: a signal handler that
interrupted the thread holding the lock would wait for ever. Instead :meth:`Waker.wake` sets the
flag before it writes a byte, and :meth:`Waker.open` opens the pair before it reads the flag, so that no wakeup is lost
in any order of the two.
"""

import os
import socket


class Waker:
    """A descriptor that :meth:`wake` makes readable, which ends a wait for I/O. It exists after :meth:`open`."""

    def __init__(self) -> None:
        self.asked = False  #: Whether :meth:`wake` was called since :meth:`take`.
        self._pid = -1
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def open(self) -> int:
        """Open the sockets; return the descriptor to watch, readable at once if :meth:`wake` was called before."""
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._pid = os.getpid()
        self._writer = writer
        if self.asked:
            self.ring()
        return self._reader.fileno()

    def wake(self) -> None:
        """Wake the driver, so that :meth:`take` returns True. Safe from signal handlers and threads; never raises."""
        self.asked = True
        self.ring()

    def ring(self) -> None:
        """Make the descriptor readable, so that an event loop steps, without making :meth:`take` return True."""
        writer = self._writer
        # A forked child shares the pair with its parent: writing would wake the parent.
        if writer is None or self._pid != os.getpid():
            return
        try:
            writer.send(b"\0")
        except OSError:
            pass  # the buffer is full, so the descriptor is already readable; or the pair is closed

    def drain(self) -> None:
        """Read all bytes, so that the descriptor is no longer readable; :meth:`take` still reports the wakeup."""
        try:
            while self._reader is not None and len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            pass  # all bytes are read

    def take(self) -> bool:
        """Return whether :meth:`wake` was called since the last call of this method."""
        if not self.asked:
            return False  # without an assignment: it would lose the wakeup that another thread makes right before it
        self.asked = False
        return True

    def close(self) -> None:
        """Close the pair of sockets."""
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        for sock in (writer, reader):
            if sock is not None:
                sock.close()
