"""Swarm runs of readers: consumers with assigned partitions, each of which has to read them to the end."""

from collections import Counter

from thinconsumer.errors import KafkaError
from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.actors.consumer import ConsumerActor

from .swarm import Swarm

#: Virtual seconds after the faults per offset of the longest log: enough for a slow network and polls of few records.
A_RECORD_S = 0.4


class ReaderSwarm(Swarm):
    """A swarm run of readers. After the faults, every consumer has to reach the end of each assigned partition."""

    PEACE_S = 150.0

    def build_actors(self) -> None:
        """Start consumers and producers."""
        self.actors: list[ConsumerActor] = [self._consumer(number) for number in range(self.knobs.consumers)]
        self.producers = [
            self.sim.producer(
                self.tps,
                name=name,
                interval_s=6.0,
                count=5,
                delivery_timeout_ms=40_000,
                request_timeout_ms=5000,
                **self.login_options(name),
            )
            for name in (f"producer-{number}" for number in range(1, self.knobs.producers + 1))
        ]
        self._behind: dict[ConsumerActor, list[TopicPartition]] = {}

    def end_faults(self) -> None:
        """End every fault, and stop the producers."""
        for producer in self.producers:
            producer.stop()
        super().end_faults()

    def calm(self) -> None:
        """Stop the consumers' extra calls, and wait until every record of a producer is acknowledged or has failed."""
        for consumer in self.actors:
            consumer.calm()
        is_idle = "every producer's records are settled"
        self.sim.run_until(lambda: all(producer.is_idle for producer in self.producers), self.PEACE_S, is_idle)

    def patience_s(self) -> float:
        """Return how many virtual seconds the consumers have to reach the end: more for long logs."""
        return self.PEACE_S + A_RECORD_S * max(truth.end for truth in self.sim.cluster.truths.values())

    def what_is_wrong(self) -> str:
        """Return, as text, the partitions that consumers have not read to the end since the faults; "" if none."""
        self._behind = self._behind or {consumer: list(consumer.assigned) for consumer in self.actors}
        for consumer, tps in self._behind.items():
            self._behind[consumer] = [tp for tp in tps if not self.is_at_end(consumer, tp)]
        late = {consumer.name: sorted(map(tuple, tps)) for consumer, tps in self._behind.items() if tps}
        return f"not at the end: {late}" if late else ""

    def is_at_end(self, consumer: ConsumerActor, tp: TopicPartition) -> bool:
        """Return whether a consumer has read all of a partition."""
        try:
            leader = self.sim.cluster.leader(tp)
        except LookupError:
            return False  # no leader yet: a broker that was down has not registered with the controller
        committed = consumer.consumer.reader.read_committed
        end = leader.last_stable_offset if committed else leader.high_watermark
        try:
            return consumer.position(tp, 0) == end == leader.log.end_offset
        except KafkaError:
            return False

    def counts(self) -> Counter[str]:
        """Return the counts of the base class, and the numbers of polled and produced records."""
        counts = super().counts()
        counts["records"] = sum(len(consumer.records) for consumer in self.actors)
        counts["written"] += sum(producer.sent for producer in self.producers)
        return counts

    def _consumer(self, number: int) -> ConsumerActor:
        knobs = self.knobs.clients[number]
        name = f"consumer-{number + 1}"
        random = self.sim.world.streams(f"swarm/{name}")
        tps = [tp for tp in self.tps if random.random() < knobs.share] or [random.choice(self.tps)]
        options = {**knobs.options(f"rack{number % self.knobs.racks}"), **self.consumer_options(name)}
        wait = self.knobs.fetch_max_wait_ms
        actor = self.sim.consumer(tps, name=name, behaviour=knobs.behaviour(), fetch_max_wait_ms=wait, **options)
        actor.driver.wall_skew = knobs.wall_skew_s
        return actor
