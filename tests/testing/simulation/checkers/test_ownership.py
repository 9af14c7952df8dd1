"""Records of what is not assigned, or paused, are found, and so are sessions that never forget them."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import OwnershipChecker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

ID = b"\x07" * 16


@pytest.fixture
def court(new_court):
    """A court that looks after ownership; the log holds two records."""
    court = new_court(OwnershipChecker)
    court.write(b"a", b"b")
    return court


def test_what_is_assigned_may_come(court):
    court.deliver(0, 1)
    assert court.verdict() == ""


def test_what_is_not_assigned_may_not(court):
    court.checker.delivered(court.reader, {TopicPartition("t", 1): court.rows(0)}, 9)
    assert court.verdict() == "ann was given records of t-1, which is not assigned to it"
    court.checker.assigned(court.reader, [TopicPartition("t", 1)])
    court.deliver(0)
    assert "t-0, which is not assigned" in court.verdict()


def test_what_is_paused_may_not_until_it_is_resumed(court):
    court.checker.paused(court.reader, [court.tp], True)
    court.deliver(0)
    assert court.verdict() == "ann was given records of t-0, which it has paused"
    court.checker.paused(court.reader, [court.tp], False)
    court.deliver(0)
    assert court.verdict() == ""


def test_a_pause_of_one_is_none_of_another_nor_of_anybody_else(court):
    court.checker.paused(court.reader, [TopicPartition("t", 1)], True)
    court.checker.paused(court.new_reader("bob"), [court.tp], True)
    court.deliver(0)
    assert court.verdict() == ""


def test_a_pause_stays_over_an_assignment_that_keeps_the_partition_and_ends_with_one_that_does_not(court):
    court.checker.paused(court.reader, [court.tp], True)
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(0)
    assert "paused" in court.verdict()
    court.checker.assigned(court.reader, [])
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(0)
    assert court.verdict() == ""


def test_who_has_ended_is_given_nothing(court):
    court.checker.ended(court.reader)
    court.deliver(0)
    assert "not assigned" in court.verdict()


class TestSessions:
    """Which answers of a node tell that the client has not told it what it does not want."""

    @pytest.fixture(autouse=True)
    def _a_session(self, court, fetched):
        self.court, self.fetched = court, fetched
        self.answer()

    def answer(self, data=b"x", partition=0, client="ann", node=1, **more):
        self.court.checker.answered(client, node, *self.fetched({partition: data}, **more), 0.0)

    def pause(self, on=True):
        self.court.checker.paused(self.court.reader, [self.court.tp], on)

    def test_one_answer_may_be_on_its_way_and_no_second(self):
        self.pause()
        self.answer()
        assert self.court.verdict() == ""
        self.answer()
        assert self.court.verdict().startswith("node 1 still sends ann records of t-0, which it does not want")

    def test_an_unassigned_partition_is_not_wanted_either(self):
        self.court.checker.assigned(self.court.reader, [TopicPartition("t", 1)])
        self.answer()
        self.answer(partition=1)
        assert self.court.verdict() == ""
        self.answer()
        assert "t-0" in self.court.verdict()

    def test_a_second_pause_does_not_make_the_first_one_younger(self):
        self.pause()
        self.answer()
        self.pause()
        self.answer()
        assert "t-0" in self.court.verdict()

    def test_resumed_in_time_is_wanted(self):
        self.pause()
        self.answer()
        self.pause(False)
        self.answer()
        self.pause()
        self.answer()
        assert self.court.verdict() == ""

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
    def test_no_records_another_one_and_another_session_are_no_such_thing(self, near_miss):
        self.pause()
        self.answer()
        self.answer(**near_miss)
        assert self.court.verdict() == ""

    def test_topics_named_by_id_are_known_by_the_metadata(self):
        self.pause()
        self.answer(topic="", topic_id=ID)
        self.answer(topic="", topic_id=ID)
        assert self.court.verdict() == ""  # nobody knows what that is
        topics = [MetadataResponseTopic(name="t", topic_id=ID), MetadataResponseTopic(name=None, topic_id=bytes(16))]
        self.court.checker.answered("ann", 1, MetadataRequest(), MetadataResponse(topics=topics), 0.0)
        self.answer(topic="", topic_id=ID)
        assert "records of t-0" in self.court.verdict()

    def test_a_new_life_wants_again_what_the_old_one_did_not(self):
        self.pause()
        self.answer()
        self.court.new_reader("ann", life=1)
        self.answer()
        assert self.court.verdict() == ""

    def test_without_a_session_nothing_is_remembered_to_be_forgotten(self):
        self.pause()
        for _ in range(3):
            self.answer(session=0)
        assert self.court.verdict() == ""
