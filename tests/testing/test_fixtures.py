"""The fixtures for users' projects, in such a project: run by its own pytest, from its own folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: Seconds for a project's own pytest on a busy machine; only a hanging one takes so long.
PATIENCE_S = 200

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("compiled_once"), pytest.mark.timeout(PATIENCE_S + 40)]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"

#: The parts that the page leaves out.
MORE_TESTS = '''
from thinconsumer import Consumer
from test_orders import read


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
'''

OVERRIDES = """
import pytest


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


@pytest.fixture
def project(tmp_path):
    """A folder that is a user's project: files by name, then pytest's exit code and words."""

    def run(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def from_the_page():
    """The files that docs/testing.md shows, by name."""
    blocks = re.findall(
        r"^```python\n# (\w+)\.py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert [name for name, _ in blocks] == ["conftest", "test_orders"]
    return dict(blocks)


def test_project_of_the_page_passes(project, from_the_page):
    code, words = project(**from_the_page, test_more=MORE_TESTS)
    assert code == 0, words
    assert "6 passed" in words


def test_a_users_project_chooses_its_brokers(project, from_the_page):
    code, words = project(conftest=from_the_page["conftest"] + OVERRIDES, test_users=TESTS_OF_OVERRIDES)
    assert code == 0, words
    assert "1 passed" in words


def test_the_package_itself_needs_no_pytest():
    """Only the fixtures import pytest."""
    code = "import sys; sys.modules['pytest'] = None; import thinconsumer.testing, thinconsumer_testing.broker.process"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
