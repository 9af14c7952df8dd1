"""The id of this process, without a system call each time.

A forked child must not use the connections of its parent, so every public call compares ids. A system call for each
comparison would take a fiftieth of a poll that returns one record.
"""

from __future__ import annotations

import os


class Process:
    """This process."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()  #: Its id; in a forked child, that of the child.

    def forked(self) -> None:
        """Take note that this is a child now."""
        self.pid = os.getpid()


PROCESS = Process()
if hasattr(os, "register_at_fork"):  # Windows has neither
    os.register_at_fork(after_in_child=PROCESS.forked)
