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
import pytest

from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.testing import NewRecord
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


def test_what_a_program_writes_and_commits(kafka_broker, kafka_topic, produce, records, committed):
    topic = kafka_topic(partitions=2)
    assert records(topic) == [] and committed("billing", topic) == {}
    assert produce(topic, [b"a", None, NewRecord(b"b", b"own")], key=b"k", headers=[("n", b"v")]) == 0
    assert produce(topic, [b"c"], partition=1) == 0 and produce(topic, [b"d"]) == 3
    found = [(one.partition, one.offset, one.key, one.value, one.headers) for one in records(topic)]
    pair = (("n", b"v"),)
    assert found == [
        (0, 0, b"k", b"a", pair), (0, 1, b"k", None, pair), (0, 2, b"own", b"b", ()), (0, 3, None, b"d", ()),
        (1, 0, None, b"c", ()),
    ]
    with Consumer(bootstrap_servers=kafka_broker.bootstrap_servers, group_id="billing") as consumer:
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3)})
    assert committed("billing", topic) == {0: 3} and committed("other", topic) == {}


@pytest.mark.parametrize("call", [lambda p, r, c: p("x", [b"a"]), lambda p, r, c: r("x"), lambda p, r, c: c("g", "x")])
def test_a_missing_topic_is_named(produce, records, committed, call):
    with pytest.raises(LookupError, match="topic 'x' does not exist in this broker: create it with create_topic"):
        call(produce, records, committed)


def test_a_str_is_named(kafka_topic, produce):
    topic = kafka_topic()
    with pytest.raises(ValueError, match="value is a str: encode it, 'abc'.encode()"):
        produce(topic, ["abc"])
    with pytest.raises(ValueError, match="key is a str"):
        produce(topic, [b"abc"], key="k")
    with pytest.raises(ValueError, match="values is a single str"):
        produce(topic, "abc")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "values is empty"), (iter(()), "values is empty"), (None, "values is None: give a list"),
        ({b"k": b"v"}, "values is of type dict: give a list"), (7, "values is of type int: give a list"),
    ],
)
def test_values_that_are_no_list_are_named(kafka_broker, kafka_topic, produce, values, said):
    topic = kafka_topic()
    for write in (produce, kafka_broker.produce):
        with pytest.raises(ValueError, match=said):
            write(topic, values)


def test_topics_of_tests_before_are_gone(kafka_broker):
    with Consumer(bootstrap_servers=kafka_broker.bootstrap_servers) as consumer:
        assert consumer.topics() == set()
'''

OVERRIDES = """
import pytest


@pytest.fixture(scope="session")
def kafka_broker_options():
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": ["PLAIN"], "users": {"me": "secret"}}
    return {"topics": {"there-already": 1}, "security": security}


@pytest.fixture(scope="session")
def kafka_client_options():
    login = {"sasl_plain_username": "me", "sasl_plain_password": "secret"}
    own = {"group_id": "of-the-program", "auto_offset_reset": "latest"}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **login, **own}


@pytest.fixture
def embedded_broker_options():
    return {"nodes": 2, "topics": {"own": 3}}
"""

TESTS_OF_OVERRIDES = """
import pytest


def test_options(kafka_broker, embedded_broker, records, committed):
    assert list(kafka_broker.addresses) == [1]
    kafka_broker.produce("there-already", [b"x"])
    assert [record.value for record in records("there-already")] == [b"x"] and committed("g", "there-already") == {}
    assert list(embedded_broker.addresses) == [1, 2]
    embedded_broker.produce("own", [b"x"], 2)


@pytest.fixture
def servers(kafka_broker, kafka_client_options, monkeypatch):
    monkeypatch.setitem(kafka_client_options, "bootstrap_servers", [kafka_broker.bootstrap_servers])


def test_servers_may_be_given(servers, records, committed):
    assert [record.value for record in records("there-already")] == [b"x"] and committed("g", "there-already") == {}
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
    assert "17 passed" in words


def test_a_users_project_chooses_its_brokers(project, from_the_page):
    code, words = project(conftest=from_the_page["conftest"] + OVERRIDES, test_users=TESTS_OF_OVERRIDES)
    assert code == 0, words
    assert "2 passed" in words


def test_the_package_itself_needs_no_pytest():
    """Only the fixtures import pytest."""
    code = "import sys; sys.modules['pytest'] = None; import thinconsumer.testing, thinconsumer_testing.broker.process"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
