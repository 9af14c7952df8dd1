"""Metadata: which responses are accepted, what is new, when the next request is sent, and that requests never spin."""

import logging
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaConnectionError, KafkaError, TopicAuthorizationFailedError
from thinconsumer.network.metadata import ASKER, Metadata
from thinconsumer.network.request import ANY_NODE, Answer, Request
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER
from thinconsumer.types import Node, TopicPartition
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A, ID_B = b"A" * 16, b"B" * 16
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topic(name: str = "t", leaders: dict[int, tuple[int, int]] | None = None, **more: Any) -> MetadataResponseTopic:
    """Return a topic of an answer; ``leaders`` maps partitions to (leader, epoch)."""
    leaders = {0: (1, 5)} if leaders is None and not more.get("error_code") else leaders or {}
    more.setdefault("topic_id", ID_A)
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[2],
            error_code=Code.LEADER_NOT_AVAILABLE if leader < 0 else 0,
        )
        for index, (leader, epoch) in leaders.items()
    ]
    return MetadataResponseTopic(name=name, partitions=partitions, **more)


def response(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2, 3), **more: Any) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092, rack=f"r{n}") for n in nodes]
    return MetadataResponse(brokers=brokers, topics=list(topics), cluster_id="c", **more)


def answer(request: Request, reply: MetadataResponse | KafkaError, version: int = 12) -> Answer:
    """Return what a link would hand in: both messages have been through bytes."""
    assert request.asker == ASKER and request.target == ANY_NODE
    message = request.build(version)
    MetadataRequest.decode(message.encode(version), version)
    if isinstance(reply, KafkaError):
        return Answer(request, -1, error=reply)
    return Answer(request, 1, version, MetadataResponse.decode(reply.encode(version), version))


@dataclass
class World:
    options: dict[str, Any] = field(default_factory=dict)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.agenda = Agenda()
        self.metadata = Metadata(ConsumerConfig.from_options(**self.options), random.Random(1), self.agenda)
        self.unread: list[Request] = []  #: Requests that :meth:`wait` has found.

    def step(self) -> list[Request]:
        self.agenda.take(self.now)
        found, self.unread = self.unread + self.metadata.step(self.now), []
        return found

    def wait(self) -> float:
        """Step when the agenda says so, until a request is due; return the seconds until then, NEVER if none is."""
        start = self.now
        while not self.unread:
            self.unread = self.step()
            if not self.unread and self.agenda.next() == NEVER:
                self.now = start
                return NEVER
            if not self.unread:
                self.now = max(self.now, self.agenda.next())
        return self.now - start

    def ask(self) -> Request:
        self.wait()
        [request] = self.step()
        return request

    def answer(self, reply: MetadataResponse | KafkaError, version: int = 12, request: Request | None = None) -> None:
        self.metadata.handle(answer(request or self.ask(), reply, version), self.now)

    def know(self, *topics: MetadataResponseTopic, version: int = 12, **more: Any) -> None:
        """Want these topics, and handle a response that has them."""
        self.metadata.want([t.name for t in topics if t.name])
        self.metadata.request_update("test")
        self.answer(response(*topics, **more), version)


@pytest.fixture
def world():
    return World()


def names(request: Request, version: int = 12) -> list[str | None] | None:
    message = request.build(version)
    assert isinstance(message, MetadataRequest)
    return None if message.topics is None else [t.name for t in message.topics]


# -- what is asked


def test_without_wanted_topics_no_request_is_sent(world):
    world.metadata.request_update("why not")
    assert world.step() == [] and world.wait() == NEVER


def test_wanted_topics_are_asked_for_at_once_by_name_and_never_created(world):
    world.metadata.want(["b", "a"])
    assert world.wait() == 0
    [request] = world.step()
    assert names(request) == ["a", "b"]
    assert request.build(12).allow_auto_topic_creation is False
    assert request.deadline == world.now + 30.0
    assert world.step() == [] and world.wait() == NEVER, "one refresh is under way"


@pytest.mark.parametrize("version", range(MetadataRequest.VERSIONS[0], MetadataRequest.VERSIONS[1] + 1))
def test_requests_and_answers_of_every_version(version):
    world = World()
    world.metadata.want(["t"])
    world.answer(response(topic()), version)
    info = world.metadata.leader(T0)
    assert info is not None and info.leader == 1
    assert info.leader_epoch == (5 if version >= 9 else -1)
    assert world.metadata.topic_id("t") == (ID_A if version >= 10 else ZERO_UUID)
    call = world.metadata.inquire(None, "topics()")
    [request] = world.step()
    assert names(request, version) == ([] if version == 0 else None)
    world.answer(response(topic(), topic("u", is_internal=version > 0, topic_id=ID_B)), version, request)
    assert {name: t.internal for name, t in call.result().items()} == {"t": False, "u": version > 0}


def test_topics_are_created_by_a_refresh_only_and_only_if_the_user_said_so():
    world = World({"allow_auto_create_topics": True})
    world.metadata.want(["t"])
    world.metadata.inquire(["t"], "x")
    refresh, inquiry = world.step()
    assert refresh.build(12).allow_auto_topic_creation is True
    assert inquiry.build(12).allow_auto_topic_creation is False


def test_the_message_asks_for_what_is_wanted_when_it_is_written(world):
    """A request may wait long for its connection."""
    world.metadata.want(["a"])
    [request] = world.step()
    world.metadata.want(["a", "b"])
    assert names(request) == ["a", "b"]


def test_known_metadata_is_asked_for_again_when_it_is_old(world):
    world.know(topic())
    world.now += 299.9
    assert world.step() == []
    assert world.wait() == pytest.approx(0.1)
    assert len(world.step()) == 1


def test_an_update_asked_for_follows_the_last_one_after_a_pause(world):
    """Several errors that one refresh answers must not cause several refreshes."""
    world.know(topic())
    for _ in range(5):
        world.metadata.request_update("NOT_LEADER")
    assert world.step() == []
    assert 0.08 <= world.wait() <= 0.12
    assert len(world.step()) == 1


def test_an_update_asked_for_while_one_is_under_way_is_not_lost(world):
    """The answer under way may be from before the error."""
    world.know(topic())
    world.metadata.request_update("first")
    first = world.ask()
    world.metadata.request_update("second")
    world.answer(response(topic()), request=first)
    assert world.wait() < 1
    world.ask()


def test_a_topic_wanted_while_a_refresh_is_under_way_is_asked_for_next(world):
    world.metadata.want(["a"])
    [request] = world.step()
    message = answer(request, response(topic("a")))
    world.metadata.want(["a", "b"])
    world.metadata.handle(message, world.now)
    assert world.wait() < 1
    assert names(world.ask()) == ["a", "b"]


def test_a_new_topic_does_not_wait_for_the_backoff_of_an_old_trouble(world):
    """Subscribing to a topic that exists must not be slowed down by another that does not."""
    world.metadata.want(["gone"])
    for _ in range(8):
        world.answer(response(topic("gone", error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)))
    world.now += 0.5
    assert world.step() == []
    world.metadata.want(["gone", "new"])
    assert world.wait() == 0


# -- backoff


TROUBLE = {
    "unknown topic": lambda: response(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)),
    "topic left out": lambda: response(),
    "topic without partitions": lambda: response(topic(leaders={})),
    "being created": lambda: response(topic(error_code=Code.LEADER_NOT_AVAILABLE)),
    "no leader": lambda: response(topic(leaders={0: (1, 5), 1: (-1, 6)})),
    "leader that is no broker": lambda: response(topic(leaders={0: (9, 5)})),
    "not authorized": lambda: response(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED)),
    "connection lost": lambda: KafkaConnectionError("lost"),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_while_something_is_missing_it_is_asked_for_ever_more_slowly(trouble):
    world = World()
    world.metadata.want(["t"])
    waits = []
    for _ in range(8):
        world.answer(TROUBLE[trouble]())
        waits.append(world.wait())
    assert 0.08 <= waits[0] <= 0.12
    assert waits[1] > waits[0] and waits[2] > waits[1]
    assert all(0.8 <= wait <= 1.0 for wait in waits[4:])
    world.answer(response(topic()))
    assert world.wait() == pytest.approx(300.0), "all is well again"


def test_answers_that_tell_nothing_new_are_asked_for_ever_more_slowly(world):
    """Somebody assigned a partition that does not exist: each step asks for its leader, no answer ever has one."""
    world.know(topic())
    waits = []
    for _ in range(8):
        world.metadata.request_update("no leader known for t-99")
        waits.append(world.wait())
        world.answer(response(topic()))
    assert max(waits) <= 1.0 and min(waits[5:]) >= 0.8
    world.metadata.request_update("x")
    world.answer(response(topic(leaders={0: (2, 6)})))
    world.metadata.request_update("x")
    assert world.wait() <= 0.12, "news: the cluster is moving, ask soon again"


def test_a_quiet_night_does_not_slow_down_the_first_failover(world):
    """Refreshes by age that tell nothing new are no reason to wait when there is a reason to ask."""
    world.know(topic())
    for _ in range(20):
        world.answer(response(topic()))
    world.now += 5
    world.metadata.request_update("NOT_LEADER")
    world.answer(response(topic()))
    world.metadata.request_update("NOT_LEADER")
    assert world.wait() <= 0.12


# -- which responses are accepted


def test_an_epoch_never_goes_back(world):
    world.know(topic(leaders={0: (2, 7)}))
    version = world.metadata.version
    world.know(topic(leaders={0: (1, 6)}))
    info = world.metadata.leader(T0)
    assert info is not None and (info.leader, info.leader_epoch) == (2, 7)
    assert world.metadata.version > version
    world.know(topic(leaders={0: (3, 7)}))
    assert world.metadata.leader(T0).leader == 3, "the same epoch: the newer answer counts"


def test_an_epoch_does_not_go_back_behind_an_answer_that_did_not_know_the_topic(world):
    world.know(topic(leaders={0: (2, 7)}))
    world.know(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION))
    assert world.metadata.leader(T0) is None
    world.know(topic(leaders={0: (1, 6)}))
    info = world.metadata.leader(T0)
    assert (info.leader, info.leader_epoch) == (1, 7), "a leader that was deposed before rejects the newest epoch"
    world.know(topic(leaders={0: (2, 7)}))
    assert world.metadata.leader(T0).leader == 2


def test_an_epoch_does_not_go_back_behind_an_answer_without_epochs(world):
    """In a rolling upgrade, brokers that report epochs and brokers that do not take turns."""
    world.know(topic(leaders={0: (2, 7)}))
    world.know(topic(leaders={0: (3, 9)}), version=8)
    assert (world.metadata.leader(T0).leader, world.metadata.leader(T0).leader_epoch) == (3, -1)
    world.know(topic(leaders={0: (1, 6)}))
    assert world.metadata.leader(T0).leader == 3


def test_a_topic_id_survives_an_answer_without_ids(world):
    world.know(topic())
    world.know(topic(), version=9)
    assert world.metadata.topic_id("t") == ID_A


@pytest.mark.parametrize("is_seen_gone", [False, True])
def test_a_new_topic_id_is_a_new_topic(world, caplog, is_seen_gone):
    caplog.set_level(logging.WARNING)
    world.know(topic(leaders={0: (2, 7), 1: (2, 7)}))
    assert not world.metadata.is_new_partition(T0)
    if is_seen_gone:
        world.know(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID))
    world.know(topic(leaders={0: (1, 0)}, topic_id=ID_B))
    info = world.metadata.leader(T0)
    assert (info.leader, info.leader_epoch) == (1, 0), "epochs begin at 0 again"
    assert world.metadata.leader(T1) is None
    assert world.metadata.topic_id("t") == ID_B
    assert world.metadata.is_new_partition(T0), "the topic was created after the first response with its name"
    assert any("deleted and created again" in r.message for r in caplog.records)


def test_a_partition_added_to_a_known_topic_is_new(world):
    world.know(topic())
    world.know(topic(leaders={0: (1, 5), 1: (1, 5)}))
    assert world.metadata.is_new_partition(T1) and not world.metadata.is_new_partition(T0)


def test_partitions_of_a_topic_that_did_not_exist_before_are_new(world):
    """auto_offset_reset=latest would skip the records written between the topic's creation and its first response."""
    world.know(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID))
    world.know(topic())
    assert world.metadata.is_new_partition(T0)


@pytest.mark.parametrize(
    ("code", "nodes"), [(Code.UNKNOWN_TOPIC_OR_PARTITION, ()), (Code.LEADER_NOT_AVAILABLE, (1, 2, 3))]
)
def test_partitions_are_not_new_after_a_response_that_lacks_them(world, code, nodes):
    """A broker that has just started knows no broker and no topic; a new leader may not be elected yet."""
    world.know(topic(error_code=code, topic_id=ZERO_UUID), nodes=nodes)
    world.know(topic())
    assert not world.metadata.is_new_partition(T0)
    world.know(topic(error_code=code))
    world.know(topic())
    assert not world.metadata.is_new_partition(T0)


def test_without_ids_a_topic_that_was_seen_gone_begins_anew(world):
    """Brokers before 2.8 name no ids: keeping epochs would refuse the new topic's leaders for ever."""
    world.know(topic(leaders={0: (2, 7)}, topic_id=ZERO_UUID), version=9)
    world.know(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID), version=9)
    world.know(topic(leaders={0: (1, 0)}, topic_id=ZERO_UUID), version=9)
    assert world.metadata.leader(T0).leader == 1


def test_a_topic_being_created_keeps_what_was_known_of_it(world):
    world.know(topic())
    world.know(topic(error_code=Code.LEADER_NOT_AVAILABLE, topic_id=ZERO_UUID))
    assert set(world.metadata.topics["t"].partitions) == {0}


@pytest.mark.parametrize("nobody", [-1, 9])
def test_a_partition_without_a_leader_or_its_address_is_known_but_has_none(world, nobody):
    world.know(topic(leaders={0: (nobody, 6), 1: (2, 5)}))
    assert world.metadata.leader(T0) is None and world.metadata.leader(T1) is not None
    assert set(world.metadata.topics["t"].partitions) == {0, 1}


def test_an_answer_without_brokers_does_not_strand_the_client(world):
    world.know(topic())
    world.know(topic(), nodes=())
    assert set(world.metadata.nodes) == {1, 2, 3}
    assert world.metadata.leader(T0) is not None


def test_nodes_and_replicas_are_those_of_the_last_answer(world):
    world.know(topic())
    world.know(topic(), nodes=(1, 4))
    assert world.metadata.nodes == {1: Node(1, "b1", 9092, "r1"), 4: Node(4, "b4", 9092, "r4")}
    assert world.metadata.cluster_id == "c"
    info = world.metadata.leader(T0)
    assert (info.replicas, info.isr, info.offline_replicas) == ((1, 2), (1,), (2,))


# -- errors of topics


def test_an_error_is_logged_once_per_change_and_not_once_per_refresh(world, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(5):
        world.know(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED))
    assert len(caplog.records) == 1
    for _ in range(5):
        world.know(topic(error_code=Code.INVALID_TOPIC_EXCEPTION))
    assert len(caplog.records) == 2
    world.know(topic())
    assert [record.levelname for record in caplog.records[2:]] == ["INFO", "INFO"]


def test_topics_that_come_and_go_are_forgotten(world):
    """A consumer with a pattern would hold every topic there ever was; a wanted one keeps its id."""
    world.metadata.want(["kept"], everything=True)
    for number in range(50):
        world.answer(response(topic("kept"), topic(f"t{number}")))
        world.metadata.request_update("again")
    assert set(world.metadata.topics) == {"kept", "t49"}
    world.answer(response(topic("t49")))
    assert set(world.metadata.topics) == {"kept", "t49"} and not world.metadata.topics["kept"].partitions


def test_an_authorization_error_stays_until_it_is_cured(world):
    world.know(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED))
    error = world.metadata.topics["t"].error
    assert isinstance(error, TopicAuthorizationFailedError) and error.topics == ("t",)
    assert [world.metadata.final_errors(names) for names in (None, ["t"], ["u"])] == [[error], [error], []]
    world.answer(response(topic()))
    assert world.metadata.topics["t"].error is None


def test_an_error_of_before_is_not_held_against_a_topic_wanted_again(world):
    """The ACL may be there by now: ask before complaining."""
    call = world.metadata.inquire(["t"], "x")
    world.answer(response(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED)))
    assert call.done
    world.know(topic("other"))
    world.metadata.want(["other", "t"])
    assert world.metadata.topics["t"].error is None
    assert world.wait() == 0, "and ask at once: nothing is known of it"


def test_errors_of_topics_nobody_wants_are_forgotten(world):
    world.know(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED))
    world.metadata.want([])
    assert "t" not in world.metadata.topics
    assert world.wait() == NEVER


# -- the answer as a whole


def test_rebootstrap_required_is_passed_on_and_the_answer_not_believed(world):
    world.know(topic())
    world.metadata.request_update("x")
    world.answer(response(nodes=(7,), error_code=Code.REBOOTSTRAP_REQUIRED), version=13)
    assert world.metadata.rebootstrap_reason is not None
    assert set(world.metadata.nodes) == {1, 2, 3}
    assert world.wait() <= 0.12


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_too_long_a_silence_has_the_client_start_from_its_bootstrap_servers(strategy):
    world = World({"metadata_recovery_strategy": strategy, "metadata_recovery_rebootstrap_trigger_ms": 5000})
    world.know(topic())
    reasons, began = [], world.now
    while world.now < began + 12:
        world.metadata.request_update("x")
        world.answer(KafkaConnectionError("lost"))
        reasons.append((world.now - began, world.metadata.rebootstrap_reason))
        world.metadata.rebootstrap_reason = None
    times = [int(at) for at, reason in reasons if reason]
    assert times == ([5, 10] if strategy == "rebootstrap" else [])


# -- hints of new leaders (KIP-951)


def test_a_hint_of_a_newer_leader_counts_at_once(world):
    world.know(topic())
    version = world.metadata.version
    assert world.metadata.hint_leader(T0, Node(9, "b9", 9092), 9, 6)
    info = world.metadata.leader(T0)
    assert (info.leader, info.leader_epoch) == (9, 6) and world.metadata.nodes[9].host == "b9"
    assert world.metadata.version == version + 1
    world.know(topic(leaders={0: (1, 5)}), nodes=(1, 2, 9))
    assert world.metadata.leader(T0).leader == 9, "metadata from before the hint"


@pytest.mark.parametrize(
    ("tp", "node", "leader", "epoch"),
    [
        (T0, None, -1, -1),
        (T0, None, -1, 9),
        (T0, Node(2, "b2", 9092), 2, 5),
        (T0, Node(2, "b2", 9092), 2, 4),
        (T0, None, 9, 6),
        (T0, Node(8, "b8", 9092), 9, 6),
        (T1, Node(2, "b2", 9092), 2, 6),
        (TopicPartition("other", 0), Node(2, "b2", 9092), 2, 6),
    ],
)
def test_a_hint_that_is_old_or_leads_nowhere_changes_nothing(world, tp, node, leader, epoch):
    world.know(topic())
    before = dict(world.metadata.nodes), dict(world.metadata.topics["t"].partitions), world.metadata.version
    assert not world.metadata.hint_leader(tp, node, leader, epoch)
    assert before == (world.metadata.nodes, world.metadata.topics["t"].partitions, world.metadata.version)


# -- inquiries


def test_an_inquiry_past_the_cache_for_one_topic(world):
    call = world.metadata.inquire(["t"], "partitions_for_topic('t')")
    assert world.wait() == 0
    [request] = world.step()
    assert names(request) == ["t"] and world.step() == []
    world.answer(response(topic(leaders={0: (1, 5), 1: (1, 5)})), request=request)
    assert set(call.result()["t"].partitions) == {0, 1}
    assert world.step() == [] and world.wait() == NEVER


def test_an_unknown_topic_is_absent_from_the_result(world):
    call = world.metadata.inquire(["t"], "x")
    world.answer(response(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)))
    assert call.result() == {}


def test_an_error_of_a_topic_fails_the_inquiry_for_it_but_not_the_one_for_all(world):
    one = world.metadata.inquire(["t"], "x")
    world.answer(response(topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(TopicAuthorizationFailedError, match="topic t"):
        one.result()
    everything = world.metadata.inquire(None, "x")
    world.answer(response(topic("a"), topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED)))
    assert set(everything.result()) == {"a"}


@pytest.mark.parametrize("trouble", [Code.LEADER_NOT_AVAILABLE, Code.REQUEST_TIMED_OUT, None])
def test_a_passing_error_is_tried_again_and_remembered_for_the_timeout(world, trouble):
    call = world.metadata.inquire(["t"], "x")
    waits = []
    for _ in range(4):
        world.answer(KafkaConnectionError("lost") if trouble is None else response(topic(error_code=trouble)))
        assert not call.done and call.last_error is not None
        waits.append(world.wait())
    assert waits == sorted(waits) and waits[0] >= 0.08 and waits[-1] > 0.5
    world.answer(response(topic()))
    assert set(call.result()) == {"t"}


def test_an_abandoned_inquiry_is_dropped_and_does_no_harm_while_it_is_under_way(world):
    world.metadata.inquire(["t"], "x").abandoned = True
    assert world.wait() == NEVER and world.step() == []
    call = world.metadata.inquire(["t"], "x")
    request = world.ask()
    call.abandoned = True
    world.step()
    world.answer(KafkaConnectionError("lost"), request=request)
    assert world.step() == [] and world.wait() == NEVER


def test_inquiries_do_not_wait_for_each_other_nor_for_the_refresh(world):
    world.metadata.want(["t"])
    world.metadata.inquire(["a"], "x")
    world.metadata.inquire(None, "y")
    assert [names(r) for r in world.step()] == [["t"], ["a"], None]


def test_what_an_inquiry_learns_counts_for_all(world):
    world.know(topic())
    world.metadata.inquire(None, "x")
    world.answer(response(topic(leaders={0: (3, 8)})))
    assert world.metadata.leader(T0).leader == 3


@settings(deadline=None, max_examples=60)
@given(data=st.data(), backoff=st.sampled_from([0, 1, 100]))
def test_whatever_happens_the_agenda_says_when_a_request_is_due(data, backoff):
    world = World({"retry_backoff_ms": backoff})
    metadata = world.metadata
    out: list[Request] = []
    replies = [*TROUBLE.values(), lambda: response(topic()), lambda: response(topic("u"), topic())]
    for _ in range(data.draw(st.integers(1, 25))):
        event = data.draw(st.sampled_from(["want", "update", "inquire", "answer", "wake", "abandon"]))
        if event == "want":
            metadata.want(data.draw(st.sets(st.sampled_from(["t", "u"]))))
        elif event == "update":
            metadata.request_update("x")
        elif event == "inquire":
            call = metadata.inquire(data.draw(st.sampled_from([None, ("t",)])), "x")
            call.abandoned = data.draw(st.booleans())
        elif event == "answer" and out:
            request = out.pop(data.draw(st.integers(0, len(out) - 1)))
            metadata.handle(answer(request, data.draw(st.sampled_from(replies))()), world.now)
        elif not world.agenda.is_due(world.now):
            assert metadata.step(world.now) == [], "due, and the agenda does not say so"
        if world.wait() < NEVER:
            out += world.step()
            assert sum(r.context is None for r in out) <= 1, "two refreshes at once"
