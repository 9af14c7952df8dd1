"""Fetch sessions: opening, updates, errors, eviction, and partitions omitted from responses."""

import random

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import (
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_S,
    FetchContextKind,
    FetchSessionCache,
    next_epoch,
)
from thinconsumer_testing.broker.image import ClusterImage, TopicImage
from thinconsumer_testing.broker.schedule import Schedule

NAMES, IDS = 12, 13
T, U = b"t" * 16, b"u" * 16


class FakeNode:
    def __init__(self, slots=1000):
        self.config = BrokerConfig(max_incremental_fetch_session_cache_slots=slots)
        self.schedule = Schedule()
        self.random = random.Random(1)


@pytest.fixture
def node():
    return FakeNode()


@pytest.fixture
def sessions(node):
    return FetchSessionCache(node)


@pytest.fixture
def image():
    image = ClusterImage("cluster")
    image.put_topic(TopicImage("t", T, (), {}))
    return image


def asked(topic="t", numbers=(0,), *, session_id=0, epoch=0, forget=(), offset=0, topic_id=None, follower=-1):
    key = {"topic": topic} if topic_id is None else {"topic_id": topic_id}
    topics = [FetchTopic(**key, partitions=[FetchPartition(partition=n, fetch_offset=offset) for n in numbers])]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if numbers else [],
        forgotten_topics_data=[ForgottenTopic(**key, partitions=list(forget))] if forget else [],
        replica_id=follower,
        replica_state=ReplicaState(replica_id=follower),
    )


def row(number=0, high_watermark=0, log_start_offset=0, **more):
    more = {"records": b"", **more}
    return PartitionData(
        partition_index=number, high_watermark=high_watermark, log_start_offset=log_start_offset, **more
    )


def concluded(context, image, **rows):
    """Finish with an empty row for each partition, or with those given as ``p0=``, ``p1=``."""
    wanted = context.partitions_to_read(image.names_by_id)
    return context.finish([(one, rows.get(f"p{one.partition}", row(one.partition))) for one in wanted])


@pytest.fixture
def opened(sessions, image):
    """``opened(...)``: the session id of a completed full request."""

    def open_session(*numbers, version=NAMES, **more):
        context = sessions.context(asked(numbers=numbers or (0,), **more), version, image)
        assert context.kind is FetchContextKind.FULL
        code, session_id, _ = concluded(context, image)
        assert code == 0
        return session_id

    return open_session


def numbers_of(context, image):
    return [one.partition for one in context.partitions_to_read(image.names_by_id)]


def test_epochs_increment_and_skip_zero_when_they_wrap():
    assert [next_epoch(epoch) for epoch in (0, 1, EPOCH_MAX, -1)] == [1, 2, 1, -1]


@pytest.mark.parametrize(
    ("epoch", "version", "opens"), [(-1, NAMES, False), (0, NAMES, True), (FetchRequest().session_epoch, 6, False)]
)
def test_the_epoch_of_a_full_request_opens_a_session(sessions, image, epoch, version, opens):
    """Below version 7 a request has no epoch; the default is the final epoch."""
    context = sessions.context(asked(epoch=epoch, numbers=(1, 0)), version, image)
    assert context.kind is (FetchContextKind.FULL if opens else FetchContextKind.SESSIONLESS)
    code, session_id, told = concluded(context, image)
    assert (code, [one.partition for one, _ in told]) == (0, [1, 0])
    assert (0 < session_id < 2**31, session_id == 0, len(sessions)) == (opens, not opens, opens)


def test_session_without_partitions_is_closed(sessions, image, opened):
    session_id = opened(0)
    context = sessions.context(asked(numbers=(), session_id=session_id, epoch=1, forget=(0,)), NAMES, image)
    assert context.kind is FetchContextKind.SESSIONLESS
    assert concluded(context, image) == (0, 0, [])
    assert len(sessions) == 0


def test_parked_response_is_invalid_after_the_next_request(sessions, image, opened):
    session_id = opened(0)
    parked = sessions.context(asked(numbers=(), session_id=session_id, epoch=1), NAMES, image)
    overtaking = sessions.context(asked(numbers=(), session_id=session_id, epoch=2), NAMES, image)
    news = row(high_watermark=5)
    assert concluded(parked, image, p0=news) == (Code.INVALID_FETCH_SESSION_EPOCH, session_id, [])
    assert len(concluded(overtaking, image, p0=news)[2]) == 1


def test_topic_id_is_resolved_once_known(sessions, image, opened):
    session_id = opened(0, topic_id=U, version=IDS)

    def topics(epoch):
        context = sessions.context(asked(numbers=(), session_id=session_id, epoch=epoch), IDS, image)
        return [one.topic for one in context.partitions_to_read(image.names_by_id)]

    assert topics(1) == [None]
    image.put_topic(TopicImage("u", U, (), {}))
    assert topics(2) == ["u"]
    image.remove_topic("u")
    assert topics(3) == ["u"], "so that the client is told that the topic is gone, not that the id is wrong"


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({}, False),
        ({"records": b"x"}, True),
        ({"high_watermark": 1}, True),
        ({"log_start_offset": 1}, True),
        ({"preferred_read_replica": 2}, True),
        ({"diverging_epoch": FetchEpochEndOffset(epoch=0, end_offset=3)}, True),
        ({"error_code": int(Code.NOT_LEADER_OR_FOLLOWER)}, True),
        ({"last_stable_offset": 1}, False),
    ],
)
def test_incremental_response_omits_unchanged_partitions(sessions, image, opened, change, is_told):
    session_id = opened(0, 1)
    context = sessions.context(asked(numbers=(), session_id=session_id, epoch=1), NAMES, image)
    _, _, told = concluded(context, image, p1=row(1, **change))
    assert [one.partition for one, _ in told] == ([1] if is_told else [])


def test_offsets_are_sent_once_but_errors_every_time(sessions, image, opened):
    session_id = opened(0)
    told = []
    for epoch, data in enumerate(
        [row(high_watermark=4), row(high_watermark=4), row(high_watermark=4, error_code=6), row(high_watermark=4)], 1
    ):
        context = sessions.context(asked(numbers=(), session_id=session_id, epoch=epoch), NAMES, image)
        told.append(len(concluded(context, image, p0=data)[2]))
    assert told == [1, 0, 1, 1], "after an error the partition is told again, though its high watermark never moved"


def test_partitions_that_returned_records_move_to_the_end(sessions, image, opened):
    """Otherwise later partitions would never be read when the byte limit is used up."""
    session_id = opened(0, 1, 2)
    orders = []
    for epoch, busy in [(1, "p0"), (2, "p1"), (3, "p1"), (4, "p9")]:
        context = sessions.context(asked(numbers=(), session_id=session_id, epoch=epoch), NAMES, image)
        orders.append(numbers_of(context, image))
        concluded(context, image, **{busy: row(int(busy[1]), records=b"x")})
    assert orders == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 0, 1]]


# -- the limit


def test_full_cache_keeps_recent_sessions(image):
    sessions = FetchSessionCache(node := FakeNode(slots=1))
    first = sessions.context(asked(), NAMES, image)
    assert concluded(first, image)[1] != 0
    second = sessions.context(asked(numbers=range(9)), NAMES, image)
    assert concluded(second, image)[1] == 0, "fetched all the same, without a session"
    assert len(sessions) == 1
    assert node.schedule.now == 0
    sessions = FetchSessionCache(FakeNode(slots=0))
    assert concluded(sessions.context(asked(), NAMES, image), image)[:2] == (0, 0)


def test_full_cache_evicts_the_session_unused_for_long(image):
    sessions = FetchSessionCache(node := FakeNode(slots=2))
    ids = [concluded(sessions.context(asked(), NAMES, image), image)[1] for _ in range(2)]
    node.schedule.advance(EVICTION_S)
    sessions.context(asked(numbers=(), session_id=ids[0], epoch=1), NAMES, image)
    node.schedule.advance(EVICTION_S + 0.1)
    assert concluded(sessions.context(asked(), NAMES, image), image)[1] != 0
    kinds = [sessions.context(asked(numbers=(), session_id=ids[n], epoch=2 - n), NAMES, image).kind for n in range(2)]
    assert kinds == [FetchContextKind.INCREMENTAL, FetchContextKind.ERROR]


@pytest.mark.parametrize(("size", "gets_in"), [(1, False), (3, True)])
def test_full_cache_evicts_an_old_smaller_session_for_a_larger_one(image, size, gets_in):
    sessions = FetchSessionCache(node := FakeNode(slots=1))
    session_id = concluded(sessions.context(asked(numbers=(0, 1)), NAMES, image), image)[1]
    node.schedule.advance(EVICTION_S + 1)
    sessions.context(asked(numbers=(), session_id=session_id, epoch=1), NAMES, image)
    newcomer = concluded(sessions.context(asked(numbers=range(size)), NAMES, image), image)[1]
    assert (newcomer != 0) == gets_in
    assert len(sessions) == 1


def test_follower_evicts_recent_consumer_sessions_but_no_follower_sessions(image):
    sessions = FetchSessionCache(FakeNode(slots=1))
    concluded(sessions.context(asked(), NAMES, image), image)
    assert concluded(sessions.context(asked(follower=2), NAMES, image), image)[1] != 0
    assert concluded(sessions.context(asked(topic_id=T, numbers=range(9), follower=3), 15, image), image)[1] == 0
