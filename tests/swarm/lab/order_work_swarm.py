"""Swarm runs of topics with ordered delivery whose readers have workers; see :mod:`.checkers.work_order`.

Worlds, writers and faults are those of :mod:`.order_swarm`. Retention deletes only what is finished: what it deletes
while it waits in workers has no order.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from .actors.order_worker import WorkingMember
from .checkers.work_order import WorkOrderChecker
from .order_knobs import OrderKnobs
from .order_swarm import OrderSwarm
from .work_knobs import WorkKnobs


@dataclass(frozen=True)
class OrderWorkKnobs(OrderKnobs):
    """The parameters of a run, drawn from its seed."""

    work: WorkKnobs

    @classmethod
    def draw(cls, seed: int) -> OrderWorkKnobs:
        """Draw the knobs of a seed."""
        work = WorkKnobs.draw(f"{seed}/order")
        # A record that stops the workers would be no fault of the order; retries without end hold keys for long. There
        # is no topic for dead letters here.
        order = "partition" if work.order == "partition" else "key"
        work = replace(work, order=order, on_failure="skip", writes_letters=False)
        base = replace(OrderKnobs.draw(seed), auto_commits=False, commit_rate=0.0, retention=0.0)
        return cls(**asdict(base), work=work)


class OrderWorkSwarm(OrderSwarm):
    """One run."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --order-workers --seed {seed}"
    draw = OrderWorkKnobs.draw
    member_kind = WorkingMember
    checker_kind = WorkOrderChecker
