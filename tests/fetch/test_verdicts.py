"""Every error code there is gets a verdict, and those of reading get the one Java's consumer gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.fetch.verdicts import Verdict, verdict
from thinconsumer.wire.error_codes import BY_CODE, Code

#: Partition errors of Fetch, ListOffsets and OffsetForLeaderEpoch, as Java's handlers treat them.
JAVA = {
    Code.NOT_LEADER_OR_FOLLOWER: Verdict.REFRESH,
    Code.REPLICA_NOT_AVAILABLE: Verdict.REFRESH,
    Code.KAFKA_STORAGE_ERROR: Verdict.REFRESH,
    Code.FENCED_LEADER_EPOCH: Verdict.REFRESH,
    Code.LEADER_NOT_AVAILABLE: Verdict.REFRESH,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Verdict.REFRESH,
    Code.UNKNOWN_TOPIC_ID: Verdict.REFRESH,
    Code.INCONSISTENT_TOPIC_ID: Verdict.REFRESH,
    Code.OFFSET_NOT_AVAILABLE: Verdict.RETRY,
    Code.UNKNOWN_LEADER_EPOCH: Verdict.RETRY,
    Code.UNKNOWN_SERVER_ERROR: Verdict.RETRY,
    Code.CORRUPT_MESSAGE: Verdict.RETRY,
    Code.OFFSET_OUT_OF_RANGE: Verdict.RANGE,
    Code.TOPIC_AUTHORIZATION_FAILED: Verdict.RAISE,
    Code.UNSUPPORTED_COMPRESSION_TYPE: Verdict.RAISE,
    Code.OFFSET_MOVED_TO_TIERED_STORAGE: Verdict.RAISE,
}


@pytest.mark.parametrize("code", JAVA, ids=lambda code: code.name)
def test_codes_of_reading(code):
    assert verdict(code) is JAVA[code]


@pytest.mark.parametrize("code", [code for code in Code if code], ids=lambda code: code.name)
def test_no_retriable_code_is_raised_and_no_final_one_is_looped_on(code):
    """But for the rows with a reason of their own."""
    expected = {Verdict.RETRY, Verdict.REFRESH} if BY_CODE[code].retriable else {Verdict.RAISE}
    if code in (Code.OFFSET_OUT_OF_RANGE, Code.UNKNOWN_SERVER_ERROR):
        expected = {JAVA[code]}
    assert verdict(code) in expected


@settings(deadline=None, max_examples=50)
@given(st.integers(-(2**15), 2**15 - 1).filter(lambda code: code not in set(Code)))
def test_codes_of_the_future_are_shown_to_the_user(code):
    assert verdict(code) is Verdict.RAISE
