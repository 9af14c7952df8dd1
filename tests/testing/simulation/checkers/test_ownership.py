"""Records of unassigned or paused partitions, and sessions that never forget them, are violations."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.checkers.ownership import OwnershipChecker


@pytest.fixture
def court(new_court):
    """A court with OwnershipChecker; the log has two records."""
    court = new_court(OwnershipChecker)
    court.write(b"a", b"b")
    return court


def test_records_of_assigned_partitions_pass(court):
    court.deliver(0, 1)
    assert court.verdict() == ""


def test_records_of_unassigned_partitions_are_a_violation(court):
    court.checker.delivered(court.reader, {TopicPartition("t", 1): court.rows(0)}, 9)
    assert court.verdict() == "ann got records of t-1, which is not assigned to it"
    court.checker.assigned(court.reader, [TopicPartition("t", 1)])
    court.deliver(0)
    assert "t-0, which is not assigned" in court.verdict()


def test_records_of_paused_partitions_are_a_violation(court):
    court.checker.paused(court.reader, [court.tp], True)
    court.deliver(0)
    assert court.verdict() == "ann got records of t-0, which it has paused"
    court.checker.paused(court.reader, [court.tp], False)
    court.deliver(0)
    assert court.verdict() == ""


class TestSessions:
    """Fetch responses that show a session which still has unwanted partitions."""

    @pytest.fixture(autouse=True)
    def _a_session(self, court, fetched):
        self.court, self.fetched = court, fetched
        self.answer()

    def answer(self, data=b"x", partition=0, client="ann", node=1, **more):
        self.court.checker.answered(client, node, *self.fetched({partition: data}, **more), 0.0)

    def pause(self, on=True):
        self.court.checker.paused(self.court.reader, [self.court.tp], on)

    def test_only_the_response_in_flight_may_have_unwanted_records(self):
        self.pause()
        self.answer()
        assert self.court.verdict() == ""
        self.answer()
        assert self.court.verdict().startswith("node 1 still sends ann records of t-0, which is paused or unassigned")

    @pytest.mark.parametrize(
        "near_miss",
        [
            {"data": b""},
            {"data": None},
            {"partition": 1},
            {"client": "bob"},
            {"node": 2},
            {"session": 8},
            {"session": 0},
            {"epoch": 0},
            {"topic": "u"},
        ],
        ids=str,
    )
    def test_other_partitions_other_sessions_and_empty_responses_pass(self, near_miss):
        self.pause()
        self.answer()
        self.answer(**near_miss)
        assert self.court.verdict() == ""
