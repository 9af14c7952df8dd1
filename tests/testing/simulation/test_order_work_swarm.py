"""The swarm of workers on topics with changing partition counts: it passes, repeats itself, and has a command."""

import pytest
from lab.__main__ import main
from lab.order_swarm import CHANGES_MIN
from lab.order_work_swarm import OrderWorkKnobs, OrderWorkSwarm


@pytest.mark.parametrize("seed", [13, 18, 22])
def test_handlers_keep_the_order_of_keys_and_finish_every_record(seed):
    counts = OrderWorkSwarm(seed).run()
    assert counts["changes"] >= CHANGES_MIN and counts["jobs"] > 0 and counts["gates opened"] > 0


def test_a_seed_repeats_itself():
    one, other = OrderWorkSwarm(20), OrderWorkSwarm(20)
    assert one.run() == other.run() and one.now == other.now


def test_the_command_shows_knobs(capsys):
    assert main(["--order-workers", "--seed", "3", "--knobs"]) == 0
    assert str(OrderWorkKnobs.draw(3)) in capsys.readouterr().out
