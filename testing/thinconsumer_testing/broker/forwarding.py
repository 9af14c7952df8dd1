"""Forwarding of requests from any broker to the controller.

Owns the retries while a broker cannot reach the controller; after 30 s it responds REQUEST_TIMED_OUT. Follows
``ForwardingManager`` and ``NodeToControllerChannelManager`` (KIP-590).
"""

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from .call import ApiCall, ErrorResponse, Handler
from .controller import CONTROLLER

REQUEST_TIMEOUT_S = 30.0  #: Kafka's default request.timeout.ms of a broker.
RETRY_S = 0.1


def to_controller(handle: Handler, refuse: ErrorResponse) -> Handler:
    """Return a handler that calls ``handle`` as soon as the broker can reach the controller, with the controller's
    authorizer: its ACLs decide what the client may do. After 30 s without the controller, the returned handler responds
    REQUEST_TIMED_OUT instead, in the response that ``refuse`` builds.
    """

    def forward(call: ApiCall) -> Message | None:
        give_up = call.node.schedule.now + REQUEST_TIMEOUT_S

        def attempt() -> Message | None:
            if call.node.cluster.reachable(call.node.node_id, CONTROLLER):
                call.authorizer = call.node.cluster.controller.authorizer
                return handle(call)
            if call.node.schedule.now >= give_up:
                return refuse(call.request, call.version, int(Code.REQUEST_TIMED_OUT))
            call.node.call_later(RETRY_S, retry)
            return None

        def retry() -> None:
            answer = attempt() if call.is_open else None
            if answer is not None:
                call.reply(answer)

        return attempt()

    return forward
