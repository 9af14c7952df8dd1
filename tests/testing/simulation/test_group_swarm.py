"""Runs with groups count their events, find violations, and restore the loggers."""

import logging

import pytest
from lab import GroupSwarm
from lab.group_swarm import LOGGER

from thinconsumer_testing.broker.group import rebalance
from thinconsumer_testing.simulation import Violation


@pytest.fixture
def logger():
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate, list(logger.handlers), logging.root.manager.disable
    yield logger
    assert (logger.level, logger.propagate, list(logger.handlers), logging.root.manager.disable) == before


def test_failure_during_a_close_has_its_trace():
    swarm, _ = in_order(traced=True)

    def close():
        raise Violation("nothing is really wrong")

    for member in swarm.actors:
        member.close = close
    with pytest.raises(Violation, match="(?s)nothing is really wrong.*repeat it with: .*group1-member1"):
        swarm.order()


def test_unowned_partition_is_a_violation(monkeypatch):
    swarm, _ = in_order()
    monkeypatch.setattr(GroupSwarm, "PEACE_S", 10.0)
    for member in swarm.actors:
        member.crash()
        member.start()
    for node in swarm.sim.cluster.nodes:
        swarm.sim.kill(node)
    with pytest.raises(Violation, match="10 virtual seconds after the end: group1-member1 is not in generation"):
        swarm.settle("after the end")


def test_unprocessed_record_is_a_violation(monkeypatch):
    swarm, _ = in_order()
    monkeypatch.setattr(GroupSwarm, "PEACE_S", 10.0)
    for group in swarm.groups:
        group.ledger.first_missing = lambda tp: 7
    with pytest.raises(Violation, match="offset 7 was not processed by group1"):
        swarm.settle("later")


def in_order(seed=2, **options):
    """Return a settled run, and one of its groups at its coordinator."""
    swarm = GroupSwarm(seed, **options)
    swarm.safety()
    swarm.liveness()
    return swarm, next(group for group in swarm.coordinated() if group.group_id == "group1")


def test_join_without_a_reason_in_the_quiet_phase_is_a_violation():
    swarm, _ = in_order()
    member = swarm.actors[0]
    swarm.sim.world.call_later(2.0, lambda: member.soon(member.consumer.raw.enforce_rebalance))
    with pytest.raises(Violation, match="joins again without a cause"):
        swarm.quiet()


def going_back(swarm):
    """Seek a member to the beginning of its partitions, so that it reads on in the quiet phase."""
    seconds = swarm.groups[0].knobs.patience_s + 4.0
    member = next(member for member in swarm.actors if member.assignment())
    (tp, *_) = sorted(member.assignment())

    def back():
        member.consumer.seek(tp, 0)
        member.consumer.pause(tp)
        swarm.sim.world.call_later(seconds, lambda: member.soon(lambda: member.consumer.resume(tp)))

    member.soon(back)
    swarm.sim.run_for(2.0)


def test_rewind_after_the_last_loss_is_a_violation(monkeypatch):
    monkeypatch.setattr(GroupSwarm, "is_at_end", staticmethod(lambda group: True))
    swarm, _ = in_order()
    going_back(swarm)
    with pytest.raises(Violation, match="again, although every member closed in order and commits"):
        swarm.order()


def test_pending_sync_ends_before_the_quiet_phase():
    """A static member that got an injected error and rejoined under another id never sends that sync."""
    swarm, group = in_order()
    before = group.generation
    group.pending_syncs.add("gone-id")
    group.timers.schedule(rebalance.SYNC, 4000, lambda: rebalance._expire_syncs(group))
    swarm.quiet()
    assert group.generation > before and not swarm.rebalances.is_quiet
    swarm.sim.check()
