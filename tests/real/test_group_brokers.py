"""A group with the consumer group protocol lives on while one broker of three at a time is killed or paused (KIP-848).

Members of thinconsumer, confluent-kafka and Java join, leave and die meanwhile. With ``--soak`` only: a broker takes
seconds to come back, and the group's coordinator is hit every other time.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from groups import Crew
from groups.churn import CASTS, STARTING, Outcome, churn
from groups.crew import CONSUMER_PROTOCOL
from realkafka import KafkaCluster, wait_for
from realkafka.layout import BROKER_SESSION_MS, CONSUMER_SESSION_MS
from realkafka.produce import SteadyProducer

PARTITIONS = 12
OFFSETS_PARTITIONS = 4
#: How long members of Java and confluent-kafka wait for a response; ours look for another coordinator sooner.
REQUEST_MS = 5000
#: Seconds that a broker is away, and that all three are back before the next one goes.
AWAY, BACK = 8.0, 14.0
#: Seconds within which a partition has an owner again after the death of the member it was last assigned to. The
#: coordinator may fail at the end of the dead member's session, and its broker may be the active controller, too: then
#: the controllers elect another one (2 s without a fetch, and up to 2 s of elections), which begins the sessions of
#: brokers anew. Another broker loads the group, and begins the sessions of members anew. Then it takes as long as if no
#: broker had failed: until the dead member's session ends, the next assignment is computed, at most a second later, and
#: the new owner sends a heartbeat.
SESSION, BROKER_SESSION = CONSUMER_SESSION_MS / 1000, BROKER_SESSION_MS / 1000
ELECTION, LOADING = 4.0, 1.0
BOUND = SESSION + ELECTION + BROKER_SESSION + LOADING + SESSION + 1.5


def coordinating_partition(group: str) -> int:
    """Return the partition of ``__consumer_offsets`` that has a group: by Java's hash of its name."""
    found = 0
    for letter in group:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % OFFSETS_PARTITIONS


class BrokerFailures(threading.Thread):
    """Kills and pauses one broker at a time, and waits until it has caught up, until stopped."""

    def __init__(self, cluster: KafkaCluster, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.log: list[tuple[float, str]] = []
        self.error: BaseException | None = None
        self._cluster, self._group, self._topic = cluster, group, topic
        self._stopping = threading.Event()

    def run(self) -> None:
        """Hit the coordinator's broker every other time."""
        nodes = list(self._cluster.ports)  # the one that has been up for longest comes first
        try:
            for how, target in itertools.cycle(itertools.product(("kill", "pause"), ("coordinator", "another"))):
                coordinator = self._cluster.leader("__consumer_offsets", coordinating_partition(self._group))
                other = next(node for node in nodes if node != coordinator)
                node = coordinator if target == "coordinator" else other
                nodes.remove(node)
                nodes.append(node)
                self._fail(node, how, target)
                if self._stopping.wait(BACK):
                    return
        except BaseException as error:  # noqa: BLE001 - raised by stop()
            self.error = error

    def stop(self) -> None:
        """Stop once all brokers are back; raise what has gone wrong."""
        self._stopping.set()
        self.join()
        if self.error is not None:
            raise self.error

    def _fail(self, node: int, how: str, target: str) -> None:
        self._note(f"{how} of node {node}, {target}")
        (self._cluster.kill if how == "kill" else self._cluster.pause)(node)
        time.sleep(AWAY)
        if how == "kill":
            self._cluster.restart(node, wait=False)
        else:
            self._cluster.resume(node)
        wait_for(self._all_in_sync, 60, "all replicas in sync")
        self._note(f"node {node} is back")

    def _all_in_sync(self) -> bool:
        topics = (self._topic, "__consumer_offsets")
        found = [partition for topic in topics for partition in self._cluster.describe(topic).values()]
        return all(len(partition.in_sync) == len(self._cluster.ports) for partition in found)

    def _note(self, what: str) -> None:
        self.log.append((time.monotonic(), what))
        print(f"{self.log[-1][0]:.3f} {what}")


#: Options of the members of other clients. librdkafka 2.16 does not send all fields after a heartbeat that timed out.
#: If the response had a new assignment, the coordinator then waits for its acknowledgement until the rebalance timeout,
#: which is max.poll.interval.ms, and for as long the partition that is to be revoked has no owner (seen: 30 s).
OPTIONS = {
    "java": {"request.timeout.ms": REQUEST_MS},
    "confluent": {"socket.timeout.ms": REQUEST_MS, "max.poll.interval.ms": 4000},
}


@pytest.mark.soak(300)
@pytest.mark.timeout(1200)
@pytest.mark.skipif("not config.getoption('--soak')", reason="brokers take seconds to come back: --soak")
def test_members_come_go_and_die_while_brokers_are_killed_and_paused(
    kafka3: KafkaCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    soak_seconds: float,
    record_property: Callable[..., None],
) -> None:
    """Nothing is lost, no partition has two owners, and each has an owner again within the bound."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    rng = random.Random(1)
    with Crew(kafka3.bootstrap, topic, topic, PARTITIONS, tmp_path, lambda kind: OPTIONS.get(kind, {})) as crew:
        # With more requests in flight, librdkafka gets OUT_OF_ORDER_SEQUENCE_NUMBER when leaders move, and then stops.
        options: dict[str, Any] = {"records_per_second": 400, "max_in_flight": 1}
        with SteadyProducer(kafka3.bootstrap, topic, PARTITIONS, **options) as producer:
            for kind in CASTS[CONSUMER_PROTOCOL][0]:
                crew.join(kind, CONSUMER_PROTOCOL)
            print(f"the first: settled after {crew.settle(60 + STARTING):.2f} s")
            failures = BrokerFailures(kafka3, topic, topic)
            began = time.monotonic()
            failures.start()
            try:
                churn(crew, CONSUMER_PROTOCOL, soak_seconds, rng, kills=False, bound=BOUND)
                switch = time.monotonic()
                churn(crew, CONSUMER_PROTOCOL, soak_seconds, rng, kills=True, bound=BOUND)
            finally:
                failures.stop()
            written = producer.stop(deliver_all=False)
        crew.read_to(written, 60)
        crew.leave_all(30)
        outcome = Outcome(crew.ledger(), written, began, switch)
    print("\n".join(outcome.ledger.said("trouble")))
    silence = max(outcome.ledger.longest_silence(p, began, switch) for p in range(PARTITIONS))
    text = f"{outcome}; {len(failures.log) // 2} failures of brokers; no record for at most {silence:.2f} s"
    print(text)
    record_property("brokers killed and paused", text)
    assert not outcome.ledger.lost(outcome.written)
    assert not outcome.overlaps, outcome.overlaps[:5]
    gap, before, after = outcome.gaps_after_deaths[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s after a death: {before}, {after}"
    assert not [found for found in outcome.ledger.strangers() if " thin" in found]
