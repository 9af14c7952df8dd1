"""The command repeats one seed or runs many: its output, exit code and list of failures."""

import signal
from collections import Counter

import pytest
from lab import __main__ as command
from lab.knobs import Knobs

from thinconsumer_testing.simulation import Violation


class FakeSwarm:
    """Runs in no time; seeds that end in 3 fail, those that end in 7 break."""

    def __init__(self, seed, *, traced=False):
        self.seed = seed
        self.traced = traced
        self.knobs = f"knobs of {seed}"
        self.sim = self.trace = self

    def run(self):
        if self.seed % 10 == 3:
            raise Violation(f"seed {self.seed}\nknobs\n\nat 1.0: a record was skipped\n\nmore")
        if self.seed % 10 == 7:
            raise KeyError("odd")
        return Counter(records=self.seed)

    def text(self):
        return "all lines" if self.traced else "nothing"

    def digest(self):
        return f"digest of {self.seed}"


def go_round_in_circles():
    """Use CPU time in Python code, which checks for signals."""
    while True:
        pass


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the command with instant swarms and returns exit code and lines."""
    monkeypatch.setattr(command, "ReaderSwarm", FakeSwarm)
    monkeypatch.setattr(command, "limit", lambda seconds: None)

    def run(*arguments):
        code = command.main(arguments)
        return code, capsys.readouterr().out.splitlines()

    return run


def test_failing_seeds_are_listed_and_the_other_seeds_run(run):
    code, lines = run("--seeds", "2:8")
    assert code == 1
    assert "seed 3 failed: at 1.0: a record was skipped" in lines
    assert "seed 7 failed: KeyError('odd')" in lines
    assert "records 25" in lines and lines[-1] == "failed seeds: 3 7"


def test_one_seed_shows_its_knobs_and_its_digest_and_the_trace_if_asked(run):
    code, lines = run("--seed", "4")
    assert (code, lines) == (0, ["seed 4", "knobs of 4", "", "records 4", "trace digest of 4"])
    code, lines = run("--seed", "4", "--trace")
    assert code == 0 and "all lines" in lines


@pytest.mark.parametrize(
    ("flag", "drawn"), [("--groups", Knobs.draw(9, groups=True)), ("--consumer-groups", Knobs.draw_consumer_groups(9))]
)
def test_flags_choose_the_kind_of_run(capsys, flag, drawn):
    assert command.main(["--seed", "9", "--knobs", flag]) == 0
    assert capsys.readouterr().out == f"{drawn}\n"


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_time_limit_is_removed_after_the_run(monkeypatch, seed):
    """A timer that stays armed would interrupt the caller later."""
    limits = []
    monkeypatch.setattr(command, "ReaderSwarm", FakeSwarm)
    monkeypatch.setattr(command, "limit", limits.append)
    assert command.run_one(seed)[0] == seed
    assert limits == [command.CPU_S, 0.0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of CPU time here")
def test_endless_run_fails_at_the_time_limit():
    before = signal.getsignal(signal.SIGVTALRM)
    try:
        command.limit(0.01)
        with pytest.raises(TimeoutError, match=r"more than 0\.01 s of CPU time"):
            go_round_in_circles()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_failing_seed_prints_its_report(run):
    code, lines = run("--seed", "3")
    assert code == 1 and lines[:2] == ["seed 3", "knobs of 3"]
    assert lines[3:] == ["at 1.0: a record was skipped", "", "more"]
