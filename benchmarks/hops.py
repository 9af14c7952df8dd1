"""How many functions of the client a record, a commit and a rebalance pass: ``python benchmarks/hops.py``.

A way is counted from outside, with ``sys.setprofile``: the distinct functions of the client that are entered (by code
object: methods, properties, generators and lambdas, but neither comprehensions nor generated code), the files that hold
them, all calls of Python functions, and the length of the longest function. Files of ``broker`` and ``testing`` do not
count. Each way is warm: codecs are generated and connections are ready before it begins, by the ways above it too.

The client has real sockets. The embedded broker is stepped while the client waits in epoll, and the clock moves only
when neither has anything to do, so that each run gives the same counts. ``--package`` names another checkout, whose
client is counted in place of this one. ``--list`` shows the functions of each way.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
#: Folders of the package that are no part of the client.
SERVERS = ("broker", "testing")
#: The interpreter enters these code objects in some versions, and inlines them in others.
INLINED = {"<listcomp>", "<setcomp>", "<dictcomp>", "<module>"}
#: Functions of more lines are counted: shorter ones fit on a screen with their surroundings.
LONG_LINES = 25
BUFFERED = 5000
REBALANCE_IN_PROGRESS = 27


class Ways:
    """The functions that are entered while :meth:`counting` is on, in the order of their first call."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.functions: dict[CodeType, None] = {}
        self.calls = 0

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename != __file__:
            self.calls += 1
            if code.co_name not in INLINED:
                self.functions[code] = None

    @contextmanager
    def counting(self, on: bool = True) -> Iterator[None]:
        """Count in this block, or, inside such a block, do not."""
        before = sys.getprofile()
        sys.setprofile(self._note if on else None)
        try:
            yield
        finally:
            sys.setprofile(before)

    def take(self) -> tuple[list[CodeType], int]:
        """Return the client's functions and the number of calls since the last call of this method."""
        functions, calls = list(self.functions), self.calls
        self.functions, self.calls = {}, 0
        return [code for code in functions if self._is_client(Path(code.co_filename))], calls

    def _is_client(self, file: Path) -> bool:
        return file.is_relative_to(self.package) and file.relative_to(self.package).parts[0] not in SERVERS


class World:
    """The clock of all, and the broker, which is stepped while a consumer waits."""

    def __init__(self, ways: Ways) -> None:
        self.now = 1000.0
        self.ways = ways
        self.broker: Any = None
        #: Called once when neither a consumer nor the broker has anything to do.
        self.on_idle: Callable[[], object] | None = None

    def wait(self, poll: Callable[[float], list[Any]], timeout: float) -> list[Any]:
        """Return what an epoll finds within ``timeout`` seconds of the world's time."""
        end = self.now + max(timeout, 0.0)
        with self.ways.counting(False):
            while True:
                for wait_s in (0.0, 0.0, 0.001, 0.001):  # a loaded system may deliver bytes some moments later
                    self.broker.step(wait_s)
                    if ready := poll(wait_s):
                        return ready
                if self.on_idle is not None:
                    self.on_idle, on_idle = None, self.on_idle
                    on_idle()
                elif self.now >= end:
                    return []
                else:
                    self.now = min(end, max(self.now + 0.001, self.broker.wake_at()))


class SteppedEpoll:
    """An epoll that waits in the world's time."""

    def __init__(self, epoll: Any, world: World) -> None:
        self._epoll, self._world = epoll, world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)

    def poll(self, timeout: float) -> list[Any]:
        return self._world.wait(self._epoll.poll, timeout)


def enter(world: World) -> None:
    """Have the client take its time, its random numbers and its epoll from the world; call it before the first import.

    The broker's selectors keep the real epoll, which ``selectors`` looks up when it is imported.
    """
    import selectors  # noqa: F401

    epoll = select.epoll
    time.monotonic = lambda: world.now
    time.time = lambda: 1.7e9 + world.now
    random.SystemRandom = lambda: random.Random(1)  # type: ignore[assignment, misc, return-value]
    select.epoll = lambda: SteppedEpoll(epoll(), world)  # type: ignore[assignment, misc]


class Reading:
    """A consumer of the topic ``t`` that has read all its records, and has a connection for each purpose."""

    def __init__(self, world: World, group: str | None = None, **options: Any) -> None:
        from thinconsumer import Consumer, TopicPartition

        self.world = world
        self.consumer = Consumer(
            bootstrap_servers=world.broker.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20_000,
            **options if group is None else {"group_id": group, **options},
        )
        if group is None:
            self.consumer.assign([TopicPartition("t", 0)])
        else:
            self.consumer.subscribe(["t"])
            self.consumer.poll(10_000)
        for _ in range(10):
            self.poll_one()

    def produce(self, count: int = 1) -> None:
        self.world.broker.produce("t", [b"x"] * count, 0)

    def poll_one(self) -> None:
        """Poll once; one record arrives while the consumer waits."""
        self.world.on_idle = self.produce
        (records,) = self.consumer.poll(10_000).values()
        assert len(records) == 1, records

    def poll_buffered(self) -> None:
        """Poll once, for records that an earlier poll has decoded."""
        (records,) = self.consumer.poll(10_000).values()
        assert len(records) == 500, records


def count_poll(world: World, group: str | None = None) -> None:
    reading = Reading(world, group)
    with world.ways.counting():
        reading.poll_one()


def count_buffered(world: World) -> None:
    reading = Reading(world, max_poll_records=500)
    world.on_idle = lambda: reading.produce(BUFFERED)
    for _ in range(3):
        reading.poll_buffered()
    with world.ways.counting():
        reading.poll_buffered()


def count_commit(world: World) -> None:
    reading = Reading(world, "commits")
    for _ in range(3):
        reading.consumer.commit()
        reading.poll_one()
    with world.ways.counting():
        reading.consumer.commit()


def count_rebalance(world: World, to_listener: bool = False) -> None:
    """Count from the heartbeat's response with REBALANCE_IN_PROGRESS to the end of the poll that calls the listener.

    With ``to_listener``, count until the listener is called with the new assignment.
    """
    from thinconsumer import Consumer, RebalanceListener
    from thinconsumer.broker import Edit

    class Listener(RebalanceListener):
        assigned: Any = None

        def on_partitions_assigned(self, partitions: Any) -> None:
            self.assigned = partitions
            if to_listener:
                sys.setprofile(None)

    def join_beside(reading: Reading) -> Any:
        """Join with a second consumer, and have the first one rebalance."""
        second = Consumer(bootstrap_servers=world.broker.bootstrap_servers, group_id="rebalances")
        second.subscribe(["t"])
        second.poll(100)
        listener.assigned = None
        with world.ways.counting():
            while listener.assigned is None:
                reading.consumer.poll(100)
        assert len(listener.assigned) == 1, listener.assigned
        return second

    def look(_: object, response: Any) -> None:
        if response.error_code == REBALANCE_IN_PROGRESS:
            world.ways.take()

    reading, listener = Reading(world, "rebalances"), Listener()
    reading.consumer.subscribe(["t"], listener=listener)
    world.broker.on("Heartbeat", Edit(look))
    join_beside(reading).close()
    while len(reading.consumer.assignment()) < 2:
        reading.consumer.poll(100)
    for _ in range(3):
        reading.poll_one()
    join_beside(reading)


WAYS: dict[str, Callable[[World], None]] = {
    "poll, one record": count_poll,
    "poll, one record, group": partial(count_poll, group="polls"),
    "poll, 500 buffered records": count_buffered,
    "commit": count_commit,
    "rebalance, to the listener": partial(count_rebalance, to_listener=True),
    "rebalance, classic": count_rebalance,
}


@cache
def lengths(file: str) -> dict[tuple[str, int], int]:
    """Return the number of lines of each function of a file, by its name and first line, as in its code object."""
    found = {}
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name, first] = (node.end_lineno or 0) - node.lineno + 1
    return found


def lines_of(code: CodeType) -> int:
    """Return the length of a function without its decorators; 1 for a lambda and a generator expression."""
    return lengths(code.co_filename).get((code.co_name, code.co_firstlineno), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", default=str(ROOT), help="a checkout, or a folder with the installed package")
    parser.add_argument("--list", action="store_true", help="list the functions in the order of their first call")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets changes which function comes first
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    roots = [folder for folder in (Path(options.package), Path(options.package) / "testing") if folder.is_dir()]
    sys.path[:0] = map(str, roots)
    world = World(Ways(roots[0].resolve() / "thinconsumer"))
    enter(world)
    from thinconsumer.broker import EmbeddedBroker

    print(f"{'':28}{'functions':>10}{'files':>7}{'calls':>7}{'longest':>9}{'over ' + str(LONG_LINES):>9}")
    for name, count in WAYS.items():
        with EmbeddedBroker(1, {"t": 2}) as world.broker:
            count(world)
        found, calls = world.ways.take()
        sizes = [lines_of(code) for code in found]
        files = {code.co_filename for code in found}
        over = sum(size > LONG_LINES for size in sizes)
        print(f"{name:28}{len(found):10}{len(files):7}{calls:7}{max(sizes):9}{over:9}")
        for code, size in zip(found, sizes) if options.list else ():
            file = Path(code.co_filename).relative_to(world.ways.package)
            print(f"    {size:3} {file}:{code.co_firstlineno} {getattr(code, 'co_qualname', code.co_name)}")


if __name__ == "__main__":
    main()
