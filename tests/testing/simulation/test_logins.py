"""Clients of a simulation log in; passwords change, token providers fail, and closes are lost, each for a while."""

import dataclasses
from random import Random
from types import SimpleNamespace

import pytest
from lab import ReaderSwarm, swarm
from lab.checkers.logins import LoginChecker
from lab.knobs import OAUTHBEARER, LoginKnobs
from lab.logins import PASSWORD, LostCloses, SimLogins, reject_logins

from thinconsumer_testing.simulation import Simulation

KNOBS = LoginKnobs(
    share=0.0, mechanism="PLAIN", session_s=5.0, token_s=8.0, rejections=0.0, provider_outages=0.0, lost_closes=0.0
)


class Stage:
    """A simulation of one topic with clients that log in, and the faults of their logins."""

    def __init__(self, mechanism):
        knobs = dataclasses.replace(KNOBS, mechanism=mechanism)
        self.sim = Simulation(1, topics={"a": 1}, security=SimLogins.security(knobs))
        self.logins = SimLogins(self.sim, knobs)
        self.checker = LoginChecker(self.sim.world.accuse, self.sim.cluster.truth, self.logins, now=self.sim.now)
        self.sim.jury.add(self.checker)
        self.chaos = SimpleNamespace(swarm=SimpleNamespace(logins=self.logins), later=self.sim.world.call_later)

    def consumer(self, name="ann"):
        options = self.logins.options(name)
        return self.sim.consumer({"a": [0]}, name=name, auto_offset_reset="earliest", **options)

    def read(self, consumer, count):
        for _ in range(count):
            self.sim.produce("a", 0, [b"x"])
            self.sim.run_for(1.0)
        return len(consumer.records)


@pytest.fixture
def stage():
    return Stage


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", OAUTHBEARER])
def test_clients_log_in_again_and_again(stage, mechanism):
    made = stage(mechanism)
    assert made.read(made.consumer(), 20) == 20
    assert made.checker.counts["reauthentications"] >= 3
    made.sim.check()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_changed_password_rejects_logins_until_the_fault_ends(stage, mechanism):
    made = stage(mechanism)
    consumer = made.consumer()
    assert reject_logins(made.chaos, Random(1))
    assert made.read(consumer, 1) == 0 and consumer.errors
    made.logins.calm()
    assert made.read(consumer, 5) == 6
    assert made.checker.counts["rejected_logins"] > 0


def test_a_swarm_of_clients_that_log_in_rests_before_its_end(calm_knobs, monkeypatch):
    monkeypatch.setattr(swarm, "FAULTS_S", 1.0)
    calm_knobs.logins = dataclasses.replace(KNOBS, lost_closes=1.0, rejections=1.0)
    calm_knobs.producers = 1
    run = ReaderSwarm(1, knobs=calm_knobs)
    counts = run.run()
    assert run.login_checker.is_calm and counts["logins"] > 0 and counts["expired_sessions"] == 0
    assert PASSWORD not in str(run.knobs)
    assert any(isinstance(rule.action, LostCloses) for rule in run.sim.cluster.rules) or run.chaos.is_over
