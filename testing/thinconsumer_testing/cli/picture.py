"""Draw progress as several lines that are redrawn in place on a terminal; elsewhere nothing is redrawn."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from thinconsumer.cli.output import REDRAW_S

#: The characters of a bar, for done and for left: blocks, or ASCII if the output's encoding has no blocks.
BLOCKS, ASCII = ("█", "░"), ("#", ".")


class Picture:
    """The lines at the bottom of a terminal. Without a terminal only :meth:`say` prints."""

    def __init__(self, stream: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._due = -float("inf")
        self._shown = 0  #: Lines of the picture on the terminal.
        self._is_terminal = stream.isatty()
        self._done, self._left = BLOCKS if _encodes("".join(BLOCKS), stream) else ASCII

    def update(self, draw: Callable[[], Sequence[str]]) -> None:
        """Redraw the picture, unless it is younger than ``REDRAW_S`` or the terminal is too small for it."""
        if not self._is_terminal or self._now() < self._due:
            return
        self._due = self._now() + REDRAW_S
        lines, size = draw(), shutil.get_terminal_size()
        # A line that the terminal wraps, or that scrolls out of it, could not be overwritten.
        if len(lines) < size.lines and max(map(len, lines)) < size.columns:
            self._write(lines)
            self._shown = len(lines)

    def say(self, *lines: str) -> None:
        """Print lines that stay, in place of the picture."""
        self._write(lines)
        self._shown, self._due = 0, -float("inf")

    def bar(self, done: int, left: int, scale: float) -> str:
        """Return a bar with ``scale`` characters per unit. If ``left`` is not 0, it gets at least one character."""
        whole = -int(-(done + left) * scale // 1)
        filled = whole if not left else min(int(done * scale), whole - 1)
        return self._done * filled + self._left * (whole - filled)

    def _write(self, lines: Sequence[str]) -> None:
        # Move the cursor up to the picture's first line, and clear from there to the end of the screen.
        clear = f"\x1b[{self._shown}A\x1b[J" if self._shown else ""
        self._stream.write(clear + "".join(f"{line}\n" for line in lines))
        self._stream.flush()


def _encodes(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
