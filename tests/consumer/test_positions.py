"""Positions from outside: moving them, asking for them, losing them, and what is logged when they are reset."""

import pytest

from thinconsumer import (
    IllegalArgumentError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetAndMetadata,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    TopicPartition,
    UnsupportedVersionError,
)
from thinconsumer.broker import EntryError
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def resets(lines):
    return [line for line in lines() if "position set to" in line]


# -- seek


def test_seek_with_an_epoch_is_validated_first(world, offsets):
    """The log diverged at 3 since that offset was noted: reading starts where the logs part (KIP-320)."""
    w = world(nodes=2)
    for _ in range(3):
        w.append(1)
    w.cluster.move_leader(T0, 2)
    w.append(4)
    consumer = w.consumer()
    consumer.seek(T0, OffsetAndMetadata(5, "", 0))
    assert offsets(consumer.poll(5000)) == {0: [3, 4, 5, 6]}
    assert len(w.requests(OffsetForLeaderEpochRequest)) == 1


def test_seek_to_beginning_and_end(world, offsets):
    w = world(topics={"t": 2})
    w.append(4, 0)
    w.append(6, 1)
    consumer = w.consumer(("t", 0), ("t", 1))
    consumer.seek_to_end()
    assert (consumer.position(T0), consumer.position(T1)) == (4, 6)
    consumer.seek_to_beginning(T1)
    assert (consumer.position(T0), consumer.position(T1)) == (4, 0)
    assert offsets(consumer.poll(1000)) == {1: [0, 1, 2, 3, 4, 5]}


# -- pause


def test_pausing_keeps_what_is_buffered(world, offsets):
    """A minute of poll(0) while paused returns nothing, and resuming costs no byte that was fetched before."""
    w = world()
    for _ in range(3):
        w.append(4)
    consumer = w.consumer()
    assert offsets(consumer.poll(1000, max_records=2)) == {0: [0, 1]}
    consumer.pause(T0)
    assert consumer.paused() == {T0}
    for _ in range(20):
        assert consumer.poll(0) == {}
        w.clock.advance(3)
    fetched_from = [p.fetch_offset for fetch in w.fetches() for topic in fetch.topics for p in topic.partitions]
    consumer.resume(T0)
    assert offsets(consumer.poll(0)) == {0: list(range(2, 12))}
    again = [p.fetch_offset for fetch in w.fetches() for topic in fetch.topics for p in topic.partitions]
    assert all(offset == 12 for offset in again[len(fetched_from) :])


def test_pause_survives_seek_and_reassignment(world, offsets):
    w = world(topics={"t": 2})
    w.append(3, 0)
    consumer = w.consumer(("t", 0))
    consumer.pause(T0)
    consumer.seek(T0, 1)
    consumer.assign([T0, T1])
    assert consumer.poll(1000) == {}
    consumer.resume(T0, T1)
    assert offsets(consumer.poll(1000)) == {0: [1, 2]}


# -- assign


def test_reassigned_after_a_while_starts_anew(world, read):
    """An unassigned partition loses its position, so auto_offset_reset decides, and is no longer paused."""
    w = world(topics={"t": 2})
    w.append(3, 0)
    consumer = w.consumer(("t", 0))
    assert read(consumer, 3) == {0: [0, 1, 2]}
    consumer.pause(T0)
    consumer.assign([T1])
    consumer.poll(1000)
    consumer.assign([T0])
    assert read(consumer, 3) == {0: [0, 1, 2]}


def test_dropped_partition_is_forgotten_by_the_session(world):
    """Without that the broker would go on sending its records, from where it was last told (KIP-227)."""
    w = world(topics={"t": 2})
    consumer = w.consumer(("t", 0), ("t", 1))
    consumer.poll(1000)
    consumer.assign([T0])
    w.append(3, 1)
    consumer.poll(2000)
    forgotten = [topic.partitions for fetch in w.fetches() for topic in fetch.forgotten_topics_data]
    assert forgotten == [[1]]
    assert w.fetches()[-1].session_epoch > 1


# -- asking


def test_topics_and_their_partitions(world):
    w = world(nodes=2, topics={"t": 3, "u": 1})
    w.cluster.controller.ensure_internal_topic("__consumer_offsets")
    consumer = w.consumer()
    assert consumer.topics() == {"t", "u"}
    assert consumer.partitions_for_topic("t") == {0, 1, 2}
    assert consumer.partitions_for_topic("nope") is None
    assert w.consumer(exclude_internal_topics=False).topics() == {"t", "u", "__consumer_offsets"}


def test_lag_and_highwater_need_no_io(world):
    """None until a fetch has told; then without a single step or request, and never an end offset as lag."""
    w = world(topics={"t": 2})
    w.append(10, 0)
    consumer = w.consumer(("t", 0), ("t", 1))
    assert consumer.lag() == {T0: None, T1: None}
    consumer.poll(1000, max_records=4)
    driver = consumer._shell.driver
    before = driver.steps
    assert consumer.lag() == {T0: 6, T1: 0}
    assert consumer.lag([T1]) == {T1: 0}
    assert (consumer.highwater(T0), consumer.highwater(T1)) == (10, 0)
    consumer.seek_to_end(T0)
    assert consumer.lag() == {T0: None, T1: 0}
    consumer.seek(T0, 10)
    assert consumer.lag([T0]) == {T0: 0}
    assert driver.steps == before


def test_lag_under_read_committed_is_behind_the_last_stable_offset(world):
    w = world()
    w.append(4)
    w.cluster.append_batch(T0, build_batch([NewRecord(b"open")] * 2, producer_id=5, transactional=True))
    consumer = w.consumer(isolation_level="read_committed")
    consumer.poll(1000, max_records=1)
    assert consumer.highwater(T0) == 6
    assert consumer.lag()[T0] is not None and consumer.lag()[T0] <= 3


# -- no position


@pytest.mark.parametrize(
    ("policy", "expected", "word"),
    [
        ("earliest", 2, "auto_offset_reset=earliest"),
        ("latest", 9, "auto_offset_reset=latest"),
        ("by_duration:PT1M", 6, "auto_offset_reset=by_duration:PT60S"),
        ("by_duration:P30000D", 2, "auto_offset_reset=by_duration"),
        ("by_duration:PT1S", 9, "no record is at or after that time"),
    ],
)
def test_policies_decide_where_there_is_no_position_and_log_it_once(world, lines, policy, expected, word):
    w = world()
    wall = w.clock.wall_time() * 1000
    for count, age in ((2, 180_000), (4, 120_000), (3, 30_000)):
        w.cluster.produce("t", [NewRecord(b"x", timestamp=int(wall - age))] * count)
    w.cluster.delete_records(T0, 2)
    consumer = w.consumer(auto_offset_reset=policy)
    assert consumer.position(T0) == expected
    consumer.poll(2000)
    (line,) = resets(lines)
    assert line.startswith(f"t-0: position set to {expected} (")
    assert word in line


def test_policy_none_raises_until_there_is_a_position(reading, offsets):
    _, consumer = reading(3, auto_offset_reset="none")
    for call in (lambda: consumer.poll(1000), lambda: consumer.position(T0)) * 2:
        with pytest.raises(NoOffsetForPartitionError) as caught:
            call()
        assert caught.value.partitions == (T0,)
    consumer.seek(T0, 1)
    assert offsets(consumer.poll(1000)) == {0: [1, 2]}


def test_partition_that_appears_later_starts_at_its_beginning_under_latest(reading, offsets, lines):
    """Records written before the metadata refresh are not skipped; existing partitions follow auto_offset_reset."""
    w, consumer = reading(5, auto_offset_reset="latest", metadata_max_age_ms=5000)
    assert consumer.poll(1000) == {}
    assert consumer.position(T0) == 5
    w.cluster.expand("t", 2)
    w.append(3, 1)
    consumer.poll(6000)
    consumer.assign([T0, T1])
    assert offsets(consumer.poll(3000)) == {1: [0, 1, 2]}
    assert "new_partition_offset_reset=earliest" in resets(lines)[-1]


# -- out of range


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_expired_position_follows_the_policy_once(world, offsets, lines, policy):
    w = world()
    for _ in range(4):
        w.append(5)
    consumer = w.consumer(auto_offset_reset=policy)
    consumer.seek(T0, 2)
    consumer.pause(T0)
    w.cluster.delete_records(T0, 10)
    consumer.resume(T0)
    found = offsets(consumer.poll(3000))
    assert found == ({0: list(range(10, 20))} if policy == "earliest" else {})
    assert consumer.position(T0) == 20
    (line,) = resets(lines)
    assert "position 2 is out of range" in line and "starts at 10" in line


def test_truncated_position_is_told_apart(reading, lines):
    """Past the end, with no epoch to ask about: truncated, not expired."""
    _, consumer = reading(5)
    consumer.seek(T0, 50)
    consumer.poll(3000)
    (line,) = resets(lines)
    assert "position 50 is out of range" in line and "the log ends at 5" in line


@pytest.mark.parametrize("position", [2, 50])
def test_policy_none_raises_with_numbers(world, offsets, position):
    w = world()
    for _ in range(4):
        w.append(5)
    w.cluster.delete_records(T0, 10)
    consumer = w.consumer(auto_offset_reset="none")
    consumer.seek(T0, position)
    for _ in range(3):
        with pytest.raises(OffsetOutOfRangeError, match=str(position)) as caught:
            consumer.poll(3000)
    assert (caught.value.position, caught.value.log_start, caught.value.log_end) == (position, 10, 20)
    consumer.seek(T0, 18)
    assert offsets(consumer.poll(3000)) == {0: [18, 19]}


def test_position_at_both_ends_is_in_range(world, offsets, lines):
    w = world()
    for _ in range(4):
        w.append(5)
    w.cluster.delete_records(T0, 10)
    consumer = w.consumer(auto_offset_reset="none")
    consumer.seek(T0, 20)
    assert consumer.poll(2000) == {}
    consumer.seek(T0, 10)
    assert offsets(consumer.poll(2000)) == {0: list(range(10, 20))}
    assert resets(lines) == []


# -- leaders


def test_leader_change_validates_the_position_and_goes_on(world, read):
    w = world(nodes=2)
    w.append(4)
    consumer = w.consumer()
    assert read(consumer, 4) == {0: [0, 1, 2, 3]}
    w.cluster.move_leader(T0, 2)
    w.append(3)
    assert read(consumer, 3) == {0: [4, 5, 6]}
    asked = [
        (p.leader_epoch, p.current_leader_epoch)
        for received in w.requests(OffsetForLeaderEpochRequest, 2)
        for topic in received.message.topics
        for p in topic.partitions
    ]
    assert asked == [(0, 1)]


def test_unclean_election_goes_back_to_where_the_logs_part(world, read, lines):
    """Read up to 8; the new leader's log has other records from 5 on: those are read, none of them is skipped."""
    w = world(nodes=2)
    for _ in range(8):
        w.append(1)
    consumer = w.consumer()
    assert read(consumer, 8) == {0: list(range(8))}
    w.elect_unclean(2, 5)
    for _ in range(5):
        w.append(1)
    assert read(consumer, 5) == {0: [5, 6, 7, 8, 9]}
    assert [line for line in lines() if "truncated: position 8 -> 5" in line]


def test_unclean_election_under_policy_none_raises(world, read):
    w = world(nodes=2)
    for _ in range(8):
        w.append(1)
    consumer = w.consumer(auto_offset_reset="none")
    consumer.seek(T0, 0)
    assert read(consumer, 8) == {0: list(range(8))}
    w.elect_unclean(2, 5)
    w.append(1)
    for _ in range(2):
        with pytest.raises(LogTruncationError) as caught:
            consumer.poll(5000)
    assert (caught.value.position, caught.value.divergent_offset) == (8, 5)
    consumer.seek(T0, 5)
    assert read(consumer, 1) == {0: [5]}


def test_topic_created_again_starts_anew(world, read, lines):
    """Another id is another topic: epochs and position of the old one mean nothing."""
    w = world(nodes=2)
    for _ in range(6):
        w.append(1)
    w.cluster.move_leader(T0, 2)
    consumer = w.consumer()
    assert read(consumer, 6) == {0: list(range(6))}
    w.cluster.delete_topic("t")
    assert consumer.poll(3000) == {}
    w.cluster.create_topic("t", 1)
    w.append(3)
    assert read(consumer, 3) == {0: [0, 1, 2]}
    assert len([line for line in lines() if "created again" in line]) <= 2


def test_a_topic_created_again_is_read_from_its_start_from_brokers_that_fetch_by_name(world, read):
    """An end below the position would look like a truncated log, and the position would be taken to it."""
    w = world()
    w.cluster.set_versions(FetchRequest, (4, 12))
    w.append(6)
    consumer = w.consumer(metadata_max_age_ms=1_000_000)
    assert read(consumer, 6) == {0: list(range(6))}
    consumer.pause(T0)  # no Fetch is in flight when the topic is deleted, so no answer tells of that
    assert consumer.poll(2000) == {}
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", 1)
    w.append(3)
    consumer.resume(T0)
    assert read(consumer, 3) == {0: [0, 1, 2]}
    assert consumer.poll(2000) == {}


def test_refused_arguments_of_skip(world):
    w = world()
    with pytest.raises(IllegalArgumentError):
        w.consumer().skip(ValueError("not one of ours"))


@pytest.mark.parametrize(
    ("tp", "words"),
    [(("nope", 0), "UNKNOWN_TOPIC_OR_PARTITION"), (("t", 9), "no leader known for t-9: the topic has 1 partitions")],
)
def test_a_position_that_does_not_come_says_why(world, tp, words):
    consumer = world().consumer(tp)
    with pytest.raises(KafkaTimeoutError, match=words):
        consumer.position(TopicPartition(*tp), timeout_ms=3000)
    with pytest.raises(KafkaTimeoutError, match=words):
        consumer.beginning_offsets([TopicPartition(*tp)], timeout_ms=3000)


def test_who_pauses_a_partition_that_may_not_be_read_can_read_the_others(world, read):
    w = world(topics={"t": 2})
    w.append(3, 1)
    consumer = w.consumer(("t", 0), ("t", 1))
    assert read(consumer, 3) == {1: [0, 1, 2]}
    w.cluster.on("Fetch", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 0}))
    w.append(3, 0)
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(5000)
    consumer.pause(T0)
    w.append(3, 1)
    assert read(consumer, 3) == {1: [3, 4, 5]}
    consumer.resume(T0)
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(5000)


def test_the_error_of_a_paused_partition_is_not_raised(world, offsets):
    w = world(topics={"t": 2})
    w.append(3, 1)
    consumer = w.consumer(("t", 0), ("t", 1), auto_offset_reset="none")
    consumer.seek(T1, 0)
    consumer.pause(T0)
    assert offsets(consumer.poll(1000)) == {1: [0, 1, 2]}
    assert consumer.poll(1000) == {}
    consumer.resume(T0)
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll(1000)


@pytest.mark.parametrize("api", [MetadataRequest, FetchRequest, ListOffsetsRequest])
def test_a_broker_without_a_version_we_speak_is_told_by_poll_not_by_silence(world, api):
    w = world()
    w.cluster.set_versions(api, None)
    consumer = w.consumer()
    for _ in range(2):
        with pytest.raises(UnsupportedVersionError, match=api.__name__.removesuffix("Request")):
            consumer.poll(5000)
