"""The keywords of aiokafka's consumer, translated to options of this package."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Coroutine, Iterable
from typing import Any

from ...config.build import ConfigurationWarning
from ...errors import KafkaConfigurationError, KafkaError

__all__ = ["Tokens", "translate"]

#: The keywords and defaults of aiokafka's consumer that are not passed on as they are.
OTHER_DEFAULTS: dict[str, Any] = {
    "bootstrap_servers": "localhost",
    "request_timeout_ms": 40000,
    "partition_assignment_strategy": ("roundrobin",),
    "session_timeout_ms": 10000,
    "sasl_mechanism": "PLAIN",
}
#: The keywords of aiokafka's consumer that have no effect without a group.
OF_GROUPS = (
    "auto_commit_interval_ms", "enable_auto_commit", "group_instance_id", "heartbeat_interval_ms",
    "max_poll_interval_ms", "partition_assignment_strategy", "session_timeout_ms",
)  # fmt: skip
#: aiokafka's own assignors, by their names, which are those of this package for the same algorithm.
ASSIGNORS = ("range", "roundrobin", "sticky")
#: Keywords without effect: their default, and what to do instead.
WITHOUT_EFFECT = {
    "api_version": (None, "versions are negotiated with each broker"),
    "rebalance_timeout_ms": (None, "the coordinator waits for max_poll_interval_ms, as with Java's consumer"),
    "consumer_timeout_ms": (200, "the consumer waits for responses, and does not look for them at intervals"),
}


def translate(given: dict[str, Any]) -> dict[str, Any]:
    """Return this package's options for aiokafka's keywords; all other options are passed on, too.

    Raises:
        KafkaConfigurationError: a value has no meaning here. Other errors are those of ``ConsumerConfig``.
    """
    if given.get("interceptor_classes"):
        raise KafkaConfigurationError("interceptor_classes works with thinconsumer's own consumers only")
    for name, (default, instead) in WITHOUT_EFFECT.items():
        value = given.pop(name, default)
        if value not in (default, "auto"):  # FastStream passes api_version="auto"
            warnings.warn(f"{name} has no effect: {instead}", ConfigurationWarning, stacklevel=3)
    if given.get("connections_max_idle_ms", 0) is None:
        given["connections_max_idle_ms"] = math.inf
    given = {name: value for name, value in given.items() if value is not None}  # aiokafka's default, or no value
    options = {**OTHER_DEFAULTS, **given}
    options["partition_assignment_strategy"] = tuple(map(_assignor, options["partition_assignment_strategy"]))
    options.setdefault("default_api_timeout_ms", options["request_timeout_ms"])
    options.setdefault("allow_auto_create_topics", True)
    if options.get("group_id") is None:  # aiokafka accepts these options without a word then
        for name in OF_GROUPS:
            options.pop(name, None)
    elif options.get("group_protocol", "classic") != "classic":
        for name in ("partition_assignment_strategy", "session_timeout_ms"):
            if name not in given:
                del options[name]
    if not str(options.get("security_protocol", "")).startswith("SASL"):
        for name, usual in (("sasl_mechanism", "PLAIN"), ("sasl_kerberos_service_name", "kafka")):
            if options.get(name) == usual:  # FastStream passes the defaults
                del options[name]
    provider = options.get("sasl_oauth_token_provider")
    if provider is not None:
        options["sasl_oauth_token_provider"] = Tokens(provider)
    return options


def _assignor(entry: Any) -> Any:
    kind = entry if isinstance(entry, type) else type(entry)
    if any(base.__module__.startswith("aiokafka.") for base in kind.__mro__):
        name = getattr(entry, "name", None)
        if not kind.__module__.startswith("aiokafka.") or name not in ASSIGNORS:
            raise KafkaConfigurationError(
                f"{kind.__name__} is an assignor for aiokafka: derive it from thinconsumer.PartitionAssignor"
            )
        return name
    return entry


class Tokens:
    """Passes the tokens of aiokafka's provider, whose methods are coroutines, to a login, which cannot wait for one."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._fetched: list[str] = []
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<tokens of {type(self._provider).__name__}>"

    async def fetch(self) -> None:
        """Fetch the token that the next login uses."""
        found = await self._provider.token()
        self._fetched = [found]

    def token(self) -> str:
        """Return the token that was fetched; begin to fetch one and raise ``KafkaError`` if there is none.

        The login manager asks again after ``retry_backoff_ms``, and renews tokens before they expire.
        """
        if self._fetched:
            return self._fetched.pop()
        if self._task is None or self._task.done():
            fetching: Coroutine[Any, Any, None] = self.fetch()
            self._task = asyncio.ensure_future(fetching)
            self._task.add_done_callback(_retrieve)
        raise KafkaError("the token is being fetched")

    def extensions(self) -> dict[str, str]:
        """Return the provider's SASL extensions."""
        found: Iterable[tuple[str, str]] = dict(self._provider.extensions()).items()
        return dict(found)


def _retrieve(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # the next login tries again, and reports that it has no token
