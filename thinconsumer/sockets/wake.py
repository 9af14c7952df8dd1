"""Wake a waiting driver from a signal handler or another thread, with a pair of sockets.

:meth:`Waker.ring` may be called from any thread, but takes no lock: a signal handler that interrupted the thread with
the lock would wait for ever. A wakeup before :meth:`Waker.open` is not lost: the driver's ``wakeup`` sets a flag before
it calls ``ring``, and the driver reads this flag after it has opened the sockets.
"""

import os
import socket


class Waker:
    """A descriptor that :meth:`ring` makes readable, to end a wait for I/O. :meth:`open` creates the descriptor."""

    def __init__(self) -> None:
        self._pid = -1
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def open(self) -> int:
        """Open the sockets; return the descriptor to watch."""
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._pid = os.getpid()
        self._writer = writer
        return self._reader.fileno()

    def ring(self) -> None:
        """Make the descriptor readable. Safe from signal handlers and threads; never raises."""
        writer = self._writer
        # A forked child shares the pair with its parent: writing would wake the parent.
        if writer is None or self._pid != os.getpid():
            return
        try:
            writer.send(b"\0")
        except OSError:
            pass  # the buffer is full, so the descriptor is already readable; or the pair is closed

    def drain(self) -> None:
        """Make the descriptor unreadable again."""
        try:
            while self._reader is not None and len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            pass  # all bytes are read

    def close(self) -> None:
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        for sock in (writer, reader):
            if sock is not None:
                sock.close()
