"""Swarm runs of groups whose members have workers, which process records in parallel; see :mod:`.checkers.work`.

Worlds, faults, phases and the other checkers are those of groups: of the classic protocol in every other run, and of
the consumer group protocol. The members' listeners, commits and positions are the workers'.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from thinconsumer_testing.simulation.streams import Streams

from .actors.log_writer import KEYS
from .actors.parallel_member import ParallelMember
from .checkers.work import WorkChecker
from .consumer_group_swarm import ConsumerGroupSwarm
from .group_swarm import GroupSwarm
from .knobs import ClientKnobs, Knobs
from .ledger import SimulatedGroup
from .work_knobs import LETTERS, WorkKnobs, leave_commits_to_workers

#: Share of the runs in which unclean elections truncate logs.
TRUNCATED_SHARE = 0.3


class ParallelSwarm(GroupSwarm):
    """A swarm run of classic groups whose members have workers."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --workers --seed {seed}"
    member_kind = ParallelMember

    @classmethod
    def draw(cls, seed: int | str) -> Knobs:
        """Draw the knobs of a run from its seed."""
        knobs = leave_commits_to_workers(super().draw(f"{seed}/workers"))
        knobs.unclean = Streams(f"{seed}/workers")("truncations").random() < TRUNCATED_SHARE
        knobs.work = [WorkKnobs.draw(f"{seed}/workers/{n}") for n in range(len(knobs.group_knobs))]
        return knobs

    @classmethod
    def broker_config(cls, knobs: Knobs) -> dict[str, Any]:
        """Return the brokers' configuration. Only the faults elect uncleanly: committed offsets are never lost."""
        return {**super().broker_config(knobs), "unclean_leader_election_enable": False}

    def counts(self) -> Counter[str]:
        """Return the counts of the base class, and those of jobs and maps."""
        return super().counts() + self.work_checker.counts

    def _add_checkers(self) -> None:
        super()._add_checkers()
        self.log_writer.keys = (None, *KEYS[1:])
        self._work = {group.name: work for group, work in zip(self.groups, self.knobs.work, strict=True)}
        ledgers = {group.name: group.ledger for group in self.groups}
        self.work_checker = WorkChecker(
            self.sim.world.accuse, self.truth, ledgers=ledgers, knobs=self._work, names=self.names_by_id
        )
        self.sim.jury.add(self.work_checker)
        self.sim.create_topic(LETTERS, 1, self.knobs.replication)

    def _member(self, group: SimulatedGroup, number: int, client: ClientKnobs) -> Any:
        actor = super()._member(group, number, client)
        assert isinstance(actor, ParallelMember)
        actor.work, actor.work_checker = self._work[group.name], self.work_checker
        return actor


class ParallelConsumerGroupSwarm(ParallelSwarm, ConsumerGroupSwarm):
    """The same of groups with the consumer group protocol."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --consumer-workers --seed {seed}"
