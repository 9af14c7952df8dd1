"""AddOffsetsToTxn 0 to 4: add a group's committed offsets to a transaction.

Adds the partition of ``__consumer_offsets`` with the group. Version 2 adds PRODUCER_FENCED. Clients with KIP-890 do not
send it. Follows ``KafkaApis.handleAddOffsetsToTxnRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...wire.error_codes import Code
from ..call import Api, ApiCall
from ..txn.offsets import partition_of_group
from ..txn.transitions import ProducerIdAndEpoch

FIRST_WITH_FENCED = 2


def handle(call: ApiCall) -> Message | None:
    """Respond when the coordinator has logged the partition."""
    request: AddOffsetsToTxnRequest = call.request

    def done(code: int) -> None:
        if code == Code.PRODUCER_FENCED and call.version < FIRST_WITH_FENCED:
            code = Code.INVALID_PRODUCER_EPOCH
        call.reply(AddOffsetsToTxnResponse(error_code=int(code)))

    call.node.transaction_coordinator.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [partition_of_group(call.node, request.group_id)],
        done,
    )
    return None


def refuse(request: AddOffsetsToTxnRequest, version: int, code: int) -> AddOffsetsToTxnResponse:
    """Return the error response."""
    return AddOffsetsToTxnResponse(error_code=int(code))


API = Api(AddOffsetsToTxnRequest, 0, 4, handle, refuse)
