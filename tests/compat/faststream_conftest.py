"""The top conftest.py for FastStream's tests: the embedded broker as the default address, and our consumer."""

import asyncio
import inspect
import os
from unittest.mock import AsyncMock, MagicMock
from uuid import uuid4

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from faststream import ContextRepo
from faststream.kafka import KafkaBroker

from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

if not os.environ.get("THINCONSUMER_PEER_ALONE"):  # with it, the peer itself is tested: which failures are not ours?
    aiokafka.AIOKafkaConsumer = AIOKafkaConsumer
MARKERS = "kafka", "connected", "asyncio", "slow", "flaky", "all"


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session", autouse=True)
def broker_process():
    with BrokerProcess(nodes=1) as found:
        assert list(inspect.signature(KafkaBroker.__init__).parameters)[1] == "bootstrap_servers"
        KafkaBroker.__init__.__defaults__ = (found.bootstrap_servers,)
        AIOKafkaAdminClient.__init__.__kwdefaults__["bootstrap_servers"] = found.bootstrap_servers
        from tests.brokers.kafka.settings import Settings

        Settings.__init__.__defaults__ = (found.bootstrap_servers,)
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine in a loop of its own, as pytest-asyncio would."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60))
    return True


@pytest.fixture
def queue():
    return str(uuid4())


def fixture_of(name, kind):
    return pytest.fixture(name=name)(lambda: kind())


event = fixture_of("event", asyncio.Event)
event2 = fixture_of("event2", asyncio.Event)
event3 = fixture_of("event3", asyncio.Event)
mock = fixture_of("mock", MagicMock)
mock2 = fixture_of("mock2", MagicMock)
async_mock = fixture_of("async_mock", AsyncMock)
context = fixture_of("context", ContextRepo)
