"""The group's part of the public Consumer: kafka-python's names and shapes, Java's behaviour, clear refusals."""

import inspect
from itertools import islice

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as TheirTopicPartition
from kafka.structs import OffsetAndMetadata as TheirOffsetAndMetadata

from thinconsumer import (
    Consumer,
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
)
from thinconsumer.assignors import CooperativeStickyAssignor
from thinconsumer.testing import Simulation

TP = TopicPartition("t", 0)
#: Not here yet.
MISSING: set[str] = set()


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=1, topics={"t": 2, "u": 1})


@pytest.fixture
def consumer(sim, closed_at_end):
    def make(*topics, **options):
        options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
        return closed_at_end(Consumer(*topics, driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options))

    return make


def join(consumer, until=None):
    """Poll until there is an assignment, or until something else."""
    for _ in range(1000):
        if consumer.assignment() if until is None else until():
            return
        consumer.poll(50)
    raise AssertionError(consumer)


METHODS = [name for name, _ in inspect.getmembers(KafkaConsumer, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", sorted(set(METHODS) - MISSING))
def test_every_method_takes_what_kafka_pythons_takes(name):
    theirs = list(inspect.signature(getattr(KafkaConsumer, name)).parameters.values())
    ours = list(inspect.signature(getattr(Consumer, name)).parameters.values())
    for mine, their in zip(ours, theirs):
        assert (mine.name, mine.kind, mine.default) == (their.name, their.kind, their.default)
    for more in ours[len(theirs) :]:
        assert more.default is not more.empty, f"{name}({more}) needs what kafka-python does not pass"
        is_old = name in ("topics", "partitions_for_topic")  # timeout_ms was positional in the first release
        assert is_old or more.kind is more.KEYWORD_ONLY, f"{name}({more}) may clash with later arguments of theirs"


def test_topics_may_be_given_when_constructing(consumer):
    found = consumer("t", "u")
    assert found.subscription() == {"t", "u"}
    join(found)
    assert found.assignment() == {TP, TopicPartition("t", 1), TopicPartition("u", 0)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_excluded_topics_are_not_subscribed_whenever_they_are_created(sim, consumer, protocol):
    found = consumer(group_protocol=protocol, metadata_max_age_ms=1000)
    found.subscribe(pattern="[tu].*", exclude="u|.*-internal")
    join(found)
    assert found.subscription() == {"t"}
    for name in ("t-internal", "t-new", "u-new"):
        sim.create_topic(name)
    join(found, lambda: len(found.assignment()) == 4)
    assert found.subscription() == {tp.topic for tp in found.assignment()} == {"t", "t-new", "u-new"}
    found.subscribe(pattern="[tu].*", exclude="t.*")
    join(found, lambda: {tp.topic for tp in found.assignment()} == {"u", "u-new"})


def test_an_exclusion_of_all_topics_is_named(consumer):
    found = consumer()
    found.subscribe(pattern="t", exclude="t.*")
    join(found, lambda: "re.compile('t') without re.compile('t.*')" in str(found.health().reason))
    assert found.assignment() == set()


def test_the_broker_excludes_no_topics(consumer):
    found = consumer(group_protocol="consumer")
    with pytest.raises(IllegalArgumentError, match="RE2 has no negative lookahead"):
        found.subscribe(pattern=SubscriptionPattern("t.*"), exclude="t-internal")


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.commit(),
        lambda c: c.commit_async(),
        lambda c: c.committed(TP),
        lambda c: c.group_metadata(),
        lambda c: c.enforce_rebalance(),
    ],
)
def test_without_a_group_what_needs_one_says_so(sim, call):
    with Consumer(driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers) as consumer:
        with pytest.raises(IllegalStateError, match="group_id"):
            call(consumer)
        assert consumer.subscription() == set()
        consumer.unsubscribe()


def test_polling_with_nothing_chosen_is_refused(consumer):
    found = consumer()
    for _ in range(2):
        with pytest.raises(IllegalStateError, match="subscribe"):
            found.poll(0)
        with pytest.raises(IllegalStateError, match="subscribe"):
            found.enforce_rebalance()
        found.subscribe(["t"])
        found.poll(0)
        found.unsubscribe()


def test_a_new_subscription_replaces_the_old_one(consumer):
    found = consumer("t")
    join(found)
    found.subscribe(["u"])
    assert TP in found.assignment(), "until the next poll"
    for _ in range(100):
        found.poll(50)
        if found.assignment() == {TopicPartition("u", 0)}:
            break
    assert found.assignment() == {TopicPartition("u", 0)}


PROTOCOLS = {
    "eager": {},
    "cooperative": {"partition_assignment_strategy": [CooperativeStickyAssignor]},
    "consumer": {"group_protocol": "consumer"},
}
READS = {
    "poll": lambda consumer: consumer.poll(20, max_records=3),
    "poll_batches": lambda consumer: consumer.poll_batches(20, max_bytes=1),
    "iteration": lambda consumer: {(r.topic, r.partition): [r] for r in islice(consumer, 1)},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("read", "after"),
    [("poll", {"topics": ["u"]}), ("poll_batches", {"pattern": "u+"}), ("iteration", {"pattern": "u+"})],
)
def test_no_record_of_a_topic_comes_after_it_was_dropped_at_any_moment(sim, consumer, protocol, read, after):
    """The buffer is full of them, and the group takes some round trips to revoke the partitions."""
    if read == "poll_batches":
        pytest.importorskip("numpy")
    for _ in range(20):
        sim.produce("t", 0, [b"x"] * 5)
    sim.produce("u", 0, [b"u"])
    had_records = set()
    for reads in range(0, 12, 2):
        found = consumer("t", group_id=f"g{reads}", consumer_timeout_ms=20, **PROTOCOLS[protocol])
        had_records.add(sum(len(READS[read](found)) for _ in range(reads)) > 0)
        found.subscribe(**after)
        topics = {topic for _ in range(25) for topic, _ in READS[read](found)}
        assert topics == {"u"}, f"after {reads} reads"
        assert found.assignment() == {TopicPartition("u", 0)}
    assert had_records == {True, False}


def test_no_record_of_a_dropped_topic_comes_in_a_rebalance_that_waits_for_another_member(sim, consumer):
    """The member revokes the dropped topic's partitions only in the rebalance after that one."""
    for _ in range(100):
        sim.produce("t", 0, [b"x"] * 10)
        sim.produce("t", 1, [b"x"] * 10)
    first, busy = consumer("t", **PROTOCOLS["cooperative"]), consumer("t", **PROTOCOLS["cooperative"])
    for _ in range(40):
        first.poll(50, max_records=1)
        busy.poll(50, max_records=1)
        sim.run_for(0.2)
    assert len(first.assignment()) == len(busy.assignment()) == 1
    third = consumer("t", **PROTOCOLS["cooperative"])
    while first.health().group_state != "preparing rebalance":
        third.poll(50)
        first.poll(50, max_records=1)
        busy.drive()
        sim.run_for(0.2)
    assert first.poll(50, max_records=1), "a cooperative member reads on meanwhile"
    first.subscribe(["u"])
    for _ in range(20):
        assert first.poll(50, max_records=1) == {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_that_is_dropped_and_wanted_again_is_read_on(sim, consumer, protocol):
    for _ in range(20):
        sim.produce("t", 0, [b"x"] * 5)
    for polls_between in range(6):
        found = consumer("t", group_id=f"g{polls_between}", **PROTOCOLS[protocol])
        offsets = []

        def read(found=found, offsets=offsets):
            polled = found.poll(20, max_records=4)
            offsets.extend(record.offset for record in polled.get(TP, ()))

        while not offsets:
            read()
        found.subscribe(["u"])
        before = len(offsets)
        for _ in range(polls_between):
            read()
        assert len(offsets) == before
        found.subscribe(["t"])
        deadline = sim.now() + 30
        while len(offsets) < 100 and sim.now() < deadline:
            read()
        assert offsets == list(range(100))


def test_offsets_come_in_any_clients_shape(consumer):
    found = consumer("t", enable_auto_commit=False)
    join(found)
    found.commit({TP: 3})
    assert (found.committed(TP), found.committed(("t", 0))) == (3, 3)
    found.commit({TheirTopicPartition("t", 0): TheirOffsetAndMetadata(4, "note", -1)})
    assert found.committed(TP, metadata=True) == OffsetAndMetadata(4, "note", -1)
    found.commit({TP: OffsetAndMetadata(5, leader_epoch=0)})
    other = TopicPartition("t", 1)
    assert found.committed([TP, other]) == {TP: 5, other: None}
    assert found.committed([]) == {}


@pytest.mark.parametrize("offsets", [{TP: -1}, {TP: "1"}, {TP: None}, {"t": 1}, {TP: OffsetAndMetadata(1, 7)}])
def test_offsets_that_cannot_be_are_refused_before_anything_is_sent(consumer, offsets):
    found = consumer("t")
    for call in (found.commit, found.commit_async):
        with pytest.raises(IllegalArgumentError):
            call(offsets)


@pytest.mark.parametrize(
    ("call", "committed"),
    [
        (lambda c: c.drive(), 1),
        (lambda c: c.poll(0, update_offsets=False), 1),
        (lambda c: c.end_offsets([TP]), 1),
        (lambda c: c.position(TP), 1),
        (lambda c: (c.pause(TP), c.poll(0)), 1),
        (lambda c: c.unsubscribe(), 1),
        (lambda c: c.commit({TP: c.position(TP) - 1}), 1),
        (lambda c: c.commit(), 2),
        (lambda c: (c.commit_async(), c.drive()), 2),
        (lambda c: c.commit({TP: c.position(TP)}), 2),
        (next, 2),
        (lambda c: c.poll(1000), 3),  # what an earlier poll returned counts once the next call begins
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_only_the_next_record_or_an_explicit_commit_counts_the_record_in_hand(sim, consumer, call, committed, before):
    """Call anything while the second record is processed, then close: it must be read again."""
    sim.produce("t", 0, [b"a"] * before + [b"b", b"c", b"d"])
    found = consumer("t", auto_commit_interval_ms=0)
    for _ in range(before + 2):
        next(found)
    call(found)
    found.close()
    assert consumer().committed(TP) == committed + before


def test_a_listener_that_commits_while_closing_leaves_out_the_record_in_hand(sim, consumer):
    sim.produce("t", 0, [b"a", b"b", b"c"])
    found = consumer(enable_auto_commit=False)

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, revoked):
            found.commit()

    found.subscribe(["t"], listener=Listener())
    next(found)
    next(found)
    found.drive()
    found.close()
    assert consumer().committed(TP) == 1


def test_closing_leaves_the_group_unless_told_otherwise(sim, consumer):
    first = consumer("t", session_timeout_ms=30000, max_poll_interval_ms=30000)
    join(first)
    first.close(leave_group=False)
    began = sim.now()
    second = consumer("t")
    join(second)
    assert sim.now() - began > 20, "the group waited for the end of the first one's session"
    second.close()
    began = sim.now()
    third = consumer("t")
    join(third)
    assert sim.now() - began < 5


def test_the_default_callback_hears_of_commits_that_have_none(consumer):
    heard = []
    found = consumer("t", default_offset_commit_callback=lambda offsets, error: heard.append((offsets, error)))
    join(found)
    found.commit_async({TP: 1})
    for _ in range(20):
        found.poll(50)
    assert heard == [({TP: OffsetAndMetadata(1)}, None)]


@pytest.mark.parametrize("call", ["poll", "close", "unsubscribe"])
def test_inside_a_callback_what_would_pull_the_rug_is_refused(consumer, call):
    raised = []

    class Listener:
        def on_partitions_assigned(self, assigned):
            try:
                getattr(found, call)()
            except IllegalStateError as error:
                raised.append(str(error))

        def on_partitions_revoked(self, revoked):
            pass

    found = consumer()
    found.subscribe(["t"], listener=Listener())
    join(found)
    assert len(raised) == 1 and "inside a callback" in raised[0]


def test_a_commit_callback_may_call_and_what_it_raises_comes_out_of_poll(consumer):
    found = consumer("t", enable_auto_commit=False)
    join(found)

    def told(offsets, error):
        assert found.committed(TP) == 1
        raise LookupError("told")

    found.commit_async({TP: 1}, told)
    with pytest.raises(LookupError, match="told"):
        join(found, until=lambda: False)
    found.poll(0)


def as_an_event_loop(sim, consumer, seconds):
    """Call poll(0) at each wake_at(), at most 50 ms apart; return the number of calls and the records."""
    calls, found, end = 0, [], sim.now() + seconds
    while sim.now() < end:
        for records in consumer.poll(0).values():
            found += records
        calls += 1
        sim.run_for(max(0.0, min(consumer.wake_at() - sim.now(), 0.05)))
    return calls, found


def test_giving_up_goes_on_without_a_commit_that_never_comes_through_and_without_spinning(sim, consumer):
    """A coordinator that is stopped must not hold a member where it is: the others wait for it."""
    heard = []

    class Listener:
        def on_partitions_assigned(self, assigned):
            heard.append("assigned")

        def on_partitions_revoked(self, revoked):
            heard.append("revoked")

    found = consumer()
    found.subscribe(["t"], listener=Listener())
    sim.produce("t", 0, [b"x"])
    join(found, until=lambda: found.assignment() and found.position(TP, 0) == 1)
    sim.pause(1)
    found.enforce_rebalance()
    calls, _ = as_an_event_loop(sim, found, 4.0)
    assert heard == ["assigned"] and calls < 150, "its last offsets are being committed"
    calls, _ = as_an_event_loop(sim, found, 3.0)
    assert heard == ["assigned", "revoked"] and calls < 150
    sim.resume(1)
    join(found, until=lambda: heard[2:] == ["assigned"])


def test_what_is_buffered_and_may_not_be_handed_out_does_not_make_a_loop_spin(sim, consumer):
    """After a session timeout without polls, only the coordinator can tell whether partitions are still owned."""
    found = consumer("t", session_timeout_ms=6000, heartbeat_interval_ms=2000)
    sim.produce("t", 0, [b"%d" % n for n in range(10)])
    join(found, until=lambda: found.poll(50, max_records=1))
    sim.pause(1)
    sim.run_for(7.0)
    calls, records = as_an_event_loop(sim, found, 2.0)
    assert (records, calls < 100) == ([], True)


def test_closing_takes_no_longer_than_allowed_in_the_middle_of_a_rebalance(sim, consumer):
    found = consumer("t")
    sim.produce("t", 0, [b"x"])
    join(found, until=lambda: found.assignment() and found.position(TP, 0) == 1)
    sim.pause(1)
    found.enforce_rebalance()
    found.poll(100)
    began = sim.now()
    found.close(timeout_ms=500)
    assert sim.now() - began < 1.0


@pytest.mark.parametrize("before", ["nothing", "another of that name"])
def test_what_was_written_to_a_topic_before_we_noticed_it_is_not_skipped_under_latest(sim, consumer, before):
    if before != "nothing":
        sim.create_topic("new", 1)
    found = consumer("new", auto_offset_reset="latest", metadata_max_age_ms=2000)
    for _ in range(20):
        found.poll(50)
    if before != "nothing":
        sim.cluster.delete_topic("new")
    sim.create_topic("new", 1)
    sim.produce("new", 0, [b"x"] * 3)
    read = []
    for _ in range(200):
        read += [record.offset for records in found.poll(50).values() for record in records]
    assert read == [0, 1, 2]


def test_assigning_nothing_is_unsubscribing_as_it_is_for_the_others(sim, consumer):
    found = consumer("t")
    join(found)
    found.assign([])
    assert found.assignment() == set() and found.subscription() == set()
    found.assign([TP])
    found.assign([])
    found.subscribe(["t"])
    join(found)


def test_another_assignment_by_hand_commits_where_the_last_one_got_to(sim, consumer):
    """No rebalance would."""
    sim.produce("t", 0, [b"x"] * 3)
    found = consumer()
    found.assign([TP])
    while not found.poll(50):
        pass
    found.assign([TopicPartition("t", 1)])
    assert found.committed(TP) == 3


def test_read_to_end_waits_for_what_the_group_gives_us(sim, consumer):
    """Before that there is nothing to read to any end, and nothing at all would be read."""
    sim.produce("t", 0, [b"x"] * 3)
    assert [record.offset for record in consumer("t").read_to_end()] == [0, 1, 2]


@pytest.mark.parametrize("style", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("change", [{"topics": ["u"]}, {"topics": ["t", "u"]}, {"pattern": "[tu]", "exclude": "t"}])
def test_read_to_end_waits_for_the_assignment_of_a_changed_subscription(make_group, style, change):
    """At first the member still has the former topics: nothing would be read, or a new topic would be left out."""
    group = make_group(style, partitions=1)
    group.cluster.create_topic("u", 1)
    found = group.member()
    group.settle(found)
    group.cluster.produce("t", [b"x"])
    group.cluster.produce("u", [b"x"])
    found.subscribe(**change)
    topics = {"u"} if "exclude" in change else set(change["topics"])
    assert {record.topic for record in found.read_to_end()} == topics


def test_read_to_end_that_never_gets_into_its_group_says_so(sim, consumer):
    found = consumer("t")
    sim.kill(1)
    began = sim.now()
    with pytest.raises(KafkaTimeoutError, match="while the group is unjoined"):
        found.read_to_end(timeout_ms=2000)
    assert sim.now() - began == pytest.approx(2, abs=0.1)


def test_iterating_ends_where_the_group_has_nothing_for_us(sim, consumer):
    """More members than partitions: the idle time would never begin to count."""
    sim.create_topic("one", 1)
    options = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 500, "consumer_timeout_ms": 1000}
    first, second = consumer("one", **options), consumer("one", **options)
    while not (first.health().group_state == second.health().group_state == "stable"):
        first.poll(50)
        second.poll(50)
    [idle] = [found for found in (first, second) if not found.assignment()]
    began = sim.now()
    assert list(idle) == []
    assert sim.now() - began < 2


def test_a_pattern_for_the_broker_needs_the_protocol_that_has_it(consumer):
    classic = consumer()
    with pytest.raises(IllegalArgumentError, match="SubscriptionPattern is evaluated by the broker"):
        classic.subscribe(pattern=SubscriptionPattern("t.*"))
    classic.subscribe(["u"])
    with pytest.raises(IllegalArgumentError, match="group_protocol='consumer'"):
        classic.subscribe(pattern=SubscriptionPattern("t.*"))
    assert classic.subscription() == {"u"}
    consumer(group_protocol="auto").subscribe(pattern=SubscriptionPattern("t.*"))


def test_the_automatic_choice_is_what_the_cluster_has(consumer):
    found = consumer("t", group_protocol="auto")
    join(found)
    assert found._reader.managers.group.member.has_epochs
    found.commit({TP: 1})
    assert found.committed(TP) == 1 and found.health().state.value in ("ok", "working")


@pytest.mark.parametrize("protocol", ["auto", "consumer"])
def test_the_first_record_comes_as_soon_as_with_the_classic_protocol(closed_at_end, protocol):
    """From construction, in virtual time: the round trips of a first member, which both protocols need."""

    def first_record(protocol):
        sim = Simulation(seed=1, brokers=1, topics={"t": 2})
        sim.produce("t", 0, [b"x"])
        options = {"group_id": "g", "auto_offset_reset": "earliest", "group_protocol": protocol}
        began = sim.now()
        made = Consumer("t", driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, **options)
        consumer = closed_at_end(made)
        while not consumer.poll(1000):
            assert sim.now() < began + 30
        return sim.now() - began

    assert first_record(protocol) <= 1.2 * first_record("classic")
