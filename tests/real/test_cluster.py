"""The clusters that other tests kill, pause and restart."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from realkafka import jars, wait_for
from realkafka.metadata import ask

HERE = Path(__file__).parent


def test_a_paused_broker_accepts_connections_and_says_nothing(own_kafka):
    own_kafka.pause(1)
    try:
        with pytest.raises(TimeoutError):
            ask("127.0.0.1", own_kafka.ports[1], seconds=0.5)
        assert own_kafka.running(1)
    finally:
        own_kafka.resume(1)
    assert set(ask("127.0.0.1", own_kafka.ports[1]).nodes) == {1}


def test_brokers_die_with_a_run_that_is_killed(kafka, tmp_path):
    """No cleanup runs after SIGKILL: what is left behind would slow every later run on this machine."""
    if sys.platform != "linux":
        pytest.skip("only Linux can do that")
    code = f"""
        import sys, time
        sys.path.insert(0, {str(HERE)!r})
        from realkafka import new_cluster
        cluster = new_cluster().start()
        print(cluster.folder, *cluster.pids(), flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        folder, *pids = child.stdout.readline().split()
        assert pids
        assert all(_alive(int(pid)) for pid in pids)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    wait_for(lambda: not any(_alive(int(pid)) for pid in pids), 10, f"the end of {pids}")
    subprocess.run(["rm", "-r", folder], check=True)


def _alive(pid):
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        os.kill(pid, 0)
        return state != "Z"
    return False


def test_without_java_or_maven_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("THINCONSUMER_CACHE", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(jars.NoJars, match="no mvn"):
        jars.class_path(jars.CURRENT)
    with pytest.raises(jars.NoJars, match="no java"):
        jars.java()
