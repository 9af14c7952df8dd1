"""Checks that no client repeats requests or connection attempts without progress.

Requests are counted per client, node and API, in windows of two seconds. A Fetch that returned records is progress and
does not count. The limits are far above what backoffs allow, and far below what a busy loop reaches.
"""

from collections import Counter
from dataclasses import dataclass, field

from thinconsumer.wire import Message
from thinconsumer.wire.fetch import FetchResponse

from .base import Checker, SimReader

WINDOW_S = 2.0
#: The most requests of one API from a client to a node within WINDOW_S; Fetches that return records do not count.
FRUITLESS_MAX = 150
#: How often in a row a broker may send a client the same records: lost and late responses cause a few repetitions.
REPEATS_MAX = 40
#: Limit of a client's connection attempts in a run: DIALS_MAX, plus DIALS_PER_REQUEST per request that it has sent.
#: Reconnect backoffs allow far fewer.
DIALS_MAX, DIALS_PER_REQUEST = 600, 5


@dataclass(eq=False)
class PaceChecker(Checker):
    """Checks that no client repeats requests or connection attempts, or gets the same records, again and again."""

    #: Client ids of the simulated consumers; the requests of other clients, such as producers, are not limited.
    _watched: set[str] = field(default_factory=set, init=False)
    _counts: dict[tuple[str, int, int], tuple[float, int]] = field(default_factory=dict, init=False)
    _dials: Counter[str] = field(default_factory=Counter, init=False)
    _requests: Counter[str] = field(default_factory=Counter, init=False)
    _repeats: dict[tuple[str, int, bytes | str, int], tuple[bytes, int, int]] = field(default_factory=dict, init=False)

    def started(self, reader: SimReader) -> None:
        self._watched.add(reader.name)

    def requested(self, client: str, node: int, request: Message, now: float) -> None:
        self._requests[client] += 1
        if client in self._watched:
            self._count(client, node, request, now, 1)

    def connection_opened(self, member: SimReader, line: int, host: str, port: int) -> None:
        self._dials[member.name] += 1
        dials, requests = self._dials[member.name], self._requests[member.name]
        if dials > DIALS_MAX + DIALS_PER_REQUEST * requests:
            self.accuse(f"{member} has opened {dials} connections, but sent only {requests} requests")

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """Do not count a Fetch that returned records, as it is progress; count repetitions of the same records."""
        if client not in self._watched or not isinstance(response, FetchResponse):
            return
        fruitful = False
        for topic in response.responses:
            for data in topic.partitions:
                if data.records:
                    fruitful = True
                    self._note(client, node, topic.topic or topic.topic_id, data.partition_index, bytes(data.records))
        if fruitful:
            self._count(client, node, request, now, -1)

    def _count(self, client: str, node: int, request: Message, now: float, step: int) -> None:
        key = client, node, request.API_KEY
        since, count = self._counts.get(key, (now, 0))
        if now >= since + WINDOW_S:
            since, count = now, 0
        count += step
        self._counts[key] = since, count
        if count > FRUITLESS_MAX:
            name = type(request).__name__
            self.accuse(f"{client} has sent node {node} {count} {name}s without progress within {now - since:.3f} s")

    def _note(self, client: str, node: int, topic: bytes | str, partition: int, records: bytes) -> None:
        key = client, node, topic, partition
        head = records[:16]  # base offset, length and leader epoch of the first batch
        before, size, times = self._repeats.get(key, (b"", 0, 0))
        times = times + 1 if before == head and size == len(records) else 1
        self._repeats[key] = head, len(records), times
        if times > REPEATS_MAX:
            offset = int.from_bytes(head[:8], "big")
            self.accuse(f"node {node} has sent {client} the records from offset {offset} on {times} times in a row")
