"""The exceptions of kafka-python's consumer, under the names of its module ``kafka.errors``.

A name is looked up when it is used. Where kafka-python is installed, it is that package's class, of which the errors
that :class:`.KafkaConsumer` raises are instances; else it is this package's class. A name that only one of them has
works, too, such as ``NoBrokersAvailable``, which kafka-python had before its version 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import errors as _errors
from ..peer_types import KAFKA_PYTHON as _KAFKA_PYTHON

if TYPE_CHECKING:
    from ...errors import *  # noqa: F403


class BootstrapTimeoutError(_errors.NoBrokersAvailable, _errors.KafkaTimeoutError):
    """No broker answered the constructor within ``bootstrap_timeout_ms``.

    kafka-python raises ``KafkaTimeoutError`` there, and before version 3 ``NoBrokersAvailable``.
    """


def __getattr__(name: str) -> Any:
    try:
        found = _KAFKA_PYTHON.error(name)
    except AttributeError:
        found = getattr(_errors, name) if name in _errors.__all__ else None
        if found is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = found
    return found
