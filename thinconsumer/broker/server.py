"""Sockets around the cluster: a broker to run tests and demos against, on one thread.

Owns the only sockets, selector and clock of the server's side. All nodes share one loop, and nothing happens outside of
:meth:`EmbeddedBroker.step`, :meth:`EmbeddedBroker.serve_forever` and the calls that change the cluster. Answers are
gathered and sent once per step; a client that does not take its answers is not read from. Follows Kafka's
``SocketServer`` in what a client may get away with.
"""

from __future__ import annotations

import errno
import itertools
import logging
import random
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from ..errors import IllegalArgumentError, IllegalStateError
from ..records.builder import NewRecord
from ..timers import NEVER
from ..types import TopicPartition
from .cluster import Cluster
from .config import BrokerConfig
from .connection import ServerConnection
from .controller import ControllerError
from .faults import Rule
from .image import TopicImage

__all__ = ["EmbeddedBroker"]

log = logging.getLogger(__name__)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
RECEIVE_BYTES = 512 * 1024
BACKLOG = 1024
PORT_MAX = 65_535
ACCEPTS_PER_STEP = 64
BUFFERS_PER_SEND = 64
#: A client that leaves more than this lying gets no further request of its answered until it has taken it.
UNSENT_MAX = 1024 * 1024
#: A client that has been hung up on has so long to take what was still said to it.
LINGER_S = 5.0
#: No file descriptor is left: look again after this long.
ACCEPT_PAUSE_S = 0.1
#: How often ``serve_forever`` looks whether it is to stop.
STOP_CHECK_S = 0.25
#: Work that makes work at the same moment gets so many rounds before sockets have their turn again.
ROUNDS_MAX = 16

_NO_LINGER = struct.pack("ii", 1, 0)
_CAN_GATHER = hasattr(socket.socket, "sendmsg")
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _SelectorHandler(Protocol):
    """What the selector calls."""

    def on_ready(self, mask: int) -> None:
        """There is something to do."""


class EmbeddedBroker:
    """A Kafka cluster of one or more brokers in this process, listening on this host.

    It works only while it is stepped: by :meth:`serve_forever` in a process of its own, by :meth:`step` in a loop of
    yours, or in an event loop that watches :meth:`fileno` and comes back at :meth:`wake_at`.

    Args:
        nodes: How many brokers; their ids are 1, 2, ...
        topics: Names and numbers of partitions.
        port: Of the first broker; those of the others follow. 0: any that are free.
        host: Where to listen, and what clients are told.
        config: Settings by Kafka's names (``{"num.partitions": 3}``), or a BrokerConfig.
        directory: Where to keep the data; None keeps it in memory.
        racks: One for each broker.
        seed: For ids, session ids and drawn delays.

    Raises:
        OSError: A port is taken.
        IllegalArgumentError: A setting or a topic makes no sense.
        IllegalStateError: Somebody else has the directory, or what is in it cannot be read.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: BrokerConfig | Mapping[str, Any] | None = None,
        directory: str | None = None,
        racks: Sequence[str | None] | None = None,
        seed: int = 0,
    ) -> None:
        if port + nodes - 1 > PORT_MAX:
            raise IllegalArgumentError(f"{nodes} brokers from port {port} on: the highest port is {PORT_MAX}")
        self._selector = selectors.DefaultSelector()
        self._receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._channels: set[_Channel] = set()
        self._channels_to_flush: dict[_Channel, None] = {}
        self._unread_channels: set[_Channel] = set()  #: Those that are not read from just now.
        self._listeners: dict[int, _PortListener] = {}
        self._is_open = True
        self._is_stopping = False
        self._is_stepping = False
        self._storage: Any = None
        try:
            for index in range(nodes):
                listener = _PortListener(self, index + 1, host, port + index if port else 0)
                self._listeners[index + 1] = listener
            if directory is not None:
                self._storage = _open_directory(directory, nodes)
            self._cluster = Cluster(
                nodes,
                topics,
                random=random.Random(seed),
                config=config if isinstance(config, BrokerConfig) else BrokerConfig.of(config or {}),
                hosts=[(host, listener.port) for listener in self._listeners.values()],
                racks=racks,
                now=time.monotonic(),
                wall_time=time.time(),
                storage=self._storage,
            )
            for listener in self._listeners.values():
                listener.open()
        except BaseException as error:
            self.close()
            if isinstance(error, ControllerError):
                raise IllegalArgumentError(f"cannot create what topics={topics!r} asks for: {error.message}") from error
            raise

    def __repr__(self) -> str:
        return f"<EmbeddedBroker {self.bootstrap_servers}{'' if self._is_open else ' closed'}>"

    def __enter__(self) -> EmbeddedBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: ``host:port`` of every broker, with commas between."""
        return ",".join(listener.address for listener in self._listeners.values())

    @property
    def cluster(self) -> Cluster:
        """What is behind the sockets, to look at. Change it through the methods here, which also wake whoever waits."""
        return self._cluster

    # -- running

    def step(self, timeout_s: float | None = 0.0) -> None:
        """Do what there is to do; when there is nothing, wait for it up to ``timeout_s`` (None: for ever)."""
        self._check_open()
        self._run_until_idle()
        wait = max(0.0, self._cluster.wake_at() - time.monotonic())
        if timeout_s is not None:
            wait = min(wait, timeout_s)
        ready = self._selector.select(None if wait == NEVER else wait)
        self._is_stepping = True
        try:
            for key, mask in ready:
                self._advance()
                key.data.on_ready(mask)
        finally:
            self._is_stepping = False
        self._run_until_idle()

    def serve_forever(self) -> None:
        """Work until :meth:`stop` is called, from a signal handler or a rule for instance, or an exception comes."""
        self._is_stopping = False
        while not self._is_stopping:
            self.step(STOP_CHECK_S)

    def stop(self) -> None:
        """Let :meth:`serve_forever` return soon."""
        self._is_stopping = True

    def fileno(self) -> int:
        """Return what becomes readable when :meth:`step` has something to do.

        Raises:
            OSError: The platform's selector has none (Windows).
        """
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise OSError("this platform's selector has no file descriptor")
        return int(fileno())

    def wake_at(self) -> float:
        """Return when to call :meth:`step` at the latest, in ``time.monotonic()`` seconds."""
        return self._cluster.wake_at()

    def close(self) -> None:
        """Stop listening, break off all connections, and give back what the operating system lent. Again: nothing."""
        if not self._is_open:
            return
        self._is_open = False
        for channel in list(self._channels):
            channel.connection.connection_lost()
            channel.reset()
        for listener in self._listeners.values():
            listener.close()
        self._selector.close()
        if self._storage is not None:
            self._storage.close()

    # -- what users do to the cluster: see Cluster for what each means and raises

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> TopicImage:
        """Create a topic."""
        with self._changing_cluster() as cluster:
            return cluster.create_topic(name, partitions, replication_factor, configs)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        with self._changing_cluster() as cluster:
            cluster.delete_topic(name)

    def expand(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions from now on."""
        with self._changing_cluster() as cluster:
            cluster.expand(topic, partitions)

    def produce(self, topic: str, values: Iterable[bytes | NewRecord | None], partition: int = 0, **batch: Any) -> int:
        """Append one batch, as if a producer had sent it with ``acks=1``; return its first offset."""
        with self._changing_cluster() as cluster:
            return cluster.produce(topic, values, partition, **batch)

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Delete what lies before an offset."""
        with self._changing_cluster() as cluster:
            cluster.delete_records(tp, before)

    def compact(self, tp: TopicPartition) -> None:
        """Clean a partition now."""
        with self._changing_cluster() as cluster:
            cluster.compact(tp)

    def kill(self, node: int, *, noticed_after_s: float | None = None) -> None:
        """As ``kill -9``: its connections break, and its port refuses new ones until :meth:`start`."""
        with self._changing_cluster() as cluster:
            cluster.kill(node, noticed_after_s=noticed_after_s)
            self._listeners[node].refuse()

    def start(self, node: int) -> None:
        """Start a killed broker again, with the logs it had, on the same port."""
        with self._changing_cluster() as cluster:
            cluster.start(node)
            self._listeners[node].open()

    def pause(self, node: int) -> None:
        """As SIGSTOP: it says nothing more, and its connections stay."""
        with self._changing_cluster() as cluster:
            cluster.pause(node)

    def resume(self, node: int) -> None:
        """As SIGCONT."""
        with self._changing_cluster() as cluster:
            cluster.resume(node)

    def move_leader(self, tp: TopicPartition, to: int | None = None) -> int:
        """Let another replica lead; return the leader as of now."""
        with self._changing_cluster() as cluster:
            return cluster.move_leader(tp, to)

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Let another broker coordinate a group; return it."""
        with self._changing_cluster() as cluster:
            return cluster.move_coordinator(group, to)

    def cut(self, one: int, other: int = -1) -> None:
        """Cut the network between two brokers, or between one and the controller. Clients still reach both."""
        with self._changing_cluster() as cluster:
            cluster.cut(one, other)

    def heal(self) -> None:
        """End all cuts."""
        with self._changing_cluster() as cluster:
            cluster.heal()

    def on(self, api: Any, action: Any, **limits: Any) -> Rule:
        """Add a fault rule: see :class:`.faults.Rule`."""
        return self._cluster.on(api, action, **limits)

    # -- inside

    @contextmanager
    def _changing_cluster(self) -> Iterator[Cluster]:
        self._check_open()
        self._advance()
        yield self._cluster
        if not self._is_stepping:  # else a rule's function does this, and the step goes on after it
            self._run_until_idle()

    def _check_open(self) -> None:
        if not self._is_open:
            raise IllegalStateError("this broker is closed")

    def _advance(self) -> None:
        try:
            self._cluster.advance(time.monotonic(), time.time())
        except Exception as error:  # what one client has set in motion must not take down the broker of all the others
            log.exception("a timer")
            self._cluster.bugs.append(f"a timer: {error!r}")

    def _run_until_idle(self) -> None:
        """Do what is due by now, and send what there is to send, until nothing is left of either."""
        for _ in range(ROUNDS_MAX):
            self._advance()
            dirty, self._channels_to_flush = self._channels_to_flush, {}
            for channel in dirty:
                channel.flush()
            for channel in list(self._unread_channels):
                channel.update_interest()
            if not self._channels_to_flush and self._cluster.wake_at() > time.monotonic():
                return

    def _accepted(self, node_id: int, sock: socket.socket, host: str) -> None:
        node = self._cluster.nodes[node_id]
        if not node.is_alive or len(self._channels) >= node.config.max_connections:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = _Channel(self, sock, f"/{host}")
        channel.connection = self._cluster.connect(node_id, channel)
        self._channels.add(channel)
        channel.update_interest()


class _PortListener:
    """A broker's port. It stays taken while the broker is down, so that nobody else gets it meanwhile."""

    def __init__(self, broker: EmbeddedBroker, node_id: int, host: str, port: int) -> None:
        self._broker = broker
        self._node_id = node_id
        self._host = host
        self._is_listening = False
        self._socket = self._bound(port)
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """Host and port as clients want them."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    def open(self) -> None:
        """Take connections."""
        if not self._is_listening:
            self._is_listening = True
            self._socket.listen(BACKLOG)
            self._broker._selector.register(self._socket, READ, self)

    def refuse(self) -> None:
        """Refuse connections, those that wait to be accepted included."""
        if self._is_listening:
            self.close()
            self._socket = self._bound(self.port)

    def close(self) -> None:
        """Give the port back."""
        if self._is_listening:
            self._is_listening = False
            self._stop_watching()
        self._socket.close()

    def on_ready(self, mask: int) -> None:
        """Take those that knock, but not all at once: whoever is connected wants to be served too."""
        for _ in range(ACCEPTS_PER_STEP):
            if not self._is_listening:
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    log.info("cannot accept on port %d: %s", self.port, error)
                    return  # whoever knocked is gone
                # It would be ready again at once, for ever: look away for a while.
                log.warning("cannot accept on port %d: %s", self.port, error)
                self._stop_watching()
                self._broker._cluster.schedule.call_later(ACCEPT_PAUSE_S, self._watch_again)
                return
            self._broker._accepted(self._node_id, sock, address[0])

    def _watch_again(self) -> None:
        if self._is_listening and self._broker._is_open:
            self._stop_watching()
            self._broker._selector.register(self._socket, READ, self)

    def _stop_watching(self) -> None:
        try:
            self._broker._selector.unregister(self._socket)
        except KeyError:
            pass  # it was not watched, for want of descriptors

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where REUSEADDR would let two share a port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind((self._host, port))
        except BaseException:
            sock.close()
            raise
        return sock


class _Channel:
    """One client's socket: the transport of its ServerConnection."""

    __slots__ = ("_broker", "_interest", "_is_closing", "_queue", "_socket", "_unsent", "client_host", "connection")

    connection: ServerConnection

    def __init__(self, broker: EmbeddedBroker, sock: socket.socket, client_host: str) -> None:
        self._broker = broker
        self._socket = sock
        self.client_host = client_host
        self._queue: deque[bytes | memoryview] = deque()
        self._unsent = 0
        self._interest = 0
        self._is_closing = False

    # -- for the connection

    def write(self, data: bytes) -> None:
        """Keep it until the step's end."""
        self._queue.append(data)
        self._unsent += len(data)
        self._broker._channels_to_flush[self] = None
        if self._unsent > UNSENT_MAX:
            self.connection.is_muted = True

    def close(self) -> None:
        """Say what is still to be said, then close."""
        self._is_closing = True
        if self._unsent:
            self._broker._channels_to_flush[self] = None
            self._broker._cluster.schedule.call_later(LINGER_S, self.reset)
        else:
            self._release()

    def reset(self) -> None:
        """Break off: what is under way is lost, and the client gets an error."""
        if self._socket.fileno() >= 0:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            except OSError:
                pass  # the client was faster
        self._release()

    # -- for the loop

    def on_ready(self, mask: int) -> None:
        """Read, or write on."""
        if mask & WRITE:
            self._broker._channels_to_flush[self] = None
        if mask & READ:
            self._receive()

    def flush(self) -> None:
        """Send what the kernel takes."""
        try:
            while self._queue:
                if not self._send_once():
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._lost(error)
            return
        connection = self.connection
        if connection.is_muted and self._unsent <= UNSENT_MAX // 2:
            connection.is_muted = False
            connection.process_frames()
        if self._is_closing and not self._unsent:
            self._release()
        self.update_interest()

    def update_interest(self) -> None:
        """Tell the selector what there is to wait for."""
        if self._socket.fileno() < 0:
            return
        is_reading = not self._is_closing and self.connection.wants_input
        wanted = READ * is_reading | WRITE * (self._unsent > 0)
        if wanted == self._interest:
            return
        selector = self._broker._selector
        if not self._interest:
            selector.register(self._socket, wanted, self)
        elif not wanted:
            selector.unregister(self._socket)
        else:
            selector.modify(self._socket, wanted, self)
        self._interest = wanted
        if is_reading:
            self._broker._unread_channels.discard(self)
        else:
            self._broker._unread_channels.add(self)

    # -- inside

    def _receive(self) -> None:
        if self._socket.fileno() < 0 or self._is_closing:
            return
        buffer = self._broker._receive_buffer
        try:
            size = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        if not size:
            self._lost(None)
            return
        try:
            self.connection.data_received(buffer[:size])
        except Exception as error:  # one client's bytes must not take down the broker of all the others
            log.exception("%r", self.connection)
            self._broker._cluster.bugs.append(f"{self.connection!r}: {error!r}")
            self.connection.abort()
        self.update_interest()

    def _send_once(self) -> bool:
        """Send from the front of the queue; return whether the kernel may take more."""
        queue = self._queue
        if _CAN_GATHER:
            buffers = list(itertools.islice(queue, BUFFERS_PER_SEND))
            offered = sum(map(len, buffers))
            sent = self._socket.sendmsg(buffers)
        else:
            offered = len(queue[0])
            sent = self._socket.send(queue[0])
        self._unsent -= sent
        is_all = sent == offered
        while sent:
            first = queue[0]
            if sent >= len(first):
                queue.popleft()
                sent -= len(first)
            else:
                queue[0] = memoryview(first)[sent:]
                sent = 0
        return is_all

    def _lost(self, error: OSError | None) -> None:
        log.debug("%r lost: %s", self.connection, error or "closed by the client")
        self.connection.connection_lost()
        self._release()

    def _release(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._interest:
            self._broker._selector.unregister(self._socket)
            self._interest = 0
        self._socket.close()
        self._queue.clear()
        self._unsent = 0
        self._broker._channels.discard(self)
        self._broker._unread_channels.discard(self)


def _open_directory(path: str, nodes: int) -> Any:
    from .directory import ClusterDirectory

    return ClusterDirectory(path, nodes)
