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


def test_nothing_is_known_at_first():
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [], [P0, Q0])
    assert known(positions, P0, Q0) == {P0: -1, Q0: -1}
    assert requested(positions) == {P0: -1, Q0: -1}


def test_a_position_is_returned_to_the_member_that_wants_it():
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [], [P0])
    positions.exchange("b", BOTH, [(P0, 7)], [])
    positions.exchange("a", BOTH, [], [P0])
    assert known(positions, P0) == {P0: 7}
    assert requested(positions) == {P0: 7}
    positions.exchange("b", BOTH, [(P0, 9)], [])
    assert known(positions, P0) == {P0: 9}
    positions.exchange("b", BOTH, [(P0, 4)], [])
    assert known(positions, P0) == {P0: 4}


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


def test_a_new_generation_begins_without_positions():
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [(P0, 5)], [P0])
    positions.exchange("b", {"a": 4, "b": 4}, [], [P0])
    assert known(positions, P0) == {P0: -1}


def test_the_position_of_a_lost_member_is_dropped():
    """As that of a static member that was restarted: it has another member id in the same generation."""
    positions = ExchangedPositions()
    positions.exchange("b", BOTH, [(P0, 5)], [P0, P1])
    positions.exchange("a", {"a": 3, "c": 3}, [], [P0])
    assert known(positions, P0) == {P0: -1}
    assert requested(positions) == {P0: -1}


def test_a_member_with_a_new_epoch_loses_only_its_own_positions():
    """Members of a consumer group have an epoch each (KIP-848)."""
    positions = ExchangedPositions()
    positions.exchange("a", BOTH, [(P0, 5)], [P0, P1])
    positions.exchange("b", BOTH, [(P1, 6)], [])
    positions.exchange("b", {"a": 3, "b": 4}, [], [])
    assert known(positions, P0, P1) == {P0: 5, P1: -1}
