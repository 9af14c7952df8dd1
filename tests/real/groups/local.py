"""Members of one group in the test's own process and thread, polled in turn, with what they send in plain sight."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.wire import Message

from .ledger import Event, Ledger

CLASSIC = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}


class Local:
    """A consumer that is its own listener, and keeps a diary as members in processes do."""

    def __init__(self, name: str, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        self.name = name
        self.events: list[Event] = []
        self.slowest_poll = 0.0
        self.consumer: Consumer[Any, Any] = Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            **{**(CLASSIC if "group_protocol" not in options else {}), "max_poll_interval_ms": 6000, **options},
        )
        self._watch_sends()
        self._when_written: tuple[type[Message], Callable[[], None]] | None = None
        self.consumer.subscribe([topic], listener=self)

    # -- what it does

    def poll(self, ms: float = 0) -> int:
        began = time.monotonic()
        try:
            found = self.consumer.poll(ms)
        except KafkaError as error:
            self._say("trouble", words=repr(error))
            return 0
        self.slowest_poll = max(self.slowest_poll, time.monotonic() - began - ms / 1000)
        for tp, records in found.items():
            self._say("records", [tp.partition, *(record.offset for record in records)])
        return sum(map(len, found.values()))

    def close(self) -> None:
        self.consumer.close(timeout_ms=10_000)
        self._say("left")

    # -- the rebalance listener

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._say("assigned", sorted(tp.partition for tp in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._say("revoked", sorted(tp.partition for tp in revoked))

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._say("lost", sorted(tp.partition for tp in lost))

    # -- what it is

    @property
    def group(self) -> Any:
        return self.consumer._reader.managers.group

    @property
    def owned(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    @property
    def coordinator(self) -> int | None:
        node_id: int | None = self.group.coordinator.node_id
        return node_id

    @property
    def generation(self) -> int:
        generation: int = self.consumer.group_metadata().generation_id
        return generation

    def is_stable_since(self, when: float) -> bool:
        """Return whether it is a member, and the coordinator has said so after that moment."""
        stats = self.group.member.stats
        return self.group.member.is_settled and (stats.answered_at or 0.0) > when

    def when_written(self, api: type[Message], do: Callable[[], None]) -> None:
        """Do this once, at the moment when the next request of that kind is written to the coordinator."""
        self._when_written = api, do

    # -- inside

    def _say(self, what: str, numbers: list[int] | tuple[int, ...] = (), words: str = "") -> None:
        self.events.append(Event(time.monotonic(), self.name, what, tuple(numbers), words))

    def _watch_sends(self) -> None:
        network = self.consumer._shell.engine.network
        send = network.send

        def watching(request: Any, now: float) -> None:
            build = request.build

            def building(version: int) -> Message:
                message: Message = build(version)
                if self._when_written is not None and request.api is self._when_written[0]:
                    _, do = self._when_written
                    self._when_written = None
                    do()
                return message

            request.build = building
            send(request, now)

        network.send = watching


class Locals:
    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int, **options: Any) -> None:
        self.members: list[Local] = []
        self.gone: list[Local] = []
        self._names = 0
        self._args = (bootstrap, group, topic)
        self._partitions = partitions
        self._options = options

    def join(self, **options: Any) -> Local:
        """Add a member; it begins to join with its first poll."""
        self._names += 1
        member = Local(f"thin-{self._names}", *self._args, **{**self._options, **options})
        self.members.append(member)
        return member

    def leave(self, member: Local) -> None:
        self.members.remove(member)
        self.gone.append(member)
        member.close()

    def close(self) -> None:
        """Let all go, each within a moment: the cluster may be gone."""
        for member in self.members:
            member.consumer.close(timeout_ms=2000)

    def poll_until(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Poll all in turn until it is so; return how long that took."""
        return self.poll_while(lambda: "" if condition() else what, seconds)

    def poll_while(self, wrong: Callable[[], str], seconds: float) -> float:
        """Poll all in turn until nothing is wrong any more; return how long that took."""
        began = time.monotonic()
        while what := wrong():
            assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s: {self.describe()}"
            # Without waiting for each in turn: with many of them every answer would take as long as all.
            found = sum(member.poll() for member in self.members)
            time.sleep(0.0 if found else 0.003)
        return time.monotonic() - began

    def poll_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.poll_until(lambda: time.monotonic() > until, seconds + 10, "time")

    def is_stable(self, since: float = 0.0) -> bool:
        """Return whether all are members of one generation, still after ``since``, and each owns something alone."""
        owned = [member.owned for member in self.members]
        return (
            all(member.is_stable_since(since) for member in self.members)
            and len({member.generation for member in self.members}) == 1
            and sum(map(len, owned)) == self._partitions == len(set().union(*owned))
            and all(owned)
        )

    def ledger(self) -> Ledger:
        return Ledger.of(member.events for member in [*self.members, *self.gone])

    def describe(self) -> str:
        """Return the state, partitions and last events of each member."""
        return "; ".join(
            f"{m.name}: {m.group.member.state.value}, generation {m.generation}, coordinator {m.coordinator}, "
            f"owns {sorted(m.owned)}, {m.events[-3:]}"
            for m in self.members
        )
