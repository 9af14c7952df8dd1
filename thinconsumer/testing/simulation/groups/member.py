"""An application that reads as a member of a group: it polls, processes, commits, and has a listener.

Owns one consumer at a time, and what a real application would do with it; nothing is remembered over a crash, since
that is what a group is for. The consumer is the real one, unchanged, on a :class:`~.client_tap.MemberDriver`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ....config.build import ConfigurationWarning
from ....errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
)
from ....timers import NEVER
from ....types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ....wire import Message
from ..checkers import Jury
from ..driver import Crashed
from ..network import SimNetwork
from ..observed import ObservedConsumer, SimConsumer
from ..world import Actor, World
from .checkers import ASSIGNED, LOST, REVOKED, LinesChecker, Member, Panel
from .checkers.base import names
from .client_tap import MemberDriver, Sent

#: So many polls in a row that want to be called again at once and bring nothing are a loop that spins.
SPINS_MAX = 100
#: What to do after an error, in seconds.
PAUSE_AFTER_ERROR = 0.1
#: How long it thinks in peace, at most, in seconds.
CALM_THOUGHT_S = 0.3
#: How long blocking calls may take where somebody else waits below on the stack, in milliseconds.
BRIEF_MS = 300
#: Actors that may wait on top of each other for a member to block at all.
DEPTH_MAX = 2


class Scripted(Exception):
    """What a listener raises, as users' code does."""


@dataclass(slots=True)
class Manners:
    """How an application goes about it."""

    poll_timeout_ms: int = 1000
    blocks: bool = True
    think_s: float = 0.0  #: At most, over what one poll has brought.
    drives: bool = False  #: Whether it keeps alive by ``drive()`` meanwhile.
    commits: str = "auto"  #: Or "sync", "async", "offsets".
    odd_rate: float = 0.0
    raise_rate: float = 0.0  #: Of callbacks.
    asks: bool = False  #: Whether callbacks ask for positions and committed offsets.
    rewinds: bool = False  #: Whether it seeks back now and then, in callbacks too.
    leaves: bool | None = None  #: Whether closing tells the group; None: as it sees fit.


class MemberActor(Actor):
    """See the module."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        name: str,
        jury: Jury,
        panel: Panel,
        lines: LinesChecker,
        *,
        group: str,
        topics: Collection[str],
        pattern: str | None,
        options: Mapping[str, Any],
        manners: Manners,
    ) -> None:
        super().__init__(world, name)
        self.jury = jury
        self.panel = panel
        self.group = group
        self.topics = sorted(topics)
        self.pattern = pattern
        self.options = {"client_id": name, "group_id": group, **options}
        self.manners = manners
        self.lives = 0
        self.crashes = 0
        self.errors: list[Exception] = []
        self.stalled_until = 0.0
        self.is_running = False
        self.is_calm = False  #: Whether it behaves.
        self.kept = 0  #: Callbacks of commits that are owed.
        self._lines = lines
        self._network = network
        self.driver = self._new_driver()
        self._to_do: list[Callable[[], None]] = []
        self._unprocessed: list[ConsumerRecord[Any, Any]] = []
        self._next: dict[TopicPartition, OffsetAndMetadata] = {}  #: Behind what was processed, of what is owned.
        self._has: set[TopicPartition] = set()  #: As its listener has heard.
        self._paused: set[TopicPartition] = set()
        self._is_inside = False  #: Of a call of its consumer's: a callback's calls are part of that.
        self._thinks_until = 0.0
        self._spins = 0
        self._sleeps = False

    def __repr__(self) -> str:
        return f"<MemberActor {self.name} of {self.group}, life {self.lives}>"

    # -- life

    def start(self) -> None:
        """Begin, or begin again."""
        self.is_running = True
        driver = self.driver = self._new_driver()
        driver.on_mail = self._mail
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfigurationWarning)  # it is told of poll intervals, and means them
            consumer = SimConsumer(driver=driver, **self.options)
        config = consumer.config
        member = self.member = Member(
            self.name,
            self.lives,
            read_committed=config.isolation_level == "read_committed",
            policy=str(config.auto_offset_reset),
            max_poll_records=config.max_poll_records,
            max_buffered_bytes=config.max_buffered_bytes,
            options=self.options,
            group=self.group,
            instance_id=config.group_instance_id,
            cooperative=list(self.options["partition_assignment_strategy"]) == ["cooperative-sticky"],
            session_timeout_s=config.session_timeout_ms / 1000,
            max_poll_interval_s=config.max_poll_interval_ms / 1000,
        )
        self.lives += 1
        self.kept = 0
        self.consumer = ObservedConsumer(member, consumer, self.jury, self.world.trace)
        self._unprocessed, self._next, self._has, self._paused = [], {}, set(), set()
        self._thinks_until, self._spins, self._sleeps, self._is_inside = 0.0, 0, False, False
        self._to_do.clear()
        self.subscribe(self.topics)
        self.wake()

    def subscribe(self, topics: Collection[str]) -> None:
        """Want these from now on; under a pattern, what matches it."""
        self.topics = sorted(topics)
        with self._speaking():
            if self.pattern is not None:
                self.consumer.raw.subscribe(pattern=self.pattern, listener=self)
            else:
                self.consumer.raw.subscribe(self.topics, listener=self)
        self.panel.tell("subscribed", self.member, None if self.pattern is not None else self.topics)

    def crash(self, *, silently: bool = False) -> None:
        """As ``kill -9`` of the application; ``silently``: as if its host lost power."""
        if not self.is_running:
            return
        self.is_running = False
        self.crashes += 1
        self.note("crashed", "silently" if silently else "")
        self.driver.die(silently=silently)
        self.consumer.gone()

    def close(self, *, commit: bool = True) -> None:
        """End in order: process what was read, close."""
        if not self.is_running:
            return
        self._process()
        self.note("closes")
        self.panel.tell("parts", self.member)
        patience = self._patience(3000)
        until = self.world.now() + patience / 1000
        try:
            with self._speaking():
                self.consumer.raw.close(autocommit=commit, timeout_ms=patience, leave_group=self.manners.leaves)
        except (Scripted, KafkaError) as error:
            self._note_error("close", error)
        except Crashed:
            return
        self.is_running = False
        if self.kept and self.world.now() < until:
            self.world.accuse(f"{self.member} was closed and never told of {self.kept} commits")
        self.consumer.gone()

    def stall(self, seconds: float) -> None:
        """Do nothing at all for so long."""
        self.stalled_until = max(self.stalled_until, self.world.now() + seconds)
        self.wake(self.stalled_until)
        self.note("stalls", "for %.3f s", seconds)

    def soon(self, do: Callable[[], None]) -> None:
        """Do something in the next turn."""
        self._to_do.append(do)
        self.wake()

    def calm(self) -> None:
        """Be there, and behave, from now on."""
        self.is_calm = True
        self._to_do.clear()  # or it closed now, with nobody left to start it again
        self.stalled_until = self._thinks_until = 0.0
        if not self.is_running:
            self.start()
        self.soon(self._resume_all)

    def assignment(self) -> set[TopicPartition]:
        """Return what it owns, by its own word."""
        return self.consumer.raw.assignment() if self.is_running else set()

    def positions(self) -> dict[TopicPartition, int | None]:
        """Return where it is in what it owns; None where it has yet to learn it."""
        if not self.is_running:
            return {}
        return {p.tp: p.cursor.offset if p.has_position else None for p in self.consumer.raw._reader.partitions}

    def note(self, event: str, why: str = "", *args: object) -> None:
        """Write a line into the trace."""
        self.world.trace.add(self.name, "", event, why, *args)

    # -- turns

    def turn(self) -> float:
        """Process what came last, commit, perhaps do something odd, poll."""
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
            while self._to_do and self.is_running:  # one of them may be to close
                self._to_do.pop(0)()
            if not self.is_running:
                return NEVER
            if not self.is_calm and self.random.random() < self.manners.odd_rate:
                self._do_something_odd()
            return self._poll() if self.is_running else NEVER
        except Scripted as error:
            self._note_error("poll", error)
            return self.world.now() + PAUSE_AFTER_ERROR
        except KafkaError as error:
            self._cope_with(error)
            return self.world.now() + PAUSE_AFTER_ERROR
        except Crashed:
            return NEVER

    def _mail(self) -> None:
        if self._sleeps and self.world.now() >= max(self.stalled_until, self._thinks_until):
            self.wake()

    def _drive(self) -> float:
        """Keep alive while processing takes long, or do not."""
        if not self.manners.drives:
            return self._thinks_until
        with self._speaking():
            self.consumer.raw.drive()
        return min(self._thinks_until, self.world.now() + self.member.session_timeout_s / 6)

    def _poll(self) -> float:
        manners, random = self.manners, self.random
        timeout_ms = random.randint(manners.poll_timeout_ms // 2, manners.poll_timeout_ms) if self._may_block(0) else 0
        with self._speaking(polls=True):
            found = self.consumer.poll(timeout_ms)
        now = self.world.now()
        if found:
            self._spins = 0
            for records in found.values():
                self._unprocessed += records
            if manners.think_s:
                limit = min(manners.think_s, CALM_THOUGHT_S) if self.is_calm else manners.think_s
                self._thinks_until = now + random.uniform(0, limit)
                return self._drive() if self.manners.drives else self._thinks_until
            return now
        if timeout_ms:
            return now
        due = self.consumer.raw.wake_at()
        self._spins = self._spins + 1 if due <= now else 0
        if self._spins > SPINS_MAX:
            self.world.accuse(f"{self.name} spins: poll(0) brings nothing and wake_at() says to call again at once")
        self._sleeps = True
        return due

    def _process(self) -> None:
        done, self._unprocessed = self._unprocessed, []
        if not done:
            return
        self.panel.tell("processed", self.member, done)
        for record in done:
            tp = TopicPartition(record.topic, record.partition)
            self._next[tp] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
        commits = self.manners.commits
        if commits == "async" or (commits == "sync" and not self._may_block(DEPTH_MAX - 1)):
            self._commit_async(None)
        elif commits == "offsets":
            self._commit_async({tp: at for tp, at in self._next.items() if tp in self._has})
        elif commits == "sync" and self.random.random() < 0.5:
            self._commit()

    # -- commits

    def _commit(self) -> bool:
        """Commit and wait; return whether it was written."""
        try:
            with self._speaking():
                self.consumer.raw.commit(timeout_ms=self._patience(2000))
        except CommitFailedError as error:
            self._note_error("commit", error)
            return False
        except KafkaTimeoutError as error:
            self._note_error("commit", error)
            return False
        return True

    def _commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata] | None) -> None:
        self.kept += 1
        member = self.member

        def told(offsets: Any, error: Exception | None) -> None:
            if member is self.member:
                self.kept -= 1
                if self.kept < 0:
                    self.world.accuse(f"{member} was told of a commit twice")

        self.consumer.raw.commit_async(offsets, told)

    # -- the listener

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Look around, perhaps go back a little, perhaps fail."""
        with self._hearing(ASSIGNED, assigned):
            for tp in sorted(assigned):
                if self.manners.asks and self.random.random() < 0.3:
                    self._ask(tp)
                if self.manners.rewinds and not self.is_calm and self.random.random() < 0.2:
                    self._rewind(tp)
                if not self.is_calm and self.random.random() < self.manners.odd_rate:
                    self._pause(tp)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit what was processed."""
        with self._hearing(REVOKED, revoked):
            if self.manners.commits != "auto" and revoked:
                if self._may_block(DEPTH_MAX):
                    self._commit()
                else:
                    self._commit_async(None)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Let go."""
        with self._hearing(LOST, lost):
            pass

    @contextmanager
    def _hearing(self, what: str, tps: Collection[TopicPartition]) -> Iterator[None]:
        self.note(what, "%s", names(tps))
        self.panel.tell("hears", self.member, what, tps)
        yield
        fails = not self.is_calm and self.random.random() < self.manners.raise_rate
        error = Scripted(f"{what}: it had to be") if fails else None
        if what == ASSIGNED:
            self._has |= set(tps)
        else:
            self._has -= set(tps)
            self._paused -= set(tps)
            for tp in tps:
                self._next.pop(tp, None)
        self.panel.tell("heard", self.member, what, tps, error)
        if error is not None:
            raise error

    # -- odd things

    def _do_something_odd(self) -> None:
        owned = sorted(self._has)
        choice = self.random.randrange(6)
        if choice == 0:
            self.note("enforces")
            self.consumer.raw.enforce_rebalance("an odd whim")
        elif owned and choice == 1:
            self._ask(self.random.choice(owned))
        elif owned and choice == 2:
            self._pause(self.random.choice(owned))
        elif owned and choice == 3 and self.manners.rewinds:
            self._rewind(self.random.choice(owned))
        else:
            self._resume_all()

    def _ask(self, tp: TopicPartition) -> None:
        try:
            with self._speaking():
                if self.random.random() < 0.5:
                    self.consumer.position(tp, self._patience(500))
                else:
                    self.consumer.raw.committed([tp], timeout_ms=self._patience(500))
        except KafkaTimeoutError as error:
            self._note_error("ask", error)

    def _rewind(self, tp: TopicPartition) -> None:
        """Go back by some records, from where the group is."""
        at = self._next.get(tp)
        if at is None:
            try:
                with self._speaking():
                    at = self.consumer.raw.committed([tp], metadata=True, timeout_ms=self._patience(500))[tp]
            except KafkaTimeoutError as error:
                self._note_error("rewind", error)
        if at is not None:
            self.consumer.seek(tp, max(0, at.offset - self.random.randrange(10)))
            self._next.pop(tp, None)

    def _pause(self, tp: TopicPartition) -> None:
        if tp not in self._paused:
            self.consumer.pause(tp)
            self._paused.add(tp)

    def _resume_all(self) -> None:
        if self._paused:
            self.consumer.resume(*sorted(self._paused))
        self._paused = set()

    # -- inside

    def _may_block(self, depth: int) -> bool:
        """Return whether it may wait: who is below on the stack cannot go on meanwhile."""
        return self.manners.blocks and self.world.depth <= depth

    def _patience(self, timeout_ms: int) -> int:
        if self.world.depth == 0:
            return timeout_ms
        return BRIEF_MS if self.world.depth <= DEPTH_MAX else 0

    def _cope_with(self, error: KafkaError) -> None:
        self._note_error("turn", error)
        if isinstance(error, FencedInstanceIdError):
            # Somebody restarts what was fenced, as an operator would.
            self.crash()
            self.world.call_later(1.0, lambda: None if self.is_running else self.start())
        elif not isinstance(error, (KafkaTimeoutError, NoBrokersAvailable, InconsistentGroupProtocolError)):
            self.world.accuse(f"{self.name}: an unexpected error: {error!r}")

    def _note_error(self, where: str, error: Exception) -> None:
        self.errors.append(error)
        self.note("error", "%s: %s: %s", where, type(error).__name__, str(error))

    @contextmanager
    def _speaking(self, *, polls: bool = False) -> Iterator[None]:
        """Call the consumer, which steps it; what is logged meanwhile is its own."""
        member, inside = self.member, self._is_inside
        if not inside:
            self.panel.tell("attends", member, polls)
        self._is_inside = True
        self._lines.speaking.append(member)
        try:
            yield
        finally:
            self._lines.speaking.pop()
            self._is_inside = inside
            if not inside:
                self.panel.tell("attended", member)

    def _new_driver(self) -> MemberDriver:
        return MemberDriver(
            self.world, self._network, self.name, self._said, self._learned, self._cut_off, self._dialled
        )

    # -- what passes at its sockets

    def _said(self, line: int, sent: Sent, before: Sequence[Sent]) -> None:
        if sent.message is not None:
            self.note("says", "%s on %d: %s", type(sent.message).__name__, line, _brief(sent.message))
        self.panel.tell("said", self.member, line, sent, before)

    def _learned(self, line: int, sent: Sent, response: Message) -> None:
        self.note("learns", "%s on %d: %s", type(response).__name__, line, _brief(response))
        self.panel.tell("learned", self.member, line, sent, response)

    def _dialled(self, line: int, host: str, port: int) -> None:
        self.panel.tell("dialled", self.member, line, host, port)

    def _cut_off(self, line: int) -> None:
        self.panel.tell("cut_off", self.member, line)


#: Fields that tell most.
_FIELDS = ("error_code", "generation_id", "generation_id_or_member_epoch", "member_id", "leader", "reason")


def _brief(message: Message) -> str:
    """Return what matters of a message, in a line."""
    words = [f"{name}={getattr(message, name)!r}" for name in _FIELDS if getattr(message, name, None) not in (None, "")]
    return " ".join(words)
