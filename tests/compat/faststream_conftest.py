"""The top conftest.py for FastStream's tests: the embedded broker as the default address, and our consumer."""

import asyncio
import inspect

import aiokafka
import pytest
from faststream.kafka import KafkaBroker

from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

aiokafka.AIOKafkaConsumer = AIOKafkaConsumer
MARKERS = "kafka", "connected", "asyncio", "slow", "flaky", "all"


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session", autouse=True)
def broker():
    with BrokerProcess(nodes=1) as found:
        names = list(inspect.signature(KafkaBroker.__init__).parameters)
        assert names[1] == "bootstrap_servers"
        KafkaBroker.__init__.__defaults__ = (found.bootstrap_servers,)
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine in a loop of its own, as pytest-asyncio would."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True
