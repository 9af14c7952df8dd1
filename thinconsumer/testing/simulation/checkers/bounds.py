"""Is there ever more at once than was allowed: records of a poll, bytes in memory, Fetches on their way?"""

from __future__ import annotations

from ....wire.fetch import FetchRequest
from .base import Checker, Reader, Records

#: A broker sends one batch whatever the limits are, for each request; brokers of a simulation write none larger.
BATCH_MAX = 128 * 1024
BROKERS_MAX = 8


class BoundsChecker(Checker):
    """One Fetch at a time on a connection, ``max_poll_records``, ``max_buffered_bytes``."""

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """Count them."""
        count = sum(map(len, records.values()))
        if count > limit:
            self.accuse(f"{reader} was given {count} records by one poll that allowed {limit}")
        if any(not found for found in records.values()):
            self.accuse(f"{reader} was given a partition without a record")

    def buffered(self, reader: Reader, size: int) -> None:
        """Compare with the bound, which one batch per broker may overshoot."""
        limit = reader.max_buffered_bytes + BROKERS_MAX * BATCH_MAX
        if size > limit:
            self.accuse(f"{reader} keeps {size} bytes, with max_buffered_bytes={reader.max_buffered_bytes}")

    def in_flight(self, client: str, label: str, api_key: int, count: int) -> None:
        """A fetch session is strictly sequential."""
        if api_key == FetchRequest.API_KEY and count > 1:
            self.accuse(f"{client} has {count} Fetches out at once on connection {label}")
