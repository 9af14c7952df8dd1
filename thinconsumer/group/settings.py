"""The options that membership and commits depend on. Times are in milliseconds, as the user gave them."""

from __future__ import annotations

from typing import Protocol


class GroupSettings(Protocol):
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
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


class CommitSettings(GroupSettings, Protocol):
    """The options of commits: those of a member, and two more."""

    @property
    def default_api_timeout_ms(self) -> int: ...
    @property
    def isolation_level(self) -> str: ...
