"""The enabled SASL mechanisms of a cluster: a new exchange for each login."""

from __future__ import annotations

from ...timers import Random
from ..image import ClusterImage
from ..security import ListenerSecurity
from .exchange import Exchange
from .plain import PlainExchange


class Mechanisms:
    """Makes the exchanges of all brokers' connections. ``random`` is the source of nonces."""

    def __init__(self, security: ListenerSecurity, random: Random) -> None:
        self._security = security
        self._random = random

    def new_exchange(self, name: str, image: ClusterImage) -> Exchange:
        """Return a new exchange of an enabled mechanism. ``image`` is the broker's metadata."""
        return PlainExchange(self._security.users)
