"""The members of one group as processes: starting them, telling them to leave, killing them, following their diaries.

Knows how each client is started and by which names it takes the options that all of them share. Every process dies with
the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from realkafka import jars
from realkafka.processes import LAUNCHER

import thinconsumer

from .ledger import Event, Ledger

MEMBERS = Path(__file__).parent / "members"
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 6000, 1000, 30_000
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


#: In place of assignors: the consumer group protocol, in which the broker assigns.
CONSUMER_PROTOCOL = "consumer protocol"


def options_of(kind: str, strategy: str) -> dict[str, Any]:
    """Return the options that all members share, under the names that this kind of client takes."""
    assignors = strategy.split(",")
    options: dict[str, Any] = {"max.poll.interval.ms": MAX_POLL_MS}
    if kind == "thinauto":
        options |= {"enable.auto.commit": True, "auto.commit.interval.ms": 50}
    if strategy == CONSUMER_PROTOCOL:
        options["group.protocol"] = "consumer"
    else:
        options |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        if kind == "java":
            options["partition.assignment.strategy"] = ",".join(JAVA_ASSIGNORS[name] for name in assignors)
        else:
            options["partition.assignment.strategy"] = strategy if kind == "confluent" else assignors
    if kind in ("java", "confluent"):
        return options
    return {name.replace(".", "_"): value for name, value in options.items()}


class Member:
    def __init__(self, name: str, kind: str, process: subprocess.Popen[bytes], diary: Path) -> None:
        self.name, self.kind, self._process = name, kind, process
        self.events: list[Event] = []
        self.owned: set[int] = set()
        self.alive = True  #: Neither killed nor told to leave.
        self.was_assigned = False
        self._diary = diary
        self._read = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def leave(self) -> None:
        self.alive = False
        assert self._process.stdin is not None
        self._process.stdin.write(b"leave\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        self.follow()
        self._take(Event(time.monotonic(), self.name, "killed"))

    def pause(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def end(self, seconds: float = 0.0) -> None:
        """Wait until it is gone; end it if it takes too long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def follow(self) -> None:
        if not self._diary.exists():
            return
        with self._diary.open("rb") as file:
            file.seek(self._read)
            written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            self._take(_parsed(line, self.name))

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if event.what == "assigned":
            self.was_assigned = True
            self.owned.update(event.numbers)
        elif event.what in ("revoked", "lost"):
            self.owned.difference_update(event.numbers)
        elif event.what in ("killed", "left"):
            self.owned.clear()


def _parsed(line: str, member: str) -> Event:
    when, what, words = (*line.split(" ", 2), "")[:3]
    if what in ("trouble", "slow"):
        return Event(float(when), member, what, (), words)
    return Event(float(when), member, what, tuple(map(int, words.split())), words)


class Crew:
    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        partitions: int,
        folder: Path,
        more_options: Callable[[str], Mapping[str, Any]] = lambda kind: {},
    ) -> None:
        self.group, self.partitions = group, partitions
        self.members: list[Member] = []
        self.log: list[str] = []
        self._bootstrap, self._topic, self._folder = bootstrap, topic, folder
        self._more_options = more_options  #: By the kind of member.

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.end()

    # -- what happens

    def join(self, kind: str, strategy: str = "range", **options: Any) -> Member:
        name = f"{kind}-{len(self.members) + 1}"
        diary = self._folder / f"{name}.diary"
        command = self._command(kind, diary, {**options_of(kind, strategy), **self._more_options(kind), **options})
        paths = str(Path(thinconsumer.__file__).parents[1]) if kind.startswith("thin") else ""
        environment = {**os.environ, "PYTHONPATH": paths}
        with (self._folder / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
            )
        member = Member(name, kind, process, diary)
        self.members.append(member)
        self._note(f"{name} joins")
        return member

    def leave(self, member: Member) -> None:
        self._note(f"{member.name} leaves")
        member.leave()

    def kill(self, member: Member) -> None:
        self._note(f"{member.name} is killed")
        member.kill()

    # -- what has come of it

    def alive(self, kind: str | None = None) -> list[Member]:
        return [member for member in self.members if member.alive and kind in (None, member.kind)]

    def settled(self) -> bool:
        """Return whether each partition has one owner that stays, and each member that stays has a partition."""
        self.follow()
        for member in self.members:
            assert member.running or not member.alive, f"{member.name} has ended by itself: {self.log_of(member)}"
        owned = [member.owned for member in self.members if member.alive]
        return sum(map(len, owned)) == self.partitions == len(set().union(*owned)) and all(owned)

    def settle(self, seconds: float) -> float:
        """Wait until the group is settled; return how long that took."""
        began = time.monotonic()
        while not self.settled():
            assert time.monotonic() - began < seconds, f"not settled within {seconds} s:\n{self.describe()}"
            time.sleep(0.05)
        return time.monotonic() - began

    def follow(self) -> None:
        for member in self.members:
            member.follow()

    def ledger(self) -> Ledger:
        self.follow()
        return Ledger.of(member.events for member in self.members)

    def read_to(self, written: Mapping[int, int], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while missing := self.ledger().lost(written):
            assert time.monotonic() < deadline, f"never processed: {missing[:20]} ({len(missing)})\n{self.describe()}"
            time.sleep(0.2)

    def leave_all(self, seconds: float) -> None:
        for member in self.alive():
            self.leave(member)
        deadline = time.monotonic() + seconds
        for member in self.members:
            member.end(max(0.1, deadline - time.monotonic()))
        self.follow()

    def log_of(self, member: Member) -> str:
        return (self._folder / f"{member.name}.log").read_text(errors="replace")[-6000:]

    def describe(self) -> str:
        owners = [f"{m.name}{'' if m.alive else ' (gone)'} owns {sorted(m.owned)}" for m in self.members]
        logs = [f"--- {m.name}\n{self.log_of(m)}" for m in self.members if m.kind.startswith("thin")]
        return "\n".join([*self.log, *owners, *logs])

    # -- inside

    def _note(self, what: str) -> None:
        self.log.append(f"{time.monotonic():.3f} {what}")
        print(self.log[-1])

    def _command(self, kind: str, diary: Path, options: Mapping[str, Any]) -> list[str]:
        if kind == "java":
            quiet = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]
            program = [jars.java(), *quiet, "-cp", jars.tools_class_path(), str(MEMBERS / "JavaMember.java")]
            pairs = [f"{name}={value}" for name, value in options.items()]
            return [*program, str(diary), self._bootstrap, self.group, self._topic, *pairs]
        told = {
            "diary": str(diary),
            "bootstrap": self._bootstrap,
            "group": self.group,
            "topic": self._topic,
            "options": dict(options),
        }
        return [sys.executable, str(MEMBERS / f"{kind.removesuffix('auto')}.py"), json.dumps(told)]
