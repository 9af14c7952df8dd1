"""Run a shop's orders through a Spark job that is killed in the middle, and compare the sums.

    python examples/pipeline [--bootstrap HOST:PORT]

Owns the sequence of events: creating topics, writing orders at a fixed rate, starting, killing and restarting the job,
and comparing the results. Needs ``pip install 'thinconsumer[spark]'``, PySpark 4.2 or newer, and Java
17 or newer.
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
TOPICS = {"orders:4": "delete", "products:1": "compact", "totals:1": "compact", "dead-letters:1": "delete"}
#: Length of a window, as in job.py; seconds.
WINDOW_S = 5
#: The JVM runs for about a minute: compiling with C1 only halves its start-up time.
JAVA = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:TieredStopAtLevel=1".strip()
#: Least time between the kill of the job and its restart; seconds.
PAUSE_S = 2.0
#: How long Python workers of the killed job may take to end; seconds. On a busy machine they take long.
WORKERS_END_S = 60.0
#: The run fails if the job makes no progress for so long; seconds.
PROGRESS_TIMEOUT_S = 240.0
#: How often a job that ended unexpectedly is restarted. On a busy machine Spark's workers start too slowly.
RESTARTS_MAX = 10
#: Time between two lines of output; seconds.
PRINT_EVERY_S = 2.0


class Failure(Exception):
    """The run cannot continue; the message says why."""


class Run:
    """State of a run: its topics, the producer, the Spark job, and the totals read so far."""

    def __init__(self, stack: contextlib.ExitStack, servers: str, folder: Path, seed: int, rate: int) -> None:
        self.servers, self.folder, self.rate = servers, folder, rate
        self.prefix = f"pipeline-{uuid.uuid4().hex[:6]}"
        self.orders: list[Order] = []  #: Orders written so far.
        self.published = totals.Published()
        self.story = picture.Story()
        self._stack = stack
        self._source: Iterator[Order] = orders(seed, rate)
        self._began = time.time()
        self._progress_at = time.monotonic()
        self._printed_at = 0.0
        self._restarts_left = RESTARTS_MAX
        self._lag_bytes_read = 0  #: How many bytes of lag.jsonl have been read.
        self._reporting_queries: set[str] = set()
        self._job: Program | None = None
        self._shop: Program | None = None
        self._consumer: Consumer[bytes | None, bytes | None] | None = None

    # -- actions

    def prepare(self, *, is_own: bool) -> None:
        """Create the topics and write the products. With ``is_own`` the broker belongs to this run."""
        for name, policy in TOPICS.items():
            self._command("topics", "create", f"{self.prefix}.{name}", f"--config=cleanup.policy={policy}")
        if not is_own:  # topics of an own broker end with it
            self._stack.callback(self._delete_topics)
        table = self._producer("products")
        table.input.writelines(product_lines())
        self._finish(table)
        self._consumer = self._stack.enter_context(
            Consumer(bootstrap_servers=self.servers, auto_offset_reset="earliest")
        )
        self._consumer.assign([TopicPartition(f"{self.prefix}.totals", 0)])

    def start_job(self) -> None:
        """Start the Spark job; after a kill it continues from its checkpoint."""
        command = (sys.executable, HERE / "job.py", self.servers, self.prefix, self.folder)
        self._job = Program(
            *command,
            log=self.folder / "job.log",
            folder=self.folder,
            output=self.folder / "lag.jsonl",
            environment={
                "PYSPARK_PYTHON": sys.executable,  # the default is python3 from the PATH
                "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),  # a killed job leaves its scratch files
                "SPARK_LOCAL_IP": "127.0.0.1",
                "JAVA_TOOL_OPTIONS": JAVA,
            },
        )
        self._stack.callback(self._job.end)

    def open_shop(self) -> None:
        """Start writing orders."""
        self._shop = self._producer("orders")
        self._began = time.time()
        self.story = picture.Story()

    def kill_job(self) -> None:
        """Kill the job and check that the Python workers that Spark started end as well."""
        assert self._job is not None
        job, self._job = self._job, None
        job.kill()
        killed_at = self.seconds
        self.story.kills.append(killed_at)
        self.say(f"* kill -9, with {self.behind:,} orders not in the totals yet")
        count = len(job.left())
        while (left := job.left()) and self.seconds < killed_at + WORKERS_END_S:
            self.step(0.2)
        self.say(f"* {count - len(left)} of {count} of its Python workers have ended by themselves")
        job.end(0)
        self.wait(killed_at + PAUSE_S - self.seconds)
        self.story.restarts.append(self.seconds)
        self.say("* started again")
        self.start_job()

    def close_shop(self) -> None:
        """Write a last order that closes the windows, and wait until all orders are acknowledged."""
        assert self._shop is not None
        order = closing(len(self.orders), self.rate)
        self._write([order])
        self._finish(self._shop)
        self._shop = None

    def stop_job(self) -> None:
        """Stop the job without a kill."""
        if self._job is not None:
            self._job.end()
            self._job = None

    # -- waiting

    def wait(self, seconds: float) -> None:
        """Continue the run for ``seconds``."""
        until = self.seconds + seconds
        while self.seconds < until:
            self.step()

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Continue the run until ``done()``; fail without progress for too long."""
        self._progress_at = time.monotonic()
        while not done():
            if time.monotonic() > self._progress_at + PROGRESS_TIMEOUT_S:
                words = self._job.log_tail if self._job is not None else ""
                raise Failure(f"waiting for {what}: no progress for {PROGRESS_TIMEOUT_S:.0f} s:\n{words}")
            self.step()

    def step(self, pause_s: float = 0.05) -> None:
        """Write the orders that are due and read new totals, for about ``pause_s``."""
        if self._shop is not None:
            due = int(self.seconds * self.rate) - len(self.orders)
            self._write(list(itertools.islice(self._source, max(0, due))))
        assert self._consumer is not None
        for records in self._consumer.poll(timeout_ms=pause_s * 1000).values():
            self._progress_at = time.monotonic()
            for record in records:
                self.published.take(record.key, record.value)
        self._read_lag()
        if self.orders:
            self.story.count(self.seconds, len(self.orders), self.published.orders)
            if self.seconds >= self._printed_at + PRINT_EVERY_S:
                self._printed_at = self.seconds
                self.say(f"{len(self.orders):>9,} written {self.published.orders:>9,} in the totals {self._lag_line()}")
        if self._job is not None and self._job.code is not None:
            self._start_again(self._job)

    @property
    def seconds(self) -> float:
        """Seconds since the first order."""
        return time.time() - self._began

    @property
    def behind(self) -> int:
        """Number of orders that were written and are not in the totals."""
        return len(self.orders) - self.published.orders

    @property
    def is_ready(self) -> bool:
        """Whether both queries have finished their first batch, which may be empty."""
        return len(self._reporting_queries) == 2

    def say(self, words: str) -> None:
        """Print a line with the time."""
        print(f"{self.seconds:6.1f} s  {words}", flush=True)

    # -- inside

    def _start_again(self, job: Program) -> None:
        """Restart a job that ended unexpectedly, as a supervisor would. A worker that starts too slowly ends it."""
        if not self._restarts_left:
            raise Failure(f"the job ended unexpectedly too often:\n{job.log_tail}")
        self._restarts_left -= 1
        self._progress_at = time.monotonic()
        self.say(f"* the job ended unexpectedly with exit code {job.code} and is restarted")
        self.story.restarts.append(self.seconds)
        job.end()
        self.start_job()

    def _write(self, batch: list[Order]) -> None:
        assert self._shop is not None
        try:
            self._shop.input.writelines(order.line() for order in batch)
            self._shop.input.flush()
        except BrokenPipeError:
            raise Failure(f"the producer has ended:\n{self._shop.log_tail}") from None
        self.orders += batch

    def _read_lag(self) -> None:
        """Read the lag that the job's listener has written since; the last line may be incomplete."""
        path = self.folder / "lag.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._lag_bytes_read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._lag_bytes_read += len(line)
                with contextlib.suppress(
                    ValueError
                ):  # a kill may cut a line short, which the next one is then appended to
                    self._take_lag(**json.loads(line))

    def _take_lag(self, at: float, query: str = "", behind: int | None = None, **rejected: object) -> None:
        if query not in picture.DOTS:  # the query that writes dead letters, or their numbers
            return
        self._reporting_queries.add(query)
        self._progress_at = time.monotonic()
        if behind is not None:
            self.story.lags.append((max(0.0, at - self._began), query, behind))

    def _lag_line(self) -> str:
        """Return the lag of the last half minute as a bar chart of one line."""
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
        if producer.wait(PROGRESS_TIMEOUT_S):
            raise Failure(f"not all records were written:\n{producer.log_tail}")

    def _command(self, *words: str) -> None:
        program = Program(*_thinconsumer(*words, "--bootstrap-server", self.servers), log=self.folder / "topics.log")
        self._stack.callback(program.end)
        if program.wait(PROGRESS_TIMEOUT_S):
            raise Failure(f"'{' '.join(words)}' has failed:\n{program.log_tail}")

    def _delete_topics(self) -> None:
        try:
            self._command("topics", "delete", *(f"{self.prefix}.{name.split(':')[0]}" for name in TOPICS))
        except Failure as failure:
            print(f"the topics {self.prefix}.* are left: {failure}")


def play(run: Run, seconds: float, kills: int) -> None:
    """Run orders, job and kills from start to end."""
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
    """Print the results; return the differences from the expected ones."""
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
    print(f"{left} files were not committed when the job was killed, and are ignored")
    return wrong


def main() -> int:
    """Return the exit code: 0 if the sums agree."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: all programs are ended
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
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a cluster (default: start an embedded broker)")
    parser.add_argument("--seconds", type=float, default=40, help="how long orders come in (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=2000, help="orders a second (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=1, help="how often the job is killed (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random orders (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for Parquet, checkpoints and logs (default: removed afterwards)")
    parser.add_argument("--picture", type=Path, default=Path("pipeline.svg"), help="(default: %(default)s)")
    options = parser.parse_args()
    if options.folder and options.folder.exists() and any(options.folder.iterdir()):
        parser.error(f"{options.folder} is not empty: each run needs its own checkpoints")
    try:
        version = tuple(map(int, _pyspark().split(".")[:2]))
    except ImportError:
        parser.error("PySpark is missing: pip install 'thinconsumer[spark]'")
    if version < (4, 2):
        parser.error(
            f"PySpark {_pyspark()} supports neither batch limits nor lag for Python sources: 4.2 or newer is needed"
        )
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"failed: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
