"""The shell of the small clients: time limits, and what an exception in the middle of a step leaves behind."""

import math

import pytest

from thinconsumer.admin import Admin
from thinconsumer.config import ClientOptions
from thinconsumer.engine import to_seconds
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.testing import MemoryCluster


@pytest.fixture
def made():
    cluster = MemoryCluster(1, {"t": 1})
    options = ClientOptions.from_options(bootstrap_servers=cluster.bootstrap_servers)
    return cluster, Admin(options, driver=cluster.driver())


@pytest.mark.parametrize(
    ("given", "seconds"), [(0, 0.0), (1500, 1.5), (0.5, 0.0005), (None, 60.0), (math.inf, math.inf)]
)
def test_timeouts_are_milliseconds(given, seconds):
    assert to_seconds(given, 60_000) == seconds


@pytest.mark.parametrize("given", [-1, math.nan, "1", True, b"", [1]])
def test_what_is_no_timeout_is_refused(given):
    with pytest.raises(IllegalArgumentError):
        to_seconds(given, 60_000)
    with pytest.raises(IllegalArgumentError, match="milliseconds"):
        to_seconds(None)


def test_poll_takes_as_long_as_it_may(made):
    cluster, _ = made
    producer = Producer(
        ProducerSettings.from_options(bootstrap_servers=cluster.bootstrap_servers), driver=cluster.driver()
    )
    before = cluster.clock.now()
    producer.poll(1234)
    assert cluster.clock.now() - before == pytest.approx(1.234)
    producer.poll(0)
    assert cluster.clock.now() - before == pytest.approx(1.234)


def test_an_interrupted_step_is_mended_by_the_next_call(made):
    """Ctrl-C comes while an answer is taken: the connections are given up, and the next call works."""
    cluster, admin = made
    assert set(admin.list_topics()) == {"t"}
    hits = []

    def interrupt(call):
        hits.append(call)
        raise KeyboardInterrupt

    rule = cluster.on("Metadata", interrupt)
    with pytest.raises(KeyboardInterrupt):
        admin.list_topics()
    cluster.rules.remove(rule)
    dials = len(cluster.network.dials)
    assert set(admin.list_topics()) == {"t"}
    assert len(hits) == 1
    assert len(cluster.network.dials) > dials


def test_an_interrupted_wait_has_torn_nothing(made):
    cluster, admin = made
    admin.list_topics()
    driver = admin._shell.driver
    dials = len(cluster.network.dials)
    step = driver.step

    class Waiting(type(driver)):
        waiting = True

    driver.__class__ = Waiting

    def interrupted(endpoint, deadline):
        raise KeyboardInterrupt

    driver.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        admin.list_topics()
    driver.step = step
    assert set(admin.list_topics()) == {"t"}
    assert len(cluster.network.dials) == dials


def test_closing_closes_the_driver(made):
    _, admin = made
    admin.close()
    assert admin._shell.driver.closed
