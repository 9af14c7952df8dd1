"""EndTxn 0 to 5: commit or abort a transaction.

The response is sent when the decision is logged; the markers follow. Version 2 adds PRODUCER_FENCED, version 5 the
producer id and epoch for the next transaction (KIP-890). Follows ``KafkaApis.handleEndTxnRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.end_txn import EndTxnRequest, EndTxnResponse
from ...wire.error_codes import Code
from ..call import Api, ApiCall
from ..txn.transaction import EPOCH_PER_TRANSACTION
from ..txn.transitions import ProducerIdAndEpoch

FIRST_WITH_FENCED = 2
FIRST_WITH_EPOCH = 5


def handle(call: ApiCall) -> Message | None:
    """Respond when the coordinator has logged the decision."""
    request: EndTxnRequest = call.request

    def done(code: int, producer_id: int, producer_epoch: int) -> None:
        if code == Code.PRODUCER_FENCED and call.version < FIRST_WITH_FENCED:
            code = Code.INVALID_PRODUCER_EPOCH
        call.reply(EndTxnResponse(error_code=int(code), producer_id=producer_id, producer_epoch=producer_epoch))

    call.node.transaction_coordinator.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        done,
        client_version=EPOCH_PER_TRANSACTION if call.version >= FIRST_WITH_EPOCH else 0,
    )
    return None


def refuse(request: EndTxnRequest, version: int, code: int) -> EndTxnResponse:
    """Return the error response."""
    return EndTxnResponse(error_code=int(code))


API = Api(EndTxnRequest, 0, 5, handle, refuse)
