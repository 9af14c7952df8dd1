"""Which leader and leader epoch of a partition count: the newest, unless brokers prove that the cluster went back."""

import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thinconsumer.network.topic_metadata import REFUSALS_MIN, TopicMetadata
from thinconsumer.types import PartitionInfo


class World:
    """The metadata of one partition, with the numbers of refreshes as ``Metadata`` counts them."""

    def __init__(self, leader=1, epoch=10):
        self.topic = TopicMetadata("t")
        self.nodes = {1: "b1", 2: "b2"}
        self.sent = 0
        self.now = 100.0
        self.refresh(leader, epoch)

    def answer(self, leader, epoch, refresh):
        """Take a Metadata response to the refresh of this number; -1: to another request."""
        new = PartitionInfo("t", 0, leader, epoch, (1, 2), (1, 2), ())
        self.topic.partitions[0] = self.topic.newer(new, self.nodes, refresh)

    def refresh(self, leader, epoch):
        self.sent += 1
        self.answer(leader, epoch, self.sent)

    def refuse(self, node=1, after=0.6, is_epoch_unknown=True):
        """Let time pass, and a node reject the newest epoch; return whether a lower one is taken."""
        self.now += after
        return self.topic.refused(0, node, self.now, self.sent + 1, is_epoch_unknown=is_epoch_unknown)

    @property
    def current(self):
        info = self.topic.partitions[0]
        return info.leader, info.leader_epoch


def test_a_lower_epoch_is_taken_once_its_leader_has_proven_it(caplog):
    world = World(1, 10)
    assert not world.refuse()
    world.refresh(1, 5)
    assert world.current == (1, 10)
    assert not world.refuse() and not world.refuse()
    assert world.refuse() and world.current == (1, 5)
    assert [r.levelno for r in caplog.records] == [logging.WARNING] and "t-0" in caplog.text
    world.refresh(1, 5)
    assert world.current == (1, 5) and world.topic.epochs == world.topic.lowered == {0: 5}


def test_three_rejections_within_a_second_prove_nothing():
    world = World()
    world.refuse()
    world.refresh(1, 5)
    assert not any(world.refuse(after=0.1) for _ in range(10))
    assert world.refuse(after=0.2), "over more than a second they do"


def test_the_named_leader_gets_requests_with_the_newest_epoch():
    """Another node than the last known leader: otherwise it would never be asked, and could not prove its epoch."""
    world = World(2, 10)
    world.refuse(2)
    world.refresh(1, 5)
    assert world.current == (1, 10)
    assert not world.refuse(2), "only the named leader counts"
    assert [world.refuse(1) for _ in range(REFUSALS_MIN)] == [False, False, True]


@pytest.mark.parametrize("leader", [-1, 9])
def test_a_newest_epoch_without_a_usable_leader_does_not_stop_requests(leader):
    """Requests to the leader of an older epoch are rejected if it lags behind, and prove that epoch if it does not."""
    world = World(leader, 10)
    world.refresh(1, 5)
    assert world.current == (1, 10)


def test_a_response_that_has_the_newest_epoch_ends_the_doubt():
    world = World(2, 10)
    world.refuse(1)
    world.refresh(1, 5)
    world.refuse(1)
    world.refresh(2, 10)
    assert world.current == (2, 10)
    assert not any(world.refuse(1) for _ in range(10)), "no response requested since names node 1"


def test_another_named_leader_starts_the_count_anew():
    world = World()
    world.refuse()
    world.refresh(1, 5)
    assert not world.refuse() and not world.refuse()
    world.refresh(1, 6)
    assert not world.refuse() and not world.refuse()
    assert world.refuse() and world.current == (1, 6)


def test_the_next_newer_epoch_is_taken_at_once():
    world = World()
    world.refuse()
    world.refresh(1, 5)
    assert [world.refuse() for _ in range(3)][-1]
    world.refresh(2, 6)
    assert world.current == (2, 6) and world.topic.lowered != world.topic.epochs


def test_rejections_of_an_epoch_say_nothing_about_the_next_one():
    """The next epoch is learned from a response to another request, or from a Fetch error (KIP-951)."""
    world = World()
    world.refuse()
    world.refresh(1, 5)
    assert not world.refuse() and not world.refuse()
    world.answer(2, 11, -1)
    world.refresh(1, 5)
    assert world.current == (2, 11)
    assert not world.refuse() and world.current == (2, 11)


def test_a_rejection_by_a_follower_moves_no_requests_from_the_leader():
    world = World(2, 10)
    world.refuse(1)
    world.refresh(1, 5)
    assert world.current == (2, 10)


def test_a_leader_that_does_not_lead_is_left_for_the_named_one_which_proves_its_epoch_in_ten_seconds():
    world = World(2, 10)
    assert not world.refuse(2, is_epoch_unknown=False)
    world.refresh(1, 5)
    assert world.current == (1, 10)
    assert not any(world.refuse(1, is_epoch_unknown=False) for _ in range(30)), "another answer proves nothing"
    assert not any(world.refuse(1) for _ in range(30)), "no response requested since the first rejection names node 1"
    world.refresh(1, 5)
    assert not any(world.refuse(1, after=1.0) for _ in range(10))
    assert world.refuse(1, after=1.0) and world.current == (1, 5)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("refuse"), st.sampled_from([1, 2]), st.sampled_from([0.1, 0.5, 2.0]), st.booleans()),
        st.just(("send",)),
        st.tuples(st.just("old"), st.integers(0, 5)),
        st.just(("other",)),
        st.just(("current",)),
    ),
    max_size=30,
)


@given(EVENTS)
@example([("send",), ("refuse", 1, 1.0), ("old", 0), ("refuse", 1, 1.0), ("refuse", 1, 1.0), ("refuse", 1, 1.0)])
@example([("refuse", 1, 1.0), ("other",), ("refuse", 1, 1.0), ("refuse", 1, 1.0), ("refuse", 1, 1.0)])
def test_responses_of_a_lagging_broker_in_any_order_never_lower_an_epoch(events):
    """Node 1 was deposed and rejects epoch 7. Its responses answer requests from before the first rejection."""
    world = World(2, 7)
    open_requests, first_refusal = [], None
    for event, *about in events:
        if event == "refuse":
            first_refusal = world.sent if first_refusal is None else first_refusal
            assert not world.refuse(*about)
        elif event == "send":
            world.sent += 1
            open_requests.append(world.sent)
        elif event == "old":
            requests = [number for number in open_requests if first_refusal is None or number <= first_refusal]
            if requests:
                number = requests[about[0] % len(requests)]
                open_requests.remove(number)
                world.answer(1, 5, number)
        elif event == "other":
            world.answer(1, 5, -1)
        else:
            world.refresh(2, 7)
            first_refusal = None if not world.topic.doubts else first_refusal
        assert world.topic.epochs[0] == 7
