"""The command ``mirror``: what it refuses, and a copy on a cluster in another process."""

import pytest

from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.sockets.secured import open_driver


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mirror", "a"), "--group"),
        (
            ("mirror", "a", "--group", "g"),
            "a cannot be copied to itself: name another cluster (--to) or topic (a=NAME)",
        ),
        (("mirror", "a=b", "c=b", "--group", "g"), "each topic needs a target of its own"),
        (("mirror", "=b", "--group", "g"), "write TOPIC or TOPIC=TARGET"),
    ],
)
def test_wrong_usage(fail, words, message):
    code, said = fail(*words)
    assert code == 2 and message in said


@pytest.mark.once
def test_missing_topics_and_too_few_partitions_are_refused(fail_on_cluster, cluster, topic):
    cluster.create_topic(f"{topic}-small", 2)
    assert "there is no topic" in fail_on_cluster("mirror", f"{topic}=missing", "--group", "g")[1]
    code, said = fail_on_cluster("mirror", f"{topic}={topic}-small", "--group", "g")
    assert code == 1 and f"the target {topic}-small has 2 partitions, but {topic} has 3: expand it" in said


@pytest.mark.once
def test_a_copy_until_the_end_and_its_continuation(say, cluster, topic):
    cluster.create_topic(f"{topic}-copy", 3)
    settings = ProducerSettings.from_options(bootstrap_servers=cluster.bootstrap_servers, compression_type="zstd")
    for first in (0, 30):
        with Producer(settings, driver=open_driver(settings)) as producer:
            for number in range(first, first + 30):
                producer.send(topic, b"%d" % number, partition=number % 3)
        code, _, said = say("mirror", f"{topic}={topic}-copy", "--group", topic, "--until-end", "--progress")
        assert code == 0 and "30 records" in said.splitlines()[-1]
    code, out, _ = say("consume", f"{topic}-copy", "--until-end")
    assert code == 0 and sorted(map(int, out.split())) == list(range(60))
