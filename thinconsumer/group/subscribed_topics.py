"""The topics of a subscription by their names: those that the user has given, or those that match a pattern."""

from __future__ import annotations

from ..metadata import Metadata
from .subscription import UserSubscription


class SubscribedTopics:
    """Evaluate the user's subscription against the known topics, again when one of the two has changed."""

    def __init__(self, subscription: UserSubscription, metadata: Metadata, *, internal: bool) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._internal = internal
        self._names: frozenset[str] = frozenset()
        self._computed_with: tuple[int, int] | None = None

    def names(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, those that match it.

        The result is the same object until it may have changed.
        """
        # Cached, because every step calls this method: matching thousands of names would dominate the step's time.
        seen = self._metadata.version, self._subscription.version
        if seen != self._computed_with:
            self._computed_with = seen
            self._names = self._subscription.wanted(self._metadata.topics, internal=self._internal)
        return self._names

    def may_have(self, topic: str) -> bool:
        """Return False if partitions of the topic, which were assigned before, are no longer subscribed."""
        known = self._metadata.topics.get(topic)
        is_hidden = known is not None and known.internal and not self._internal
        return self._subscription.may_have(topic, is_hidden=is_hidden)
