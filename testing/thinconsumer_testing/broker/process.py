"""A broker in its own process, for programs that cannot step an :class:`~.server.EmbeddedBroker`, such as most tests.

Owns the child process: start, calls, end. The child runs the command ``thinconsumer broker --control``. The parent
calls it over its standard input and output, with the protocol of ``control``. The child ends when its input is closed,
for example because the parent has crashed. The parent starts no thread: every call writes one line to the child and
waits for the response line.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.types import TopicPartition

from .config import BrokerConfig
from .control import BrokerProcessError, answers_earlier_call, call_line, result_of
from .faults import FaultRule
from .group.consumer.assignors.registry import text_of
from .operations import BrokerOperations, Partition
from .security import ListenerSecurity

#: The child's program. It takes over this process's ``sys.path``, because ``python -m thinconsumer`` could import
#: another copy of the package from the current folder.
_MAIN = "import sys; sys.path[:] = {path!r}; from thinconsumer.cli import main; sys.exit(main(sys.argv[1:]))"
_READ_BYTES = 64 * 1024
#: A child that has closed its output is about to exit. It is killed if it has not exited after this many seconds.
EXIT_GRACE_S = 2.0
#: A child that was told to stop is killed if it has not exited after this many seconds. No data is lost, because the
#: child writes every change to its directory immediately.
STOP_TIMEOUT_S = 10.0
#: How many characters from the end of the child's standard error a BrokerProcessError contains.
_STDERR_MAX = 4000


class RemoteRule:
    """A fault rule that is active in the broker process."""

    def __init__(self, process: BrokerProcess, number: int, rule: FaultRule) -> None:
        self._process = process
        self._number = number
        self._rule = rule

    def __repr__(self) -> str:
        return f"<RemoteRule {self._number}: {self._rule!r}>"

    @property
    def hits(self) -> int:
        """How often the rule has applied to a request; asks the broker process."""
        return int(self._process.call("rule_hits", self._number))

    def remove(self) -> None:
        """Remove the rule; idempotent."""
        self._process.call("rule_remove", self._number)


class BrokerProcess(BrokerOperations):
    """A Kafka cluster of one or more brokers in its own process. Ready when constructed; use it in ``with``.

    Its operations have the same effects and errors as those of :class:`~.server.EmbeddedBroker`.

    Args:
        nodes, topics, port, host, config, directory, racks, seed, security: see :class:`~.server.EmbeddedBroker`.
            The security settings reach the process in a temporary file that only the current user can read.
        timeout_s: Limit for the start and for each call, so that a child process that hangs does not block the caller
            for ever. The end of the child is noticed without this delay. Keep the limit long: on an overloaded
            machine, starting Python alone takes many seconds.

    Raises:
        BrokerProcessError: The process did not start, for example because a port is taken; the message has the last
            line of its standard error.
        IllegalArgumentError: A security setting is invalid, or an assignor is an object and no class.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: BrokerConfig | Mapping[str, Any] | None = None,
        directory: str | os.PathLike[str] | None = None,
        racks: Sequence[str | None] | None = None,
        seed: int = 0,
        timeout_s: float = 60.0,
        security: ListenerSecurity | Mapping[str, Any] | None = None,
    ) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._unread = b""
        arguments = ["--nodes", str(nodes), "--port", str(port), "--host", host, "--seed", str(seed)]
        arguments += [f"--topic={name}:{count}" for name, count in (topics or {}).items()]
        settings = config.settings() if isinstance(config, BrokerConfig) else config or {}
        arguments += [f"--config={name}={_text(value)}" for name, value in settings.items()]
        arguments += [f"--rack={rack or ''}" for rack in racks or ()]
        arguments += [] if directory is None else [f"--directory={os.fspath(directory)}"]
        self._stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - a full pipe would block the child
        try:
            with _security_file(security) as more_arguments:
                self._child = self._started([*arguments, *more_arguments])
                ready = json.loads(self._read_line(time.monotonic() + timeout_s))
            self.bootstrap_servers: str = ready["bootstrap_servers"]
            #: The address of each broker as ``host:port``, by node id.
            self.addresses: dict[int, str] = {int(node): address for node, address in ready["nodes"].items()}
        except BaseException:
            self._kill()
            raise

    def __repr__(self) -> str:
        return f"<BrokerProcess {self.bootstrap_servers} pid {self.pid}>" if self._child else "<BrokerProcess stopped>"

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            warnings.warn(f"unstopped {self!r}", ResourceWarning, stacklevel=2, source=self)
            self._kill()

    @property
    def pid(self) -> int | None:
        """The process id; None after :meth:`stop`, and after a call that has failed because of the process."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """Stop the process and wait for its end; idempotent."""
        child = self._child
        if child is None:
            return
        assert child.stdin is not None
        try:
            child.stdin.close()
            if sys.platform != "win32":
                # Closing the child's standard input should end the child. But a process that was forked from this one
                # may hold a copy of the pipe's end; the pipe then stays open, and the child needs a signal.
                child.terminate()
            child.wait(STOP_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            self._kill()

    stop = close

    def _perform(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.call(name, *args, **kwargs)

    def on(self, api: Any, action: Any, **limits: Any) -> RemoteRule:
        """Add a fault rule: see :class:`.faults.FaultRule`. Rules with functions cannot be sent to the process."""
        rule = FaultRule(api, action, **limits)
        return RemoteRule(self, self.call("on", rule), rule)

    def leader(self, tp: Partition) -> int:
        """Return the leader of a partition according to the controller; -1 without a leader."""
        return int(self.call("leader", TopicPartition(*tp)))

    def bugs(self) -> list[str]:
        """Return unexpected exceptions inside the broker; tests assert that there are none."""
        return list(self.call("bugs"))

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Make one call of the control protocol and return its result; all operations use this method.

        Raises:
            BrokerProcessError: The process has ended, does not respond, or has a bug.
            IllegalStateError: The process was stopped.

        Errors of the called method are raised here, too.
        """
        if self._child is None:
            raise IllegalStateError("this broker's process was stopped")
        number = next(self._numbers)
        line = call_line(number, name, args, kwargs)
        deadline = time.monotonic() + self._timeout_s
        try:
            self._write(line, deadline)
        except BaseException:
            self._kill()  # Part of the line may have been written; the next call would continue it and be unreadable.
            raise
        while True:
            answer = self._read_line(deadline)
            # Skip the response to an earlier call that was interrupted (by Ctrl-C, for example) before it was read.
            if not answers_earlier_call(answer, number):
                return result_of(answer, number)

    def _started(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise BrokerProcessError("sys.executable is empty: cannot start a Python process for the broker")
        main = _MAIN.format(path=[path or str(Path.cwd()) for path in sys.path])
        child = subprocess.Popen(
            [sys.executable, "-c", main, "broker", "--control", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr_file,
            bufsize=0,
        )
        if sys.platform != "win32" and child.stdin is not None and child.stdout is not None:
            os.set_blocking(child.stdin.fileno(), False)
            os.set_blocking(child.stdout.fileno(), False)
        return child

    def _write(self, line: bytes, deadline: float) -> None:
        assert self._child is not None and self._child.stdin is not None
        pipe, left = self._child.stdin.fileno(), memoryview(line)
        while left:
            if not _wait(deadline, pipe, for_writing=True):
                raise self._process_error(f"did not read a call within {self._timeout_s} s")
            try:
                left = left[os.write(pipe, left) :]
            except BlockingIOError:
                pass  # poll() may report the pipe as writable although it has no room for this write: wait again.
            except OSError:
                raise self._process_error("has ended", EXIT_GRACE_S) from None

    def _read_line(self, deadline: float) -> bytes:
        assert self._child is not None and self._child.stdout is not None
        pipe = self._child.stdout.fileno()
        while b"\n" not in self._unread:
            if not _wait(deadline, pipe):
                raise self._process_error(f"did not respond within {self._timeout_s} s")
            part = os.read(pipe, _READ_BYTES)
            if not part:
                raise self._process_error("has ended", EXIT_GRACE_S)
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _process_error(self, what: str, grace_s: float = 0.0) -> BrokerProcessError:
        """Kill the child, and return the exception to raise, with its exit code and standard error."""
        code, stderr = self._kill(grace_s)
        last = stderr.strip().splitlines()
        message = f"the broker process {what}" + (f" with exit code {code}" if grace_s else "")
        return BrokerProcessError(f"{message}: {last[-1]}" if last else message, returncode=code, stderr=stderr)

    def _kill(self, grace_s: float = 0.0) -> tuple[int | None, str]:
        """Kill the child unless it ends within ``grace_s``; return its exit code and standard error."""
        child, self._child = self._child, None
        code, stderr = None, ""
        if child is not None:
            try:
                code = child.wait(grace_s)
            except subprocess.TimeoutExpired:
                child.kill()
                code = child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
        if not self._stderr_file.closed:
            self._stderr_file.seek(0)
            stderr = self._stderr_file.read().decode(errors="replace")[-_STDERR_MAX:]
            self._stderr_file.close()
        return code, stderr


def _text(setting: Any) -> str:
    """Return a setting as an argument. Raises: IllegalArgumentError, for an assignor that is an object and no class."""
    if not isinstance(setting, list | tuple):
        return str(setting)
    for one in setting:
        if not isinstance(one, str | type):
            raise IllegalArgumentError(f"the assignor {one!r} cannot be sent to the broker's process: give its class")
    return text_of(setting)


@contextmanager
def _security_file(security: ListenerSecurity | Mapping[str, Any] | None) -> Iterator[list[str]]:
    """Yield the arguments that name a file with the security settings (none without settings). The file exists until
    the block ends.

    The settings themselves are no arguments: every user of the machine can read the arguments of a process.
    """
    if security is None:
        yield []
        return
    settings = security if isinstance(security, ListenerSecurity) else ListenerSecurity.of(security)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "security.json"
        path.touch(0o600)
        path.write_text(json.dumps(settings.as_settings()), encoding="utf-8")
        yield [f"--security={path}"]


def _wait(deadline: float, pipe: int, *, for_writing: bool = False) -> bool:
    """Wait until a pipe can be read or written; return False if the deadline passes first."""
    if sys.platform == "win32":
        # Windows cannot poll pipes, only sockets. The caller then reads without a deadline, so a call to a child that
        # hangs blocks for ever there.
        return True
    poll = select.poll()
    poll.register(pipe, select.POLLOUT if for_writing else select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
