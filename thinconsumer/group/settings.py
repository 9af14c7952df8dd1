"""The options that membership and commits depend on, as this room sees them. Milliseconds, as the user gave them."""

from __future__ import annotations

from typing import Protocol


class GroupSettings(Protocol):
    """What any member of any group needs."""

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
    """What commits need besides."""

    @property
    def default_api_timeout_ms(self) -> int: ...
    @property
    def isolation_level(self) -> str: ...
