"""The embedded broker: the cluster with sockets, on one thread.

Owns the only sockets, selector and clock of the broker side. All brokers share one selector loop, and nothing happens
outside :meth:`EmbeddedBroker.step`, :meth:`EmbeddedBroker.serve_forever` and the methods that change the cluster.
Responses are sent once per step; a client that does not read its responses is not read from. Follows the limits of
Kafka's ``SocketServer``.
"""

from __future__ import annotations

import errno
import logging
import random
import selectors
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import IllegalArgumentError, IllegalStateError
from ..timers import NEVER
from .cluster import Cluster
from .config import BrokerConfig
from .connection import ServerConnection
from .controller import ControllerError
from .directory import ClusterDirectory
from .faults import FaultRule
from .image import TopicImage
from .operations import BrokerOperations

log = logging.getLogger(__name__)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
RECEIVE_BYTES = 512 * 1024
BACKLOG = 1024
PORT_MAX = 65_535
ACCEPTS_PER_STEP = 64
#: While more response bytes than this are unsent on a connection, its further requests wait, so that a client that does
#: not read its responses cannot fill the broker's memory.
UNSENT_MAX = 1024 * 1024
#: How long a closed connection may take to flush its last responses.
LINGER_S = 5.0
#: How long a listener pauses when no file descriptor is available.
ACCEPT_PAUSE_S = 0.1
#: How often ``serve_forever`` checks for :meth:`EmbeddedBroker.stop`.
STOP_CHECK_S = 0.25
#: A timer may cause a response, and a flush may let a client's next request run and start a timer. After this many
#: rounds of timers and flushes the broker polls its sockets again, so that timers always due cannot block the clients.
ROUNDS_MAX = 16

_NO_LINGER = struct.pack("ii", 1, 0)
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class EmbeddedBroker(BrokerOperations):
    """A Kafka cluster of one or more brokers in this process, listening on this host.

    It works only while it is stepped: by :meth:`serve_forever` in a process of its own, by :meth:`step` in a loop of
    yours, or by an event loop that watches :meth:`fileno` and calls at :meth:`wake_at`.

    Args:
        nodes: Number of brokers; their ids are 1, 2, ...
        topics: Topic names with their partition counts.
        port: Port of the first broker; the others use the following ones. 0: any free ports.
        host: The address to listen on and to advertise.
        config: Configuration by Kafka's names (``{"num.partitions": 3}``), or a BrokerConfig.
        directory: Where to store the data; None keeps it in memory.
        racks: Rack of each broker.
        seed: Seed of ids, session ids and random delays.

    Raises:
        OSError: A port is taken.
        IllegalArgumentError: A config or a topic is invalid.
        IllegalStateError: The directory is in use, or its contents cannot be read.
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
            raise IllegalArgumentError(
                f"{nodes} brokers need the ports {port} to {port + nodes - 1}, but the highest port is {PORT_MAX}"
            )
        self._selector = selectors.DefaultSelector()
        self._receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._channels: set[_Channel] = set()
        self._channels_to_flush: dict[_Channel, None] = {}
        self._unread_channels: set[_Channel] = set()  #: Channels that are open but not read from at present.
        self._listeners: dict[int, _PortListener] = {}
        self._is_open = True
        self._is_stopping = False
        self._is_stepping = False
        self._storage: ClusterDirectory | None = None
        try:
            for index in range(nodes):
                listener = _PortListener(self, index + 1, host, port + index if port else 0)
                self._listeners[index + 1] = listener
            if directory is not None:
                self._storage = ClusterDirectory(directory, nodes)
            #: For inspection only. Changes must be made with the methods of EmbeddedBroker, which then also send the
            #: responses that a change has completed, and open or close ports.
            self.cluster = Cluster(
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
                raise IllegalArgumentError(f"cannot create the topics of topics={topics!r}: {error.message}") from error
            raise

    def __repr__(self) -> str:
        return f"<EmbeddedBroker {self.bootstrap_servers}{'' if self._is_open else ' closed'}>"

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, comma-separated, for clients to bootstrap from."""
        return ",".join(listener.address for listener in self._listeners.values())

    def step(self, timeout_s: float | None = 0.0) -> None:
        """Run due timers, process received bytes, and send responses. If nothing is due and no socket is ready, wait
        for that up to ``timeout_s`` seconds (None: for ever).
        """
        self._check_open()
        self._run_until_idle()
        wait = max(0.0, self.cluster.wake_at() - time.monotonic())
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
        """Run until :meth:`stop` is called, for example by a signal handler or a fault rule, or an error is raised."""
        self._is_stopping = False
        while not self._is_stopping:
            self.step(STOP_CHECK_S)

    def stop(self) -> None:
        """Make :meth:`serve_forever` return after its current step, within STOP_CHECK_S seconds."""
        self._is_stopping = True

    def fileno(self) -> int:
        """Return a file descriptor that is readable when :meth:`step` has work.

        Raises:
            OSError: The platform's selector has no file descriptor (Windows).
        """
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise OSError("this platform's selector has no file descriptor: call step() regularly instead")
        return int(fileno())

    def wake_at(self) -> float:
        """Return when :meth:`step` must be called at the latest, in ``time.monotonic()`` seconds."""
        return self.cluster.wake_at()

    def close(self) -> None:
        """Stop listening, reset all connections and release all resources; idempotent."""
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

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> TopicImage:
        """Create a topic, and return it."""
        created = super().create_topic(name, partitions, replication_factor, configs)
        assert created is not None
        return created

    def on(self, api: Any, action: Any, **limits: Any) -> FaultRule:
        """Add a fault rule: see :class:`.faults.FaultRule`."""
        return self.cluster.on(api, action, **limits)

    def _perform(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self._check_open()
        self._advance()
        result = getattr(self.cluster, name)(*args, **kwargs)
        for node_id, listener in self._listeners.items():
            if self.cluster.nodes[node_id].is_alive:
                listener.open()
            else:
                listener.refuse()
        # If a fault rule's function has made this change, a step is running, and it sends the resulting responses.
        if not self._is_stepping:
            self._run_until_idle()
        return result

    def _check_open(self) -> None:
        if not self._is_open:
            raise IllegalStateError("this broker is closed")

    def _advance(self) -> None:
        try:
            self.cluster.advance(time.monotonic(), time.time())
        except Exception as error:  # One client's timer must not stop the broker for all clients.
            log.exception("a timer callback of the broker failed; the broker continues")
            self.cluster.bugs.append(f"a timer callback: {error!r}")

    def _run_until_idle(self) -> None:
        """Run due timers and flush responses until none is left, at most ROUNDS_MAX times."""
        for _ in range(ROUNDS_MAX):
            self._advance()
            dirty, self._channels_to_flush = self._channels_to_flush, {}
            for channel in dirty:
                channel.flush()
            for channel in list(self._unread_channels):
                channel.update_interest()
            if not self._channels_to_flush and self.cluster.wake_at() > time.monotonic():
                return

    def _accepted(self, node_id: int, sock: socket.socket, host: str) -> None:
        node = self.cluster.nodes[node_id]
        if not node.is_alive or len(self._channels) >= node.config.max_connections:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = _Channel(self, sock, f"/{host}")
        channel.connection = self.cluster.connect(node_id, channel)
        self._channels.add(channel)
        channel.update_interest()


class _PortListener:
    """A broker's port. It stays bound while the broker is down, so that no other process takes it."""

    def __init__(self, broker: EmbeddedBroker, node_id: int, host: str, port: int) -> None:
        self._broker = broker
        self._node_id = node_id
        self._host = host
        self._is_listening = False
        self._socket = self._bound(port)
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    def open(self) -> None:
        """Accept connections."""
        if not self._is_listening:
            self._is_listening = True
            self._socket.listen(BACKLOG)
            self._broker._selector.register(self._socket, READ, self)

    def refuse(self) -> None:
        """Refuse connections, including those in the accept queue."""
        if self._is_listening:
            self.close()
            self._socket = self._bound(self.port)

    def close(self) -> None:
        """Release the port."""
        if self._is_listening:
            self._is_listening = False
            self._stop_watching()
        self._socket.close()

    def on_ready(self, mask: int) -> None:
        """Accept waiting connections, limited per step so that connected clients are served, too."""
        for _ in range(ACCEPTS_PER_STEP):
            if not self._is_listening:
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    log.info("cannot accept a connection on port %d: %s", self.port, error)
                    return  # The client has closed the connection before it was accepted.
                # The connection stays in the accept queue and the listening socket readable, so the selector would
                # report it in every step and use up the processor. The listener is not watched for ACCEPT_PAUSE_S
                # instead.
                log.warning(
                    "out of resources: cannot accept on port %d, retrying in %s s: %s", self.port, ACCEPT_PAUSE_S, error
                )
                self._stop_watching()
                self._broker.cluster.schedule.call_later(ACCEPT_PAUSE_S, self._watch_again)
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
            pass  # The listening socket is not registered with the selector while accepting is paused.

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where REUSEADDR would let two processes share a port
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
    """One client's socket, as the transport of its ServerConnection."""

    __slots__ = ("_broker", "_interest", "_is_closing", "_queue", "_socket", "_unsent", "client_host", "connection")

    connection: ServerConnection

    def __init__(self, broker: EmbeddedBroker, sock: socket.socket, client_host: str) -> None:
        self._broker = broker
        self._socket = sock
        self.client_host = client_host
        self._queue: list[bytes | memoryview] = []
        self._unsent = 0
        self._interest = 0
        self._is_closing = False

    def write(self, data: bytes) -> None:
        """Queue data, which is sent at the end of the running step together with other responses."""
        self._queue.append(data)
        self._unsent += len(data)
        self._broker._channels_to_flush[self] = None
        if self._unsent > UNSENT_MAX:
            self.connection.is_muted = True

    def close(self) -> None:
        """Close once the queued data is sent; reset the connection if that takes longer than LINGER_S."""
        self._is_closing = True
        if self._unsent:
            self._broker._channels_to_flush[self] = None
            self._broker.cluster.schedule.call_later(LINGER_S, self.reset)
        else:
            self._release()

    def reset(self) -> None:
        """Close with a TCP reset; queued data is lost."""
        if self._socket.fileno() >= 0:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            except OSError:
                pass  # Some systems reject the option after the client has closed the connection.
        self._release()

    def on_ready(self, mask: int) -> None:
        """Receive if the socket is readable; schedule a flush if it is writable."""
        if mask & WRITE:
            self._broker._channels_to_flush[self] = None
        if mask & READ:
            self._receive()

    def flush(self) -> None:
        """Send as much of the queued data as the kernel accepts without blocking. Also lets the connection serve
        requests again once at most half of UNSENT_MAX is unsent, and completes :meth:`close`.
        """
        try:
            if self._queue:
                data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
                sent = self._socket.send(data)
                self._unsent -= sent
                self._queue = [memoryview(data)[sent:]] if self._unsent else []
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
        """Register with the selector for reading, unless input is held back, and for writing if bytes are unsent."""
        if self._socket.fileno() < 0:
            return
        is_reading = not self._is_closing and self.connection.wants_input
        interest = READ * is_reading | WRITE * (self._unsent > 0)
        if interest == self._interest:
            return
        selector = self._broker._selector
        if not self._interest:
            selector.register(self._socket, interest, self)
        elif not interest:
            selector.unregister(self._socket)
        else:
            selector.modify(self._socket, interest, self)
        self._interest = interest
        if is_reading:
            self._broker._unread_channels.discard(self)
        else:
            self._broker._unread_channels.add(self)

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
        except Exception as error:  # One client's bytes must not stop the broker for all clients.
            log.exception("%r failed to process received data; resetting it", self.connection)
            self._broker.cluster.bugs.append(f"{self.connection!r}: {error!r}")
            self.connection.abort()
        self.update_interest()

    def _lost(self, error: OSError | None) -> None:
        log.debug("%r is lost: %s", self.connection, error or "closed by the client")
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
