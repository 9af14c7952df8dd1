"""The base of simulated applications: a poll loop with one consumer at a time.

An application is started, crashed and stalled by :meth:`Application.start`, :meth:`~Application.crash` and
:meth:`~Application.stall`. In each turn it processes the last poll's records, runs queued calls, sometimes makes an
extra call such as a seek or pause (an *odd* turn), and polls. The consumer is the real one, unchanged, on a
:class:`~..driver.SimDriver`. Subclasses define how it subscribes and what processing does.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from thinconsumer.config import ConsumerConfig
from thinconsumer.config.build import ConfigurationWarning
from thinconsumer.consumer import Consumer
from thinconsumer.errors import KafkaError
from thinconsumer.member import GroupMember
from thinconsumer.support.timers import NEVER
from thinconsumer.types import ConsumerRecord, TopicPartition

from ..checkers.base import Jury, SimReader
from ..driver import Crashed, SimDriver
from ..observed import ObservedConsumer, SimConsumer
from ..world import Actor, World

#: Limit of ``poll(0)`` calls in a row without records, each due at once by ``wake_at()``. More are a busy loop.
SPINS_MAX = 100
#: Seconds that an application waits after an error: otherwise its poll loop could be busy without a client's fault.
PAUSE_AFTER_ERROR = 0.1
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


@dataclass(slots=True)
class Behaviour:
    """How an application uses its consumer. By default it only calls ``poll(1000)`` in a loop."""

    poll_timeout_ms: tuple[int, int] = (1000, 1000)
    think_s: tuple[float, float] = (0.0, 0.0)  #: Range of the processing time of a poll's records, in seconds.
    think_rate: float = 1.0  #: Share of the polls with records that are followed by processing time.
    odd_rate: float = 0.0  #: Share of turns with an extra call: a seek, a pause, position(), ...
    #: Whether the application waits inside ``poll(timeout)``. Otherwise it calls ``poll(0)``, as from an event loop.
    blocks: bool = True
    jumps_far: bool = False  #: Whether extra calls may seek far away, so that many records are skipped or repeated.
    columns: bool = False  #: Whether half of the polls are calls of ``poll_batches``, if numpy is installed.
    # how a group member uses its consumer
    commits: str = "auto"  #: How the member commits: "auto", "sync", "async", or "offsets" (async, explicit offsets).
    drives: bool = False  #: Whether ``drive()``, which sends heartbeats, is called while records are processed.
    raise_rate: float = 0.0  #: Share of rebalance callbacks that raise.
    asks: bool = False  #: Whether rebalance callbacks call position() and committed().
    rewinds: bool = False  #: Whether the application sometimes seeks back, in rebalance callbacks too.
    leaves: bool | None = None  #: The value that the application passes to ``close`` as ``leave_group``.


Received = Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]


class CallbackFailure(Exception):
    """Raised by a simulated rebalance callback, as an application's own error."""


class Application(Actor):
    """A simulated application, as the module describes. Its name is the client id."""

    def __init__(self, world: World, name: str, jury: Jury, options: Mapping[str, Any], behaviour: Behaviour) -> None:
        super().__init__(world, name)
        self.jury = jury
        self.options: dict[str, Any] = {"client_id": name, **options}
        self.behaviour = behaviour
        self.lives: int = 0
        self.crashes: int = 0
        self.errors: list[Exception] = []
        self.stalled_until: float = 0.0
        self.is_running: bool = False
        self._to_do: list[Callable[[], None]] = []
        self._unprocessed: list[ConsumerRecord[Any, Any]] = []
        self._thinks_until = 0.0
        self._spins = 0
        self._formats = world.streams(f"actor/{name}/columns")
        self._sleeps = False  #: Whether the application waits for the time of wake_at(), or for bytes, to poll again.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} life {self.lives}>"

    def _new_driver(self) -> SimDriver:
        raise NotImplementedError

    def _new_reader(self, config: ConsumerConfig, known: Mapping[str, Any]) -> SimReader:
        """Return the object by which checkers identify the new consumer; ``known`` has the fields of SimReader."""
        return SimReader(**known)

    def _subscribe(self) -> None:
        """Call ``assign`` or ``subscribe`` of the new consumer."""
        raise NotImplementedError

    def _process(self) -> None:
        """Process the records of the last poll."""
        raise NotImplementedError

    def _think(self, now: float) -> float:
        """Return the time at which the last poll's records will have been processed, and the next turn is due."""
        raise NotImplementedError

    def _cope_with(self, error: KafkaError) -> None:
        """React to an error as an application does; record a violation if the error is unexpected."""
        raise NotImplementedError

    def _do_something_odd(self) -> None:
        """Make a random call other than ``poll``: a seek, a pause, position(), ..."""
        raise NotImplementedError

    def _is_odd_turn(self) -> bool:
        """Return whether this turn makes an extra call (:meth:`_do_something_odd`)."""
        return bool(self.behaviour.odd_rate) and self.random.random() < self.behaviour.odd_rate

    def _calling(self, *, polls: bool = False) -> AbstractContextManager[None]:
        """Return a context for calls that step the consumer. A group member's context reports them to checkers."""
        return nullcontext()

    def _drive(self) -> float:
        """Call ``drive()`` if the application does so during processing; return the time of the next turn."""
        return self._thinks_until

    def start(self) -> None:
        """Start the application, for the first time or again, with a new consumer."""
        self.is_running = True
        self.driver: SimDriver = self._new_driver()
        driver = self.driver
        driver.on_mail = self._mail
        with warnings.catch_warnings():
            # Simulated members have a short max_poll_interval_ms on purpose, about which the consumer warns.
            warnings.simplefilter("ignore", ConfigurationWarning)
            self._build(driver)
        self.lives += 1
        self._unprocessed, self._thinks_until, self._spins, self._sleeps = [], 0.0, 0, False
        self._to_do.clear()  # these calls were queued for the previous consumer
        self._subscribe()
        self.wake()

    def _build(self, driver: SimDriver) -> None:
        """Build the client, and ``reader``, the object by which checkers identify it."""
        consumer = SimConsumer(driver=driver, **self.options)
        if self.world.streams(f"actor/{self.name}/life/{self.lives}/decoding").random() < 0.5:
            consumer.decode_together()
        config = consumer.config
        known = {
            "name": self.name,
            "life": self.lives,
            "read_committed": config.isolation_level == "read_committed",
            "policy": str(config.auto_offset_reset),
            "max_poll_records": config.max_poll_records,
            "max_buffered_bytes": config.max_buffered_bytes,
            "options": self.options,
        }
        self.reader: SimReader = self._new_reader(config, known)
        self.consumer: ObservedConsumer = ObservedConsumer(self.reader, consumer, self.jury, self.world.trace)

    def crash(self, *, silently: bool = False) -> None:
        """Kill the process; ``silently``: as by a power loss, so that brokers do not notice closed connections."""
        if not self.is_running:
            return
        self.is_running = False
        self.crashes += 1
        self.note("crashed", "silently" if silently else "")
        self.driver.die(silently=silently)
        self.jury.tell("ended", self.reader)

    def recover(self) -> None:
        """End a stall, or start the application if it is not running."""
        self.stalled_until = 0.0
        if not self.is_running:
            self.start()
        self.wake()

    def calm(self) -> None:
        """End the extra calls such as seeks and pauses (:meth:`_do_something_odd`): from now on, only poll."""
        raise NotImplementedError

    def stall(self, seconds: float) -> None:
        """Stop the poll loop for this many seconds, as if the process was stopped or swapped out."""
        self.stalled_until = max(self.stalled_until, self.world.now() + seconds)
        self.wake(self.stalled_until)
        self.note("stalls", "for %.3f s", seconds)

    def soon(self, do: Callable[[], None]) -> None:
        """Call ``do`` in the next turn: now the consumer may be inside a call, and would reject another call."""
        self._to_do.append(do)
        self.wake()

    def note(self, event: str, why: str = "", *args: object) -> None:
        """Add a line to the trace."""
        self.world.trace.add(self.name, "", event, why, *args)

    def turn(self) -> float:
        """Process the last poll's records, run queued or extra calls, and poll; return the next turn's time."""
        now = self.world.now()
        if not self.is_running:
            return NEVER
        if now < self.stalled_until:
            return self.stalled_until
        self._sleeps = False
        try:
            if now < self._thinks_until:
                return self._drive()
            self._process()
            while self._to_do and self.is_running:  # a queued call may close the consumer
                self._to_do.pop(0)()
            if self.is_running and self._is_odd_turn():
                self._do_something_odd()
            return self._poll() if self.is_running else NEVER
        except CallbackFailure as error:
            self._note_error("poll", error)
            return self.world.now() + PAUSE_AFTER_ERROR
        except KafkaError as error:
            self._note_error("turn", error)
            self._cope_with(error)
            return self.world.now() + PAUSE_AFTER_ERROR
        except Crashed:
            return NEVER

    def _mail(self) -> None:
        if self._sleeps and self.world.now() >= max(self.stalled_until, self._thinks_until):
            self.wake()

    def _may_block(self, depth: int) -> bool:
        """Return whether a call may wait: if ``behaviour`` allows it, and at most ``depth`` calls wait already."""
        return self.behaviour.blocks and self.world.depth <= depth

    @property
    def client(self) -> Consumer[Any, Any] | GroupMember:
        """The client itself. Calls made through this attribute are not reported to checkers."""
        return self.consumer.raw

    def _receive(self, timeout_ms: int) -> Received:
        columns = self.behaviour.columns and HAS_NUMPY and self._formats.random() < 0.5
        return self.consumer.poll_batches(timeout_ms) if columns else self.consumer.poll(timeout_ms)

    def _poll(self) -> float:
        timeout_ms = self.random.randint(*self.behaviour.poll_timeout_ms) if self._may_block(0) else 0
        with self._calling(polls=True):
            found = self._receive(timeout_ms)
        now = self.world.now()
        if found:
            self._spins = 0
            for records in found.values():
                self._unprocessed += records
            return self._think(now)
        if timeout_ms:
            return now
        due = self.client.wake_at()
        self._spins = self._spins + 1 if due <= now else 0
        if self._spins > SPINS_MAX:
            words = f"{self._spins} times, poll(0) returned nothing and wake_at() was due at once"
            self.world.accuse(f"{self.name} is in a busy loop: {words}")
        self._sleeps = True
        return due

    def _note_error(self, where: str, error: Exception) -> None:
        self.errors.append(error)
        self.note("error", "%s: %s: %s", where, type(error).__name__, str(error))
