"""The fixtures for users' projects, in such a project: run by its own pytest, from its own folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import thinconsumer

CONFTEST = """
import pytest

pytest_plugins = ["thinconsumer.testing.fixtures"]
"""

TESTS = '''
from thinconsumer import Consumer, TopicPartition


def read(servers, topic):
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.read_to_end(10_000)]


def test_one(kafka_broker, kafka_topic):
    topic = kafka_topic()
    kafka_broker.produce(topic, [b"a"])
    assert read(kafka_broker.bootstrap_servers, topic) == [b"a"]


class TestMore:
    def test_one(self, kafka_broker, kafka_topic):
        """Of the same name, on the same broker, and not in each other's way."""
        topic, other = kafka_topic(partitions=2), kafka_topic(configs={"cleanup.policy": "compact"})
        assert topic != other
        kafka_broker.produce(topic, [b"b"])
        assert read(kafka_broker.bootstrap_servers, topic) == [b"b"]


def test_topics_of_tests_before_are_gone(kafka_broker):
    with Consumer(bootstrap_servers=kafka_broker.bootstrap_servers) as consumer:
        assert consumer.topics() == set()


def test_a_cluster_to_break(embedded_broker):
    embedded_broker.create_topic("orders", 1)
    embedded_broker.produce("orders", [b"c"])
    embedded_broker.kill(embedded_broker.leader(("orders", 0)), noticed_after_s=0)
    assert read(embedded_broker.bootstrap_servers, "orders") == [b"c"]
'''

OVERRIDES = """
@pytest.fixture(scope="session")
def kafka_broker_options():
    return {"topics": {"there-already": 1}}


@pytest.fixture
def embedded_broker_options():
    return {"nodes": 2, "topics": {"own": 3}}
"""

TESTS_OF_OVERRIDES = """
def test_options(kafka_broker, embedded_broker):
    assert list(kafka_broker.addresses) == [1]
    kafka_broker.produce("there-already", [b"x"])
    assert list(embedded_broker.addresses) == [1, 2]
    embedded_broker.produce("own", [b"x"], 2)
"""


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Let children find modules compiled, as installed ones are: tox forbids to write that beside the sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.getbasetemp() / "compiled"))
        yield


@pytest.fixture
def project(tmp_path):
    """A folder that is a user's project: files by name, then pytest's exit code and words."""

    def run(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1]),
                "PYTEST_ADDOPTS": "",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_users_project_tests_against_a_broker(project):
    code, words = project(conftest=CONFTEST, test_users=TESTS)
    assert code == 0, words
    assert "4 passed" in words


def test_a_users_project_chooses_its_brokers(project):
    code, words = project(conftest=CONFTEST + OVERRIDES, test_users=TESTS_OF_OVERRIDES)
    assert code == 0, words
    assert "1 passed" in words


def test_the_package_itself_needs_no_pytest():
    """Only whoever asks for the fixtures does."""
    code = "import sys; sys.modules['pytest'] = None; import thinconsumer.testing, thinconsumer.broker.process"
    environment = {**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
