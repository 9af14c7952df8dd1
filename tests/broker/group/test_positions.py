"""Positions of a group's members: for which members they are kept, and until when."""

from thinconsumer_testing.broker.group.positions import ExchangedPositions

TOPIC, OTHER = b"t" * 16, b"u" * 16
P0, P1, Q0 = (TOPIC, 0), (TOPIC, 1), (OTHER, 0)
BOTH = {"a": 3, "b": 3}


def known(positions, *wanted):
    topics = positions.response(wanted).positions
    return {(topic.topic_id, row.partition_index): row.position for topic in topics for row in topic.partitions}


def requested(positions):
    topics = positions.response([]).requested
    return {(topic.topic_id, row.partition_index): row.position for topic in topics for row in topic.partitions}


def test_positions_that_no_member_wants_are_not_kept():
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [(P0, 5), (P1, 5)], [P1])
    assert known(positions, P0, P1) == {P0: -1, P1: 5}
    positions.exchange("a", BOTH, [], [])
    positions.exchange("b", BOTH, [], [P1])
    assert known(positions, P1) == {P1: -1}


def test_negative_positions_are_ignored():
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [(P0, 5)], [P0])
    positions.exchange("a", BOTH, [(P0, -1), (P0, -9)], [P0])
    assert known(positions, P0) == {P0: 5}
