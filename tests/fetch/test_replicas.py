"""Followers that failed are left alone for a while, ever longer, and a success wipes the slate."""

from __future__ import annotations

import random

from thinconsumer.fetch.replicas import SHUNNED, Replicas

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
