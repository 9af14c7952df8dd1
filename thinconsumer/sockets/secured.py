"""The driver of a client, with the transports that its ``security_protocol`` and its token endpoint need."""

from functools import cache

from ..config.client_options import ClientOptions
from .selector_driver import SelectorDriver
from .transport import PlainTransport, TransportFactory


def open_driver(options: ClientOptions) -> SelectorDriver:
    """Return a driver with the transports that ``options`` choose.

    Raises:
        KafkaConfigurationError: a certificate, a key or a cipher suite cannot be used.
    """
    return SelectorDriver(transport=broker_transport(options), https=https_transport(options))


def broker_transport(options: ClientOptions) -> TransportFactory:
    """Return the transport of connections to brokers. Raises as :func:`open_driver`."""
    return _tls(options) if options.security_protocol.endswith("SSL") else PlainTransport


def https_transport(options: ClientOptions) -> TransportFactory:
    """Return the transport of connections to an https token endpoint. Certificates are read when it is first used."""
    made = cache(lambda: _tls(options, for_https=True))
    return lambda sock, host: made()(sock, host)


def _tls(options: ClientOptions, *, for_https: bool = False) -> TransportFactory:
    # Imported only here, so that a program without TLS does not load OpenSSL, which takes 10 ms.
    from .tls import tls_transport
    from .tls_context import TlsContexts

    return tls_transport(TlsContexts(options, for_https=for_https).current)
