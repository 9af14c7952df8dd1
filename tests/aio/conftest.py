"""An embedded broker for all tests of AsyncConsumer, and the loops in which they run."""

import itertools
import socket
from functools import partial

import pytest
from proving.loops import BACKENDS, in_loop

from thinconsumer import TopicPartition
from thinconsumer.aio import AsyncConsumer
from thinconsumer_testing.broker.process import BrokerProcess

pytest.importorskip("uvloop")
NUMBERS = itertools.count()
#: Sessions that a test can wait for.
SHORT = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 200, "max_poll_interval_ms": 2000}


def pytest_collection_modifyitems(config, items):
    """These tests have a broker in a process of its own: they run on one interpreter, slow ones in one loop."""
    left_out = []
    for item in items:
        if item.path.parent.name == "aio":
            item.add_marker(pytest.mark.once)
            is_slow = "run_slow" in item.fixturenames and item.callspec.params["run_slow"] != "asyncio"
            if is_slow and not config.getoption("--soak"):
                left_out.append(item)
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def broker():
    with BrokerProcess(nodes=1) as found:
        yield found


@pytest.fixture
def topic(broker):
    """A topic with two partitions, the first of which has 60 records in batches of four."""
    name = f"aio-{next(NUMBERS)}"
    broker.create_topic(name, 2)
    for n in range(0, 60, 4):
        broker.produce(name, [b"%d" % m for m in range(n, n + 4)])
    return name


@pytest.fixture
def tp(topic):
    return TopicPartition(topic, 0)


@pytest.fixture(params=BACKENDS)
def run(request):
    """Run a test's coroutine function in a loop, for at most 30 s."""
    return partial(in_loop, request.param)


@pytest.fixture(params=BACKENDS)
def run_slow(request):
    """As ``run``, for tests that wait for seconds: by default in asyncio only, with ``--soak`` in all loops."""
    return partial(in_loop, request.param)


@pytest.fixture
def run_asyncio():
    return partial(in_loop, "asyncio")


@pytest.fixture
def consumer(broker):
    """Return a function that makes a consumer."""
    return partial(AsyncConsumer, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")


@pytest.fixture
def group():
    return f"group-{next(NUMBERS)}"


@pytest.fixture
def short():
    return dict(SHORT)


@pytest.fixture
def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
