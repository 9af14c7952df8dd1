"""Brokers in containers, where a Docker engine answers: no container outlives what it is for."""

import subprocess
from collections.abc import Callable, Iterator

import pytest
from realkafka import containers
from realkafka.sources import new_cluster


@pytest.fixture
def started() -> Iterator[Callable[[], int]]:
    """Return a function that counts the containers that this test has started, also those that have ended."""
    if not containers.engine_answers():
        pytest.skip("no Docker engine answers: .ci/containers.py starts one")
    command = ["docker", "ps", "--all", "--quiet", "--filter", f"label={containers.label()}"]

    def found() -> set[str]:
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    before = found()  # those of clusters that live as long as the session
    yield lambda: len(found() - before)
    assert found() - before == set()


def test_a_broker_has_one_container_and_one_log_however_often_it_is_restarted(started: Callable[[], int]):
    with new_cluster() as cluster:
        assert started() == 1  # that of the tool that has formatted the folder is gone
        assert cluster.running(1)
        log = cluster.log(1)
        cluster.kill(1)
        assert started() == 0
        assert not cluster.running(1)
        assert cluster.log(1).startswith(log)
        cluster.restart(1)
        assert started() == 1
        assert cluster.running(1)
        assert cluster.log(1).startswith(log)
        assert len(cluster.log(1)) > len(log)
        cluster.restart(1)
        assert started() == 1
        cluster.pause(1)
