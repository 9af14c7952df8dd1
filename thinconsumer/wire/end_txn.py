"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Version 3 is flexible. From version 5 on each transaction gets a new producer epoch (KIP-890).
"""

from .message import Message
from .schema import boolean, int16, int32, int64, string


class EndTxnResponse(Message):
    """The error code of the request and, from version 5 on, the producer id and epoch for the next transaction."""

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


class EndTxnRequest(Message):
    """Commit (``committed=True``) or abort the transaction."""

    RESPONSE = EndTxnResponse

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")
