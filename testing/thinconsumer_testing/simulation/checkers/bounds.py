"""Checks the limits of the records of a poll, the bytes in the buffer, and the Fetch requests in flight."""

from collections.abc import Sequence

from thinconsumer.wire.fetch import FetchRequest

from ..client_tap import SentRequest
from .base import Checker, Records, SimReader

#: The most bytes of a batch in a simulation. A Fetch response has its first batch whole, even if that batch is larger
#: than the consumer's limits.
BATCH_MAX = 128 * 1024
BROKERS_MAX = 8


class BoundsChecker(Checker):
    """Checks ``max_poll_records``, ``max_buffered_bytes``, and that a connection has one Fetch in flight at most."""

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        count = sum(map(len, records.values()))
        if count > limit:
            self.accuse(f"{reader} got {count} records from one poll whose limit is {limit}")
        if any(not found for found in records.values()):
            self.accuse(f"{reader} got a partition with an empty list of records")

    def polled(self, reader: SimReader, buffered: int) -> None:
        """Check the size of the buffer, which may exceed ``max_buffered_bytes`` by one batch per broker."""
        limit = reader.max_buffered_bytes + BROKERS_MAX * BATCH_MAX
        if buffered > limit:
            self.accuse(f"{reader} buffers {buffered} bytes, but max_buffered_bytes={reader.max_buffered_bytes}")

    def request_written(self, reader: SimReader, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        """Check that no Fetch follows an unanswered one: fetch sessions are sequential (KIP-227).

        A Fetch that ends the session may follow, as the client no longer needs the response to the unanswered Fetch.
        """
        request = sent.message
        if not isinstance(request, FetchRequest) or (request.session_id and request.session_epoch == -1):
            return
        if any(other.api_key == request.API_KEY for other in before):
            self.accuse(f"{reader} writes a Fetch on connection {line}, on which another Fetch is unanswered")
