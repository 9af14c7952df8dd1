"""What a partition's error code in an answer means for that partition: one table for every API of this room."""

from __future__ import annotations

import enum

from ..wire.error_codes import BY_CODE, Code


class Verdict(enum.Enum):
    """What to do about an error code."""

    RETRY = "ask again after a backoff"
    REFRESH = "the picture of the cluster is out of date: refresh it and ask again after a backoff"
    RANGE = "the position is outside the log"
    RAISE = "only the user can help: raise it from every poll, and go on asking"


#: Where a consumer sees a code differently from its row in the general table, and why.
EXCEPTIONS: dict[int, Verdict] = {
    Code.OFFSET_OUT_OF_RANGE: Verdict.RANGE,
    # A broker's own bug or a race in it; Java's consumer asks again, too.
    Code.UNKNOWN_SERVER_ERROR: Verdict.RETRY,
    # The topic may be on its way in or out; metadata tells which.
    Code.UNKNOWN_TOPIC_OR_PARTITION: Verdict.REFRESH,
    Code.UNKNOWN_TOPIC_ID: Verdict.REFRESH,
    Code.INCONSISTENT_TOPIC_ID: Verdict.REFRESH,
    # We know a newer epoch than the broker: it will catch up, and asking for metadata again would tell nothing new.
    Code.UNKNOWN_LEADER_EPOCH: Verdict.RETRY,
    Code.OFFSET_NOT_AVAILABLE: Verdict.RETRY,
}


def verdict(code: int) -> Verdict:
    """Return what to do about ``code``; codes nobody has met yet are raised, not looped on."""
    if code in EXCEPTIONS:
        return EXCEPTIONS[code]
    found = BY_CODE[code]
    if found.refresh_metadata:
        return Verdict.REFRESH
    return Verdict.RETRY if found.retriable else Verdict.RAISE
