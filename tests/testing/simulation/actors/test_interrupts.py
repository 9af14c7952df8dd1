"""An interrupt comes in workers' code, after as many lines as was said, and in no other block."""

import sys

import pytest
from lab.actors.interrupts import Interrupts

from thinconsumer.types import TopicPartition
from thinconsumer.workers.progress import PartitionProgress


def run(lines=1000):
    """Receive a record in workers' code; return how many unfinished records and which offset that leaves."""
    progress, interrupts, before = PartitionProgress(0), Interrupts(), sys.gettrace()
    try:
        with interrupts.after(lines):
            TopicPartition("t", 0)._asdict()  # other code
            progress.receive(0, 0)
    except KeyboardInterrupt as error:
        assert "of progress.py" in str(error)
    assert sys.gettrace() is before
    return progress.count, progress.next_offset


def test_every_line_of_the_workers_code_may_be_the_last():
    """No commit passes a record that was received, wherever the call was cut off."""
    found = [run(lines) for lines in range(1, 30)]
    assert found[0] == (0, 0)
    assert found[-1] == (1, 1)
    assert (0, 1) not in found
    assert (1, 0) in found


def test_no_interrupt_comes_in_a_suspended_block_and_one_may_in_a_resumed_one():
    progress, interrupts = PartitionProgress(0), Interrupts()
    with interrupts.after(1), interrupts.suspended():
        progress.receive(0, 0)
    with pytest.raises(KeyboardInterrupt), interrupts.after(1), interrupts.suspended(), interrupts.resumed():
        progress.receive(1, 0)
    with interrupts.after(0), interrupts.suspended(), interrupts.resumed():
        progress.receive(2, 0)
    assert progress.next_offset == 3
