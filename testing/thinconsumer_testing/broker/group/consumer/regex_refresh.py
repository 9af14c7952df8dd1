"""Resolving the regular expressions of a group: which topics each of them matches.

A heartbeat only schedules a look-up that is due. The look-up is an operation of its own, whose records begin a new
epoch if it finds other topics than before. Follows ``maybeUpdateRegularExpressions`` and
``handleRegularExpressionsResult`` in Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..timers import TimerKind
from . import records
from .draft import Draft
from .group import ConsumerGroup, ResolvedRegex
from .member import ConsumerGroupMember
from .regexes import compile_regex, load_re2, match_topics

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard

log = logging.getLogger(__name__)

#: The shortest time between two look-ups for one group.
REFRESH_MIN_MS = 10_000

#: Returns those of the given topics that a client may not see.
HiddenTopics = Callable[[Iterable[str]], Collection[str]]


class RegexChange(NamedTuple):
    """Whether and how a heartbeat changes a member's regular expression."""

    has_changed: bool = False
    #: Whether the topics after a change are known already: the group has resolved the new expression, or the member has
    #: given up its expression.
    is_resolved: bool = False
    is_new: bool = False  #: Whether no member of the group had the new expression before.


def change_of(group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember) -> RegexChange:
    """Compare a member's regular expressions; ``group`` is as it was before the change.

    Raises:
        GroupRequestError: INVALID_REGULAR_EXPRESSION.
    """
    regex = after.subscribed_topic_regex
    if regex == before.subscribed_topic_regex:
        return RegexChange()
    if not regex:
        return RegexChange(has_changed=True, is_resolved=True)
    if regex not in group.regexes:
        compile_regex(regex, load_re2())
        return RegexChange(has_changed=True, is_new=True)
    return RegexChange(has_changed=True, is_resolved=regex in group.resolved)


def is_due(shard: GroupCoordinatorShard, group: ConsumerGroup, change: RegexChange) -> bool:
    """Return whether the group's regular expressions have to be resolved; ``group`` is as it is after the change."""
    if not group.regexes:
        return False
    last_ms = max((found.timestamp_ms for found in group.resolved.values()), default=None)
    now_ms = shard.wall_ms()
    # If a broker's clock was set back, the last look-up is in the future, and then does not delay the next one. Kafka
    # does not resolve the expressions, and so assigns no new topics, until the clock has reached that time again.
    if last_ms is not None and last_ms <= now_ms <= last_ms + REFRESH_MIN_MS:
        return False
    return (
        change.is_new
        or last_ms is None
        or len(group.regexes) != len(group.resolved)
        or group.regex_version < shard.image.created_version
        or now_ms > last_ms + shard.config.group_consumer_regex_refresh_interval_ms
    )


def schedule(shard: GroupCoordinatorShard, group_id: str, hidden_topics: HiddenTopics) -> None:
    """Resolve the group's regular expressions after the current operation, unless that is planned already."""
    key = group_id, "", TimerKind.REGEX
    if key not in shard.member_timers:
        shard.member_timers.schedule(key, 0, lambda: resolve(shard, group_id, hidden_topics))


def resolve(shard: GroupCoordinatorShard, group_id: str, hidden_topics: HiddenTopics) -> None:
    """Resolve the group's regular expressions; begin a new epoch if they match other topics than before."""
    group = shard.latest.consumer_group(group_id)
    if group is None or not group.regexes:
        return
    image = shard.image
    matched = match_topics(group.regexes, image.topics, load_re2())
    hidden = frozenset(hidden_topics(frozenset().union(*matched.values())))
    draft = Draft(shard, group)
    now_ms = shard.wall_ms()
    has_changed = False
    for regex, topics in matched.items():
        before = group.resolved.get(regex, ResolvedRegex(frozenset()))
        after = ResolvedRegex(topics - hidden, image.version, now_ms)
        has_changed = has_changed or before.topics != after.topics
        draft.add([records.regex_record(group_id, regex, after)])
    draft.update_epoch(must_bump=has_changed)
    if draft.append():
        log.debug("%r: %d regular expressions resolved", group, len(matched))
        latest = shard.latest.consumer_group(group_id)
        if latest is not None:
            latest.regex_version = image.version
