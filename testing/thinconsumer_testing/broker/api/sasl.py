"""SaslHandshake versions 0 and 1 and SaslAuthenticate versions 0 to 2: the login of a connection.

Follows ``SaslServerAuthenticator`` during a login. On a listener without SASL, and after a login with an unlimited
session, follows ``KafkaApis``, which rejects both APIs with ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ..call import Api, ApiCall, error_code_in
from ..login.exchange import LoginFailedError


def _handshake(call: ApiCall) -> Message | None:
    authenticator, mechanism = call.authenticator, call.request.mechanism
    is_enabled = None if authenticator is None else authenticator.handshake(mechanism, call.version)
    if authenticator is None or is_enabled is None:
        return SaslHandshakeResponse(error_code=int(Code.ILLEGAL_SASL_STATE))
    enabled = list(authenticator.mechanisms)
    if is_enabled:
        return SaslHandshakeResponse(mechanisms=enabled)
    call.node.note_failed_login(call.client_host, f"unsupported SASL mechanism {mechanism[:100]!r}")
    call.reply_and_close_later(
        SaslHandshakeResponse(error_code=int(Code.UNSUPPORTED_SASL_MECHANISM), mechanisms=enabled)
    )
    return None


def _authenticate(call: ApiCall) -> Message | None:
    schedule, authenticator = call.node.schedule, call.authenticator
    try:
        result = None
        if authenticator is not None:
            wall_time = schedule.wall_ms() / 1000
            result = authenticator.authenticate(call.request.auth_bytes, schedule.now, wall_time)
    except LoginFailedError as error:
        call.node.note_failed_login(call.client_host, error.details)
        response = SaslAuthenticateResponse(
            error_code=int(Code.SASL_AUTHENTICATION_FAILED), error_message=str(error), auth_bytes=b""
        )
        call.reply_and_close_later(response)
        return None
    if result is None:
        return _refuse_authenticate(call.request, call.version, int(Code.ILLEGAL_SASL_STATE))
    return SaslAuthenticateResponse(
        auth_bytes=result.response, session_lifetime_ms=result.session_lifetime_ms, error_message=None
    )


def _refuse_authenticate(request: SaslAuthenticateRequest, version: int, code: int) -> SaslAuthenticateResponse:
    text = None
    if code == Code.ILLEGAL_SASL_STATE:
        text = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b"")


APIS = (
    Api(SaslHandshakeRequest, 0, 1, _handshake, error_code_in(SaslHandshakeResponse)),
    Api(SaslAuthenticateRequest, 0, 2, _authenticate, _refuse_authenticate),
)
