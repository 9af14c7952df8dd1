"""Swarm mode: a world drawn from a seed, a minute of faults in which nothing wrong may happen, then peace, in which
everybody has to get to the end.

After TigerBeetle's VOPR. **Safety**: at least :data:`FAULTS_S` virtual seconds of what :mod:`.chaos` orders, with all
checkers on. **Liveness**: all faults end, a last record is written to every partition, and within :data:`PEACE_S`
virtual seconds, and a little more for each record, every consumer's position is the end of every partition it reads. A
failure shows the seed and the knobs, and a command that repeats it.
"""

from __future__ import annotations

import logging
from collections import Counter

from ...broker.config import BrokerConfig
from ...errors import KafkaError
from ...types import TopicPartition
from .actors import Behaviour, ConsumerActor, ProducerActor
from .chaos import Chaos
from .knobs import Knobs
from .log_writer import LogWriter
from .network import NetworkFaults
from .simulation import Simulation
from .tally import Tally
from .world import Violation

FAULTS_S = 60.0
PEACE_S = 150.0
#: Besides, for each offset of the longest log: some fetch no more than one at a time, over slow networks.
A_RECORD_S = 0.4
COMMAND = "python -m thinconsumer.testing.simulation --seed {seed}"


class Swarm:
    """One run. ``sim`` is its world; :meth:`run` does both phases and returns what has happened, counted."""

    def __init__(self, seed: int, *, traced: bool = False, knobs: Knobs | None = None) -> None:
        self.seed = seed
        self.knobs = knobs = knobs or Knobs.draw(seed)
        self.sim = sim = Simulation(seed, knobs.brokers, config=self._config(), network_faults=network_faults_of(knobs),
                                    racks=[f"rack{n % knobs.racks}" for n in range(knobs.brokers)],
                                    traced=traced)  # fmt: skip
        self._tally = Tally(sim.world.accuse, sim.brokers.truth)
        sim.jury.add(self._tally)
        sim.how_to_repeat = COMMAND.format(seed=seed)
        self.tps = self._create_topics()
        self.log_writer = LogWriter(sim.world, lambda: sim.cluster, sim.touched, lambda: self.tps, knobs, FAULTS_S)
        self.consumers = [self._consumer(number) for number in range(knobs.consumers)]
        self.producers = [self._producer() for _ in range(knobs.producers)]
        self.chaos = Chaos(sim, knobs, self.consumers, self.tps, self.log_writer.write)

    def run(self) -> Counter[str]:
        """Run both phases. Raises: Violation, with knobs, seed and trace."""
        disabled, logging.root.manager.disable = logging.root.manager.disable, logging.CRITICAL
        try:
            self.safety()
            self.liveness()
        except Violation as violation:
            raise Violation(f"seed {self.seed}\n{self.knobs}\n\n{violation}") from None
        finally:
            logging.root.manager.disable = disabled
        return self.counts()

    def safety(self) -> None:
        """A minute of faults."""
        self.sim.run_for(FAULTS_S)

    def liveness(self) -> None:
        """Peace: everybody gets to the end."""
        sim = self.sim
        sim.trace.add("swarm", "", "peace")
        for producer in self.producers:
            producer.stop()
        self.chaos.over()
        sim.run_until(self.log_writer.finish, PEACE_S, "every transaction is ended")
        for consumer in self.consumers:
            consumer.behaviour.odd_rate = 0.0
            consumer.resume()
        sim.run_until(lambda: all(p.is_idle for p in self.producers), PEACE_S, "every producer's records are settled")
        unsigned = list(self.tps)

        def signed() -> bool:
            unsigned[:] = [tp for tp in unsigned if not self.log_writer.sign(tp)]
            return not unsigned

        sim.run_until(signed, PEACE_S, "every partition has a leader")
        waiting = {consumer: list(consumer.assigned) for consumer in self.consumers}

        def arrived() -> bool:
            for consumer in [consumer for consumer, left in waiting.items() if left]:
                waiting[consumer] = [tp for tp in waiting[consumer] if not self._is_at_end(consumer, tp)]
            return not any(waiting.values())

        seconds = PEACE_S + A_RECORD_S * max(truth.end for truth in sim.brokers.truths.values())
        deadline = sim.now() + seconds
        while not arrived():
            if sim.now() >= deadline:
                late = {consumer.name: sorted(map(tuple, tps)) for consumer, tps in waiting.items() if tps}
                words = f"after {seconds:g} virtual seconds of peace not at the end: {late}"
                raise Violation(sim.report(Violation(words)))
            sim.run_for(1.0)
        sim.check()

    def counts(self) -> Counter[str]:
        """Return what has happened, counted: so that worlds cannot quietly become empty."""
        sim = self.sim
        mishaps = sim.network.mishaps
        counts = Counter(self.chaos.counts) + self._tally.counts
        counts["records"] = sum(len(consumer.records) for consumer in self.consumers)
        counts["written"] = self.log_writer.written + sum(producer.sent for producer in self.producers)
        counts["committed"], counts["aborted"] = self.log_writer.committed, self.log_writer.aborted
        counts["leader_changes"] = sum(len(truth.epochs) - 1 for truth in sim.brokers.truths.values() if truth.epochs)
        counts["drops"] = mishaps.resets
        counts["half_open"] = mishaps.half_open
        counts["refused"] = mishaps.refused
        counts["held"] = mishaps.held
        counts["corrupted"] = self.chaos.corruption.count
        counts["mishandled"] = self.chaos.mishandling.count
        counts["errors"] = sum(len(consumer.errors) for consumer in self.consumers)
        counts["events"] = sim.world.happened
        return counts

    # -- inside

    def _is_at_end(self, consumer: ConsumerActor, tp: TopicPartition) -> bool:
        try:
            leader = self.sim.cluster.leader(tp)
        except LookupError:
            return False  # brokers that were away too long are counted in again
        committed = consumer.consumer.reader.read_committed
        end = leader.last_stable_offset if committed else leader.high_watermark
        try:
            return consumer.position(tp, 0) == end == leader.log.end_offset
        except KafkaError:
            return False

    def _config(self) -> BrokerConfig:
        knobs = self.knobs
        return BrokerConfig(
            default_replication_factor=knobs.replication,
            min_insync_replicas=knobs.min_insync_replicas,
            unclean_leader_election_enable=knobs.unclean,
            metadata_lag_s=knobs.metadata_lag_s,
            replication_s=knobs.replication_s,
            broker_session_timeout_ms=knobs.broker_session_timeout_ms,
            replica_lag_time_max_ms=knobs.replica_lag_time_max_ms,
            max_incremental_fetch_session_cache_slots=knobs.session_slots,
        )

    def _create_topics(self) -> list[TopicPartition]:
        random = self.sim.world.streams("swarm/topics")
        tps = []
        for number in range(self.knobs.topics):
            name = f"topic{number}"
            count = random.randint(1, self.knobs.partitions)
            configs = {"cleanup_policy": "compact"} if self.knobs.compacted and random.random() < 0.6 else {}
            self.sim.create_topic(name, count, self.knobs.replication, **configs)
            tps += [TopicPartition(name, partition) for partition in range(count)]
        return tps

    def _consumer(self, number: int) -> ConsumerActor:
        knobs = self.knobs.clients[number]
        name = f"consumer-{number + 1}"
        random = self.sim.world.streams(f"swarm/{name}")
        tps = [tp for tp in self.tps if random.random() < knobs.share] or [random.choice(self.tps)]
        behaviour = Behaviour(
            poll_timeout_ms=(knobs.poll_timeout_ms // 2, knobs.poll_timeout_ms),
            think_s=(0.0, knobs.think_s),
            think_rate=0.3,
            odd_rate=knobs.odd_rate,
            blocks=knobs.blocks,
            jumps_far=knobs.jumps_far,
        )
        options = knobs.options(f"rack{number % self.knobs.racks}")
        wait = self.knobs.fetch_max_wait_ms
        actor = self.sim.consumer(tps, name=name, behaviour=behaviour, fetch_max_wait_ms=wait, **options)
        actor.driver.wall_skew = knobs.wall_skew_s
        return actor

    def _producer(self) -> ProducerActor:
        return self.sim.producer(self.tps, interval_s=6.0, count=5, delivery_timeout_ms=40_000, request_timeout_ms=5000)


def network_faults_of(knobs: Knobs) -> NetworkFaults:
    """Return what the network of a run is like."""
    return NetworkFaults(
        latency_min_s=0.0005,
        latency_max_s=knobs.latency_max_s,
        jitter_s=knobs.jitter_s,
        split_rate=knobs.split_rate,
        reset_rate=knobs.reset_rate,
        refuse_rate=knobs.refuse_rate,
        swallow_rate=knobs.swallow_rate,
        dns_failure_rate=knobs.dns_failure_rate,
        chunk=knobs.chunk,
    )
