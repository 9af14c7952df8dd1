"""An example, run as a reader would run it."""

import subprocess
import sys
from pathlib import Path

from realkafka import produce

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments, folder):
    """Run an example from elsewhere, so that it finds what we import and nothing else."""
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "read_topic.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_read_topic_reads_every_record_and_shows_progress(kafka, new_topic, tmp_path):
    topic = new_topic(kafka, partitions=2)
    produce.with_confluent(kafka.bootstrap, topic, produce.numbered(700) + produce.numbered(300, partition=1))
    done = run(kafka.bootstrap, topic, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == f"{topic}: 2 partitions, ends [700, 300]"
    assert last.startswith("1,000 records, ")
    assert " behind; " in done.stdout


def test_read_topic_says_when_there_is_no_such_topic(kafka, tmp_path):
    done = run(kafka.bootstrap, "not-there", folder=tmp_path)
    assert done.returncode == 1
    assert "no topic 'not-there'" in done.stderr


def test_read_topic_says_how_it_is_called(tmp_path):
    done = run("only-one-argument", folder=tmp_path)
    assert done.returncode == 1
    assert "BOOTSTRAP_SERVERS TOPIC" in done.stderr
