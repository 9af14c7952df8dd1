"""Is there ever more at once than was allowed: records of a poll, bytes in memory, Fetches on their way?"""

from __future__ import annotations

from collections.abc import Sequence

from ....wire.fetch import FetchRequest
from ..client_tap import SentRequest
from .base import Checker, Records, SimReader

#: A broker sends one batch whatever the limits are, for each request; brokers of a simulation write none larger.
BATCH_MAX = 128 * 1024
BROKERS_MAX = 8


class BoundsChecker(Checker):
    """One Fetch at a time on a connection, ``max_poll_records``, ``max_buffered_bytes``."""

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        count = sum(map(len, records.values()))
        if count > limit:
            self.accuse(f"{reader} was given {count} records by one poll that allowed {limit}")
        if any(not found for found in records.values()):
            self.accuse(f"{reader} was given a partition without a record")

    def buffered(self, reader: SimReader, size: int) -> None:
        """Compare with the bound, which one batch per broker may overshoot."""
        limit = reader.max_buffered_bytes + BROKERS_MAX * BATCH_MAX
        if size > limit:
            self.accuse(f"{reader} keeps {size} bytes, with max_buffered_bytes={reader.max_buffered_bytes}")

    def request_written(self, reader: SimReader, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        """A fetch session is strictly sequential; only the request that ends it may follow an unanswered Fetch."""
        request = sent.message
        if not isinstance(request, FetchRequest) or (request.session_id and request.session_epoch == -1):
            return
        if any(other.api_key == request.API_KEY for other in before):
            self.accuse(f"{reader} writes a Fetch on connection {line}, on which another Fetch is unanswered")
