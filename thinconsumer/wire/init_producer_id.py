"""InitProducerId (key 22): get the producer id and epoch of an idempotent or transactional producer (KIP-98).

Version 2 is flexible, version 3 lets a producer recover from INVALID_PRODUCER_EPOCH (KIP-360), version 4 adds the error
PRODUCER_FENCED, version 6 prepares two-phase commit (KIP-939) and needs a broker with unstable API versions enabled.
"""

from .message import Message
from .schema import boolean, int16, int32, int64, string


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible=2):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


class InitProducerIdRequest(Message, response=InitProducerIdResponse):
    """Request a producer id: from the coordinator of ``transactional_id``, or from any broker if that is None."""

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")
