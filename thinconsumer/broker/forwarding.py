"""Forwarding of requests from any broker to the controller.

Owns the retries while a broker cannot reach the controller, and the REQUEST_TIMED_OUT after them. Follows
``ForwardingManager`` and ``NodeToControllerChannelManager`` (KIP-590).
"""

from __future__ import annotations

from ..wire import Message
from ..wire.error_codes import Code
from .call import ApiCall, ErrorResponse, Handler
from .controller import CONTROLLER

REQUEST_TIMEOUT_S = 30.0  #: Kafka's default request.timeout.ms of a broker.
RETRY_S = 0.1


def to_controller(handle: Handler, refuse: ErrorResponse) -> Handler:
    """Return a handler that calls ``handle`` once the broker can reach the controller."""

    def forward(call: ApiCall) -> Message | None:
        if _reachable(call):
            return handle(call)
        give_up = call.node.schedule.now + REQUEST_TIMEOUT_S

        def retry() -> None:
            if not call.is_open:
                return
            if _reachable(call):
                answer = handle(call)
                if answer is not None:
                    call.reply(answer)
            elif call.node.schedule.now >= give_up:
                call.reply(refuse(call.request, call.version, int(Code.REQUEST_TIMED_OUT)))
            else:
                call.node.call_later(RETRY_S, retry)

        call.node.call_later(RETRY_S, retry)
        return None

    return forward


def _reachable(call: ApiCall) -> bool:
    return call.node.cluster.reachable(call.node.node_id, CONTROLLER)
