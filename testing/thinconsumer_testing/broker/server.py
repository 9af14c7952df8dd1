"""The embedded broker: the cluster with sockets, on one thread.

All brokers share one selector loop and one clock, and nothing happens outside :meth:`EmbeddedBroker.step`,
:meth:`EmbeddedBroker.serve_forever` and the methods that change the cluster.
A step collects responses and sends them together. While a client does not read its responses, the broker does not read
this client's requests.
Follows the limits of Kafka's ``SocketServer``.
"""

from __future__ import annotations

import logging
import random
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.support.timers import NEVER

from .channel import Channel, ChannelRegistry, PortListener
from .cluster import Cluster
from .config import BrokerConfig
from .controller import ControllerError
from .directory import ClusterDirectory
from .faults import FaultRule
from .image import TopicImage
from .operations import BrokerOperations
from .security import ListenerSecurity
from .tls_channel import TlsChannel, server_context

log = logging.getLogger(__name__)

PORT_MAX = 65_535
#: How often ``serve_forever`` checks for :meth:`EmbeddedBroker.stop`.
STOP_CHECK_S = 0.25
#: A timer may cause a response, and a flush may let a client's next request run and start a timer. After this many
#: rounds of timers and flushes the broker polls its sockets again; otherwise an endless chain of timers that are due at
#: once would block all clients.
ROUNDS_MAX = 16


class EmbeddedBroker(BrokerOperations):
    """A Kafka cluster of one or more brokers in this process, listening on this host.

    It works only while it is stepped: by :meth:`serve_forever` in a process of its own, by :meth:`step` in a loop of
    yours, or by an event loop that calls :meth:`step` when :meth:`fileno` is readable and at the time :meth:`wake_at`.

    Args:
        nodes: Number of brokers; their ids are 1, 2, ...
        topics: Topic names with their partition counts.
        port: Port of the first broker; the others use the following ones. 0: any free ports.
        host: The address to listen on and to advertise.
        config: Configuration by Kafka's names (``{"num.partitions": 3}``), or a BrokerConfig.
        directory: Where to store the data; None keeps it in memory.
        racks: Rack of each broker.
        seed: Seed of ids, session ids and random delays.
        security: TLS and SASL, as a :class:`~.security.ListenerSecurity` or a mapping of its settings; None: neither.

    Raises:
        OSError: A port is taken.
        IllegalArgumentError: A config, a topic or a security setting is invalid.
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
        security: ListenerSecurity | Mapping[str, Any] | None = None,
    ) -> None:
        if port + nodes - 1 > PORT_MAX:
            raise IllegalArgumentError(
                f"{nodes} brokers need the ports {port} to {port + nodes - 1}, but the highest port is {PORT_MAX}"
            )
        self._registry = ChannelRegistry()
        self._listeners: dict[int, PortListener] = {}
        self._is_open = True
        self._is_stopping = False
        self._is_stepping = False
        self._storage: ClusterDirectory | None = None
        self._tls_context: ssl.SSLContext | None = None
        try:
            settings = security if isinstance(security, ListenerSecurity) else ListenerSecurity.of(security or {})
            if settings.uses_tls:
                self._tls_context = server_context(settings)
            for index in range(nodes):
                self._listeners[index + 1] = PortListener(
                    self._registry.selector,
                    host,
                    port + index if port else 0,
                    partial(self._accepted, index + 1),
                    lambda seconds, callback: self.cluster.schedule.call_later(seconds, callback),
                )
            if directory is not None:
                self._storage = ClusterDirectory(directory, nodes)
            #: For inspection only. Changes must be made with the methods of EmbeddedBroker, which then also send the
            #: responses that a change has completed, and open or close ports.
            self.cluster: Cluster = Cluster(
                nodes,
                topics,
                random=random.Random(seed),
                config=config if isinstance(config, BrokerConfig) else BrokerConfig.of(config or {}),
                hosts=[(host, listener.port) for listener in self._listeners.values()],
                racks=racks,
                now=time.monotonic(),
                wall_time=time.time(),
                storage=self._storage,
                security=settings,
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
        """Run due timers, process received bytes, and send responses. If nothing is due and no socket is ready, first
        wait until a timer is due or a socket is ready, at most ``timeout_s`` seconds (None: without limit).
        """
        self._check_open()
        self._run_until_idle()
        wait = max(0.0, self.cluster.wake_at() - time.monotonic())
        if timeout_s is not None:
            wait = min(wait, timeout_s)
        ready = self._registry.selector.select(None if wait == NEVER else wait)
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
        """Make :meth:`serve_forever` return after its current step, which waits for at most STOP_CHECK_S seconds."""
        self._is_stopping = True

    def fileno(self) -> int:
        """Return a file descriptor that is readable when a socket needs :meth:`step`; for timers see :meth:`wake_at`.

        Raises:
            OSError: The platform's selector has no file descriptor (Windows).
        """
        fileno = getattr(self._registry.selector, "fileno", None)
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
        for listener in self._listeners.values():
            listener.close()
        self._registry.close()
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
            self._registry.flush()
            if not self._registry.has_unflushed and self.cluster.wake_at() > time.monotonic():
                return

    def _accepted(self, node_id: int, sock: socket.socket, host: str) -> None:
        node = self.cluster.nodes[node_id]
        if not node.is_alive or len(self._registry.channels) >= node.config.max_connections:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel: Channel
        if self._tls_context is None:
            channel = Channel(self._registry, sock, f"/{host}")
        else:
            try:
                channel = TlsChannel(self._registry, sock, f"/{host}", self._tls_context)
            except OSError as error:
                log.info("cannot begin TLS with client %s: %s", host, error)
                sock.close()
                return
        channel.connection = self.cluster.connect(node_id, channel)
        self._registry.channels.add(channel)
        channel.update_interest()
