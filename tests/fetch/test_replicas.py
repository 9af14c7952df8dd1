"""Failed followers are avoided for growing pauses, which a success resets."""

import random

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.fetch.planner import SHUNNED, Replicas
from thinconsumer.support.agenda import Agenda
from thinconsumer.wire.error_codes import Code

NODE = 7


def until_followed(replicas, now):
    """Return how long the node is avoided from ``now`` on, in whole seconds."""
    seconds = 0
    while not replicas.may_follow(NODE, now + seconds):
        assert replicas.any_shunned(now + seconds)
        seconds += 1
    assert not replicas.any_shunned(now + seconds)
    return seconds


def test_a_failed_follower_is_avoided_longer_than_failure_detection_takes():
    replicas = Replicas(random.Random(1), Agenda())
    replicas.failed(NODE, 100.0)
    assert replicas.may_follow(8, 100.0)
    assert 9.0 < until_followed(replicas, 100.0) < 16


def test_consecutive_failures_double_the_pause_and_a_success_resets_it():
    replicas = Replicas(random.Random(1), Agenda())
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


def test_a_failure_reported_by_many_partitions_counts_once():
    replicas = Replicas(random.Random(1), Agenda())
    for _ in range(50):
        replicas.failed(NODE, 0.0)
    assert until_followed(replicas, 0.0) < 16


# -- with planner and responses


def test_fetches_carry_no_rack_while_the_preferred_replica_is_avoided(make):
    """With a rack, leaders name the dead follower and send no records until the cluster notices."""
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
    # A preference in the response to a request sent before the failure is ignored.
    back.answer({a.tp: {"preferred_read_replica": 2}})
    assert a.preferred_replica == -1
    again = world.fetch()
    world.now += 20
    again.answer({})
    tried = world.fetch()
    assert (tried.node_id, tried.message.rack_id) == (1, "r2")
    tried.answer({a.tp: {"preferred_read_replica": 2}})
    assert world.fetch().node_id == 2


def test_a_follower_that_reports_out_of_range_is_avoided(make):
    """Otherwise the partition would alternate between leader and follower in a busy loop."""
    world = make(client_rack="r2")
    [a] = world.simple(100, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    sent = world.fetch()
    assert (sent.node_id, sent.message.rack_id) == (1, "")
