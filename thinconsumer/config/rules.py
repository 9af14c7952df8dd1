"""The rules between options, and the defaults that depend on other options.

A rule about two options applies only to clients that have both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..support.imports import has_package
from .values import INT32_MAX

Values = Mapping[str, Any]

#: How many bytes of a single partition ``poll`` requests by default, with numpy, which decodes all records of a
#: response together: in responses of 1 MiB, a record takes a tenth more CPU time. Without numpy, an uncompressed record
#: takes a tenth less in responses of 1 MiB, which leave the processor's caches less often.
ROWS_FETCH_BYTES = 2 << 20
#: Number of responses of one broker that polls read ahead by default. With 1, no Fetch could be sent until all records
#: of the previous response are returned.
RESPONSES_IN_BUFFER = 4
#: The default minimum in bytes that ``poll`` reads ahead of one broker: with less, responses would be small and many.
NODE_BYTES_MIN = 4 << 20

#: The package that metrics are encoded with for brokers, of the extra ``telemetry``.
TELEMETRY_PACKAGE = "opentelemetry.proto"

#: Pairs of an initial and a maximum value. If only one of a pair is given, the other's default is adapted: a program
#: that sets one option would otherwise get an error about an option that it does not set.
INITIAL_AND_MAXIMUM: tuple[tuple[str, str], ...] = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"),
)

#: Pairs of an option and one that must be larger, and what would happen otherwise.
BELOW: Mapping[tuple[str, str], str] = {
    ("heartbeat_interval_ms", "session_timeout_ms"): "the session would end before the next heartbeat; a third of it "
    "leaves room for two that get lost",
    ("fetch_max_wait_ms", "request_timeout_ms"): "a fetch that the broker holds back would count as lost before it is "
    "answered",
    ("request_timeout_ms", "connections_max_idle_ms"): "a connection would be closed as idle while its answer is still "
    "awaited",
}
#: Pairs of an option and one that must be as large, or larger.
NOT_ABOVE: Mapping[tuple[str, str], str] = {
    ("fetch_min_bytes", "fetch_max_bytes"): "the broker would wait for more than it may send, each time for "
    "fetch_max_wait_ms",
    ("fetch_min_bytes", "max_buffered_bytes"): "a Fetch never requests more than that, so every Fetch would take "
    "fetch_max_wait_ms",
    **dict.fromkeys(INITIAL_AND_MAXIMUM, "the first grows up to the second"),
}

#: The options that only the classic group protocol has, and what applies in place of them in the consumer protocol.
CLASSIC_ONLY: Mapping[str, str] = {
    "session_timeout_ms": "the broker's group.consumer.session.timeout.ms applies",
    "heartbeat_interval_ms": "the broker's group.consumer.heartbeat.interval.ms applies",
    "partition_assignment_strategy": "the broker assigns; choose its assignor with {assignor}",
}
#: The default of the broker's group.consumer.session.timeout.ms, which members are not told.
BROKER_SESSION_MS = 45_000


def largest_fetch_response(values: Values) -> int:
    """Return the size in bytes of a Fetch response that ``receive_message_max_bytes`` has to allow."""
    return int(min(values["fetch_max_bytes"] + values["max_partition_fetch_bytes"], INT32_MAX))


def derive_defaults(values: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the values, with defaults that fit the ``given`` options, and the fields that are no options."""
    derived = dict(values)
    for initial, maximum in INITIAL_AND_MAXIMUM:
        if initial not in given:
            derived[initial] = min(derived[initial], derived[maximum])
        elif maximum not in given:
            derived[maximum] = max(derived[maximum], derived[initial])
    if "max_partition_fetch_bytes" in given and "batches_fetch_bytes" not in given:
        derived["batches_fetch_bytes"] = derived["max_partition_fetch_bytes"]
    if "batches_fetch_bytes" in values:
        limit = "max_partition_fetch_bytes" if "max_partition_fetch_bytes" in given else "batches_fetch_bytes"
        derived["rows_fetch_bytes"] = min(derived[limit], ROWS_FETCH_BYTES)
        derived["node_bytes"] = derived["max_buffered_bytes"]
        if "max_buffered_bytes" not in given:
            response = max(derived["max_partition_fetch_bytes"], derived["fetch_min_bytes"])
            derived["node_bytes"] = max(NODE_BYTES_MIN, RESPONSES_IN_BUFFER * response)
    if "receive_message_max_bytes" not in given and "fetch_max_bytes" in values:
        derived["receive_message_max_bytes"] = max(
            derived["receive_message_max_bytes"], largest_fetch_response(derived)
        )
    if "group_protocol" in values:
        derived["classic_options"] = tuple(name for name in CLASSIC_ONLY if name in given)
    return derived


Spell = Callable[[str], str]


def broken_rules(values: Values, given: Collection[str], spell: Spell) -> list[str]:
    """Return a sentence for each rule that the values break. ``spell`` turns an option's Python name into the spelling
    that the user has chosen (``group_id`` or ``group.id``).
    """

    def show(name: str) -> str:
        return f"{spell(name)}={values[name]!r}"

    problems = []
    comparisons = (BELOW, operator.lt, "must be below"), (NOT_ABOVE, operator.le, "must not be above")
    for pairs, obeys, wanted in comparisons:
        for (smaller, larger), reason in pairs.items():
            if smaller in values and larger in values and not obeys(values[smaller], values[larger]):
                problems.append(f"{show(smaller)} {wanted} {show(larger)}: {reason}")
    needed = largest_fetch_response(values) if "fetch_max_bytes" in values else 0
    if values["receive_message_max_bytes"] < needed:
        problems.append(
            f"{show('receive_message_max_bytes')} must be at least {needed}, the sum of "
            f"{show('fetch_max_bytes')} and {show('max_partition_fetch_bytes')}: "
            "a response of that size would close the connection, again and again"
        )
    if values.get("group_instance_id") is not None and values["group_id"] is None:
        problems.append(
            f"{show('group_instance_id')} needs {spell('group_id')}: a static member is a member of a group"
        )
    if values.get("enable_metrics_push") and not has_package(TELEMETRY_PACKAGE):
        problems.append(
            f"{show('enable_metrics_push')} needs opentelemetry-proto: pip install 'thinconsumer[telemetry]'"
        )
    return problems + _wrong_protocol(values, given, spell)


def pushes_metrics(enabled: bool | None) -> bool:
    """Return whether metrics are pushed to brokers, given the option ``enable_metrics_push``."""
    return has_package(TELEMETRY_PACKAGE) if enabled is None else enabled


def _wrong_protocol(values: Values, given: Collection[str], spell: Spell) -> list[str]:
    """Return a sentence for each given option that the group protocol lacks; Java and librdkafka refuse these, too."""
    protocol = values.get("group_protocol")
    shown = f"{spell('group_protocol')}={protocol!r}"
    if protocol == "consumer":
        return [
            f"{spell(name)} is an option of the classic protocol. With {shown} "
            f"{instead.format(assignor=spell('group_remote_assignor'))}"
            for name, instead in CLASSIC_ONLY.items()
            if name in given
        ]
    if protocol == "classic" and values["group_remote_assignor"] is not None:
        instead = f"{spell('group_protocol')} 'consumer' or 'auto', or {spell('partition_assignment_strategy')}"
        return [f"{spell('group_remote_assignor')} has no effect with {shown}: give {instead}"]
    return []


def warnings_for(values: Values, given: Collection[str], needs_group: Collection[str], spell: Spell) -> list[str]:
    """Return sentences about given options without effect, or without the effect that their names suggest."""
    if values.get("group_id") is None:
        idle = [spell(name) for name in given if name in needs_group and values[name] not in (None, False)]
        return [f"without {spell('group_id')}, these options have no effect: {', '.join(idle)}"] if idle else []
    is_classic = values.get("group_protocol") != "consumer"
    session_ms = values["session_timeout_ms"] if is_classic else BROKER_SESSION_MS
    poll_ms = values["max_poll_interval_ms"]
    if "max_poll_interval_ms" not in given or poll_ms <= session_ms:
        return []
    session = f"{spell('session_timeout_ms')}={session_ms}"
    remedy = f"raise {spell('session_timeout_ms')} to {poll_ms}, or call Consumer.drive() or keep_alive()"
    if not is_classic:
        session = f"the default of the broker's group.consumer.session.timeout.ms, {session_ms}"
        remedy = "call Consumer.drive() or keep_alive(), or have that setting raised"
    note = (
        f"{spell('max_poll_interval_ms')}={poll_ms} is above {session}: heartbeats "
        f"are sent only inside your calls, so the session ends {session_ms / 1000:g} s after the last one. If records "
        f"take longer than that, {remedy}"
    )
    return [note]
