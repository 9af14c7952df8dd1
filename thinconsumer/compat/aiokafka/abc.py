"""The base classes that aiokafka's users derive from: aiokafka's own, or classes with the same methods without it."""

from __future__ import annotations

import abc
from typing import Any

from ..peer_types import AIOKAFKA

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class AIOKafkaListener(abc.ABC):
    """React to rebalances. The methods may be coroutines, and get sets of partitions."""

    @abc.abstractmethod
    def on_partitions_revoked(self, revoked: Any) -> Any:
        """Commit what is processed: after this call, other members may own these partitions."""

    @abc.abstractmethod
    def on_partitions_assigned(self, assigned: Any) -> Any:
        """Prepare for these partitions, which include those that the consumer has kept."""


class AIOKafkaTokenProvider(abc.ABC):
    """Provides tokens for OAUTHBEARER."""

    @abc.abstractmethod
    async def token(self) -> str:
        """Return a token that has not expired."""

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with the token (KIP-342)."""
        return {}


ConsumerRebalanceListener: Any = AIOKAFKA.find("abc.ConsumerRebalanceListener", AIOKafkaListener)
AbstractTokenProvider: Any = AIOKAFKA.find("abc.AbstractTokenProvider", AIOKafkaTokenProvider)
