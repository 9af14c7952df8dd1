"""Each kind of fault has its effect, and ends by itself."""

from random import Random

from lab import faults


def nodes(made):
    return made.sim.cluster.nodes.values()


def leaders(made):
    return [made.sim.cluster.controller.image.partition(*tp).leader for tp in made.tps]


def test_killed_brokers_come_back(make_chaos):
    made = make_chaos()
    assert faults.kill(made, Random(1))
    assert sum(not node.is_alive for node in nodes(made)) == 1
    made.sim.run_for(13)
    assert all(node.is_alive for node in nodes(made))


def test_paused_brokers_go_on_and_are_not_paused_twice(make_chaos):
    made = make_chaos()
    assert faults.pause(made, Random(1))
    (paused,) = [node for node in nodes(made) if node.is_paused]
    assert not all(faults.pause(made, Random(1)) for _ in range(1))  # the same one is drawn, and it does not run
    made.sim.run_for(9)
    assert not paused.is_paused


def write_all_the_time(made):
    """Write to both partitions, acknowledged by the in-sync replicas."""

    def write():
        for tp in made.tps:
            made.sim.produce(*tp, [b"x"])
        return 0.1

    made.sim.actor(write)


def test_unclean_election_of_a_short_replica_loses_records(make_chaos):
    made = make_chaos(readers=1, replica_lag_time_max_ms=500)
    write_all_the_time(made)
    before = leaders(made)
    assert faults.elect_unclean(made, Random(1))
    made.sim.run_for(15)
    assert sum(old != new for old, new in zip(before, leaders(made))) == 1
    assert any(line.event == "lost" for line in made.sim.trace)
    assert not made.sim.network.cuts


def test_records_are_deleted_from_the_log_start(make_chaos):
    made = make_chaos()
    for _ in range(60):
        faults.delete_records(made, made.sim.world.streams("test"))
    logs = [made.sim.cluster.leader(tp).log for tp in made.tps]
    assert all(log.start_offset == log.end_offset == 20 for log in logs)
    assert not faults.delete_records(made, Random(1))


def test_applications_stall_and_crash_and_start_again(make_chaos):
    made = make_chaos(readers=1)
    (ann,) = made.actors
    assert faults.stall(made, Random(1)) and ann.stalled_until > made.sim.now()
    assert faults.crash(made, Random(1)) and not ann.is_running
    assert not faults.crash(made, Random(1))
    made.sim.run_for(6)
    assert ann.is_running and ann.lives == 2 and ann.crashes == 1
