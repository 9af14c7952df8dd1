"""The user's subscription: topics, a pattern, or manual assignment. After Java's ``SubscriptionState``."""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from ..errors import IllegalArgumentError, IllegalStateError
from ..network.metadata import Metadata
from ..support.shown import shown
from ..types import SubscriptionPattern, TopicPartition

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Mode(enum.Enum):
    """How the consumer gets its partitions."""

    NONE = "nothing chosen"
    TOPICS = "subscribed to topics"
    PATTERN = "subscribed to a pattern"
    BROKER_PATTERN = "subscribed to a pattern that the broker evaluates"
    MANUAL = "assigned by hand"


class UserSubscription:
    """Hold the user's subscription, or that partitions are assigned manually. ``version`` counts the changes."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()  #: The subscribed names; empty with a pattern.
        self.pattern: re.Pattern[str] | None = None
        self.exclude: re.Pattern[str] | None = None  #: Topics whose whole name matches it are not subscribed.
        self.regex: str | None = None  #: The regular expression that the broker evaluates.
        self.listener: Any = None
        self.version = 0

    @property
    def is_subscribed(self) -> bool:
        """Whether topics are subscribed to, by name or pattern."""
        return self.mode not in (Mode.NONE, Mode.MANUAL)

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: str | re.Pattern[str] | SubscriptionPattern | None,
        listener: Any,
        exclude: str | re.Pattern[str] | None = None,
    ) -> None:
        """Subscribe to topics by name, or by pattern without those that match ``exclude``.

        Raises IllegalArgumentError, or IllegalStateError after a manual assignment.
        """
        names = _names(topics)
        if (pattern is None) == (not names):
            given = "both" if names else "neither"
            raise IllegalArgumentError(f"subscribe() takes either topics or a pattern, not {given}")
        excluded = None if exclude is None else _excluded(exclude, pattern)
        for name in ("on_partitions_assigned", "on_partitions_revoked"):
            if listener is not None and not callable(getattr(listener, name, None)):
                raise IllegalArgumentError(f"the listener {listener!r} has no method {name}")
        if self.mode is Mode.MANUAL:
            raise _mixed("subscribe()", "assign()")
        compiled = regex = None
        if isinstance(pattern, SubscriptionPattern):
            regex, mode = _regex(pattern), Mode.BROKER_PATTERN
        elif pattern is not None:
            compiled, mode = _compile(pattern), Mode.PATTERN
        else:
            mode = Mode.TOPICS
        self.mode = mode
        self.topics, self.pattern, self.regex, self.listener = names, compiled, regex, listener
        self.exclude = excluded
        self.version += 1

    def assign(self) -> None:
        """Switch to manual assignment, or raise IllegalStateError if the consumer is subscribed."""
        if self.is_subscribed:
            raise _mixed("assign()", "subscribe()")
        self.mode = Mode.MANUAL
        self.version += 1

    def clear(self) -> None:
        self.mode = Mode.NONE
        self.topics, self.pattern, self.regex, self.listener = frozenset(), None, None, None
        self.exclude = None
        self.version += 1

    def pattern_text(self) -> str:
        """Return the pattern, and that of excluded topics if there is one, for an error message."""
        return repr(self.pattern) if self.exclude is None else f"{self.pattern!r} without {self.exclude!r}"

    def matches(self, topic: str) -> bool:
        """Return whether the pattern that the client evaluates matches the whole name, and ``exclude`` does not."""
        pattern, exclude = self.pattern, self.exclude
        return pattern is not None and bool(pattern.fullmatch(topic)) and not (exclude and exclude.fullmatch(topic))


def _mixed(call: str, before: str) -> IllegalStateError:
    return IllegalStateError(
        f"{call} after {before}: a consumer either subscribes to topics or chooses its partitions by hand; "
        "call unsubscribe() first"
    )


def _names(topics: Iterable[str]) -> frozenset[str]:
    if isinstance(topics, (str, bytes)):
        raise IllegalArgumentError(f"subscribe() takes a list of topics: [{shown(topics)}], not {shown(topics)}")
    if not isinstance(topics, Iterable):
        raise IllegalArgumentError(f"subscribe() takes a list of topics, ['orders'], not {shown(topics)}")
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", ".."):
            raise IllegalArgumentError(
                f"{shown(name)} is not a legal topic name: use 1 to 249 letters, digits, dots, underscores and hyphens "
                "(pass a regular expression as pattern=)"
            )
    return frozenset(names)


def _compile(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise IllegalArgumentError(f"{pattern!r} is no regular expression: {error}") from None
    if not isinstance(compiled.pattern, str):  # bytes would raise TypeError in poll, when topics are matched
        raise IllegalArgumentError(f"{pattern!r} matches bytes: topic names are str")
    return compiled


def _excluded(exclude: Any, pattern: str | re.Pattern[str] | SubscriptionPattern | None) -> re.Pattern[str]:
    """Compile the pattern of excluded topics. Raises IllegalArgumentError unless the client evaluates both patterns."""
    if pattern is None:
        raise IllegalArgumentError("subscribe(exclude=...) needs a pattern: a list of topics has only those wanted")
    if isinstance(pattern, SubscriptionPattern) or isinstance(exclude, SubscriptionPattern):
        raise IllegalArgumentError(
            "subscribe(exclude=...) needs a pattern of type str, which is matched by the client: the broker takes one "
            "regular expression, and RE2 has no negative lookahead that could exclude topics"
        )
    return _compile(exclude)


#: Maximum bytes of a regular expression in UTF-8: a string in a request cannot be longer.
REGEX_BYTES_MAX = 32_767


def _regex(pattern: SubscriptionPattern) -> str:
    text = pattern.pattern
    if not isinstance(text, str) or not text:
        raise IllegalArgumentError(f"{pattern!r} needs a regular expression, a str that is not empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise IllegalArgumentError(f"{pattern!r} cannot be written as UTF-8") from None
    if size > REGEX_BYTES_MAX:
        raise IllegalArgumentError(f"the regular expression of a SubscriptionPattern has {size} bytes, more than fit")
    return text


class SubscribedTopics:
    """Evaluate the user's subscription against the known topics, again when one of the two has changed.

    ``internal`` says whether a pattern may match internal topics.
    """

    def __init__(self, subscription: UserSubscription, metadata: Metadata, *, internal: bool) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._internal = internal
        self._names: frozenset[str] = frozenset()
        self._computed_with: tuple[int, int] | None = None

    def names(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, those that match it; none if the broker evaluates the pattern.

        The result is the same object until it may have changed.
        """
        # Cached, because every step calls this method: matching thousands of names would dominate the step's time.
        seen = self._metadata.version, self._subscription.version
        if seen != self._computed_with:
            self._computed_with = seen
            self._names = self._subscription.topics if self._subscription.pattern is None else self._matching()
        return self._names

    def may_have(self, topic: str) -> bool:
        """Return False if the subscription lacks the topic: the group revokes the topic's assigned partitions.

        Return True also if only the broker can tell, or if nothing is subscribed, as for partitions assigned by hand.
        """
        subscription, known = self._subscription, self._metadata.topics.get(topic)
        if subscription.pattern is None:
            return subscription.mode is not Mode.TOPICS or topic in subscription.topics
        return (self._internal or known is None or not known.internal) and subscription.matches(topic)

    def _matching(self) -> frozenset[str]:
        return frozenset(
            name
            for name, topic in self._metadata.topics.items()
            if topic.partitions and (self._internal or not topic.internal) and self._subscription.matches(name)
        )


class Subscriber(ABC):
    """Acts on the user's subscription. It is the group, or without one :class:`.WholeTopics`."""

    subscription: UserSubscription
    _metadata: Metadata

    @abstractmethod
    def topics(self) -> frozenset[str]:
        """Return the topics that metadata is needed for."""

    @abstractmethod
    def own_topics(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, the known topics that match it."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether the consumer has the assignment for the current subscription, and no change of it is in progress."""

    @property
    @abstractmethod
    def situation(self) -> str:
        """What happens until :attr:`is_settled` is true, for errors: ``"the group is joining"``."""

    @abstractmethod
    def require_broker_patterns(self) -> None:
        """Raise IllegalArgumentError if no broker evaluates the regular expression of a subscription."""

    @abstractmethod
    def subscribed(self) -> None:
        """Act on a changed :attr:`subscription`."""

    @abstractmethod
    def assign_by_hand(self, tps: Collection[TopicPartition], now: float) -> None:
        """Assign partitions manually; raise IllegalStateError if topics are subscribed to."""

    @property
    def wants_all_topics(self) -> bool:
        """Whether the subscription is a pattern that the client evaluates, which needs metadata of all topics."""
        return self.subscription.mode is Mode.PATTERN

    @property
    def matches_nothing(self) -> bool:
        """Whether the subscription is a pattern that the client evaluates, and no topic of the cluster matches it."""
        return self.wants_all_topics and self._metadata.has_listed and not self.own_topics()
