"""Takes the place of conftest.py in aiokafka's test suite: the embedded broker, and our consumer in its module."""

import asyncio
import gc
import os

import aiokafka
import aiokafka.consumer
import pytest

from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

if not os.environ.get("THINCONSUMER_PEER_ALONE"):  # with it, the peer itself is tested: which failures are not ours?
    aiokafka.AIOKafkaConsumer = aiokafka.consumer.AIOKafkaConsumer = AIOKafkaConsumer


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("ssl"):
            item.add_marker(pytest.mark.skip(reason="this broker has one listener, without TLS"))


@pytest.fixture(scope="session")
def broker():
    config = {"num_partitions": 2, "group_min_session_timeout_ms": 1000}
    with BrokerProcess(nodes=1, config=config) as found:
        yield found


@pytest.fixture(scope="class")
def loop():
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def collect_garbage():
    yield
    gc.collect()


@pytest.fixture(scope="class")
def setup_test_class(request, loop, broker):
    cls = request.cls
    cls.loop, cls.hosts, cls.TEST_TIMEOUT = loop, [broker.bootstrap_servers], 60
    cls.kafka_host, cls.kafka_port = broker.bootstrap_servers.split(":")
    cls.kafka_version = "4.3.0"
