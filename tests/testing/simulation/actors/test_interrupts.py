"""An interrupt comes in workers' code, after as many lines as was said, and in no other block."""

import sys
from contextlib import suppress

import pytest
from lab.actors.interrupts import Interrupts

from thinconsumer.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from thinconsumer.workers import WorkerSettings, dead_letter
from thinconsumer.workers.progress import PartitionProgress
from thinconsumer.workers.work import Assigned, Work


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


def test_the_last_commit_may_follow_wherever_a_partition_begins_or_ends():
    for lines in range(1, 60):
        work, tp = Work(WorkerSettings()), TopicPartition("t", 0)
        with suppress(KeyboardInterrupt), Interrupts().after(lines):
            work.assign({tp: Assigned(OffsetAndMetadata(0, "", -1), bytes(16))})
            work.remove([tp])
        assert work.offsets() == {}


def test_a_dead_letter_that_is_found_written_again_after_an_interrupt_does_no_harm():
    """The results of dead letters are kept until all were handled: those before the interrupt come once more."""
    for lines in range(1, 60):
        work, tp = Work(WorkerSettings(on_failure=dead_letter("dead"), attempts=1)), TopicPartition("t", 0)
        work.assign({tp: Assigned(OffsetAndMetadata(0, "", -1), bytes(16))})
        record = ConsumerRecord("t", 0, 0, 0, 0, 0, b"k", b"v")
        work.take({tp: [record]}, 0.0)
        work.end(job := work.next_job(0.0), ValueError(), 0.0)
        with suppress(KeyboardInterrupt), Interrupts().after(lines):
            work.written(job)
        work.written(job)
        assert [at.offset for at in work.offsets().values()] in ([1], [])


def test_no_interrupt_comes_in_a_suspended_block_and_one_may_in_a_resumed_one():
    progress, interrupts = PartitionProgress(0), Interrupts()
    with interrupts.after(1), interrupts.suspended():
        progress.receive(0, 0)
    with pytest.raises(KeyboardInterrupt), interrupts.after(1), interrupts.suspended(), interrupts.resumed():
        progress.receive(1, 0)
    with interrupts.after(0), interrupts.suspended(), interrupts.resumed():
        progress.receive(2, 0)
    assert progress.next_offset == 3
