"""The options of kafka-python's consumer as keywords of this package's: defaults, and values written in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ...config import OPTIONS, ConsumerConfig, Secret
from ...config.values import is_async
from ...errors import KafkaConfigurationError
from ..peer_types import KAFKA_PYTHON
from .structs import OffsetAndMetadata, TopicPartition, offset_of, partition_of

__all__ = ["DEFAULT_CONFIG", "IsolationLevel", "all_values", "own_options"]


class _IsolationLevel(IntEnum):
    """Values of ``isolation_level``; the names in lower case will do."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


if TYPE_CHECKING:
    IsolationLevel = _IsolationLevel
else:
    IsolationLevel = KAFKA_PYTHON.find("protocol.consumer.IsolationLevel", _IsolationLevel)

#: Options whose default is kafka-python's and not this package's, since programs may depend on it without naming it.
_OTHER_DEFAULTS: dict[str, Any] = {"allow_auto_create_topics": True}
#: The same for options that have an effect only in a group, and the second only with the classic protocol.
_OTHER_GROUP_DEFAULTS: dict[str, Any] = {
    "allow_foreign_commits": True,
    "partition_assignment_strategy": ("range", "roundrobin"),
}
#: kafka-python's options that this package has not, or under another name, with their defaults.
_WITHOUT_EFFECT: dict[str, Any] = {
    "api_version": None,
    "kafka_client": None,
    "metric_group_prefix": "consumer",
    "metrics_enabled": True,
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30000,
    "socks5_proxy": None,
}
#: Every option and its default, as kafka-python's class shows them.
DEFAULT_CONFIG: dict[str, Any] = {
    **{name: option.default for name, option in OPTIONS.items()},
    **_OTHER_DEFAULTS,
    **_OTHER_GROUP_DEFAULTS,
    **_WITHOUT_EFFECT,
    "auto_offset_reset": "latest",
    "bootstrap_servers": "localhost",
}
#: Options of kafka-python's version 2 alone. They have no effect here.
_OF_VERSION_2 = frozenset({"legacy_iterator", "sock_chunk_buffer_count", "sock_chunk_bytes"})

_OLDER_RESETS = {"smallest": "earliest", "largest": "latest"}


def own_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's keywords as this package's: its defaults where they differ, and its older options."""
    if given.get("interceptor_classes"):
        raise KafkaConfigurationError("interceptor_classes works with thinconsumer's own consumers only")
    options = {**_OTHER_DEFAULTS, **(_OTHER_GROUP_DEFAULTS if given.get("group_id") is not None else {})}
    for name, value in given.items():
        is_unset = value == "" and name.startswith(("sasl_", "ssl_"))  # os.environ.get(name, "")
        if not is_unset and name not in _OF_VERSION_2:
            options[name] = value
    if "api_version_auto_timeout_ms" in options:  # version 2's name
        options.setdefault("bootstrap_timeout_ms", options.pop("api_version_auto_timeout_ms"))
    if options.get("ssl_context") is not None:
        options.pop("ssl_check_hostname", None)  # the context has its own ``check_hostname``
    if isinstance(options.get("bootstrap_servers"), (set, frozenset)):
        options["bootstrap_servers"] = sorted(options["bootstrap_servers"])
    if given.get("group_protocol", "classic") != "classic" and "partition_assignment_strategy" not in given:
        options.pop("partition_assignment_strategy", None)
    level = options.get("isolation_level")
    if isinstance(level, int) and level in tuple(_IsolationLevel):
        options["isolation_level"] = _IsolationLevel(level).name.lower()
    reset = options.get("auto_offset_reset")
    if isinstance(reset, str):
        options["auto_offset_reset"] = _OLDER_RESETS.get(reset, reset)
    timeout = options.get("consumer_timeout_ms")
    if isinstance(timeout, (int, float)) and timeout < 0:
        options["consumer_timeout_ms"] = float("inf")
    told = options.get("default_offset_commit_callback")
    if callable(told) and not is_async(told):
        options["default_offset_commit_callback"] = commit_callback(told)
    if options.get("kafka_client") is KAFKA_PYTHON.find("net.compat.KafkaNetClient", None):
        options.pop("kafka_client", None)  # the default, which is refused otherwise
    return options


def commit_callback(told: Callable[..., Any]) -> Callable[..., Any]:
    """Return a commit callback of this package that calls one of kafka-python's, with values of its classes."""

    def call(offsets: Mapping[Any, Any], error: Exception | None) -> None:
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, offset in offsets.items():
            found[partition_of(tp)] = offset_of(offset)
        told(found, KAFKA_PYTHON.adopt(error))

    return call


def all_values(config: ConsumerConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that ``KafkaConsumer.config`` shows: those given, and the defaults. ``repr`` hides secrets."""
    values = dict(DEFAULT_CONFIG)
    for name, option in OPTIONS.items():
        value = getattr(config, name)
        if option.kind.is_secret:
            values[name] = {key: Secret(text) for key, text in value.items()} if isinstance(value, dict) else value
        elif name in given:
            values[name] = given[name]
        elif value is None or isinstance(value, (bool, int, float, str)):
            values[name] = value  # it may follow from other options
    return {**values, **{name: given[name] for name in given.keys() & _WITHOUT_EFFECT.keys() - {"socks5_proxy"}}}
