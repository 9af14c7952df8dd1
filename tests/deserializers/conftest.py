"""An embedded broker and a schema registry for the tests of deserializers that ask one."""

import itertools

import pytest

from tests.deserializers.registry import running
from thinconsumer import Consumer
from thinconsumer_testing import BrokerProcess, NewRecord

NUMBERS = itertools.count()


def pytest_collection_modifyitems(items):
    """These tests have a broker in a process of its own, and need packages that not every environment has."""
    for item in items:
        if item.path.parent.name == "deserializers" and "broker" in item.fixturenames:
            item.add_marker(pytest.mark.once)


@pytest.fixture(scope="session")
def broker():
    with BrokerProcess(nodes=1) as found:
        yield found


@pytest.fixture
def registry():
    with running() as found:
        yield found


class Topic:
    """A topic with one partition, and consumers of it."""

    def __init__(self, broker):
        self.broker = broker
        self.name = f"schemas-{next(NUMBERS)}"
        broker.create_topic(self.name, 1)

    def produce(self, *values):
        """Produce values, or tuples of key, value and headers."""
        records = [each if isinstance(each, tuple) else (None, each, []) for each in values]
        self.broker.produce(self.name, [NewRecord(value, key, headers) for key, value, headers in records])

    def consumer(self, cls=Consumer, **options):
        servers = self.broker.bootstrap_servers
        return cls(self.name, bootstrap_servers=servers, auto_offset_reset="earliest", **options)

    def read(self, count, **options):
        """Return so many records."""
        found = []
        with self.consumer(**options) as consumer:
            while len(found) < count:
                polled = consumer.poll(10_000)
                assert polled, f"{len(found)} records of {count}"
                found += [record for rows in polled.values() for record in rows]
        return found


@pytest.fixture
def topic(broker):
    return Topic(broker)
