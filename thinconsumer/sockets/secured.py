"""The driver of a client, with the transports that its ``security_protocol`` and its token endpoint need."""

from collections.abc import Sequence
from functools import cache

from ..config.client_options import ClientOptions
from .resolver import Resolver
from .selector_driver import NO_DELAY, SelectorDriver
from .socket_connection import SocketOption
from .socket_selector import SelectorLike
from .transport import PlainTransport, TransportFactory


def open_driver(
    options: ClientOptions,
    *,
    selector: SelectorLike | None = None,
    resolver: Resolver | None = None,
    receive_buffer_bytes: int | None = None,
    send_buffer_bytes: int | None = None,
    socket_options: Sequence[SocketOption] = NO_DELAY,
) -> SelectorDriver:
    """Return a driver that connects as ``options`` say; the other arguments are those of :class:`.SelectorDriver`.

    Raises:
        KafkaConfigurationError: a certificate, a key or a cipher suite cannot be used.
    """
    return SelectorDriver(
        selector=selector,
        resolver=resolver,
        transport=broker_transport(options),
        https=https_transport(options),
        receive_buffer_bytes=receive_buffer_bytes,
        send_buffer_bytes=send_buffer_bytes,
        socket_options=socket_options,
    )


def broker_transport(options: ClientOptions) -> TransportFactory:
    """Return the transport of connections to brokers."""
    return _tls(options) if options.security_protocol.endswith("SSL") else PlainTransport


def https_transport(options: ClientOptions) -> TransportFactory:
    """Return the transport of connections to an https token endpoint; it reads certificates when it is first used."""
    made = cache(lambda: _tls(options, for_https=True))
    return lambda sock, host: made()(sock, host)


def _tls(options: ClientOptions, *, for_https: bool = False) -> TransportFactory:
    # Imported only here, so that a program without TLS does not load OpenSSL, which takes 10 ms.
    from .tls import tls_transport
    from .tls_context import TlsContexts

    return tls_transport(TlsContexts(options, for_https=for_https).current)
