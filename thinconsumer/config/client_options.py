"""The options common to all clients: those of TLS and SASL, and of connections and metadata.

Settings of sockets and name lookups are not among them: they belong to the driver. Only a consumer has options for
them, with which it creates its driver. For another client, create a driver with them and pass it to the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._version import __version__
from ..support.lazy_dataclass import dataclass
from . import kinds
from .build import from_options
from .declare import section
from .proxy import ProxyUrl
from .security import SecurityOptions
from .values import HostPort

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .typed import ClientKeywords

C = TypeVar("C", bound="ClientOptions")


_cluster = section("Reaching the cluster")
_link = section("Connections")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ClientOptions(SecurityOptions):
    """The options of every client. Build it with :meth:`from_options`: the constructor checks nothing."""

    bootstrap_servers: tuple[HostPort, ...] = _cluster(
        kinds.Servers(),
        "Servers to request the cluster's metadata from; one that answers is enough. The default port is 9092.",
        (HostPort("localhost", 9092),),
    )
    client_id: str = _cluster(
        kinds.Text(),
        "The client id in every request, for the broker's logs, metrics and quotas.",
        f"thinconsumer-{__version__}",
    )
    default_api_timeout_ms: int = _cluster(
        kinds.INT32, "The timeout of calls that wait for a broker, unless they are given their own.", 60000
    )
    metadata_max_age_ms: int = _cluster(
        kinds.INT64, "Metadata is refreshed after this time, so that new partitions and brokers are noticed.", 300000
    )
    metadata_recovery_strategy: str = _cluster(
        kinds.Choice(("rebootstrap", "none")),
        "What to do when no known broker answers: go back to `bootstrap_servers`, or keep trying (KIP-899).",
        "rebootstrap",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = _cluster(
        kinds.INT64,
        "Go back to `bootstrap_servers` when metadata could not be refreshed for this long (KIP-1102).",
        300000,
    )
    metadata_cluster_check_enable: bool = _cluster(
        kinds.Boolean(),
        "Whether a connection to a known broker names the cluster id and the broker's node id. If another broker has "
        "got its address, it rejects the connection, and the client goes back to `bootstrap_servers` (KIP-1242). "
        "Brokers before Kafka 4.4 check nothing. No effect with `metadata_recovery_strategy='none'`.",
        True,
    )
    allow_auto_create_topics: bool = _cluster(
        kinds.Boolean(), "Whether a metadata request may create a missing topic, if the broker allows it.", False
    )

    proxy_url: str | None = _link(
        ProxyUrl(),
        "Connect to brokers through this proxy: `socks5://user:password@host:port`; without `user:password@` if it "
        "needs no login. With `socks5h://`, and `http://` for HTTP CONNECT, the proxy looks up the brokers' names. "
        "kafka-python's older name `socks5_proxy` works, too.",
    )
    request_timeout_ms: int = _link(
        kinds.POSITIVE_INT32,
        "How long a request may take, including the wait for its connection, before it fails.",
        30000,
    )
    retry_backoff_ms: int = _link(
        kinds.INT64,
        "Backoff after the first failure of a request, never less than 10; doubles with each consecutive failure. When "
        "not given, at most `retry_backoff_max_ms`.",
        100,
    )
    retry_backoff_max_ms: int = _link(
        kinds.INT64, "Longest backoff of requests. When not given, at least `retry_backoff_ms`.", 1000
    )
    reconnect_backoff_ms: int = _link(
        kinds.INT64,
        "Backoff after the first failure to connect to a broker; doubles with each consecutive failure. When not "
        "given, at most `reconnect_backoff_max_ms`.",
        50,
    )
    reconnect_backoff_max_ms: int = _link(
        kinds.INT64, "Longest backoff of connections. When not given, at least `reconnect_backoff_ms`.", 1000
    )
    socket_connection_setup_timeout_ms: int = _link(
        kinds.POSITIVE_INT64,
        "How long connecting to one address may take at first; doubles with each consecutive failure (KIP-601). When "
        "not given, at most `socket_connection_setup_timeout_max_ms`.",
        10000,
    )
    socket_connection_setup_timeout_max_ms: int = _link(
        kinds.POSITIVE_INT64,
        "How long connecting may take at most. When not given, at least `socket_connection_setup_timeout_ms`.",
        30000,
    )
    connections_max_idle_ms: float = _link(
        kinds.MillisecondsOrNever(at_least=1),
        "Close a connection that was not used for this long. It is below the broker's own limit of ten minutes, so "
        "that the broker does not close a connection while a request is sent. If a load balancer drops idle "
        "connections, set it below that limit, too. A response counts as use at the last call before it arrived.",
        540000,
    )
    max_in_flight_requests_per_connection: int = _link(
        kinds.POSITIVE_INT32, "How many requests may be in flight on one connection.", 5
    )
    receive_message_max_bytes: int = _link(
        kinds.Integer(at_least=1024),
        "Largest response to accept; a peer that announces more is disconnected. When not given, at least "
        "`fetch_max_bytes` + `max_partition_fetch_bytes`.",
        100_000_000,
    )

    @classmethod
    def from_options(cls: type[C], /, **options: Unpack[ClientKeywords]) -> C:
        """Build from options by their Python names.

        Warns, with :class:`ConfigurationWarning`, of each option that is accepted, but is a security risk, has no
        effect, or not the effect that its name suggests.

        Raises:
            KafkaConfigurationError: lists all invalid options, with suggestions for misspelled names.
        """
        return cls(**from_options(cls.options(), options))

    @classmethod
    def from_config(cls: type[C], config: Mapping[str, Any], /) -> C:
        """Build from the dotted names of Kafka's documentation; values are typed, or text as in a file.

        Warns and raises as :meth:`from_options`, naming the dotted names.
        """
        return cls(**from_options(cls.options(), config, text_allowed=True))
