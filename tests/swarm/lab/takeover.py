"""A fault that loses records which readers have read: a replica that was cut off becomes leader.

A follower is cut off and leaves the ISR, and records are committed without it. Once a reader's position is beyond the
follower's log, the follower is elected uncleanly. Readers then have to detect the truncation (KIP-320). The old leader
may be cut off from the controller for a while, and go on answering readers and writers; it may be elected again before
it learns that it was deposed. Meanwhile some readers keep fetched records in their buffers, some seek by offset only,
which leaves them without a leader epoch to validate, and some can reach only the old leader, since their connections
to other brokers broke.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.controller import CONTROLLER, ControllerError
from thinconsumer_testing.simulation.actors.consumer import ConsumerActor
from thinconsumer_testing.simulation.checkers.base import Checker, Records, SimReader
from thinconsumer_testing.simulation.network import SimConnection

if TYPE_CHECKING:
    from .chaos import Chaos

#: The election comes when a reader has polled the records to be lost, or after READ_S seconds at the latest. The old
#: leader is cut off from the controller for at most BLIND_S seconds after the election.
READ_S, BLIND_S = 4.0, 9.0
#: Seconds from the write of the records to be lost to the election, if a reader has paused the partition before the
#: write: in this time, the Fetch that it sent before the pause usually gets its response.
COMES_S = 0.7
#: The most records in a batch that is to be lost. Up to this limit, the batch has one record more than two polls return
#: (twice ``max_poll_records``), so that the reader still buffers some of them when the election comes.
RECORDS_MAX = 60
#: Seconds after the election when connections break: first all to the old leader, then all to the other brokers, then
#: all to the old leader again.
BREAKS_S = (0.4, 1.6, 3.0)


@dataclass(eq=False)
class Witness(Checker):
    """Calls a function as soon as a reader has polled a record at or after an offset; records no violations."""

    waiting: dict[TopicPartition, tuple[int, Callable[[str], None]]] = field(default_factory=dict, init=False)

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp, found in records.items():
            waiting = self.waiting.get(tp)
            if waiting is not None and found and found[-1].offset >= waiting[0]:
                del self.waiting[tp]
                waiting[1](reader.name)


class Takeover:
    """One takeover: broker ``new`` replaces ``old`` as leader. The constructor draws all variations from ``random``."""

    def __init__(self, chaos: Chaos, random: Random, tp: TopicPartition, old: int, new: int) -> None:
        self._chaos = chaos
        self._sim = chaos.sim
        self._tp = tp
        self._old, self._new = old, new
        self._batches = random.randint(1, 2)
        readers = [actor for actor in chaos.readers if tp in actor.assigned]
        self._reader = random.choice(readers) if readers else None
        limit = self._reader.consumer.reader.max_poll_records if self._reader is not None else 1
        self._records = min(1 + 2 * limit, RECORDS_MAX)
        #: Whether a reader pauses the partition, so that it buffers records to be lost: before it polls any of them
        #: (_holds_all), or after its first poll of them (_holds_rest).
        self._holds_all, self._holds_rest = random.random() < 0.4, random.random() < 0.6
        self._seeker = random.randrange(8)  #: Index of the reader that seeks back; none does if there are fewer.
        self._blind_s = random.uniform(0.3, BLIND_S) if random.random() < 0.75 else 0.0
        self._back_after_s = random.uniform(0.2, 2.0) if random.random() < 0.4 else 0.0
        self._writes_at_old = random.random() < 0.5
        self._breaks = random.random() < 0.5
        self._pauses_s = random.uniform(0.5, 5.0)
        self._is_on = False
        self._cut = chaos.cut([old], [new], READ_S + BLIND_S)

    def begin(self) -> bool:
        """Remove the follower from the ISR, and write the records to be lost; return False if not possible."""
        controller = self._sim.cluster.controller
        leader = self._sim.cluster.nodes[self._old].partitions.get(self._tp)
        if leader is not None and leader.node.is_running and leader.is_leader:
            controller.alter_isr(leader, [n for n in leader.image.isr if n != self._new])
        row = controller.image.partition(*self._tp)
        if row is None or row.leader != self._old or self._new in row.isr:
            self._chaos.heal_one(self._cut)
            return False
        self._write_records_to_lose()
        return True

    def _write_records_to_lose(self) -> None:
        self._chaos.later(READ_S, self._take_over)
        reader = self._reader
        if reader is not None and self._holds_all:
            reader.soon(lambda: self._hold(reader))
            reader.soon(self._write)  # after _hold: the Fetch sent before the pause usually waits for records
            return
        replica = self._sim.cluster.nodes[self._new].partitions.get(self._tp)
        self._chaos.witness.waiting[self._tp] = replica.log.end_offset if replica is not None else 0, self._was_read
        self._write()

    def _write(self) -> None:
        if not self._is_on and not self._chaos.is_over:
            for _ in range(self._batches):
                self._chaos.swarm.log_writer.write(self._tp, None, self._records)
            if self._holds_all:
                self._chaos.later(COMES_S, self._take_over)

    def _was_read(self, name: str) -> None:
        """Schedule the election for the end of the current poll, which has returned records that the follower lacks."""
        reader = next((consumer for consumer in self._chaos.readers if consumer.name == name), None)
        if reader is not None and self._holds_rest:
            reader.soon(lambda: self._hold(reader))
        self._chaos.later(0.0, self._take_over)

    def _hold(self, reader: ConsumerActor) -> None:
        if self._tp in reader.assigned and not self._chaos.is_over:
            reader.pause(self._tp)
            self._chaos.later(self._pauses_s, lambda: reader.soon(lambda: self._resume(reader)))

    def _resume(self, reader: ConsumerActor) -> None:
        if self._tp in reader.assigned:
            reader.resume(self._tp)

    def _take_over(self) -> None:
        self._chaos.witness.waiting.pop(self._tp, None)
        if self._is_on:
            return
        self._is_on = True
        chaos, cluster, write = self._chaos, self._sim.cluster, self._chaos.swarm.log_writer.write
        if self._blind_s:
            others = [node for node in cluster.nodes if node != self._old]
            chaos.cut([self._old], [CONTROLLER, *others], self._blind_s)
        is_elected = self._elect(self._new)
        chaos.heal_one(self._cut)  # not before the election, or the follower would fetch the records to be lost
        if not is_elected:
            return
        if self._writes_at_old:
            write(self._tp, self._old, 1)
        for number in range(3):
            chaos.later(0.1 + 0.4 * number, lambda: write(self._tp, None, 1 + self._records // 3))
        if self._back_after_s:
            chaos.later(self._back_after_s, lambda: self._elect(self._old))
        chaos.later(self._back_after_s + 0.5, self._seek)
        if self._breaks and self._blind_s > BREAKS_S[1]:
            for number, moment in enumerate(BREAKS_S):
                chaos.later(moment, lambda to_old=number != 1: self._break(to_old))  # type: ignore[misc]

    def _elect(self, node_id: int) -> bool:
        controller = self._sim.cluster.controller
        if node_id not in controller.image.brokers:
            return False  # the controller has fenced this broker, since its session timed out
        try:
            controller.elect_unclean(self._tp, node_id)
        except ControllerError as error:
            self._sim.trace.add("chaos", "", "takeover", "not possible: %s", str(error))
            return False
        self._sim.trace.add("controller", "", "unclean", "%s-%d: node %d leads", *self._tp, node_id)
        return True

    def _break(self, to_old: bool) -> None:
        network = self._sim.network
        for connection in list(network.connections):
            if isinstance(connection, SimConnection) and (connection.node == self._old) == to_old:
                network.break_off(connection)

    def _seek(self) -> None:
        """Let one reader seek back a little by offset, without a leader epoch."""
        consumers = self._chaos.readers
        if self._seeker < len(consumers):
            reader = consumers[self._seeker]
            reader.soon(lambda: self._seek_back(reader))

    def _seek_back(self, reader: ConsumerActor) -> None:
        if self._tp in reader.assigned and self._tp in reader.checkpoint:
            reader.seek(self._tp, max(0, reader.checkpoint[self._tp][0] - 3))
