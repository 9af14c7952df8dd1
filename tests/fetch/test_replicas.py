"""Followers that failed are left alone for a while, ever longer, and a success wipes the slate."""

from __future__ import annotations

import random

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.fetch.replicas import SHUNNED, Replicas
from thinconsumer.wire.error_codes import Code

NODE = 7


def until_followed(replicas, now):
    """How long the node is not to be followed from ``now`` on, in whole seconds."""
    seconds = 0
    while not replicas.may_follow(NODE, now + seconds):
        assert replicas.any_shunned(now + seconds)
        seconds += 1
    assert not replicas.any_shunned(now + seconds)
    return seconds


def test_nobody_is_shunned_at_first():
    replicas = Replicas(random.Random(1))
    assert replicas.may_follow(NODE, 0.0)
    assert not replicas.any_shunned(0.0)


def test_pain_G5_a_failed_follower_is_left_alone_longer_than_a_cluster_takes_to_notice():
    replicas = Replicas(random.Random(1))
    replicas.failed(NODE, 100.0)
    assert replicas.may_follow(8, 100.0)
    assert 9.0 < until_followed(replicas, 100.0) < 16


def test_failures_in_a_row_double_it_and_a_success_wipes_the_slate():
    replicas = Replicas(random.Random(1))
    now, waits = 0.0, []
    for _ in range(8):
        replicas.failed(NODE, now)
        waits.append(until_followed(replicas, now))
        now += 1000
    assert waits[1] > 1.5 * waits[0]
    assert 0.8 * SHUNNED.maximum <= waits[-1] <= 1.2 * SHUNNED.maximum + 1
    replicas.worked(NODE)
    replicas.failed(NODE, now)
    assert until_followed(replicas, now) < 16


def test_many_partitions_that_say_the_same_count_once():
    replicas = Replicas(random.Random(1))
    for _ in range(50):
        replicas.failed(NODE, 0.0)
    assert until_followed(replicas, 0.0) < 16


# -- in the midst of everything


def test_pain_G5_a_leader_is_not_told_the_rack_while_its_favourite_is_gone(make):
    """Told it, leaders name the dead follower and send nothing until the cluster has noticed, which takes seconds."""
    world = make(client_rack="r2")
    [a] = world.simple(0, leader=1)
    first = world.fetch()
    assert (first.node_id, first.message.rack_id) == (1, "r2")
    first.answer({a.tp: {"preferred_read_replica": 2}})
    follower = world.fetch()
    assert follower.node_id == 2
    follower.fail(KafkaConnectionError("gone"))
    back = world.fetch()
    assert (back.node_id, back.message.rack_id) == (1, "")
    # What is said all the same, in an answer to a request from before, is not followed.
    back.answer({a.tp: {"preferred_read_replica": 2}})
    assert a.preferred_replica == -1
    again = world.fetch()
    world.now += 20
    again.answer({})
    tried = world.fetch()
    assert (tried.node_id, tried.message.rack_id) == (1, "r2")
    tried.answer({a.tp: {"preferred_read_replica": 2}})
    assert world.fetch().node_id == 2


def test_a_follower_that_calls_offsets_out_of_range_is_left_for_a_while(make):
    """Else leader and follower would send us back and forth as fast as they answer."""
    world = make(client_rack="r2")
    [a] = world.simple(100, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    sent = world.fetch()
    assert (sent.node_id, sent.message.rack_id) == (1, "")
