"""InitProducerId 0 to 5: assign a producer id and epoch.

With a transactional id its coordinator assigns them, without one any broker. Version 3 adds the id and epoch to
continue from (KIP-360), version 4 PRODUCER_FENCED. Kafka enables version 6 only with unstable versions. Follows
``KafkaApis.handleInitProducerIdRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.error_codes import Code
from ...wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..call import Api, ApiCall
from ..txn.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..txn.transitions import ProducerIdAndEpoch

FIRST_WITH_FENCED = 4


def handle(call: ApiCall) -> Message | None:
    """Respond when the coordinator has logged the assignment."""
    request: InitProducerIdRequest = call.request
    has_identity = (request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH)
    if any(has_identity) and not all(has_identity):
        return refuse(request, call.version, Code.INVALID_REQUEST)

    def done(code: int, producer_id: int, producer_epoch: int) -> None:
        if code == Code.PRODUCER_FENCED and call.version < FIRST_WITH_FENCED:
            code = Code.INVALID_PRODUCER_EPOCH
        call.reply(
            InitProducerIdResponse(error_code=int(code), producer_id=producer_id, producer_epoch=producer_epoch)
        )  # fmt: skip

    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if all(has_identity) else None
    call.node.transaction_coordinator.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected, done
    )  # fmt: skip
    return None


def refuse(request: InitProducerIdRequest, version: int, code: int) -> InitProducerIdResponse:
    """Return the error response."""
    return InitProducerIdResponse(error_code=int(code), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


API = Api(InitProducerIdRequest, 0, 5, handle, refuse)
