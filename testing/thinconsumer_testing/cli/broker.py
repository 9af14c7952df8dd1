"""Run a Kafka cluster on this machine until Ctrl-C, for tests and trials. It needs neither Java nor Docker.

When the cluster is ready, one line of JSON with its addresses is written to standard output. Data is kept in memory, or
with --directory in a folder, from which the next start loads it.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from thinconsumer.cli.parsing import (
    CommandError,
    Parser,
    UsageError,
    add_settings,
    positive,
    require_distinct,
    topic_and_count,
)
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.support.timers import NEVER

from ..broker.control import Dispatcher
from ..broker.server import EmbeddedBroker
from .security_file import SECURITY_HELP, security_file

#: On Windows, select() does not accept standard input, so the loop polls it at this interval, in seconds.
WINDOWS_POLL_S = 0.02
READ_BYTES = 256 * 1024
#: Error numbers of an OSError that the disk caused, and not the port that the broker listens on. The error of a failed
#: write can be recognized only by its number, since it has no file name.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)


def describe(parser: Parser) -> None:
    parser.add_argument(
        "--port",
        type=_port,
        default=9092,
        help="port of the first broker; the others use the next ones (0: any free ports)",
    )
    parser.add_argument(
        "--host", type=_host, default="127.0.0.1", help="address to listen on and to advertise (default: %(default)s)"
    )
    parser.add_argument("--nodes", type=positive, default=1, help="number of brokers (default: %(default)s)")
    parser.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC[:PARTITIONS]",
        type=topic_and_count,
        action="append",
        default=[],
        help="create a topic, unless --directory has it already (may be repeated)",
    )
    parser.add_argument("--directory", metavar="DIR", help="folder for the data (default: in memory)")
    add_settings(parser, "--config", "a broker setting, by its Kafka name: auto.create.topics.enable=false")
    parser.add_argument("--rack", dest="racks", action="append", help="rack of a broker; give one for each, in order")
    parser.add_argument(
        "--security", metavar="FILE", type=security_file, help="TLS and logins: a file as described below"
    )
    parser.epilog = SECURITY_HELP
    parser.add_argument("--seed", type=int, default=0, help="seed of random ids and delays")
    # BrokerProcess sets --control: each line of standard input is a call of a broker's method, as JSON.
    parser.add_argument("--control", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    if options.racks and len(options.racks) != options.nodes:
        raise UsageError(f"--rack: {len(options.racks)} given for {options.nodes} brokers; give one for each, or none")
    topics = dict(require_distinct(options.topics))
    with (
        _warnings_on_stderr(options.debug),
        _broker(options, topics) as broker,
        _termination_signals(ignore_interrupts=options.control) as wakeup,
    ):
        _print_ready(broker, options.control)
        number = _ServeLoop(broker, wakeup, _Control(broker) if options.control else None).run()
    return 128 + signal.SIGINT if number == signal.SIGINT else 0


@contextmanager
def _warnings_on_stderr(is_debugging: bool) -> Iterator[None]:
    """Print the broker's warnings on standard error, such as those of a full disk, a truncated file, or a bug."""
    logger = logging.getLogger("thinconsumer_testing")
    level, handler = logger.level, logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    if not is_debugging:  # with --debug, the handler of debug messages prints the warnings, too
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _broker(options: argparse.Namespace, topics: Mapping[str, int]) -> EmbeddedBroker:
    try:
        return EmbeddedBroker(
            options.nodes,
            topics,
            port=options.port,
            host=options.host,
            config=dict(options.config),
            directory=options.directory,
            racks=[rack or None for rack in options.racks] if options.racks else None,
            seed=options.seed,
            security=options.security,
        )
    except IllegalArgumentError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        if options.directory is not None and (error.filename is not None or error.errno in DISK_ERRORS):
            where = error.filename or options.directory
            raise CommandError(f"cannot keep data in {options.directory}: {error.strerror} ({where})") from error
        if error.errno == errno.EADDRINUSE:
            last = options.port + options.nodes - 1
            ports = f"port {options.port}" if last == options.port else f"one of the ports {options.port} to {last}"
            raise CommandError(f"{ports} of {options.host} is in use: choose another --port, or 0") from error
        raise CommandError(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}") from error


def _print_ready(broker: EmbeddedBroker, is_controlled: bool) -> None:
    addresses = broker.bootstrap_servers.split(",")
    ready = {
        "bootstrap_servers": broker.bootstrap_servers,
        "nodes": {str(number): address for number, address in enumerate(addresses, start=1)},
        "pid": os.getpid(),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    if not is_controlled and sys.stderr.isatty():
        sys.stderr.write("ready; stop it with Ctrl-C\n")


@contextmanager
def _termination_signals(*, ignore_interrupts: bool) -> Iterator[socket.socket]:
    """Yield a socket that becomes readable on SIGTERM and Ctrl-C.

    Inside the context, signals raise no exception: KeyboardInterrupt could interrupt a step of the broker.

    With ``--control``, Ctrl-C is ignored: a terminal also sends it to the parent process, which may go on using the
    broker. The broker ends once the parent closes the broker's standard input, or dies.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)

    def ignore(number: int, frame: Any) -> None:
        """Do nothing, in place of the default handler: Python writes the signal's number to the wakeup socket."""

    fd_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    handlers = {signal.SIGTERM: ignore, signal.SIGINT: signal.SIG_IGN if ignore_interrupts else ignore}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


class _ServeLoop:
    """Serves clients and, with ``--control``, calls from standard input, until a signal arrives or that input ends."""

    def __init__(self, broker: EmbeddedBroker, wakeup: socket.socket, control: _Control | None) -> None:
        self._broker = broker
        self._wakeup = wakeup
        self._control = control

    def run(self) -> int:
        """Serve until a signal or the end of input; return the signal's number, or 0 at the end of input."""
        if sys.platform == "win32":
            return self._run_on_windows()
        with selectors.DefaultSelector() as selector:
            selector.register(self._broker.fileno(), selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            if self._control is not None:
                os.set_blocking(0, False)
                selector.register(0, selectors.EVENT_READ)
            self._broker.step(0)
            while True:
                wake_at = self._broker.wake_at()
                timeout = None if wake_at == NEVER else max(0.0, wake_at - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(timeout)}
                if self._wakeup in ready:
                    return self._signal_number()
                if 0 in ready and self._control is not None and not self._control.read():
                    return 0
                self._broker.step(0)

    def _run_on_windows(self) -> int:
        while self._control is None or self._control.read():
            self._broker.step(WINDOWS_POLL_S)
            if number := self._signal_number():
                return number
        return 0

    def _signal_number(self) -> int:
        try:
            return self._wakeup.recv(1)[0]
        except BlockingIOError:
            return 0


class _Control:
    """Calls the broker's methods that lines of standard input name, and writes the results to standard output."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._dispatcher = Dispatcher(broker)
        self._unread = b""

    def read(self) -> bool:
        """Carry out the calls that have arrived on standard input; return False when the input has ended."""
        if not _has_input():
            return True
        try:
            data = os.read(0, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            sys.stdout.buffer.write(self._dispatcher.answer(line))
        sys.stdout.buffer.flush()
        return bool(data)


def _has_input() -> bool:
    """Return whether standard input, which blocks on Windows, can be read without waiting."""
    if sys.platform != "win32":
        return True
    import _winapi
    import msvcrt

    try:
        return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(0), 0)[0])
    except BrokenPipeError:
        return True  # the writer has closed the pipe, so reading returns the end of input without blocking


def _host(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("empty; write an address that clients can connect to")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)
