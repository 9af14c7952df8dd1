"""Responses about leader epochs are classified."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer_testing.simulation.checkers import epochs

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"answer": (1, 9)}, [(TP, 1, 9)]),
        ({"answer": (2, 9)}, []),
        ({"answer": (-1, -1)}, []),
        ({"answer": (1, 9), "error": 6}, []),
        ({"answer": (1, 9), "partition": 5}, []),
    ],
)
def test_never_had_yields_answers_with_an_older_epoch(validation, more, found):
    assert list(epochs.never_had(*validation(2, 3, **more))) == found


@pytest.mark.parametrize(
    ("asked", "leader", "answer", "error", "found"),
    [
        (2, 1, (-1, -1), 0, [(TP, 2)]),
        (2, 2, (-1, -1), 0, []),
        (2, 3, (-1, -1), 0, []),
        (2, -1, (-1, -1), 0, []),
        (2, 1, (1, 9), 0, []),
        (2, 1, (-1, -1), 74, []),
    ],
)
def test_too_old_to_know_yields_answers_of_older_leaders(validation, asked, leader, answer, error, found):
    assert list(epochs.too_old_to_know(*validation(asked, leader, answer, error=error))) == found


def test_other_messages_yield_nothing():
    assert list(epochs.never_had(MetadataRequest(), MetadataResponse())) == []
    assert list(epochs.too_old_to_know(MetadataRequest(), MetadataResponse())) == []


@pytest.mark.parametrize(("error", "found"), [(0, [TP]), (6, [])])
def test_looked_up_yields_partitions_without_an_error(lookup, validation, error, found):
    request, response = lookup(leader=4, error=error)
    parts = request.topics[0].partitions[0], response.topics[0].partitions[0]
    assert list(epochs.looked_up(request, response)) == [(tp, *parts) for tp in found]
    assert list(epochs.looked_up(*validation(2, 3, (1, 9)))) == []
