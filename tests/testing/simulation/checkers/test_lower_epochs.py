"""A lower leader epoch is allowed after the proof, on the wire, that the cluster does not have the newest one."""

import pytest

from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.simulation.checkers.base import SimReader
from thinconsumer_testing.simulation.checkers.lower_epochs import LowerEpochs
from thinconsumer_testing.simulation.client_tap import SentRequest

ANN, BEN = SimReader("ann"), SimReader("ben")
KEY, NEWEST, LOWER, LEADER, OTHER = (ANN, b"0123456789abcdef", 0), 5, 3, 1, 2


class Wire:
    """Ann's requests and responses about one partition, whose newest epoch read is 5."""

    def __init__(self):
        self.rule = LowerEpochs()

    def request(self, client=ANN):
        sent = SentRequest(3, 12, MetadataRequest())
        self.rule.metadata_requested(client, sent)
        return sent

    def name(self, sent, epoch=LOWER, leader=LEADER):
        self.rule.named(KEY, sent, leader, epoch, NEWEST)

    def reject(self, *times, node=LEADER):
        return [self.rule.rejected(KEY, node, now) for now in times]


@pytest.fixture
def wire():
    return Wire()


def test_lower_epoch_is_proven_by_three_rejections_over_a_second(wire):
    assert wire.reject(0.0) == [None]
    wire.name(wire.request())
    assert wire.reject(1.0, 1.5, 1.99, 2.0) == [None, None, None, LOWER]
    assert wire.reject(3.0, 4.0, 5.0, 6.0) == [None] * 4, "each time anew"


@pytest.mark.parametrize(("leader", "epoch"), [(OTHER, LOWER), (LEADER, LOWER + 1)])
def test_another_leader_or_epoch_begins_the_count_again(wire, leader, epoch):
    wire.reject(0.0)
    wire.name(wire.request())
    wire.reject(1.0, 2.0)
    wire.name(wire.request(), epoch, leader)
    assert wire.reject(3.0, 3.5, 4.0, node=leader) == [None, None, epoch]


def test_accepted_request_ends_the_case_if_the_named_leader_accepts_it(wire):
    wire.reject(0.0)
    wire.name(wire.request())
    wire.reject(1.0, 2.0)
    wire.rule.accepted(KEY, OTHER)
    assert wire.reject(3.0) == [LOWER]
    wire.reject(4.0)
    wire.name(wire.request())
    wire.reject(5.0, 6.0)
    wire.rule.accepted(KEY, LEADER)
    assert wire.reject(7.0, 8.0, 9.0) == [None] * 3
