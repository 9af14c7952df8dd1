"""AddOffsetsToTxn (key 25): announce that a group's offsets will be committed inside a transaction (KIP-98).

Version 3 is flexible. Producers that use TxnOffsetCommit 5 (KIP-890) do not need this request.
"""

from .message import Message
from .schema import int16, int32, int64, string


class AddOffsetsToTxnResponse(Message):
    """The outcome: error code 0 when the group's offsets are part of the transaction."""

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class AddOffsetsToTxnRequest(Message):
    """Ask the transaction coordinator to add a group's offsets to the transaction."""

    RESPONSE = AddOffsetsToTxnResponse

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")
