"""The swarm of topics with changing partition counts: it passes, repeats itself, and finds wrong orders."""

import pytest
from lab.__main__ import main
from lab.checkers.key_order import OutOfOrder
from lab.order_knobs import OrderKnobs
from lab.order_swarm import CHANGES_MIN, OrderSwarm


@pytest.mark.parametrize("seed", [3, 58, 66, 113, 138])
def test_order_by_key_is_kept_and_everything_is_read(seed):
    counts = OrderSwarm(seed).run()
    assert counts["changes"] >= CHANGES_MIN and counts["delivered"] > 0


def test_a_seed_repeats_itself():
    one, other = OrderSwarm(113), OrderSwarm(113)
    assert one.run() == other.run() and one.now == other.now
    assert one.checker.seen == other.checker.seen


def test_members_that_ignore_ordered_delivery_are_found_out():
    found = 0
    for seed in range(1, 7):
        try:
            OrderSwarm(seed, holds=False).run()
        except OutOfOrder as error:
            found += "appended later" in str(error)
    assert found >= 2


def test_the_command_runs_seeds_and_shows_knobs(capsys, caplog):
    assert main(["--order", "--seeds", "3:3"]) == 0
    assert "1 seeds" in capsys.readouterr().out
    assert not caplog.records, "thousands of runs would print what their clients warn of"
    assert main(["--order", "--seed", "3", "--knobs"]) == 0
    assert str(OrderKnobs.draw(3)) in capsys.readouterr().out
