"""The options common to all clients, with the declarations, defaults, checks and hints of the consumer's options.

:class:`ClientOptions` lists the consumer's options that do not concern fetching. It has no socket options (resolver,
buffer sizes), because the application creates the driver, which owns the sockets, and passes it to the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..support.lazy_dataclass import dataclass, field
from .build import from_dotted_names, from_options
from .options import OPTIONS, ConsumerConfig
from .security import SecurityOptions
from .values import HostPort

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .typed import ClientKeywords

C = TypeVar("C", bound="ClientOptions")


def shared(name: str) -> Any:
    """Return a dataclass field for an option that the consumer has, too, with the same declaration and default."""
    declared = OPTIONS[name]
    return field(default=declared.default, metadata={"option": declared})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ClientOptions(SecurityOptions):
    """The options of every client. Build it with :meth:`from_options`: the constructor checks nothing."""

    bootstrap_servers: tuple[HostPort, ...] = shared("bootstrap_servers")
    client_id: str = shared("client_id")
    default_api_timeout_ms: int = shared("default_api_timeout_ms")
    metadata_max_age_ms: int = shared("metadata_max_age_ms")
    metadata_recovery_strategy: str = shared("metadata_recovery_strategy")
    metadata_recovery_rebootstrap_trigger_ms: int = shared("metadata_recovery_rebootstrap_trigger_ms")
    allow_auto_create_topics: bool = shared("allow_auto_create_topics")
    request_timeout_ms: int = shared("request_timeout_ms")
    retry_backoff_ms: int = shared("retry_backoff_ms")
    retry_backoff_max_ms: int = shared("retry_backoff_max_ms")
    reconnect_backoff_ms: int = shared("reconnect_backoff_ms")
    reconnect_backoff_max_ms: int = shared("reconnect_backoff_max_ms")
    socket_connection_setup_timeout_ms: int = shared("socket_connection_setup_timeout_ms")
    socket_connection_setup_timeout_max_ms: int = shared("socket_connection_setup_timeout_max_ms")
    connections_max_idle_ms: float = shared("connections_max_idle_ms")
    max_in_flight_requests_per_connection: int = shared("max_in_flight_requests_per_connection")
    receive_message_max_bytes: int = shared("receive_message_max_bytes")

    @classmethod
    def from_options(cls: type[C], /, **options: Unpack[ClientKeywords]) -> C:
        """Build from options by their Python names.

        Raises:
            KafkaConfigurationError: lists all invalid options, with suggestions for misspelled names.
        """
        return cls(**from_options(cls.options(), options))

    @classmethod
    def from_config(cls: type[C], config: Mapping[str, Any], /) -> C:
        """Build from the dotted names of Kafka's documentation; values are typed, or text as in a file."""
        return cls(**from_dotted_names(cls.options(), config))


#: The options of any client. Code shared by all clients uses this type: it may only read the fields of both classes.
CommonOptions = ClientOptions | ConsumerConfig
