"""Groups: assignments, the order of listener calls, and the positions after a rebalance.

Members are consumers polled in turn: one thread has them all, as a program may.
"""

import itertools

import pytest
from worlds import WORLDS

from thinconsumer import TopicPartition
from thinconsumer.errors import CommitFailedError, IllegalStateError

#: The classic protocol by its assignors, and the consumer group protocol (KIP-848).
EAGER, COOPERATIVE, CONSUMER = ("range",), ("cooperative-sticky",), ()
NAMES = {EAGER: "eager", COOPERATIVE: "cooperative", CONSUMER: "consumer"}
#: As short as brokers allow by default. With the consumer protocol the session is the broker's, 6 s too.
SHORT = {"session_timeout_ms": 6000, "max_poll_interval_ms": 6000}
CLASSIC_ONLY = ("session_timeout_ms", "heartbeat_interval_ms")


def in_each_world(argument, *styles):
    """Run a test in each world with each of the styles."""
    cases = []
    for style, world in itertools.product(styles, WORLDS):
        name, marks = (world, ()) if isinstance(world, str) else (world.values[0], world.marks)
        cases.append(pytest.param(name, style, marks=marks, id=f"{name}-{NAMES[style]}"))
    return pytest.mark.parametrize(("world3", argument), cases, indirect=["world3"])


IN_EVERY_STYLE = in_each_world("style", EAGER, COOPERATIVE, CONSUMER)
IN_BOTH_PROTOCOLS = in_each_world("eager", EAGER, CONSUMER)
WHERE_PARTITIONS_ARE_KEPT = in_each_world("gradual", COOPERATIVE, CONSUMER)


class Member:
    """A consumer with the listener calls and the records that it got."""

    def __init__(self, world, topics, group, style, *, pattern=None, listener=None, **options):
        self.world = world
        self.heard = []
        self.records = []
        options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, **options}
        if style is CONSUMER:
            options = {name: value for name, value in options.items() if name not in CLASSIC_ONLY}
            options["group_protocol"] = "consumer"
        else:
            options["partition_assignment_strategy"] = list(style)
        self.consumer = world.consumer(group_id=group, **options)
        self.consumer.subscribe(topics, pattern=pattern, listener=listener or self)

    def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", assigned))

    def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", revoked))

    def on_partitions_lost(self, lost):
        self.heard.append(("lost", lost))

    def poll(self, ms=0):
        for records in self.consumer.poll(ms).values():
            self.records += records

    def owned(self):
        return self.consumer.assignment()

    def values(self):
        return [record.value for record in self.records]


def together(world, *members, until, seconds=60, ms=20):
    """Poll all members in turn until it is so."""
    deadline = world.now() + seconds
    while not until():
        assert world.now() < deadline, [(m.heard, m.consumer) for m in members]
        for member in members:
            member.poll(ms)


def settled(*members, partitions):
    """Everything is owned, by one each."""

    def so():
        owned = [member.owned() for member in members]
        return sum(map(len, owned)) == partitions == len(set().union(*owned)) and all(owned)

    return so


@pytest.fixture
def member(world3):
    made = []

    def make(*args, **kwargs):
        made.append(Member(world3, *args, **kwargs))
        return made[-1]

    yield make
    for found in made:
        found.consumer.close(timeout_ms=5000)


@pytest.fixture
def group(world3):
    return world3.name()


@IN_BOTH_PROTOCOLS
def test_one_member_gets_everything_and_its_commits_are_found_by_the_next(world3, member, group, eager):
    topic = world3.topic(2, 3)
    for partition in range(2):
        world3.write(topic, [b"%d" % n for n in range(5)], partition)
    first = member([topic], group, eager, enable_auto_commit=False)
    together(world3, first, until=lambda: len(first.records) == 10)
    assert first.heard == [("assigned", {TopicPartition(topic, 0), TopicPartition(topic, 1)})]
    first.consumer.commit({TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 5})
    assert first.consumer.committed(TopicPartition(topic, 0)) == 3
    first.consumer.close()
    assert first.heard[-1][0] == "revoked"
    second = member([topic], group, eager)
    together(world3, second, until=lambda: len(second.records) == 2)
    assert [(r.partition, r.offset) for r in second.records] == [(0, 3), (0, 4)]


@IN_EVERY_STYLE
def test_two_share_and_hear_deltas_that_match_what_they_own(world3, member, group, style):
    """Revoked partitions are owned ones, and assigned partitions are not owned before."""
    topic = world3.topic(4, 3)
    first = member([topic], group, style)
    together(world3, first, until=lambda: len(first.owned()) == 4)
    second = member([topic], group, style)
    together(world3, first, second, until=settled(first, second, partitions=4))
    assert len(first.owned()) == len(second.owned()) == 2
    second.consumer.close()
    together(world3, first, until=lambda: len(first.owned()) == 4)
    for found in (first, second):
        owned = set()
        for what, tps in found.heard:
            if what == "assigned":
                assert not owned & tps
                owned |= tps
            else:
                assert what == "revoked" and tps <= owned
                owned -= tps
    if style is not EAGER:
        revoked = [tps for what, tps in first.heard if what == "revoked"]
        assert [len(tps) for tps in revoked] == [2], "only what moves is revoked"
    else:
        assert [what for what, _ in first.heard][:4] == ["assigned", "revoked", "assigned", "revoked"]


@IN_EVERY_STYLE
def test_nothing_is_lost_or_doubled_while_members_come_and_go(world3, member, group, style):
    """Delivered offsets are committed before their partition moves to another member."""
    topic = world3.topic(3, 3)
    numbers = itertools.count()
    written = []

    def write():
        for partition in range(3):
            values = [b"%d" % next(numbers) for _ in range(7)]
            world3.write(topic, values, partition)
            written.extend(values)

    members = [member([topic], group, style)]
    for _ in range(3):
        write()
        together(world3, *members, until=settled(*members, partitions=3))
        if len(members) < 3:
            members.append(member([topic], group, style))
    write()
    together(world3, *members, until=settled(*members, partitions=3))
    gone = members.pop(0)
    gone.consumer.close()
    write()
    everyone = [gone, *members]
    together(world3, *members, until=lambda: sum(len(m.records) for m in everyone) >= len(written))
    assert sorted(v for m in everyone for v in m.values()) == sorted(written)


@WHERE_PARTITIONS_ARE_KEPT
def test_retained_partitions_deliver_during_a_cooperative_rebalance(world3, member, group, gradual):
    """The newcomer does not answer for a while, and the group waits for it."""
    topic = world3.topic(2, 3)
    first = member([topic], group, gradual)
    together(world3, first, until=lambda: len(first.owned()) == 2)
    second = member([topic], group, gradual)
    third = member([topic], group, gradual)
    together(
        world3, first, second, third, until=lambda: len(first.owned()) == 1 and len(second.owned() | third.owned())
    )
    kept = first.owned()
    (tp,) = kept
    fourth = member([topic], group, gradual)
    fourth.poll(100)
    world3.write(topic, [b"during"], tp.partition)
    together(world3, first, until=lambda: b"during" in first.values(), seconds=20)
    together(world3, first, second, third, fourth, until=lambda: True)


@IN_BOTH_PROTOCOLS
def test_a_listener_may_ask_seek_pause_and_commit(world3, member, group, eager):
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    world3.write(topic, [b"%d" % n for n in range(10)])
    seen = []

    class Listener:
        def on_partitions_assigned(self, assigned):
            seen.append(found.consumer.position(tp))
            seen.append(found.consumer.committed(tp))
            found.consumer.seek(tp, 4)
            found.consumer.pause(tp)

        def on_partitions_revoked(self, revoked):
            seen.append(found.consumer.position(tp))
            found.consumer.commit({tp: 6})

    found = member([topic], group, eager, listener=Listener(), enable_auto_commit=False)
    together(world3, found, until=lambda: found.owned() == {tp})
    assert seen == [0, None] and found.consumer.paused() == {tp}
    found.consumer.resume(tp)
    together(world3, found, until=lambda: len(found.records) == 6)
    assert [record.offset for record in found.records] == [4, 5, 6, 7, 8, 9]
    found.consumer.unsubscribe()
    assert seen == [0, None, 10]
    assert found.consumer.committed(tp) == 6


@IN_BOTH_PROTOCOLS
def test_an_assigned_callback_that_raises_is_called_again_and_nothing_comes_before(world3, member, group, eager):
    topic = world3.topic(1, 3)
    world3.write(topic, [b"x"])
    raised = []

    class Listener:
        def on_partitions_assigned(self, assigned):
            raised.append(len(found.records))
            if len(raised) < 3:
                raise LookupError("not yet")

        def on_partitions_revoked(self, revoked):
            pass

    found = member([topic], group, eager, listener=Listener())
    errors = 0
    deadline = world3.now() + 60
    while not found.records:
        assert world3.now() < deadline
        try:
            found.poll(20)
        except LookupError:
            errors += 1
    assert (errors, raised) == (2, [0, 0, 0])


@WHERE_PARTITIONS_ARE_KEPT
def test_topics_may_come_later_grow_and_match_a_pattern(world3, member, group, gradual):
    base = world3.name()
    found = member([], group, gradual, pattern=f"{base}-.*", metadata_max_age_ms=500, auto_offset_reset="latest")
    for _ in range(5):
        found.poll(50)
    first = world3.topic(1, 3, f"{base}-first")
    together(world3, found, until=lambda: found.owned() == {TopicPartition(first, 0)})
    second = world3.topic(1, 3, f"{base}-second")
    world3.topic(1, 3, f"other-{base}")
    world3.expand(first, 2)
    wanted = {TopicPartition(first, 0), TopicPartition(first, 1), TopicPartition(second, 0)}
    together(world3, found, until=lambda: found.owned() == wanted)
    assert found.consumer.subscription() == {first, second}


@IN_BOTH_PROTOCOLS
def test_auto_commit_covers_what_earlier_polls_returned_and_nothing_more(world3, member, group, eager):
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    world3.write(topic, [b"%d" % n for n in range(10)])
    found = member([topic], group, eager, max_poll_records=4, auto_commit_interval_ms=0)
    together(world3, found, until=lambda: len(found.records) >= 8)
    assert found.consumer.committed(tp) in (None, 0, 4)
    found.poll(100)
    with pytest.raises(ZeroDivisionError), found.consumer:
        raise ZeroDivisionError
    heir = member([topic], group, eager)
    together(world3, heir, until=lambda: heir.records)
    assert heir.records[0].offset in (4, 8), "what the last poll returned may not have been processed"


@IN_BOTH_PROTOCOLS
def test_without_auto_commit_offsets_do_not_move(world3, member, group, eager):
    topic = world3.topic(1, 3)
    world3.write(topic, [b"a"])
    found = member([topic], group, eager, enable_auto_commit=False)
    together(world3, found, until=lambda: found.records)
    found.consumer.close()
    asking = world3.consumer(group_id=group)
    assert asking.committed(TopicPartition(topic, 0)) is None
    asking.close()


@IN_BOTH_PROTOCOLS
def test_commits_in_the_background_come_in_order_and_tell(world3, member, group, eager):
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    world3.write(topic, [b"%d" % n for n in range(10)])
    told = []
    found = member([topic], group, eager, enable_auto_commit=False)
    together(world3, found, until=lambda: len(found.records) == 10)
    for offset in (5, 9, 7):
        found.consumer.commit_async({tp: offset}, lambda offsets, error: told.append((offsets[tp].offset, error)))
    found.consumer.commit({})
    assert told == [(5, None), (9, None), (7, None)]
    assert found.consumer.committed(tp) == 7, "a rewind is legal"


def test_partitions_by_hand_commit_without_being_a_member(world3, group):
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    world3.write(topic, [b"%d" % n for n in range(10)])
    with world3.consumer(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 0
        consumer.seek(tp, 6)
        consumer.commit()
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            consumer.subscribe([topic])
    with world3.consumer(group_id=group) as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 6
        assert consumer.group_metadata().generation_id == -1


@IN_BOTH_PROTOCOLS
def test_by_hand_a_group_with_members_takes_no_commit(world3, member, group, eager):
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    found = member([topic], group, eager)
    together(world3, found, until=lambda: found.owned())
    with world3.consumer(group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit({tp: 1})
        assert caught.value.reason == "unknown_member"


@IN_BOTH_PROTOCOLS
def test_a_member_that_was_away_for_too_long_loses_everything_and_comes_back(world3, member, group, eager):
    """Pains A1, B5."""
    topic = world3.topic(1, 3)
    tp = TopicPartition(topic, 0)
    slow = member([topic], group, eager, **SHORT, enable_auto_commit=False)
    together(world3, slow, until=lambda: slow.owned())
    heir = member([topic], group, eager, enable_auto_commit=False)
    together(world3, heir, until=lambda: heir.owned())
    world3.write(topic, [b"x"])
    together(world3, heir, until=lambda: heir.records)
    # The coordinator of a consumer group may answer a join before it has computed the assignment (KIP-1263).
    heard = [said for said in slow.heard if eager is EAGER or said != ("assigned", set())]
    assert heard == [("assigned", {tp})]
    heir.consumer.close()
    together(world3, slow, until=lambda: ("lost", {tp}) in slow.heard and slow.owned())
    heard = [said for said in slow.heard if eager is EAGER or said != ("assigned", set())]
    assert heard[1:] == [("lost", {tp}), ("assigned", {tp})]


@WHERE_PARTITIONS_ARE_KEPT
def test_the_coordinator_dies_and_reading_goes_on(world3, member, group, gradual):
    """Members find the next coordinator, keep reading, and commit there."""
    topic = world3.topic(3, 3)
    found = [member([topic], group, gradual, **SHORT) for _ in range(2)]
    together(world3, *found, until=settled(*found, partitions=3))
    dead = world3.kill_coordinator(group)
    for partition in range(3):
        world3.write(topic, [b"after"], partition)
    together(world3, *found, until=lambda: sum(len(m.records) for m in found) >= 3)
    world3.start(dead)
    together(world3, *found, until=settled(*found, partitions=3))
    found[0].consumer.commit(timeout_ms=30_000)


@IN_BOTH_PROTOCOLS
def test_a_static_member_comes_back_without_a_rebalance(world3, member, group, eager):
    topic = world3.topic(2, 3)
    static = SHORT
    first = member([topic], group, eager, group_instance_id="one", **static)
    second = member([topic], group, eager, group_instance_id="two", **static)
    together(world3, first, second, until=settled(first, second, partitions=2))
    before, generation = first.owned(), second.consumer.group_metadata().generation_id
    first.consumer.close()
    again = member([topic], group, eager, group_instance_id="one", **static)
    together(world3, again, second, until=lambda: again.owned())
    assert again.owned() == before
    assert second.consumer.group_metadata().generation_id == generation
    assert second.heard[-1][0] == "assigned" and len([w for w, _ in second.heard if w == "revoked"]) <= 1
