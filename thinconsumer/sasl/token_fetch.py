"""One attempt to fetch a token over the client's own driver: a name lookup, then connections to one address after the
other until an HTTP exchange brings a response.

Every stage (lookup, connect, exchange) has a deadline, so that an attempt ends even if the lookup is never answered or
the server sends one byte a minute. Each attempt has new connections, and the server is asked to close them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ..config import ClientOptions
from ..driver import Address, Command, Dial, Hangup, Resolve
from ..errors import KafkaConfigurationError, KafkaConnectionError, KafkaError
from ..support.agenda import Agenda, Alarm
from ..support.timers import Random
from .oidc import HttpExchange, HttpResponse, TokenEndpointError, TokenSource
from .tokens import Token

#: Size of the buffer to receive into.
BUFFER_BYTES = 16 * 1024
#: Maximum number of addresses that one attempt tries. Each may take the connect timeout.
ADDRESSES_MAX = 8


class TokenStream:
    """One connection to an address of the token endpoint; implements :class:`thinconsumer.driver.Stream`.

    Args:
        deadline: the end of the current stage (connect or exchange). The stream sets it anew once connected, and makes
            it due when the exchange is over.
        read_timeout: seconds from the request to the end of the response.
    """

    def __init__(
        self, exchange: HttpExchange, address: Address, deadline: Alarm, read_timeout: float, now: float
    ) -> None:
        self.address = address
        self.is_connected = False
        self.stage_began_at = now  #: When the attempt to connect began; once connected, when the request was queued.
        self.has_transport = True  #: Whether the driver still has a transport that must be hung up.
        #: One of these two is set once the exchange is over.
        self.response: HttpResponse | None = None
        self.error: KafkaError | None = None
        self._exchange = exchange
        self._deadline = deadline
        self._read_timeout = read_timeout
        self._out = memoryview(b"")
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    @property
    def is_over(self) -> bool:
        return self.response is not None or self.error is not None

    def connection_made(self, now: float) -> None:
        self.is_connected = True
        self.stage_began_at = now
        self._deadline.set(now + self._read_timeout)
        self._out = memoryview(self._exchange.request)

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int, now: float) -> bool:
        if self.is_over:
            return True  # bytes after the end of the response
        self._receive(bytes(self._buffer[:size]))
        return not self.is_over

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        self.has_transport = False
        if self.is_over:
            return
        if error is not None:
            self.error = error
            self._deadline.touch()
        else:
            self._receive(b"")  # the end of the response, if it has no length

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        return (self._out,) if self._out else ()

    def data_sent(self, size: int, now: float) -> None:
        self._out = self._out[size:]

    def _receive(self, data: bytes) -> None:
        try:
            self.response = self._exchange.receive(data)
        except TokenEndpointError as error:
            # The frames of the traceback have the response as a local variable, which some error reporters show.
            self.error = error.with_traceback(None)
        if self.is_over:
            self._deadline.touch()
            self._out = memoryview(b"")


class TokenFetch:
    """One attempt to fetch a token, which tries the addresses in order. It ends with :attr:`token` or :attr:`error`."""

    def __init__(
        self,
        source: TokenSource,
        options: ClientOptions,
        random: Random,
        wall_time: Callable[[], float],
        agenda: Agenda,
        commands: deque[Command],
        now: float,
    ) -> None:
        self.token: Token | None = None
        self.error: KafkaError | None = None
        self._source = source
        self._endpoint = source.endpoint
        self._random = random
        connect_ms = options.sasl_login_connect_timeout_ms or options.socket_connection_setup_timeout_ms
        self._connect_timeout = connect_ms / 1000  #: Seconds for the lookup, and for TCP and TLS to each address.
        #: Seconds from the request to the end of the response. Java's timeout begins anew with each byte.
        self._read_timeout = (options.sasl_login_read_timeout_ms or options.request_timeout_ms) / 1000
        self._wall_time = wall_time
        self._sent_at = wall_time()  # before the lookup: a token's lifetime, counted from here, never ends too late
        self._deadline = agenda.alarm()  #: The end of the current stage.
        self._deadline.set(now + self._connect_timeout)
        self._is_resolved = False
        self._untried: deque[Address] = deque()
        self._stream: TokenStream | None = None
        self._errors: list[KafkaError] = []
        #: For errors: whoever has set the option may expect it to be used here, too.
        self._hint = "" if options.proxy_url is None else " (not through proxy_url, which is for brokers only)"
        self._commands = commands  #: For the driver.
        commands.append(Resolve(self._endpoint.host, self._endpoint.port))

    @property
    def is_over(self) -> bool:
        return self.token is not None or self.error is not None

    @property
    def progress(self) -> str:
        """The step that the attempt waits for, for the error of a call that has timed out meanwhile."""
        stream = self._stream
        if stream is None:
            return f"{self._endpoint}: resolving the name"
        if not stream.is_connected:
            return f"{self._endpoint}: connecting to {stream.address}"
        return f"{self._endpoint}: waiting for the response of {stream.address}"

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the result of the lookup; ignore a result for another host, or a second one."""
        if self._is_resolved or self.is_over or (host, port) != (self._endpoint.host, self._endpoint.port):
            return
        self._is_resolved = True
        self._deadline.touch()
        self._untried.extend(addresses[:ADDRESSES_MAX])
        if not addresses:
            self._fail(self._connection_error(f"cannot resolve the name: {error or 'it has no address'}"))

    def step(self, now: float) -> None:
        """Take the result of the exchange, end a stage that has passed its deadline, and dial the next address."""
        if self.is_over:
            return
        stream = self._stream
        if stream is not None:
            if not stream.is_over and self._deadline.is_over(now):
                stream.error = self._late(stream, now)
            if stream.is_over:
                self._finish(stream)
        elif not self._is_resolved and self._deadline.is_over(now):
            text = f"timed out: the name was not resolved within {self._connect_timeout:.1f} s"
            self._fail(self._connection_error(text))
        if self._stream is None and not self.is_over and self._untried:
            self._dial(self._untried.popleft(), now)

    def _dial(self, address: Address, now: float) -> None:
        try:
            exchange = self._source.exchange(self._wall_time(), self._random)
        except KafkaConfigurationError as error:
            # The frames of the traceback have the private key as a local variable.
            self._fail(error.with_traceback(None))
            return
        self._deadline.set(now + self._connect_timeout)
        self._stream = TokenStream(exchange, address, self._deadline, self._read_timeout, now)
        self._commands.append(Dial(self._stream, self._endpoint.host, address, purpose=self._endpoint.scheme))

    def _late(self, stream: TokenStream, now: float) -> KafkaConnectionError:
        seconds = now - stream.stage_began_at
        done = "no complete response" if stream.is_connected else "no connection"
        option = "sasl_login_read_timeout_ms" if stream.is_connected else "sasl_login_connect_timeout_ms"
        return self._connection_error(f"timed out: {done} from {stream.address} within {seconds:.1f} s ({option})")

    def _finish(self, stream: TokenStream) -> None:
        """Take a connection's result. It ends the attempt, unless the error is retriable and an address is untried."""
        self._hang_up()
        response, error = stream.response, stream.error
        if response is None:
            assert error is not None
            has_no_answer = isinstance(error, KafkaConnectionError) or error.retriable
            self._errors.append(self._named(error))
            if not has_no_answer or not self._untried:
                # Of several errors, a rejected certificate tells more about the cause than a lost connection.
                rejected = (error for error in self._errors if getattr(error, "is_certificate_rejected", False))
                self._fail(next(rejected, self._errors[-1]))
            return
        try:
            self.token = self._source.token(response, self._sent_at, self._wall_time())
        except TokenEndpointError as rejection:
            self._fail(rejection.with_traceback(None))

    def _named(self, error: KafkaError) -> KafkaError:
        """Return an error that says that the connection was one to the token endpoint, not to a broker."""
        if not isinstance(error, KafkaConnectionError) or str(error).startswith(str(self._endpoint)):
            return error
        is_rejected = error.is_certificate_rejected
        named = self._connection_error(str(error), is_certificate_rejected=is_rejected)
        named.__cause__ = error
        return named

    def _connection_error(self, text: str, *, is_certificate_rejected: bool = False) -> KafkaConnectionError:
        return KafkaConnectionError(
            f"{self._endpoint}: {text}{'' if is_certificate_rejected else self._hint}",
            host=self._endpoint.host,
            port=self._endpoint.port,
            is_certificate_rejected=is_certificate_rejected,
        )

    def _hang_up(self) -> None:
        self._deadline.clear()
        stream, self._stream = self._stream, None
        if stream is not None and stream.has_transport:
            self._commands.append(Hangup(stream))

    def _fail(self, error: KafkaError) -> None:
        self._deadline.clear()
        if not self.is_over:
            self.error = error
