"""The options common to all clients: those of TLS and SASL, and of connections and metadata.

There are no socket options (resolver, buffer sizes) among them, because the application of another client than a
consumer creates the driver, which owns the sockets, and passes it to the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._version import __version__
from ..support.lazy_dataclass import dataclass
from .build import from_dotted_names, from_options
from .declare import section
from .kinds import (
    INT32,
    INT64,
    POSITIVE_INT32,
    POSITIVE_INT64,
    Boolean,
    Choice,
    Integer,
    MillisecondsOrNever,
    Servers,
    Text,
)
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
        Servers(),
        (HostPort("localhost", 9092),),
        "Servers to request the cluster's metadata from; one that answers is enough. The default port is 9092.",
    )
    client_id: str = _cluster(
        Text(),
        f"thinconsumer-{__version__}",
        "The client id in every request, for the broker's logs, metrics and quotas.",
    )
    default_api_timeout_ms: int = _cluster(
        INT32, 60000, "The timeout of calls that wait for a broker, unless they are given their own."
    )
    metadata_max_age_ms: int = _cluster(
        INT64, 300000, "Metadata is refreshed after this time, so that new partitions and brokers are noticed."
    )
    metadata_recovery_strategy: str = _cluster(
        Choice(("rebootstrap", "none")),
        "rebootstrap",
        "What to do when no known broker answers: go back to `bootstrap_servers`, or keep trying (KIP-899).",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = _cluster(
        INT64, 300000, "Go back to `bootstrap_servers` when metadata could not be refreshed for this long (KIP-1102)."
    )
    allow_auto_create_topics: bool = _cluster(
        Boolean(), False, "Whether a metadata request may create a missing topic, if the broker allows it."
    )

    request_timeout_ms: int = _link(
        POSITIVE_INT32, 30000, "How long a request may take, including the wait for its connection, before it fails."
    )
    retry_backoff_ms: int = _link(
        INT64,
        100,
        "Backoff after the first failure of a request, never less than 10; doubles with each consecutive failure. When "
        "not given, at most `retry_backoff_max_ms`.",
    )
    retry_backoff_max_ms: int = _link(
        INT64, 1000, "Longest backoff of requests. When not given, at least `retry_backoff_ms`."
    )
    reconnect_backoff_ms: int = _link(
        INT64,
        50,
        "Backoff after the first failure to connect to a broker; doubles with each consecutive failure. When not "
        "given, at most `reconnect_backoff_max_ms`.",
    )
    reconnect_backoff_max_ms: int = _link(
        INT64, 1000, "Longest backoff of connections. When not given, at least `reconnect_backoff_ms`."
    )
    socket_connection_setup_timeout_ms: int = _link(
        POSITIVE_INT64,
        10000,
        "How long connecting to one address may take at first; doubles with each consecutive failure (KIP-601). When "
        "not given, at most `socket_connection_setup_timeout_max_ms`.",
    )
    socket_connection_setup_timeout_max_ms: int = _link(
        POSITIVE_INT64,
        30000,
        "How long connecting may take at most. When not given, at least `socket_connection_setup_timeout_ms`.",
    )
    connections_max_idle_ms: float = _link(
        MillisecondsOrNever(at_least=1),
        540000,
        "Close a connection that was not used for this long; below the broker's own limit of ten minutes, so "
        "that the broker does not close it while a request is sent. If load balancers drop idle connections, below "
        "their limit; a response that a program reads late counts as use at the call before it.",
    )
    max_in_flight_requests_per_connection: int = _link(
        POSITIVE_INT32, 5, "How many requests may be in flight on one connection."
    )
    receive_message_max_bytes: int = _link(
        Integer(at_least=1024),
        100_000_000,
        "Largest response to accept; a peer that announces more is disconnected. When not given, at least "
        "`fetch_max_bytes` + `max_partition_fetch_bytes`.",
    )

    @classmethod
    def from_options(cls: type[C], /, **options: Unpack[ClientKeywords]) -> C:
        """Build from options by their Python names.

        Warns, with :class:`ConfigurationWarning`, of each option that is accepted but has no effect.

        Raises:
            KafkaConfigurationError: lists all invalid options, with suggestions for misspelled names.
        """
        return cls(**from_options(cls.options(), options))

    @classmethod
    def from_config(cls: type[C], config: Mapping[str, Any], /) -> C:
        """Build from the dotted names of Kafka's documentation; values are typed, or text as in a file.

        Warns and raises as :meth:`from_options`, naming the dotted names.
        """
        return cls(**from_dotted_names(cls.options(), config))
