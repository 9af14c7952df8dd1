"""The simulated network has exactly the faults of its NetworkFaults and single calls."""

from collections import Counter

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.simulation.network import NO_ANSWER, REFUSED, RESET

LATENCY = 0.0005


def say(stage, stream, *messages, seconds=0.0):
    """Send each message in its own step."""
    for message in messages:
        stream.outgoing.append(message)
        stage.driver.step(stage.orders, stage.driver.now() + seconds)


# -- without faults


def test_messages_take_their_latency_and_arrive_in_order(town):
    ann = town.client()
    began = town.world.now()
    stream = town.dial(ann)
    ann.run(0.01)
    assert stream.calls == [("made", pytest.approx(began + 2 * LATENCY))]
    sent_at = town.world.now()
    say(ann, stream, b"one ", b"two ", b"three")
    ann.run(0.01)
    assert [data for _, data in town.nodes[1].heard] == [b"one ", b"two ", b"three"]
    assert town.nodes[1].heard[0][0] == pytest.approx(sent_at + LATENCY)
    assert town.nodes[2].heard == []
    answered_at = town.world.now()
    for word in (b"a", b"b"):
        town.nodes[1].connections[0].send(word)
    ann.run(0.01)
    assert bytes(stream.received) == b"ab"
    assert stream.calls[-1] == ("received", pytest.approx(answered_at + LATENCY))
    assert stream.lost == [] and town.nodes[1].lost == []
    assert town.network.mishaps == Counter()


def test_jitter_reorders_messages_of_different_connections_only(make_town):
    town = make_town(jitter_s=0.5)
    ann, bob = town.client("ann"), town.client("bob")
    (one, _), (other, _) = town.connect(ann), town.connect(bob)
    for number in range(40):
        say(ann, one, b"a%d;" % number)
        say(bob, other, b"b%d;" % number)
    town.pass_time(2.0)
    order = [data for _, data in town.nodes[1].heard]
    for who in (b"a", b"b"):
        assert [data for data in order if data.startswith(who)] == [b"%s%d;" % (who, n) for n in range(40)]
    sent = [b"%s%d;" % (who, n) for n in range(40) for who in (b"a", b"b")]
    assert order != sent


# -- addresses


def test_a_node_that_was_shut_refuses_and_keeps_its_connections_until_it_opens_again(town):
    ann = town.client()
    stream, _ = town.connect(ann)
    town.network.refuse("kafka1", 9092)
    refused = town.dial(ann)
    say(ann, stream, b"still here")
    ann.run(0.01)
    assert REFUSED in str(refused.lost[0]) and town.network.mishaps["refused"] == 1
    assert town.nodes[1].text == b"still here"
    town.connect(ann, 2)
    town.network.listen("kafka1", 9092, town.nodes[1])
    town.connect(ann)


def test_a_host_without_power_answers_nothing_at_all(town):
    ann = town.client()
    stream, connection = town.connect(ann)
    town.network.powerless.add(1)
    town.network.refuse("kafka1", 9092)
    connection.reset()
    dialled = town.dial(ann)
    say(ann, stream, b"hello?")
    ann.run(30)
    assert dialled.calls == [] and stream.lost == [] and town.nodes[1].heard == []
    town.network.listen("kafka1", 9092, town.nodes[1])
    say(ann, stream, b"hello?")
    ann.run(0.01)
    assert RESET in str(stream.lost[0])  # its host runs again without the connection
    assert dialled.calls == []


def test_host_names_resolve_unless_unknown_or_lookups_fail(make_town):
    town = make_town()
    addresses, error = town.network.resolve("kafka2", 9092)
    assert [str(address) for address in addresses] == ["10.0.0.2:9092"] and error == ""
    addresses, error = town.network.resolve("nobody", 9092)
    assert addresses == [] and "does not resolve" in error
    assert [str(address) for address in town.network.resolve("10.0.0.9", 1)[0]] == ["10.0.0.9:1"]
    assert (town.network.node_at(("10.0.0.2", 9092)), town.network.node_at(("10.0.0.2", 1))) == (2, -1)
    town = make_town(dns_failure_rate=1.0)
    assert town.network.resolve("kafka2", 9092) == ([], NO_ANSWER)
    assert town.network.mishaps == Counter(dns=1)
    town.network.faults.calm()
    assert town.network.resolve("kafka2", 9092)[1] == ""


# -- faults by rate


def test_refused_connections_never_reach_the_listener(make_town):
    town = make_town(refuse_rate=1.0)
    ann = town.client()
    stream = town.dial(ann)
    ann.run(0.01)
    assert REFUSED in str(stream.lost[0])
    assert town.nodes[1].connections == [] and town.network.mishaps == Counter(refused=1)


def test_split_messages_arrive_whole_in_two_parts(make_town):
    town = make_town(split_rate=1.0)
    ann = town.client()
    stream, connection = town.connect(ann)
    say(ann, stream, b"question", b"?")
    ann.run(0.01)
    assert len(town.nodes[1].heard) == 3 and town.nodes[1].text == b"question?"
    connection.send(b"answer")
    ann.run(0.01)
    assert len(stream.sizes) == 2 and bytes(stream.received) == b"answer"


def test_lost_message_breaks_its_connection_on_one_or_both_sides(make_town):
    town = make_town()
    told = []
    for _ in range(60):
        ann = town.client()
        stream, connection = town.connect(ann)
        town.network.faults.reset_rate = 1.0
        say(ann, stream, b"lost")
        ann.run(0.01)
        town.network.faults.reset_rate = 0.0
        told.append((bool(stream.lost), connection in town.nodes[1].lost))
        assert town.nodes[1].heard == []
    assert set(told) == {(True, True), (True, False), (False, True)}
    halves = sum(client != server for client, server in told)
    assert 15 <= halves <= 45  # about half of them
    assert town.network.mishaps == Counter(drops=60, half_open=halves)


# -- single faults


@pytest.mark.parametrize(
    ("told", "client", "server"),
    [("both", True, True), ("client", True, False), ("server", False, True), ("nobody", False, False)],
)
def test_broken_connection_loses_bytes_in_flight_and_notifies_the_chosen_sides(town, told, client, server):
    ann = town.client()
    stream, connection = town.connect(ann)
    say(ann, stream, b"up")
    connection.send(b"down")
    town.network.break_off(connection, told=told)
    ann.run(1)
    assert (bool(stream.lost), bool(town.nodes[1].lost)) == (client, server)
    assert town.nodes[1].heard == [] and not stream.received
    assert town.network.mishaps == Counter(drops=1, half_open=client != server)


def test_write_to_a_half_open_connection_is_answered_by_a_reset(town):
    ann = town.client()
    stream, connection = town.connect(ann)
    town.network.break_off(connection, told="server")
    say(ann, stream, b"are you there?")
    ann.run(1)
    assert RESET in str(stream.lost[0]) and town.nodes[1].heard == []
    stream, connection = town.connect(ann)
    town.network.break_off(connection, told="client")
    ann.run(1)
    connection.send(b"are you there?")
    ann.run(1)
    assert connection in town.nodes[1].lost and not stream.received


def test_connection_broken_without_notice_stays_silent(town):
    ann = town.client()
    stream, connection = town.connect(ann)
    town.network.break_off(connection, told="nobody")
    say(ann, stream, b"hello?")
    connection.send(b"hello?")
    ann.run(100)
    assert not stream.lost and not town.nodes[1].lost and not stream.received and not town.nodes[1].heard
    assert town.connect(ann)  # other connections work


def test_both_sides_notice_when_swallowed_connections_are_reset(town):
    """Seed 6352 of the swarm: the last commit of a member was lost, over a connection that was idle since it broke."""
    ann = town.client()
    (stream, connection), (other, _) = town.connect(ann), town.connect(ann)
    town.network.break_off(connection, told="nobody")
    town.network.reset_swallowed()
    ann.run(1)
    assert RESET in str(stream.lost[0]) and town.nodes[1].lost == [connection] and not other.lost


def test_cuts_hold_one_direction_back_and_heal_delivers_it_in_order(town):
    ann, bob = town.client("ann"), town.client("bob")
    (stream, connection), (other, _) = town.connect(ann), town.connect(bob)
    town.network.cut(["ann"], [1])
    say(ann, stream, b"a", b"b", b"c")
    say(bob, other, b"bob")
    connection.send(b"down")
    ann.run(5)
    assert town.nodes[1].text == b"bob" and bytes(stream.received) == b"down"
    town.connect(ann, 2)
    assert town.network.is_cut("ann", 1) and not town.network.is_cut(1, "ann")
    town.network.heal()
    ann.run(0.01)
    assert town.nodes[1].text == b"bobabc" and town.nodes[1].lost == []
    assert town.network.mishaps == Counter(held=1)


def test_equal_seeds_have_equal_faults_and_other_seeds_do_not(make_town):
    def story(seed):
        town = make_town(seed, latency_max_s=0.1, jitter_s=0.1, split_rate=0.3, reset_rate=0.2, refuse_rate=0.2)
        ann = town.client()
        streams = [town.dial(ann) for _ in range(10)]
        for number in range(10):
            for stream in streams:
                if stream.calls and not stream.lost:
                    stream.outgoing.append(b"%d" % number * 9)
            ann.run(0.2)
        return town.nodes[1].heard, [stream.calls for stream in streams], town.network.mishaps

    assert story(5) == story(5)
    assert story(5) != story(6)


def test_break_accepts_only_the_four_values_of_told(town):
    _, connection = town.connect(town.client())
    with pytest.raises(IllegalArgumentError, match="'everybody'"):
        town.network.break_off(connection, told="everybody")
    assert town.network.mishaps["drops"] == 0
