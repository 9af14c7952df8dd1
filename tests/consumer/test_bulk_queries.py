"""Many questions in one round trip, and reading up to an end that no record stands at."""

import pytest

from thinconsumer import TopicAuthorizationFailedError, TopicPartition
from thinconsumer.broker import EntryError
from thinconsumer.consumer.bulk_queries import look_up, partitions_of, poll_up_to
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest

T0 = TopicPartition("t", 0)


def test_partitions_of_many_topics_are_one_request(world):
    w = world(topics={"t": 3, "u": 1, "v": 2, "__hidden": 1})
    consumer = w.consumer()
    assert partitions_of(consumer, ["t", "v", "no-such"]) == {"t": [0, 1, 2], "v": [0, 1]}
    asked = [r for r in w.requests(MetadataRequest) if r.message.topics and len(r.message.topics) == 3]
    assert len(asked) == 1
    assert {"t", "u", "v"} <= partitions_of(consumer, None).keys()


def test_thousand_partitions_cost_one_request_per_leader_and_question(world):
    w = world(nodes=2, topics={"t": 500, "u": 500})
    w.append(7, partition=3)
    consumer = w.consumer()
    tps = [TopicPartition(topic, number) for topic in "tu" for number in range(500)]
    partitions_of(consumer, ["t", "u"])
    first, last, young = look_up(consumer, [dict.fromkeys(tps, ask) for ask in (-2, -1, 2**40)])
    asked = [r for r in w.requests(ListOffsetsRequest) if len(r.message.topics) == 2]  # one is the consumer's own
    assert len(asked) == 2 * 3
    assert first[TopicPartition("t", 3)] == 0
    assert last[TopicPartition("t", 3)] == 7
    assert young[TopicPartition("u", 9)] == -1
    assert len(last) == 1000


def test_questions_about_nothing_are_answered(world):
    consumer = world().consumer()
    assert look_up(consumer, []) == []
    assert look_up(consumer, [{}, {T0: -1}]) == [{}, {T0: 0}]


def test_error_of_one_question_ends_all(world):
    w = world(topics={"t": 2})
    w.cluster.on("ListOffsets", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 1}))
    consumer = w.consumer()
    with pytest.raises(TopicAuthorizationFailedError):
        look_up(consumer, [{T0: -1}, {TopicPartition("t", 1): -1}])


@pytest.mark.parametrize("columns", [False, True])
def test_a_poll_ends_at_an_end_without_records(world, columns):
    """The end of a transaction is an offset without a record."""
    if columns:
        pytest.importorskip("numpy")
    w = world()
    w.append(3)
    w.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=1))
    consumer = w.consumer()
    assert poll_up_to(consumer, {T0: 4}, 1000, 60_000, columns).count == 3
    seconds, found = w.elapsed(lambda: poll_up_to(consumer, {T0: 4}, 1000, 60_000, columns))
    assert found.count == 0 and not found.records
    assert seconds < 1
    assert consumer.position(T0) == 4


def test_a_poll_returns_no_record_from_the_end_on(reading):
    _, consumer = reading(10)
    found = poll_up_to(consumer, {T0: 4}, 100, 1000).records
    assert [record.offset for record in found[T0]] == [0, 1, 2, 3]
    assert poll_up_to(consumer, {T0: 4}, 100, 1000).records == {}
    assert consumer.position(T0) == 4


def test_columns_from_the_end_on_are_returned_by_a_poll_with_a_later_end(world):
    """Batches are returned whole, none of them begins at the end or later; a hole before a batch ends at the end."""
    pytest.importorskip("numpy")
    w = world()
    w.append(3)
    w.cluster.append_batch(T0, build_batch([NewRecord(b"v", offset=5), NewRecord(b"v")]))
    consumer = w.consumer()
    offsets = []
    for end in (2, 4, 5, 8, 9, 10):
        found = poll_up_to(consumer, {T0: end}, 10**6, 1000, columns=True).records
        offsets.append((found[T0].offsets.tolist() if found else [], consumer.position(T0)))
    assert offsets == [([0, 1, 2], 3), ([8, 9], 10), ([], 10), ([], 10), ([], 10), ([], 10)]
    consumer.seek(T0, 3)
    assert poll_up_to(consumer, {T0: 3}, 10**6, 1000, columns=True).records == {}
