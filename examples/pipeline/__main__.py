"""A shop's orders through Spark, with a kill -9 in the middle: are the sums the same? One command shows it.

    python examples/pipeline [--bootstrap HOST:PORT]

Owns what happens when: topics, orders at their pace, the job, its death and its second life, and the verdict. Needs
``pip install 'thinconsumer[spark]'``, PySpark 4.2 or newer, and Java 17 or newer.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import picture
import totals
from orders import Order, closing, orders, product_lines
from programs import Program

from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import BrokerProcess

HERE = Path(__file__).resolve().parent
TOPICS = {"orders:4": "delete", "products:1": "compact", "totals:1": "compact"}
#: As in job.py; seconds.
WINDOW_S = 5
#: For a JVM that lives for a minute: compile quickly instead of well, which halves the time it takes to start.
JAVA = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:TieredStopAtLevel=1".strip()
#: From the death of the job to its second life, at least; seconds.
PAUSE_S = 2.0
#: How long workers of a job that is dead may go on; seconds.
MOURNING_S = 5.0
#: Without news of the job: it has failed; seconds.
PATIENCE_S = 240.0
#: How often the job may end by itself.
LIVES = 3
#: Between two lines of output; seconds.
SAY_EVERY_S = 2.0


class Failure(Exception):
    """It does not go on; says why."""


class Run:
    """The topics, the shop that writes, the job that reads, and what has been seen so far."""

    def __init__(self, stack: contextlib.ExitStack, servers: str, folder: Path, seed: int, rate: int) -> None:
        self.servers, self.folder, self.rate = servers, folder, rate
        self.prefix = f"pipeline-{uuid.uuid4().hex[:6]}"
        self.orders: list[Order] = []  #: What has been written.
        self.published = totals.Published()
        self.story = picture.Story()
        self._stack = stack
        self._source: Iterator[Order] = orders(seed, rate)
        self._began = time.time()
        self._news_at = time.monotonic()
        self._said_at = 0.0
        self._lives = LIVES
        self._is_heard = 0  #: How much of what the job says.
        self._heard_of: set[str] = set()
        self._job: Program | None = None
        self._shop: Program | None = None
        self._consumer: Consumer[bytes | None, bytes | None] | None = None

    # -- what is done

    def prepare(self, *, is_own: bool) -> None:
        """Create the topics, and write the table of products; ``is_own``: the broker is only for this."""
        for name, policy in TOPICS.items():
            self._command("topics", "create", f"{self.prefix}.{name}", f"--config=cleanup.policy={policy}")
        if not is_own:  # a broker that ends takes its topics with it
            self._stack.callback(self._delete_topics)
        table = self._producer("products")
        table.input.writelines(product_lines())
        self._finish(table)
        self._consumer = self._stack.enter_context(
            Consumer(bootstrap_servers=self.servers, auto_offset_reset="earliest")
        )
        self._consumer.assign([TopicPartition(f"{self.prefix}.totals", 0)])

    def start_job(self) -> None:
        """Start the Spark job: for the first time, or where it was when it died."""
        command = (sys.executable, HERE / "job.py", self.servers, self.prefix, self.folder)
        self._job = Program(
            *command,
            log=self.folder / "job.log",
            folder=self.folder,
            output=self.folder / "lag.jsonl",
            environment={
                "PYSPARK_PYTHON": sys.executable,  # or it would be the python3 that is on the PATH
                "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),  # a job that is killed leaves them
                "SPARK_LOCAL_IP": "127.0.0.1",
                "JAVA_TOOL_OPTIONS": JAVA,
            },
        )
        self._stack.callback(self._job.end)

    def open_shop(self) -> None:
        """From now on orders come in."""
        self._shop = self._producer("orders")
        self._began = time.time()
        self.story = picture.Story()

    def kill_job(self) -> None:
        """Kill it; and see that the Python processes that Spark has started end, too."""
        assert self._job is not None
        job, self._job = self._job, None
        job.kill()
        killed_at = self.seconds
        self.story.kills.append(killed_at)
        self.say(f"* kill -9, with {self.behind:,} orders on their way")
        count = len(job.left())
        while (left := job.left()) and self.seconds < killed_at + MOURNING_S:
            self.step(0.2)
        self.say(f"* {count - len(left)} of {count} Python workers that it left behind have ended by themselves")
        job.end(0)
        self.wait(killed_at + PAUSE_S - self.seconds)
        self.story.restarts.append(self.seconds)
        self.say("* started again")
        self.start_job()

    def close_shop(self) -> None:
        """Write a last order that closes the windows, and see that everything is acknowledged."""
        assert self._shop is not None
        order = closing(len(self.orders), self.rate)
        self._write([order])
        self._finish(self._shop)
        self._shop = None

    def stop_job(self) -> None:
        """End it in peace."""
        if self._job is not None:
            self._job.end()
            self._job = None

    # -- what is waited for

    def wait(self, seconds: float) -> None:
        """Go on for so long."""
        until = self.seconds + seconds
        while self.seconds < until:
            self.step()

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Go on until something is the case."""
        self._news_at = time.monotonic()
        while not done():
            if time.monotonic() > self._news_at + PATIENCE_S:
                words = self._job.last_words if self._job is not None else ""
                raise Failure(f"{what}: not yet, and nothing new for {PATIENCE_S:.0f} s:\n{words}")
            self.step()

    def step(self, pause_s: float = 0.05) -> None:
        """Write the orders that are due, and see how far Spark is; takes about as long as the pause."""
        if self._shop is not None:
            due = int(self.seconds * self.rate) - len(self.orders)
            self._write(list(itertools.islice(self._source, max(0, due))))
        assert self._consumer is not None
        for records in self._consumer.poll(timeout_ms=pause_s * 1000).values():
            self._news_at = time.monotonic()
            for record in records:
                self.published.take(record.key, record.value)
        self._hear()
        if self.orders:
            self.story.count(self.seconds, len(self.orders), self.published.orders)
            if self.seconds >= self._said_at + SAY_EVERY_S:
                self._said_at = self.seconds
                self.say(f"{len(self.orders):>9,} written {self.published.orders:>9,} in the totals {self._lag_line()}")
        if self._job is not None and self._job.code is not None:
            self._start_again(self._job)

    @property
    def seconds(self) -> float:
        """Since the shop has opened."""
        return time.time() - self._began

    @property
    def behind(self) -> int:
        """Orders that are written and not in the totals."""
        return len(self.orders) - self.published.orders

    @property
    def is_ready(self) -> bool:
        """Whether both queries have done their first batch, which may be empty."""
        return len(self._heard_of) == 2

    def say(self, words: str) -> None:
        """Print a line with the time."""
        print(f"{self.seconds:6.1f} s  {words}", flush=True)

    # -- inside

    def _start_again(self, job: Program) -> None:
        """Do what whoever looks after a job does: it may end by itself, if a worker needs too long to start for one."""
        if not self._lives:
            raise Failure(f"the job has ended by itself again and again:\n{job.last_words}")
        self._lives -= 1
        self._news_at = time.monotonic()
        self.say(f"* the job has ended by itself, with exit code {job.code}: started again")
        self.story.restarts.append(self.seconds)
        job.end()
        self.start_job()

    def _write(self, batch: list[Order]) -> None:
        assert self._shop is not None
        try:
            self._shop.input.writelines(order.line() for order in batch)
            self._shop.input.flush()
        except BrokenPipeError:
            raise Failure(f"the producer has ended:\n{self._shop.last_words}") from None
        self.orders += batch

    def _hear(self) -> None:
        """Take what the job's listener has said since; a line may be only half there."""
        path = self.folder / "lag.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._is_heard)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._is_heard += len(line)
                with contextlib.suppress(ValueError):  # a line that a kill has cut off, and the next one behind it
                    self._take_lag(**json.loads(line))

    def _take_lag(self, at: float, query: str, behind: int | None) -> None:
        self._heard_of.add(query)
        self._news_at = time.monotonic()
        if behind is not None:
            self.story.lags.append((max(0.0, at - self._began), query, behind))

    def _lag_line(self) -> str:
        """Return the lag of the last half minute as a row of little bars."""
        counts = self.story.counts
        recent = [written - counted for at, written, counted in counts if at > self.seconds - 30]
        step = -(-len(recent) // 30) or 1
        highest = max(max(written - counted for _, written, counted in counts), self.rate * 4)
        bars = "".join(" ▁▂▃▄▅▆▇█"[min(8, max(0, lag) * 9 // (highest + 1))] for lag in recent[::-step][::-1])
        return f"  lag {self.behind:>7,} {bars}"

    def _producer(self, topic: str) -> Program:
        words = ("produce", f"{self.prefix}.{topic}", "--json", "--bootstrap-server", self.servers)
        program = Program(*_thinconsumer(*words), log=self.folder / "produce.log", takes_input=True)
        self._stack.callback(program.end)
        return program

    def _finish(self, producer: Program) -> None:
        if producer.wait(PATIENCE_S):
            raise Failure(f"not everything was written:\n{producer.last_words}")

    def _command(self, *words: str) -> None:
        program = Program(*_thinconsumer(*words, "--bootstrap-server", self.servers), log=self.folder / "topics.log")
        self._stack.callback(program.end)
        if program.wait(PATIENCE_S):
            raise Failure(f"'{' '.join(words)}' has failed:\n{program.last_words}")

    def _delete_topics(self) -> None:
        try:
            self._command("topics", "delete", *(f"{self.prefix}.{name.split(':')[0]}" for name in TOPICS))
        except Failure as failure:
            print(f"the topics {self.prefix}.* are left: {failure}")


def play(run: Run, seconds: float, kills: int) -> None:
    """Let it all happen."""
    print("Spark starts ...", flush=True)
    run.start_job()
    run.until(lambda: run.is_ready, "the first batch of both queries")
    run.open_shop()
    for number in range(1, kills + 1):
        run.wait(seconds * number / (kills + 1) - run.seconds)
        run.kill_job()
    run.wait(seconds - run.seconds)
    run.close_shop()
    run.until(lambda: run.behind <= 0, "every order in the totals")
    windows = totals.by_window(run.orders[:-1], WINDOW_S)
    run.until(lambda: _count_rows(run.folder / "revenue") >= len(windows), "every window in Parquet")
    run.stop_job()


def judge(run: Run) -> list[str]:
    """Say what came out; return what is wrong with it."""
    expected = totals.by_category(run.orders)
    wrong = totals.differences(expected, run.published.totals)
    rows = totals.read_windows(run.folder / "revenue")
    wrong += totals.window_differences(totals.by_window(run.orders[:-1], WINDOW_S), rows)
    print(f"\n{'category':<12}{'ordered':>34}{'totals in Kafka':>36}")
    for category, total in sorted(expected.items()):
        found = run.published.totals.get(category, totals.Total())
        print(f"{category:<12}{total!s:>34}{found!s:>36}  {'=' if found == total else 'DIFFERENT'}")
    files = set((run.folder / "revenue").glob("*.parquet"))
    left = len(files - set(totals.committed_files(run.folder / "revenue")))
    print(f"\nParquet: {len(rows)} rows of windows and categories in {len(files) - left} files; ", end="")
    print(f"{left} files were not committed when the job was killed, and are not looked at")
    return wrong


def main() -> int:
    """Return the exit code: 0 if the sums agree."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pipeline-")))
        folder.mkdir(parents=True, exist_ok=True)
        servers = options.bootstrap or stack.enter_context(BrokerProcess()).bootstrap_servers
        run = Run(stack, servers, folder.resolve(), options.seed, options.rate)
        run.prepare(is_own=options.bootstrap is None)
        play(run, options.seconds, options.kills)
        wrong = judge(run)
        _draw(run, options.picture, wrong)
    print("\n".join([*wrong, "NOT OK"]) if wrong else "OK: to the cent, in Kafka and in Parquet")
    return 1 if wrong else 0


def _draw(run: Run, path: Path, wrong: list[str]) -> None:
    kills = {0: "no kill -9", 1: "one kill -9"}.get(len(run.story.kills), f"{len(run.story.kills)} times kill -9")
    verdict = "sums that do not agree" if wrong else "the same sums to the cent"
    title = f"{len(run.orders):,} orders, {kills}, {verdict}"
    longest = max((back - kill for kill, back in run.story.outages()), default=0.0)
    subtitle = f"PySpark {_pyspark()} with thinconsumer; {run.rate:,} orders a second"
    if longest:
        subtitle += f"; new totals {longest:.1f} s after the kill"
    path.write_text(picture.draw(run.story, title, subtitle))
    print(f"picture: {path}")


def _count_rows(folder: Path) -> int:
    return len(totals.read_windows(folder)) if folder.exists() else 0


def _thinconsumer(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "thinconsumer", *words)


def _pyspark() -> str:
    import pyspark

    return pyspark.__version__


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python examples/pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a cluster (default: a broker of its own)")
    parser.add_argument("--seconds", type=float, default=40, help="how long orders come in (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=2000, help="orders a second (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=1, help="how often the job is killed (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="other orders for another number (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for Parquet, checkpoints and logs (default: removed afterwards)")
    parser.add_argument("--picture", type=Path, default=Path("pipeline.svg"), help="(default: %(default)s)")
    options = parser.parse_args()
    if options.folder and options.folder.exists() and any(options.folder.iterdir()):
        parser.error(f"{options.folder} is not empty: each run has checkpoints of its own")
    try:
        version = tuple(map(int, _pyspark().split(".")[:2]))
    except ImportError:
        parser.error("PySpark is missing: pip install 'thinconsumer[spark]'")
    if version < (4, 2):
        parser.error(f"PySpark {_pyspark()} knows no limits of a batch and no lag: 4.2 or newer is needed")
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"failed: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
