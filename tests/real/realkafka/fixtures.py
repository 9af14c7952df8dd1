"""Real clusters as fixtures, for every folder of tests.

``kafka`` (one broker), ``kafka3`` (three), ``kafka28`` (Kafka 2.8, old formats), ``secured_kafka`` (one broker with a
listener of every kind, see ``security.one_of_each``), and ``kdc``, its Kerberos KDC. They live as long as the session
and are shared: make a topic of your own with ``new_topic``. ``kafka3`` resumes and restarts brokers after every test.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from .admin import Administration
from .cluster import KafkaCluster
from .jars import OLD, NoJars
from .kdc import Kdc, NoKdc
from .oidc import Issuer
from .security import CLIENTS, one_of_each
from .sources import given_cluster, new_cluster

NO_KAFKA = pytest.StashKey[str]()
KEPT_LOGS = pytest.StashKey[list[Path]]()
NUMBERS = itertools.count(1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it loudly, once, when nothing was tested on a real cluster; and where logs of failed runs are."""
    if reason := config.stash.get(NO_KAFKA, ""):
        terminalreporter.write_line(f"NO REAL KAFKA: nothing of tests/real ran. {reason}", red=True, bold=True)
    for folder in config.stash.get(KEPT_LOGS, []):
        terminalreporter.write_line(f"logs of the brokers: {folder}", yellow=True)


def start(request: pytest.FixtureRequest, **options) -> Iterator[KafkaCluster]:
    """Start a cluster of our own; keep its logs if tests failed while it was there."""
    if reason := request.config.stash.get(NO_KAFKA, ""):
        pytest.skip(reason)  # found out already, by a download that timed out for instance
    try:
        cluster = new_cluster(**options)
    except NoJars as error:
        if os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"a real Kafka is required: {error}")
        request.config.stash[NO_KAFKA] = str(error)
        pytest.skip(str(error))
    failed = request.session.testsfailed
    cluster.start()
    try:
        yield cluster
    finally:
        folder = cluster.stop(keep_logs=request.session.testsfailed > failed)
        if folder is not None:
            request.config.stash.setdefault(KEPT_LOGS, []).append(folder)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Administration]:
    """One broker: the given one, or else our own."""
    given = given_cluster()
    if given is not None:
        yield given
    else:
        yield from start(request)


@pytest.fixture
def own_kafka(kafka: Administration) -> KafkaCluster:
    """One broker that may be killed, paused and restarted; a test puts it back into order."""
    if not isinstance(kafka, KafkaCluster):
        pytest.skip("the given cluster is not ours to break")
    return kafka


@pytest.fixture(scope="session")
def _three(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    yield from start(request, brokers=3)


@pytest.fixture
def kafka3(_three: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three brokers on racks r1, r2 and r3; replication 3, min.insync.replicas 2. All three are up at the start."""
    yield _three
    for node in _three.ports:
        _three.resume(node)
        if not _three.running(node):
            _three.restart(node, wait=False)
    _three.wait_for_nodes()


@pytest.fixture(scope="session")
def kafka28(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker of Kafka 2.8.2: old versions of every API, and topics with sets v0 and v1.

    ``config={"message.format.version": "0.9.0"}`` makes a topic keep v0 sets, ``"0.10.2"`` v1 sets.
    """
    yield from start(request, version=OLD)


@pytest.fixture(scope="session")
def _kdc_or_reason(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | str]:
    try:
        kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    except NoKdc as error:
        yield str(error)
        return
    with kdc:
        yield kdc


@pytest.fixture
def kdc(_kdc_or_reason: Kdc | str) -> Kdc:
    """The KDC whose realm ``secured_kafka`` belongs to; installed where that is possible."""
    if isinstance(_kdc_or_reason, str):
        missing(_kdc_or_reason)
    return _kdc_or_reason


def missing(reason: str) -> NoReturn:
    """Skip the test for want of what it needs on this machine; fail it where real clusters are required."""
    if os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1":
        pytest.fail(f"required: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def secured_kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _kdc_or_reason: Kdc | str
) -> Iterator[KafkaCluster]:
    """One broker of our own with a listener of every kind; those with GSSAPI only if there is a KDC."""
    kdc = None if isinstance(_kdc_or_reason, str) else _kdc_or_reason
    with Issuer(CLIENTS) as issuer:
        yield from start(request, security=one_of_each(tmp_path_factory.mktemp("security"), issuer, kdc))


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """``new_topic(cluster, partitions=1, replication=-1, config=None)`` makes a new topic and returns its name."""

    def make(cluster: Administration, partitions: int = 1, replication: int = -1, config=None) -> str:
        stem = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:150]
        return cluster.create_topic(f"{stem}-{os.getpid()}-{next(NUMBERS)}", partitions, replication, config)

    return make
