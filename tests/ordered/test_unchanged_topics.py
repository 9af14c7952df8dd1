"""The cost of ordered delivery on a topic whose partition count has never changed: no request, and no manager."""

import sys
from collections import Counter

import pytest

from thinconsumer.produce import Producer, ProducerSettings

KEYS = range(8)


def run(world, enabled, **options):
    """Let two members read and commit for a minute, with a rebalance; return what the brokers have received."""
    w = world(4, enable_ordered_delivery=str(enabled).lower())
    w.write(*KEYS, times=5)
    one, other = w.consumer(max_poll_records=7, **options), w.consumer(max_poll_records=7, **options)
    w.settle(one, other, partitions=4)
    w.poll(one, other, seconds=30)
    w.write(*KEYS, times=5)
    w.cluster.move_leader(("t", 0))
    w.poll(one, other, seconds=20)
    other.close()
    w.consumers.remove(other)
    w.poll(one, seconds=10)
    assert len(w.read) == 10 * len(KEYS)
    assert w.wrong() == []
    return w


@pytest.mark.once
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_consumer_sends_exactly_the_same_requests(world, strategy):
    runs = [run(world, enabled, partition_assignment_strategy=[strategy]) for enabled in (False, True)]
    sent = [Counter(one.api.__name__ for one in w.cluster.requests) for w in runs]
    assert sent[0] == sent[1]
    assert sum(sent[0].values()) > 100
    assert runs[1].extra_requests == []


def test_a_producer_sends_exactly_the_same_requests(world):
    sent = []
    for enabled in ("false", "true"):
        w = world(4, enable_ordered_delivery=enabled)
        settings = ProducerSettings.from_options(bootstrap_servers=w.cluster.bootstrap_servers)
        with Producer(settings, driver=w.cluster.driver(7)) as producer:
            for key in KEYS:
                for number in range(10):
                    producer.send("t", b"%d" % number, key=b"%d" % key)
                producer.flush()
        sent.append(Counter(one.api.__name__ for one in w.cluster.requests))
    assert sent[0] == sent[1]


def test_the_manager_is_not_even_imported(world, monkeypatch):
    monkeypatch.delitem(sys.modules, "thinconsumer.ordered.delivery", raising=False)
    w = run(world, enabled=True)
    assert "thinconsumer.ordered.delivery" not in sys.modules
    assert w.consumers[0]._reader.managers.gatekeepers == ()
