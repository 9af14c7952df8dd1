"""Ctrl-C at a random line of the workers' code: a signal may come between any two of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import thinconsumer.workers

_ROOM = str(Path(thinconsumer.workers.__file__).parent)


class Interrupts:
    """Raises KeyboardInterrupt inside of a block, at the line of the workers' code that was chosen."""

    def __init__(self) -> None:
        self._left = 0  #: How many lines come before; 0: there is no interrupt.

    @contextmanager
    def after(self, lines: int) -> Iterator[None]:
        """Interrupt the block after so many lines of workers' code, if it has as many."""
        before = sys.gettrace()
        self._left = lines
        sys.settrace(self._enter if lines else before)
        try:
            yield
        finally:
            self._left = 0
            sys.settrace(before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not interrupt in this block, in which other actors may run, too."""
        before = sys.gettrace()
        sys.settrace(None)
        try:
            yield
        finally:
            sys.settrace(before if self._left else None)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Interrupt in this block, inside of a suspended one."""
        sys.settrace(self._enter if self._left else None)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, what: Any) -> Any:
        return self._step if frame.f_code.co_filename.startswith(_ROOM) else None

    def _step(self, frame: FrameType, event: str, what: Any) -> Any:
        if event == "line" and self._left:
            self._left -= 1
            if not self._left:
                sys.settrace(None)
                raise KeyboardInterrupt(f"in line {frame.f_lineno} of {Path(frame.f_code.co_filename).name}")
        return self._step
