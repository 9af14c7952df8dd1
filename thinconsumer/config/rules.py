"""What options demand of each other: rows with a reason, and which option gives way when it was not given.

Works on parsed values by name. Knows no types, no text and no option that stands alone. A rule about an option that is
not among the values does not apply: other clients than the consumer have fewer options, or others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .values import INT32_MAX

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Below:
    """``smaller`` must be below ``larger``, or may equal it when ``or_equal``."""

    smaller: str
    larger: str
    reason: str
    or_equal: bool = False

    def holds(self, values: Values) -> bool:
        """Return whether these values obey the rule."""
        if self.or_equal:
            return bool(values[self.smaller] <= values[self.larger])
        return bool(values[self.smaller] < values[self.larger])


BELOW: tuple[Below, ...] = (
    Below(
        "heartbeat_interval_ms",
        "session_timeout_ms",
        "the session would end before the next heartbeat; a third of it leaves room for two that get lost",
    ),
    Below(
        "fetch_max_wait_ms",
        "request_timeout_ms",
        "a fetch that the broker holds back would count as lost before it is answered",
    ),
    Below(
        "request_timeout_ms",
        "connections_max_idle_ms",
        "a connection would be closed as idle while its answer is still awaited",
    ),
    Below(
        "fetch_min_bytes",
        "fetch_max_bytes",
        "the broker would wait for more than it may send, so every fetch would take fetch_max_wait_ms",
        or_equal=True,
    ),
    Below(
        "fetch_min_bytes",
        "max_buffered_bytes",
        "no more than that is ever asked for, so every fetch would take fetch_max_wait_ms",
        or_equal=True,
    ),
)

#: (first wait, longest wait): when only one of them is given, the other one's default gives way to it, since a program
#: written for a client with one knob must not be told off for the other.
GROWS_TO: tuple[tuple[str, str], ...] = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


def largest_fetch_response(values: Values) -> int:
    """Return how long a fetch response may well be: the limit is soft, and a frame is more than its records."""
    return int(min(values["fetch_max_bytes"] + values["max_partition_fetch_bytes"], INT32_MAX))


def settle(values: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the values with those that were not ``given`` moved to where the given ones need them."""
    settled = dict(values)
    for first, longest in GROWS_TO:
        if first not in given:
            settled[first] = min(settled[first], settled[longest])
        elif longest not in given:
            settled[longest] = max(settled[longest], settled[first])
    if "max_partition_fetch_bytes" in given and "batches_fetch_bytes" not in given:
        settled["batches_fetch_bytes"] = settled["max_partition_fetch_bytes"]
    if "receive_message_max_bytes" not in given and "fetch_max_bytes" in values:
        settled["receive_message_max_bytes"] = max(
            settled["receive_message_max_bytes"], largest_fetch_response(settled)
        )
    return settled


Say = Callable[[str], str]


def broken_rules(values: Values, given: Collection[str], say: Say) -> list[str]:
    """Return a sentence for each rule that the values break; ``say`` spells an option's name as the user did."""
    problems = []
    for rule in BELOW:
        if rule.smaller in values and rule.larger in values and not rule.holds(values):
            wanted = "must not be above" if rule.or_equal else "must be below"
            problems.append(
                f"{_set(rule.smaller, values, say)} {wanted} {_set(rule.larger, values, say)}: {rule.reason}"
            )
    for first, longest in GROWS_TO:
        if values[first] > values[longest]:
            problems.append(
                f"{_set(first, values, say)} must not be above {_set(longest, values, say)}: it is what it grows to"
            )
    needed = largest_fetch_response(values) if "fetch_max_bytes" in values else 0
    if values["receive_message_max_bytes"] < needed:
        problems.append(
            f"{_set('receive_message_max_bytes', values, say)} must be at least {needed}, the sum of "
            f"{_set('fetch_max_bytes', values, say)} and {_set('max_partition_fetch_bytes', values, say)}: "
            "a response of that size would close the connection, again and again"
        )
    if values.get("group_instance_id") is not None and values["group_id"] is None:
        problems.append(
            f"{_set('group_instance_id', values, say)} needs {say('group_id')}: there is no group to be a member of"
        )
    return problems


def warnings_for(values: Values, given: Collection[str], needs_group: Collection[str], say: Say) -> list[str]:
    """Return a sentence for each thing that is legal, was asked for, and will not do what it seems to."""
    if values.get("group_id") is None:
        idle = [say(name) for name in given if name in needs_group and values[name] not in (None, False)]
        return [f"without {say('group_id')} there is no group: no effect of {', '.join(idle)}"] if idle else []
    poll_ms, session_ms = values["max_poll_interval_ms"], values["session_timeout_ms"]
    if "max_poll_interval_ms" not in given or poll_ms <= session_ms:
        return []
    remedy = f"raise {say('session_timeout_ms')} to {poll_ms}, or call Consumer.drive() in between"
    note = (
        f"{_set('max_poll_interval_ms', values, say)} is above {_set('session_timeout_ms', values, say)}: heartbeats "
        f"are sent only inside your calls, so the session ends {session_ms / 1000:g} s after the last one. If records "
        f"take longer than that, {remedy}"
    )
    return [note]


def _set(name: str, values: Values, say: Say) -> str:
    return f"{say(name)}={values[name]!r}"
