"""Run a Kafka cluster on this machine, for tests and trials, until Ctrl-C. It needs nothing else: no Java, no Docker.

When it is ready, it writes one line of JSON with its addresses to standard output. Data is kept in memory, or with
--directory in a folder, where the next start finds it.
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

from ..broker.control import Dispatcher
from ..broker.server import EmbeddedBroker
from ..errors import IllegalArgumentError
from ..timers import NEVER
from .parsing import Failure, Parser, UsageError, distinct, name_and_value, positive, topic_and_count

#: Standard input cannot be waited for together with sockets on Windows: looked at so often, in seconds.
LOOK_S = 0.02
READ_BYTES = 256 * 1024
#: What no port is the reason of; such an error of a write does not name the file.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)


def describe(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--port", type=_port, default=9092, help="of the first broker, the others' follow; 0: any free")
    parser.add_argument(
        "--host", type=_host, default="127.0.0.1", help="where to listen, and what clients are told (%(default)s)"
    )
    parser.add_argument("--nodes", type=positive, default=1, help="how many brokers (default: %(default)s)")
    parser.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC[:PARTITIONS]",
        type=topic_and_count,
        action="append",
        default=[],
        help="create a topic, unless it is in --directory already (repeat it for more)",
    )
    parser.add_argument("--directory", metavar="DIR", help="keep the data here (default: in memory)")
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help="a broker's setting by Kafka's name: auto.create.topics.enable=false (repeat it for more)",
    )
    parser.add_argument("--rack", dest="racks", action="append", help="of each broker in turn (repeat it)")
    parser.add_argument("--seed", type=int, default=0, help="for ids and delays that are drawn")
    # Make calls that come as lines of JSON on standard input, and end with it. For thinconsumer.broker.process.
    parser.add_argument("--control", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Serve until told to end; return the exit code."""
    if options.racks and len(options.racks) != options.nodes:
        raise UsageError(f"--rack: {len(options.racks)} given for {options.nodes} brokers; give one for each, or none")
    topics = dict(distinct(options.topics))
    with (
        _saying_warnings(options.debug),
        _broker(options, topics) as broker,
        _told_to_end(ignore_interrupts=options.control) as bell,
    ):
        _say_ready(broker, options.control)
        loop = _Loop(broker, bell)
        if options.control:
            loop.obey()
        return 128 + signal.SIGINT if loop.run() == signal.SIGINT else 0


@contextmanager
def _saying_warnings(is_debugging: bool) -> Iterator[None]:
    """Let a full disk, a torn file or a bug be seen: nobody else says so where a broker runs for long."""
    logger = logging.getLogger("thinconsumer")
    level, handler = logger.level, logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    if not is_debugging:  # else everything is said already
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
        )
    except IllegalArgumentError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        if options.directory is not None and (error.filename is not None or error.errno in DISK_ERRORS):
            where = error.filename or options.directory
            raise Failure(f"cannot keep data in {options.directory}: {error.strerror} ({where})") from error
        if error.errno == errno.EADDRINUSE:
            last = options.port + options.nodes - 1
            ports = f"port {options.port}" if last == options.port else f"one of the ports {options.port} to {last}"
            raise Failure(f"{ports} of {options.host} is taken: choose another with --port, or --port 0") from error
        raise Failure(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}") from error


def _say_ready(broker: EmbeddedBroker, is_controlled: bool) -> None:
    addresses = broker.bootstrap_servers.split(",")
    ready = {
        "bootstrap_servers": broker.bootstrap_servers,
        "nodes": {str(number): address for number, address in enumerate(addresses, start=1)},
        "pid": os.getpid(),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    if not is_controlled and sys.stderr.isatty():
        sys.stderr.write("ready; Ctrl-C ends it\n")


@contextmanager
def _told_to_end(*, ignore_interrupts: bool) -> Iterator[socket.socket]:
    """Yield a socket that turns readable on SIGTERM, and on Ctrl-C: not an exception in the middle of a step.

    Under control, Ctrl-C is the owner's to deal with: a terminal sends it to both, and whoever goes on after it wants
    to find the broker as it was. If the owner does not go on, its end of our input closes.
    """
    listening, speaking = socket.socketpair()
    listening.setblocking(False)
    speaking.setblocking(False)

    def nothing(number: int, frame: Any) -> None:
        """Be there, so that the signal's number is written to the socket, and nothing else happens."""

    fd_before = signal.set_wakeup_fd(speaking.fileno(), warn_on_full_buffer=False)
    handlers = {signal.SIGTERM: nothing, signal.SIGINT: signal.SIG_IGN if ignore_interrupts else nothing}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield listening
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
        speaking.close()


class _Loop:
    """Serves clients and whoever controls the broker, until the bell rings or the control's end."""

    def __init__(self, broker: EmbeddedBroker, bell: socket.socket) -> None:
        self._broker = broker
        self._bell = bell
        self._control: _Control | None = None
        self._selector: selectors.BaseSelector | None = None

    def obey(self) -> None:
        """Make the calls that come on standard input."""
        self._control = _Control(self._broker)

    def run(self) -> int:
        """Serve; return the number of the signal that ended it, or 0."""
        if sys.platform == "win32":
            return self._look_again_and_again()
        with selectors.DefaultSelector() as selector:
            # The broker's own selector is something to wait for like any other descriptor.
            selector.register(self._broker.fileno(), selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            if self._control is not None:
                os.set_blocking(0, False)
                selector.register(0, selectors.EVENT_READ)
            self._broker.step(0)
            while True:
                wake_at = self._broker.wake_at()
                timeout = None if wake_at == NEVER else max(0.0, wake_at - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(timeout)}
                if self._bell in ready:
                    return self._rung()
                if 0 in ready and self._control is not None and not self._control.read():
                    return 0
                self._broker.step(0)

    def _look_again_and_again(self) -> int:
        while self._control is None or self._control.read():
            self._broker.step(LOOK_S)
            if number := self._rung():
                return number
        return 0

    def _rung(self) -> int:
        try:
            return self._bell.recv(1)[0]
        except BlockingIOError:
            return 0


class _Control:
    """Calls from standard input, answers to standard output."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._dispatcher = Dispatcher(broker)
        self._unread = b""

    def read(self) -> bool:
        """Make the calls that have come in; return whether more may come."""
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
    """Return whether a read of standard input, a pipe, would not block (Windows)."""
    if sys.platform != "win32":
        return True
    import _winapi
    import msvcrt

    try:
        return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(0), 0)[0])
    except BrokenPipeError:
        return True  # its end: a read says so


def _host(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("an empty one is no address that clients could be told")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)
