"""The consumer tests of aiokafka and of FastStream, run against our class in place of aiokafka's.

``THINCONSUMER_PEER_TESTS`` names a folder with the folders ``aiokafka-0.14.0/tests`` and ``faststream-0.7.4/tests``,
from the tags of these versions in the projects' repositories.
"""

from pathlib import Path

import peer_suite
import pytest
from peer_suite import DIFFERENCE, PRIVATE

pytestmark = [pytest.mark.once, pytest.mark.timeout(1500)]
HERE = Path(__file__).parent

#: Tests of aiokafka's consumer that need not pass.
AIOKAFKA = {
    f"tests.test_consumer.TestConsumerIntegration.test_{name}": reason
    for reason, names in {
        # They read or replace _client, _coordinator, _fetcher or _subscription, or patch the module of the fetcher.
        PRIVATE: (
            "consumer_cleanup_unassigned_data_getmany", "consumer_cleanup_unassigned_data_getone",
            "consumer_compacted_topic", "consumer_compressed_returns_older_msgs", "consumer_context_manager",
            "consumer_invalid_crc_in_records", "consumer_position", "consumer_propagates_commit_refresh_errors",
            "consumer_propagates_coordinator_errors", "consumer_propagates_heartbeat_errors", "consumer_seek_backward",
            "consumer_seek_forward_getmany", "consumer_seek_forward_getone",
            "consumer_subscribe_pattern_autocreate_no_group_id", "consumer_subscribe_pattern_with_autocreate",
            "exclude_internal_topics", "kafka_consumer_sets_coordinator_values", "kip_345_disabled", "kip_345_enabled",
            "rebalance_listener_with_coroutines",
        ),
        DIFFERENCE: ("consumer_arguments",),  # the texts of errors
    }.items()
    for name in names
}  # fmt: skip
FASTSTREAM: dict[str, str] = {}
#: The files of FastStream with tests that start a consumer.
FASTSTREAM_FILES = (
    "ack_policy", "client_rack", "codec", "connect", "consume", "consumer_only", "group_instance_id", "include_router",
    "middlewares", "parser", "publish", "requests", "router",
)  # fmt: skip


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
