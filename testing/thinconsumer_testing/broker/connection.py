"""One client connection to a broker: it serves requests one at a time and sends responses in order.

Owns the receive buffer, the limits on what a client may send, and the execution of fault rules. An invalid request
closes its own connection and affects no other. Must not know sockets: it writes to a :class:`ClientTransport`.
Follows Kafka's ``SocketServer`` (a connection is muted while one of its requests is served) and KIP-511 (an ApiVersions
request that is too new is answered in version 0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from thinconsumer.errors import KafkaError, KafkaProtocolError
from thinconsumer.support.garbage_collection import garbage_collection_paused
from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.produce import ProduceRequest

from .call import Api, ApiCall
from .faults import Delay, Disconnect, Edit, EntryError, FaultAction, Pass, Raw, Reply, Silence
from .login.authenticator import RECEIVE_MAX, Admission, Authenticator
from .login.exchange import LoginFailedError
from .schedule import Timer
from .security import ANONYMOUS
from .wire.requests import RequestHeader, decode_request_header, encode_response

if TYPE_CHECKING:
    from .node import BrokerNode

log = logging.getLogger(__name__)

SIZE = 4  #: Bytes of the length prefix of a frame.
#: While this many received bytes of a connection cannot be processed yet, its socket is not read from.
UNPROCESSED_MAX = 256 * 1024


class ClientTransport(Protocol):
    """The socket of a client connection, real or simulated."""

    @property
    def client_host(self) -> str:
        """The client's address, as DescribeGroups shows it."""

    def write(self, data: bytes) -> None:
        """Send data in order of the calls, without blocking."""

    def close(self) -> None:
        """Send the data written before, then close; does not call ``connection_lost``."""

    def reset(self) -> None:
        """Close with a TCP reset; does not call ``connection_lost``."""


class ServerConnection:
    """The broker's end of one client connection. Its transport calls ``data_received`` and ``connection_lost``, each
    after ``Cluster.advance``.
    """

    def __init__(self, node: BrokerNode, transport: ClientTransport, connection_id: int) -> None:
        self.node = node
        self.transport = transport
        self.connection_id = connection_id
        self.is_open: bool = True
        #: Whether the connection serves no further requests because the transport's send buffer is full. The transport
        #: sets and clears this flag, and calls :meth:`process_frames` after clearing it. If requests were served
        #: regardless, a few kilobytes of small Fetch requests could fill the memory with gigabytes of responses.
        self.is_muted = False
        #: The authenticated user as an authorizer names it: ``User:alice``. A TLS transport sets it from the client's
        #: certificate, a SASL login from the user.
        self.principal: str = ANONYMOUS
        self._authenticator = node.new_authenticator(self._logged_in)
        self._buffer = bytearray()
        self._has_call = False
        self._is_processing = False
        self._call: ApiCall | None = None
        self._timer: Timer | None = None
        node.connections.append(self)

    def __repr__(self) -> str:
        return f"<ServerConnection {self.connection_id} to {self.node}>"

    @property
    def unprocessed(self) -> int:
        """The number of bytes that were received and not processed yet."""
        return len(self._buffer)

    @property
    def wants_input(self) -> bool:
        """Whether the transport should read from the socket. False while UNPROCESSED_MAX or more received bytes wait
        because a request has no response yet, the send buffer is full, or the broker is starting or paused.
        """
        return self.unprocessed < UNPROCESSED_MAX or not (self._has_call or self.is_muted or not self.node.is_serving)

    @garbage_collection_paused  # decoding a large request makes thousands of objects, which trigger collections
    def data_received(self, data: bytes | bytearray | memoryview) -> None:
        """Buffer bytes from the client, which may begin or end inside a frame, and process the complete frames."""
        if self.is_open:
            self._buffer += data
            self.process_frames()

    def connection_lost(self) -> None:
        """Cancel the request in progress and discard all buffered requests, because the connection has ended."""
        if not self.is_open:
            return
        self.is_open = False
        if self in self.node.connections:
            self.node.connections.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._call is not None:
            self._call.cancel()
        self._buffer.clear()

    def close(self) -> None:
        """Close the connection from the broker's side after all written data is sent."""
        if self.is_open:
            self.connection_lost()
            self.transport.close()

    def abort(self) -> None:
        if self.is_open:
            self.connection_lost()
            self.transport.reset()

    def process_frames(self) -> None:
        """Process buffered requests one by one, until one waits for its response, the connection is muted or closed, or
        the broker stops serving.
        """
        if self._is_processing:
            return
        # A handler that responds immediately makes _finish call this method again. The flag ends that inner call at
        # once, and the loop below serves the next request, so that many buffered requests cause no deep recursion.
        self._is_processing = True
        try:
            while self.is_open and not self._has_call and not self.is_muted and self.node.is_serving:
                frame = self._next_frame()
                if frame is None:
                    return
                self._has_call = True
                self._process_frame(frame)
        finally:
            self._is_processing = False

    @property
    def _request_max(self) -> int:
        most = self.node.config.socket_request_max_bytes
        # Without this limit, a client that has not logged in could fill the memory with large requests.
        return most if self._authenticator is None or self._authenticator.is_complete else min(most, RECEIVE_MAX)

    def _next_frame(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < SIZE:
            return None
        size = int.from_bytes(buffer[:SIZE], "big", signed=True)
        if not 0 < size <= self._request_max:
            self._close_invalid(f"invalid request size of {size} bytes")
            return None
        if len(buffer) < SIZE + size:
            return None
        with memoryview(buffer) as view:
            frame = bytes(view[SIZE : SIZE + size])
        # CPython deletes from the front of a bytearray without copying the remaining bytes, so a read that contains
        # many small frames takes linear time.
        del buffer[: SIZE + size]
        return frame

    def _process_frame(self, frame: bytes) -> None:
        authenticator = self._authenticator
        if authenticator is not None and authenticator.expects_raw_token:
            self._process_raw_token(authenticator, frame)
            return
        try:
            header = decode_request_header(frame)
            admission = Admission.SERVE
            if authenticator is not None:
                admission = authenticator.admit(header.api_key, self.node.schedule.now)
                if admission in (Admission.CLOSE, Admission.CLOSE_LATE):
                    self._refuse(authenticator, admission)
                    return
            api = self.node.apis.get(header.api_key)
            if api is None:
                raise KafkaProtocolError(f"API {header.api_key} is not supported by this broker")
            if not api.lowest <= header.api_version <= api.highest:
                self._reject_version(header, api)
                return
            # Bytes after a request are ignored, as by Kafka: librdkafka 2.16 sends three extra bytes with Metadata 13
            # for all topics.
            request = api.request.decode(frame, header.api_version, header.body_offset, ignore_trailing=True)
        except KafkaProtocolError as error:
            self._close_invalid(str(error))
            return
        self._call = call = self._new_call(header, request, lambda message: self._answer(header, message))
        if authenticator is not None and admission is Admission.ILLEGAL_STATE:
            self.node.note_failed_login(self.transport.client_host, authenticator.why_rejected)
            call.reply_and_close_later(api.refuse(request, call.version, int(Code.ILLEGAL_SASL_STATE)))
            return
        self._apply_action(self.node.cluster.rules.action_for(call), call, api, header)

    def _new_call(self, header: RequestHeader, request: Message, done: Callable[[Message | None], None]) -> ApiCall:
        return ApiCall(
            self.node,
            request,
            header.api_version,
            done,
            client_id=header.client_id or "",
            client_host=self.transport.client_host,
            connection_id=self.connection_id,
            authorizer=self.node.authorizer,
            disconnect=self.close,
            principal=self.principal,
            authenticator=self._authenticator,
        )

    def _logged_in(self, principal: str) -> None:
        self.principal = principal

    def _refuse(self, authenticator: Authenticator, admission: Admission) -> None:
        """Close the connection because of a request that the login does not admit."""
        if admission is Admission.CLOSE:
            self._close_invalid(authenticator.why_rejected)
        else:
            self.node.note_failed_login(self.transport.client_host, authenticator.why_rejected)
            delay_s = self.node.security.connection_failed_authentication_delay_ms / 1000
            self._timer = self.node.call_later(delay_s, self.close)

    def _process_raw_token(self, authenticator: Authenticator, frame: bytes) -> None:
        """Serve a message of the SASL mechanism, which after SaslHandshake version 0 has no request header."""
        schedule = self.node.schedule
        try:
            result = authenticator.authenticate(frame, schedule.now, schedule.wall_ms() / 1000)
        except LoginFailedError as error:
            self.node.note_failed_login(self.transport.client_host, error.details)
            delay_s = self.node.security.connection_failed_authentication_delay_ms / 1000
            self._timer = self.node.call_later(delay_s, self.close)
        else:
            response = b"" if result is None else result.response
            self._finish(len(response).to_bytes(SIZE, "big") + response)

    def _reject_version(self, header: RequestHeader, api: Api) -> None:
        if api.request is not ApiVersionsRequest:
            raise KafkaProtocolError(
                f"{api.request.__name__} version {header.api_version} is not supported by this broker"
            )
        # Response version 0 carries the supported range, so that the client can retry with it (KIP-511).
        own = ApiVersion(api_key=header.api_key, min_version=api.lowest, max_version=api.highest)
        response = ApiVersionsResponse(error_code=int(Code.UNSUPPORTED_VERSION), api_keys=[own])
        self._answer(header._replace(api_version=0), response)

    def _apply_action(self, action: FaultAction, call: ApiCall, api: Api, header: RequestHeader) -> None:
        if isinstance(action, (Silence, Disconnect, Raw)) and action.after:
            # The handler runs, so the request takes effect; its response, immediate or later, is discarded.
            self._handle(self._new_call(header, call.request, lambda message: None), api)
        if isinstance(action, Pass):
            self._handle(call, api)
        elif isinstance(action, Reply):
            self._send_reply(call, action.answer(call, api))
        elif isinstance(action, (Edit, EntryError)):
            edited = action.edited
            done = self._answer
            self._call = call = self._new_call(
                header, call.request, lambda message: done(header, None if message is None else edited(call, message))
            )
            self._handle(call, api)
        elif isinstance(action, Raw):
            call.cancel()
            self._finish(action.data)
        elif isinstance(action, Delay):
            then = action.then
            self._timer = self.node.call_later(
                action.seconds, lambda: self._apply_action(then, call, api, header) if self.is_open else None
            )
        elif isinstance(action, Disconnect):
            self.abort() if action.reset else self.close()

    def _handle(self, call: ApiCall, api: Api) -> None:
        if not self.is_open:
            return
        if self.node.is_paused:
            # The function of a fault rule has paused this broker. Timers of a paused broker fire when the broker
            # resumes, so the request is handled then.
            self._timer = self.node.call_later(0.0, lambda: self._handle(call, api))
            return
        try:
            answer = api.handle(call)
        except Exception as error:
            log.exception("the handler of %r failed; responding with UNKNOWN_SERVER_ERROR", call)
            self.node.cluster.bugs.append(f"{call!r}: {error!r}")
            self._send_reply(call, api.refuse(call.request, call.version, int(Code.UNKNOWN_SERVER_ERROR)))
        else:
            if answer is not None:
                call.reply(answer)

    @staticmethod
    def _send_reply(call: ApiCall, answer: Message) -> None:
        """Send a response made by a fault rule, or for a failed handler. A Produce request with ``acks=0`` expects no
        response: as in Kafka, closing the connection reports the error.
        """
        if isinstance(call.request, ProduceRequest) and call.request.acks == 0:
            call.close_connection()
        else:
            call.reply(answer)

    def _answer(self, header: RequestHeader, message: Message | None) -> None:
        data = b""
        if message is not None:
            try:
                data = encode_response(message, header.api_version, header.correlation_id)
            except KafkaError as error:
                log.exception("cannot encode the response to %r; closing the connection", header)
                self.node.cluster.bugs.append(f"{type(message).__name__} v{header.api_version}: {error!r}")
                self.close()
                return
            data = len(data).to_bytes(SIZE, "big") + data
        self._finish(data)

    def _finish(self, data: bytes) -> None:
        """Send the response, if there is one, and process the next buffered request."""
        self._call = None
        if data:
            self.transport.write(data)
        self._has_call = False
        self.process_frames()

    def _close_invalid(self, why: str) -> None:
        log.info("closing connection %d of client %s: %s", self.connection_id, self.transport.client_host, why)
        self.node.cluster.invalid_requests.append(why)
        self.close()
