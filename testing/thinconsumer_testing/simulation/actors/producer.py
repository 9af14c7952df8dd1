"""An application with the internal producer on a simulated driver; values are ``<name>:<number>`` and dots."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thinconsumer.config.build import ConfigurationWarning
from thinconsumer.errors import KafkaError
from thinconsumer.produce.producer import Producer
from thinconsumer.produce.settings import ProducerSettings
from thinconsumer.support.timers import NEVER
from thinconsumer.types import TopicPartition

from ..driver import Crashed, SimDriver
from ..world import Actor, World


class ProducerActor(Actor):
    """Sends ``count`` records to one of ``targets`` every ``interval_s`` seconds on average, until :meth:`stop`.

    ``receipts`` has each record's partition, value and future.
    """

    def __init__(
        self,
        world: World,
        name: str,
        new_driver: Callable[[str], SimDriver],
        targets: Sequence[TopicPartition],
        *,
        interval_s: float = 0.1,
        count: int = 10,
        size: int = 20,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(world, name)
        self.targets: list[TopicPartition] = list(targets)
        self.interval_s = interval_s
        self.count = count
        self.size = size
        self.sent: int = 0
        self.receipts: list[tuple[TopicPartition, bytes, Any]] = []
        self.is_stopped: bool = False
        self._send_at = world.now()
        self.driver: SimDriver = new_driver(name)
        driver = self.driver
        driver.on_mail = self.wake
        with warnings.catch_warnings():
            # A simulated producer may send a password without TLS, of which the producer warns.
            warnings.simplefilter("ignore", ConfigurationWarning)
            settings = ProducerSettings.from_options(client_id=name, max_block_ms=0, **options)
        self.producer: Producer = Producer(settings, driver=driver)
        self.wake()

    def __repr__(self) -> str:
        return f"<ProducerActor {self.name}, {self.sent} records>"

    @property
    def is_idle(self) -> bool:
        """Whether every record is acknowledged or has failed."""
        return self.producer.idle

    def stop(self) -> None:
        """Send no new records from now on."""
        self.is_stopped = True

    def send(self, tp: TopicPartition, count: int = 1) -> None:
        """Add ``count`` new records to the producer's buffer; the next turns send them."""
        for _ in range(count):
            value = b"%s:%d" % (self.name.encode(), self.sent)
            value += b"." * (self.size - len(value))
            try:
                receipt = self.producer.send(tp.topic, value, partition=tp.partition)
            except KafkaError:
                return  # the producer's buffer is full; a later turn adds more records
            self.sent += 1
            self.receipts.append((tp, value, receipt))
        self.wake()

    def turn(self) -> float:
        """Add new records if they are due, and let the producer send and receive."""
        now = self.world.now()
        due = NEVER
        try:
            if not self.is_stopped:
                if now >= self._send_at:
                    self._send_at = now + self.interval_s * (0.5 + self.random.random())
                    self.send(self.random.choice(self.targets), self.count)
                due = self._send_at
            self.producer.poll(0)
        except Crashed:
            return NEVER
        return min(due, self.producer.wake_at()) if not self.producer.idle else due
