"""Leaders are killed, paused and restarted in turn, and no record is lost, repeated, reordered or late.

Three brokers, replication 3, an idempotent producer at acks=all. ``--soak`` runs three minutes, else half of one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from proving.failover import Background, Notes, Writer, assert_complete, judge, read, watch
from realkafka import KafkaCluster, wait_for

from thinconsumer import Consumer, TopicPartition

PARTITIONS = 6
REQUEST_TIMEOUT_MS = 3000
#: A broker that is killed or paused stays away for so long after its partitions got other leaders.
DOWN_SECONDS = 3.0


class Trouble:
    """Kills, pauses and restarts brokers, and notes when."""

    def __init__(self, cluster: KafkaCluster, topic: str, notes: Notes) -> None:
        self._cluster, self._topic, self._notes = cluster, topic, notes

    def victim(self) -> int:
        leaders = Counter(each.leader for each in self._cluster.describe(self._topic).values())
        return leaders.most_common(1)[0][0]

    def kill(self, node: int) -> None:
        with self._outage(node):
            self._cluster.kill(node)
            self._wait_for_other_leaders(node)
            self._cluster.restart(node, wait=False)

    def pause(self, node: int) -> None:
        with self._outage(node):
            self._cluster.pause(node)
            self._wait_for_other_leaders(node)
            self._cluster.resume(node)

    def blink(self, node: int) -> None:
        """Pause a broker for less time than the cluster needs to elect other leaders."""
        with self._outage(node):
            self._cluster.pause(node)
            time.sleep(1.5)
            self._cluster.resume(node)

    def restart(self, node: int) -> None:
        with self._outage(node):
            self._cluster.restart(node, wait=False)

    def recover(self) -> None:
        """Wait until all replicas are in sync again: the next trouble must not leave fewer than two."""
        for partition in range(PARTITIONS):
            self._cluster.wait_in_sync(self._topic, partition, seconds=90)

    def _wait_for_other_leaders(self, node: int) -> None:
        """Wait for elections, which take long on a busy machine."""

        def leaders() -> set[int]:
            terms = sorted(self._notes.elections.copy().items())
            return set({partition: leader for (partition, _), (leader, _) in terms}.values())

        wait_for(lambda: node not in leaders(), 60, f"other leaders than broker {node}")
        time.sleep(DOWN_SECONDS)

    def _outage(self, node: int) -> _Outage:
        return _Outage(self._notes, node)


class _Outage:
    def __init__(self, notes: Notes, node: int) -> None:
        self._notes, self._node = notes, node

    def __enter__(self) -> None:
        self._notes.down.add(self._node)
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._notes.outages.setdefault(self._node, []).append((self._began, time.monotonic()))
        self._notes.down.discard(self._node)


def _join_failures(trouble: Trouble, seconds: float) -> Iterator[str]:
    """Cause one failure after the other for so many seconds, and each kind of them at least once."""
    until = time.monotonic() + seconds
    kinds = (trouble.kill, trouble.pause, trouble.restart, trouble.blink)
    for count, what in enumerate(itertools.cycle(kinds)):
        if count >= len(kinds) and time.monotonic() > until:
            return
        node = trouble.victim()
        what(node)
        yield f"{what.__name__} {node}"
        trouble.recover()
        time.sleep(2)


@pytest.mark.soak(180)
@pytest.mark.timeout(600)
def test_every_offset_once_while_leaders_come_and_go(
    kafka3: KafkaCluster, new_topic: Callable[..., str], soak_seconds: float, record_property: Callable[..., None]
) -> None:
    """No record is lost, repeated or reordered, and each is read within a bound; the times are printed."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    notes = Notes()
    writer = Writer(kafka3.bootstrap, topic, PARTITIONS, notes)
    tps = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    threads_before = threading.active_count()
    options = {"auto_offset_reset": "earliest", "request_timeout_ms": REQUEST_TIMEOUT_MS}
    with Consumer(bootstrap_servers=kafka3.bootstrap, **options) as consumer:
        consumer.assign(tps)
        assert threading.active_count() == threads_before
        with Background(lambda: watch(kafka3, topic, notes), every=0.1), Background(lambda: read(consumer, notes)):
            with Background(writer.step, every=0.01):
                wait_for(lambda: len(notes.delivered) == PARTITIONS, 30, "records of every partition")
                for happened in _join_failures(Trouble(kafka3, topic, notes), soak_seconds):
                    print(f"{time.monotonic():.1f} {happened}, {writer.written} written")
            writer.finish()
            wait_for(lambda: sum(map(len, notes.delivered.values())) >= writer.written, 30, "the last records")
        ends = consumer.end_offsets(tps)
        # Once more: what comes now would be a repetition.
        read(consumer, notes)
    figures = judge(notes, PARTITIONS, REQUEST_TIMEOUT_MS / 1000)
    print(f"failover: {figures}; slowest poll(100) {notes.slowest_poll:.3f} s; raised {notes.errors}")
    record_property("failover", str(figures))
    assert_complete(notes, ends)
    assert not notes.errors
    assert not figures.late, "\n".join(figures.late[:10])
    assert figures.elections >= 4, "the killed and the paused broker led at least two partitions each"
    assert figures.trail, "nothing was measured"
