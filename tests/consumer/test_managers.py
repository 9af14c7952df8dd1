"""State shared by the consumer's managers: topics in the metadata, the buffer, and the time an outage is reported."""

import os
import random

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.config import ConsumerConfig
from thinconsumer.consumer.managers import ConsumerManagers
from thinconsumer.errors import IllegalStateError
from thinconsumer.fetch.leader_queries import LeaderQuery

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def managers():
    config = ConsumerConfig.from_options(bootstrap_servers="kafka1:9092", bootstrap_timeout_ms=5000)
    return ConsumerManagers(config, random.Random(1), lambda: 0.0)


def test_metadata_covers_the_assignment_and_the_lookups_under_way(managers):
    wanted = [True]
    managers.partitions.assign([A])
    managers.lookups.add(LeaderQuery(B, -1, lambda: wanted[0], lambda *about: None, lambda *about: None))
    managers.engine.step(1.0)
    assert managers.metadata._wanted == {"a", "b"}
    wanted[0] = False
    managers.engine.touch()  # as the call that gives a lookup up does
    managers.engine.step(2.0)  # drops the lookup ...
    managers.engine.step(3.0)
    assert managers.metadata._wanted == {"a"}, "a topic that is kept known for nothing raises its errors in every poll"


def test_an_outage_is_due_until_it_has_been_raised_and_then_after_another_timeout(managers):
    managers.partitions.assign([A])
    managers.engine.step(1.0)
    assert managers.engine.network.outage_since == 1.0
    assert managers.outage(5.9) is None
    assert managers.outage(6.0) is not None and managers.outage(6.1) is None
    assert managers._outage_end.at == 11.0
    managers.agenda.take(11.0)
    assert managers.agenda.next() > 11.0, "a caller that only drives would spin: it never raises the error"


def test_a_restart_keeps_the_backoffs_of_partitions(managers):
    managers.partitions.assign([A])
    [partition] = managers.partitions
    partition.back_off(5.0)
    managers.engine.restart(1.0)
    managers.engine.step(1.0)
    assert partition in managers.agenda.take(5.0)


def test_a_consumer_without_a_group_says_which_option_is_missing(managers):
    with pytest.raises(IllegalStateError, match="group_id"):
        managers.require_group()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors where the system lists them")
@pytest.mark.parametrize("options", [{}, {"group_id": "g"}])
def test_closing_a_consumer_that_was_never_used_opens_no_descriptor(monkeypatch, options):
    opened = []
    monkeypatch.setattr("thinconsumer.sockets.wake.Waker.open", lambda self: opened.append(self))
    before = len(os.listdir("/proc/self/fd"))
    consumer = Consumer(bootstrap_servers="127.0.0.1:1", **options)
    consumer.close()
    assert opened == [] and len(os.listdir("/proc/self/fd")) == before
