"""kafka-python's README and its own consumer tests, from its source distribution, with the consumer of this package.

The source distribution is downloaded when these tests run, once for each cache of pytest, and nothing of it is kept
elsewhere. Its tests run in a process of their own, with the plugin ``embedded_kafka_python``.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from thinconsumer.compat.kafka import options
from thinconsumer.driver import Address
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = [pytest.mark.once, pytest.mark.timeout(900)]
PINNED = "3.0.12"
#: Tests that fail, each with one of three reasons.
PRODUCER_OR_ADMIN = "producer or admin"
PRIVATE = "a private attribute"
EXPLAINED = "a difference that docs/migrating.md explains"
EXPECTED = {
    "test_consumer": PRIVATE,  # consumer._client
    "test_kafka_consumer_unsupported_encoding": PRIVATE,  # kafka.codec, which the consumer would decompress with
    "test_group": PRIVATE,  # consumer._coordinator
    "test_heartbeat_thread": PRIVATE,  # consumer._coordinator
    "test_kafka_version_infer": EXPLAINED,  # config["api_version"]
}


@pytest.fixture(scope="module")
def sdist(request):
    """Return the folder of kafka-python's unpacked source distribution."""
    if version("kafka-python") != PINNED:
        pytest.skip(f"LOUD: kafka-python {version('kafka-python')} is installed, and not {PINNED}: nothing is compared")
    cache = Path(request.config.cache.mkdir("kafka-python"))
    folder = cache / f"kafka_python-{PINNED}"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "kafka-python"]
        command += ["--dest", str(cache), f"kafka-python=={PINNED}"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            said = run.stderr.strip().splitlines()[-1:] if run.returncode else []
        except subprocess.TimeoutExpired as error:
            said = [str(error)]
        if said:
            pytest.skip(f"LOUD: no source distribution of kafka-python {PINNED}: {said[0]}")
        with tarfile.open(next(cache.glob("*.tar.gz"))) as archive:
            archive.extractall(cache, filter="data")
    return folder


class EnoughError(Exception):
    """Ends an example that would go on for ever."""


def thrice(function):
    """Return the function, which ends the example the third time."""
    times = []

    def call(*args):
        times.append(args)
        if len(times) == 3:
            raise EnoughError
        return function(*args)

    return call


def examples(text):
    """Return the code of the README's examples for consumers."""
    part = text[text.index("KafkaConsumer\n*****") : text.index("KafkaProducer\n*****")]
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:(?: {4}.*)?\n)+)", part)
    return [re.sub("^ {4}", "", block, flags=re.MULTILINE) for block in blocks]


def test_the_examples_of_its_readme_run_with_another_import(sdist, monkeypatch):
    code = examples((sdist / "README.rst").read_text())
    assert len(code) == 7
    topics = {"my_favorite_topic": b"text", "foobar": b"text", "json-foo": b"{}", "txn_topic": b"text"}
    with BrokerProcess(topics=dict.fromkeys(topics, 3)) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        defaults = {
            "resolver": lambda host, given: [Address(socket.AF_INET, ("127.0.0.1", port))],
            "metadata_max_age_ms": 500,
        }
        # The examples read what is written after their begin. There is no thread that writes: they begin earlier.
        defaults["auto_offset_reset"] = "earliest"
        monkeypatch.setattr(options, "_OTHER_DEFAULTS", {**options._OTHER_DEFAULTS, **defaults})
        for topic, value in topics.items():
            for _ in range(8):
                broker.produce(topic, [value], partition=2)
        names = {}
        for block in code:
            if "KafkaConsumer(" in block and "consumer" in names:
                names["consumer"].close()
            names.update(print=thrice(str), isinstance=thrice(isinstance))
            changed = block.replace("from kafka import", "from thinconsumer.compat.kafka import")
            try:
                exec(changed, names)
            except EnoughError:
                assert "for msg in consumer" in block
            else:
                assert "for msg in consumer" not in block
        names["consumer"].close()
    assert names["msg"].topic == "txn_topic"
    assert "consumer-metrics" in names["metrics"]


def run_its_tests(sdist, folder, names):
    """Run the tests that use a consumer in kafka-python's modules of these names; return outcomes, and the log."""
    shutil.copytree(sdist / "test", folder / "test")
    (folder / "test" / "__init__.py").touch()  # which the distribution lacks: Python has a package of this name, too
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore\n")
    here = str(Path(__file__).parent)
    files = [f"test/integration/test_{name}_integration.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "embedded_kafka_python", "-p", "no:cacheprovider"]
    command += ["-p", "no:randomly", "--timeout", "120", "--junitxml", "outcomes.xml", *files]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path, "."])}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    outcomes = {}
    for case in ElementTree.parse(folder / "outcomes.xml").iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcomes[case.get("name")] = kinds.pop() if kinds else "passed"
    return outcomes, run.stdout


@pytest.mark.soak(60)
def test_its_own_tests_of_consumers_pass_or_are_explained(sdist, tmp_path, request):
    """Those of consumers; with ``--soak`` also those of producers, admin clients and logins that use a consumer."""
    is_long = request.config.getoption("--soak")
    names = ("consumer", "producer", "admin", "sasl") if is_long else ("consumer",)
    outcomes, log = run_its_tests(sdist, tmp_path, names)
    failed = {name for name, outcome in outcomes.items() if outcome in ("failure", "error")}
    assert failed == EXPECTED.keys(), log
    skipped = {name for name, outcome in outcomes.items() if outcome == "skipped"}
    assert skipped == {"test_kafka_consumer_offsets_for_time_old"}
    public = [name for name in outcomes if name not in skipped and EXPECTED.get(name) != PRIVATE]
    passed = [name for name in public if outcomes[name] == "passed"]
    print(f"{len(passed)} of {len(public)} tests that touch the public consumer pass")
    assert len(public) == (28 if is_long else 12)
    assert len(passed) >= 0.85 * len(public)
