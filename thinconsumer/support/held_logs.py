"""Hold back the log records of this package while its code runs where nothing may be logged: in a signal handler.

There, a logging handler of the interrupted program may be in the middle of a line, or another thread have its lock.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from functools import partial
from threading import get_ident
from time import time
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

#: The beginning of the names of the package's loggers.
PREFIX = __name__.partition(".")[0] + "."
#: Maximum number of records that are held; further ones are only counted.
HELD_MAX = 1000


class HeldRecord(NamedTuple):
    logger: logging.Logger
    time: float
    level: int
    place: tuple[str, int, str]  #: File, line and function.
    message: object
    args: Any
    exc_info: Any


class HeldLogs:
    """Holds the records that the thread in its ``with`` block logs, until :meth:`write`."""

    def __init__(self) -> None:
        self._loggers: list[logging.Logger] = []
        self._held: deque[HeldRecord] = deque()
        self._dropped = 0
        self._thread = 0  #: The thread in the ``with`` block; 0 if there is none.

    def __enter__(self) -> None:
        self._thread = get_ident()
        known = logging.root.manager.loggerDict.copy()
        self._loggers = [
            found for name, found in known.items() if name.startswith(PREFIX) and isinstance(found, logging.Logger)
        ]
        for logger in self._loggers:
            # These two come before the methods of the class. The class's ``isEnabledFor`` may wait for a lock.
            vars(logger).update(isEnabledFor=partial(_is_enabled, logger), _log=partial(self._log, logger))

    def __exit__(self, *exc: object) -> None:
        self.release()

    def release(self) -> None:
        """Let the loggers log again, also after an interrupted end of the block."""
        for logger in self._loggers:
            vars(logger).pop("_log", None)
            vars(logger).pop("isEnabledFor", None)
        self._thread = 0

    def write(self) -> None:
        """Log the held records with the times and places at which they were made; inside the block, do nothing."""
        while not self._thread:
            try:
                one = self._held.popleft()
            except IndexError:  # not tested before: another thread may write, too
                break
            file, line, function = one.place
            of_caller: Any = (one.logger.name, one.level, file, line, one.message, one.args, one.exc_info, function)
            record = one.logger.makeRecord(*of_caller)
            record.relativeCreated -= (record.created - one.time) * 1000
            record.created, record.msecs = one.time, one.time % 1 * 1000
            one.logger.handle(record)
        if self._dropped and not self._thread:
            dropped, self._dropped = self._dropped, 0
            log.warning("%d further records were dropped, as more than %d waited", dropped, HELD_MAX)

    def _log(
        self, logger: logging.Logger, level: int, message: object, args: Any, exc_info: Any = None, **options: Any
    ) -> None:
        if get_ident() != self._thread:
            logging.Logger._log(logger, level, message, args, exc_info, **options)
        elif len(self._held) >= HELD_MAX:
            self._dropped += 1
        else:
            frame: Any = sys._getframe(1)
            while frame.f_globals is vars(logging):
                frame = frame.f_back
            place = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
            raised = sys.exc_info() if exc_info else None
            self._held.append(HeldRecord(logger, time(), level, place, message, args, raised))


def _is_enabled(logger: logging.Logger, level: int) -> bool:
    return logger.manager.disable < level and level >= logger.getEffectiveLevel()
