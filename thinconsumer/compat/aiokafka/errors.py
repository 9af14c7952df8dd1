"""aiokafka's exceptions under its names: its own classes, or this package's without it.

Each error of the consumer is an instance both of aiokafka's class and of this package's class.
"""

from __future__ import annotations

from typing import Any

from ...errors import KafkaError as _KafkaError
from ..peer_types import AIOKAFKA


class StoppedConsumerError(_KafkaError):
    """The consumer was stopped, before the call or during it."""


class UnavailableOperationError(_KafkaError):
    """The consumer's configuration does not allow the call: a commit needs a ``group_id``, for example."""


ConsumerStoppedError: Any = AIOKAFKA.find("errors.ConsumerStoppedError", StoppedConsumerError)
IllegalOperation: Any = AIOKAFKA.find("errors.IllegalOperation", UnavailableOperationError)


def __getattr__(name: str) -> Any:
    found = globals()[name] = AIOKAFKA.error(name)
    return found
