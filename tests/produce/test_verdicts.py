"""What each error code means for a batch: the exceptions by name, all others by the general table."""

from __future__ import annotations

import pytest

from thinconsumer.produce.verdicts import EXCEPTIONS, IN_DOUBT, Verdict, verdict
from thinconsumer.wire.error_codes import BY_CODE, Code


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_every_code_has_a_verdict_and_only_named_ones_differ_from_the_table(code):
    found = verdict(code)
    if code in EXCEPTIONS:
        assert found is EXCEPTIONS[code]
    elif BY_CODE[code].refresh_metadata:
        assert found is Verdict.REFRESH
    else:
        assert found is (Verdict.RETRY if BY_CODE[code].retriable else Verdict.FAIL)


def test_a_code_that_nobody_knows_is_final():
    assert verdict(31_000) is Verdict.FAIL


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (Code.NONE, Verdict.WRITTEN),
        (Code.DUPLICATE_SEQUENCE_NUMBER, Verdict.WRITTEN),
        (Code.NOT_LEADER_OR_FOLLOWER, Verdict.REFRESH),
        (Code.UNKNOWN_TOPIC_ID, Verdict.REFRESH),
        (Code.NOT_ENOUGH_REPLICAS, Verdict.RETRY),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.RENUMBER),
        (Code.MESSAGE_TOO_LARGE, Verdict.SPLIT),
        (Code.INVALID_PRODUCER_EPOCH, Verdict.REPLACE_ID),
        (Code.TOPIC_AUTHORIZATION_FAILED, Verdict.FAIL),
        (Code.INVALID_RECORD, Verdict.FAIL),
    ],
)
def test_the_verdicts_that_matter_most(code, wanted):
    assert verdict(code) is wanted


def test_after_these_answers_a_batch_may_be_in_the_log():
    assert Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND in IN_DOUBT
    assert Code.NOT_ENOUGH_REPLICAS not in IN_DOUBT
    assert all(verdict(code) not in (Verdict.WRITTEN, Verdict.SPLIT, Verdict.RENUMBER) for code in IN_DOUBT)
