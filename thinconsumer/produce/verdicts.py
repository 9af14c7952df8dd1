"""What a partition's error code in a Produce answer means for the batch: one table.

After Java's ``Sender.completeBatch`` and ``TransactionManager.canRetry``, for an idempotent producer.
"""

from __future__ import annotations

import enum

from ..wire.error_codes import BY_CODE, Code


class Verdict(enum.Enum):
    """What to do with a batch."""

    WRITTEN = "acknowledge it"
    RETRY = "send it again, as it is, after a backoff"
    REFRESH = "the picture of the cluster is out of date: refresh it, and send it again"
    RENUMBER = "the broker has lost what was before: send it again under the next epoch, from sequence 0 on"
    SPLIT = "send its halves, if it has any"
    REPLACE_ID = "it has failed, and so has the producer id"
    FAIL = "it has failed"


#: Where a producer sees a code differently from its row in the general table, and why.
EXCEPTIONS: dict[int, Verdict] = {
    Code.NONE: Verdict.WRITTEN,
    # Written so long ago that the broker has forgotten the offset.
    Code.DUPLICATE_SEQUENCE_NUMBER: Verdict.WRITTEN,
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.RENUMBER,
    Code.UNKNOWN_PRODUCER_ID: Verdict.RENUMBER,
    Code.MESSAGE_TOO_LARGE: Verdict.SPLIT,
    Code.RECORD_LIST_TOO_LARGE: Verdict.SPLIT,
    # Someone else uses this id with a higher epoch. To go on counting would fence each other in turn.
    Code.INVALID_PRODUCER_EPOCH: Verdict.REPLACE_ID,
    Code.PRODUCER_FENCED: Verdict.REPLACE_ID,
    Code.INVALID_PRODUCER_ID_MAPPING: Verdict.REPLACE_ID,
}

#: Answers after which the batch may be in the log nevertheless. After all other refusals it is not.
IN_DOUBT = frozenset({Code.UNKNOWN_SERVER_ERROR, Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def verdict(code: int) -> Verdict:
    """Return what to do about ``code``; codes nobody has met yet are final, not looped on."""
    if code in EXCEPTIONS:
        return EXCEPTIONS[code]
    row = BY_CODE[code]
    if row.refresh_metadata:
        return Verdict.REFRESH
    return Verdict.RETRY if row.retriable else Verdict.FAIL
