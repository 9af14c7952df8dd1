"""The writing side of the demos: a producer of orders, and what both demos have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from thinconsumer.produce import Producer
from thinconsumer.produce.batch import SendFuture

from .orders import Order

TOPIC, NODES = "orders", 3
#: The most orders written at a time.
CHUNK = 500
#: Short backoffs, so that measured pauses are those of the cluster and not of the client.
SHORT_BACKOFFS: dict[str, Any] = {
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 100,
}
#: A demo fails if it reads no order for this many seconds, or if its second read takes longer.
STALL_TIMEOUT_S = 10.0


class ExpectsOrders(Protocol):
    """Is told of each order before it is written."""

    def expect(self, order: Order) -> None:
        """Note an order, or its customer."""


class OrderProducer:
    """Writes orders at a steady rate for a limited time, and counts acknowledgements. A slow machine writes fewer."""

    def __init__(self, source: Iterator[Order], open_s: float, rate: int, producer: Producer) -> None:
        self.open_s = open_s
        self.is_open = True
        self.sent = 0
        self.acknowledged = 0
        self._source = source
        self._rate = rate
        self._producer = producer
        self._futures: deque[SendFuture] = deque()
        self.ends: dict[int, int] = {}  #: By partition: the offset after the last acknowledged order.

    @property
    def is_done(self) -> bool:
        """Whether the writing is over, and all orders that were sent are acknowledged."""
        return not self.is_open and self.acknowledged == self.sent

    def write(self, seconds: float, audit: ExpectsOrders) -> None:
        """Write orders that are due ``seconds`` after the start, at most ``CHUNK``, and count acknowledgements."""
        self.is_open = seconds < self.open_s
        due = min(int(seconds * self._rate), self.sent + CHUNK) if self.is_open else self.sent
        for order in islice(self._source, due - self.sent):
            audit.expect(order)
            self._futures.append(self._producer.send(TOPIC, order.value, key=order.key))
            self.sent += 1
        self._producer.poll(0)
        # Acknowledgements arrive out of order while one partition waits for a new leader.
        waiting = [future for future in self._futures if not self._is_settled(future)]
        self._futures = deque(waiting)

    def _is_settled(self, future: SendFuture) -> bool:
        if future.done:
            written = future.result()  # raises the error of a failed write
            self.ends[written.partition] = max(self.ends.get(written.partition, 0), written.offset + 1)
            self.acknowledged += 1
        return future.done
