"""The consumer tests of aiokafka and of FastStream, run against our class in place of aiokafka's.

``THINCONSUMER_PEER_TESTS`` names a folder with the folders ``aiokafka-0.14.0/tests`` and ``faststream-0.7.4/tests``,
from the tags of these versions in the projects' repositories.
"""

from pathlib import Path

import peer_suite
import pytest
from peer_suite import DIFFERENCE, PRIVATE, PRODUCER

pytestmark = [pytest.mark.once, pytest.mark.timeout(1500)]
HERE = Path(__file__).parent

#: Tests of aiokafka that need not pass.
AIOKAFKA = {}
FASTSTREAM = {}
#: The files of FastStream with tests that start a consumer.
FASTSTREAM_FILES = ("consume", "consumer_only", "ack_policy", "middlewares", "parser", "router", "connect")


def test_aiokafkas_tests(tmp_path):
    pytest.importorskip("aiokafka")
    sources = peer_suite.folder("aiokafka-0.14.0", "tests/test_consumer.py")
    files = ["test_consumer.py", "test_pep492.py", "test_transactional_consumer.py"]
    copied = [f"tests/{name}" for name in ("__init__.py", "_testutil.py", *files)]
    outcomes = peer_suite.run(
        sources, copied, [f"tests/{name}" for name in files], HERE / "aiokafka_conftest.py", tmp_path
    )
    outcomes.check(AIOKAFKA)


def test_faststreams_tests(tmp_path):
    pytest.importorskip("faststream.kafka", reason="not promised: faststream[kafka] is not installed")
    sources = peer_suite.folder("faststream-0.7.4", "tests/brokers/kafka/test_consume.py")
    files = ["__init__.py", "tools.py", "marks.py", "brokers/__init__.py", "brokers/base", "brokers/kafka"]
    tests = [f"tests/brokers/kafka/test_{name}.py" for name in FASTSTREAM_FILES]
    copied = [f"tests/{name}" for name in files]
    outcomes = peer_suite.run(sources, copied, tests, HERE / "faststream_conftest.py", tmp_path)
    outcomes.check(FASTSTREAM)
