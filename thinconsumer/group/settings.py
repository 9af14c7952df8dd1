"""The options that finding a coordinator, membership and commits depend on. Times are in milliseconds."""

from typing import Protocol

from ..support.timers import RetrySettings


class RequestSettings(RetrySettings, Protocol):
    """The options of requests that are retried."""

    @property
    def request_timeout_ms(self) -> int: ...


class GroupSettings(RequestSettings, Protocol):
    """The options of a group member."""

    @property
    def group_id(self) -> str | None: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...
    @property
    def max_poll_interval_ms(self) -> int: ...
