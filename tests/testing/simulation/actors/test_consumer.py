"""Applications with a consumer read, checkpoint, crash, restart, seek and handle errors."""

import pytest

from thinconsumer.errors import (
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
)
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchResponse
from thinconsumer_testing.simulation import Behaviour, Violation
from thinconsumer_testing.simulation.actors.consumer import ODD

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def offsets(actor):
    return [record.offset for record in actor.records]


def test_application_reads_all_records_and_checkpoints_processed_offsets(sim, reader):
    ann = reader()
    sim.run_until(lambda: len(ann.records) == 10)
    sim.run_for(2)
    assert offsets(ann) == [*range(10)] and ann.checkpoint[A0][0] == 10
    assert ann.position(A0) == 10
    sim.check()


def test_restarted_application_resumes_from_its_checkpoint_with_a_new_life(sim, reader):
    ann = reader(max_poll_records=3, behaviour=Behaviour(think_s=(1.0, 1.0)))
    sim.run_until(lambda: len(ann.records) == 6)
    ann.crash()
    driver, processed = ann.driver, ann.checkpoint[A0][0]
    assert (ann.crashes, ann.is_running, processed) == (1, False, 3)
    sim.run_for(5)
    assert len(ann.records) == 6 and driver.is_dead
    ann.start()
    sim.run_until(lambda: ann.checkpoint[A0][0] == 10)
    assert offsets(ann) == [*range(6), *range(3, 10)]
    assert ann.driver is not driver and ann.lives == 2 and str(ann.consumer.reader) == "ann/1"
    sim.check()


def test_corrupt_records_are_fetched_again_from_the_last_processed_offset(sim, reader):
    """The broker's copy of the flipped bit is intact, so that the second Fetch returns sound records."""
    spoilt = []

    def spoil(client, message):
        if isinstance(message, FetchResponse) and len(spoilt) < 3:
            for topic in message.responses:
                for data in topic.partitions:
                    if data.records:
                        spoilt.append(len(data.records))
                        data.records = bytes(data.records[:-1]) + bytes([data.records[-1] ^ 1])
        return False

    sim.cluster.spoil = spoil
    ann = reader(max_poll_records=3)
    sim.run_until(lambda: len(ann.records) == 10)
    assert len(spoilt) == 3 and [type(error) for error in ann.errors] == [CorruptRecordError] * 3
    assert offsets(ann) == [*range(10)]
    sim.check()


def test_seek_drops_unprocessed_records(sim, reader):
    ann = reader(behaviour=Behaviour(think_s=(1.0, 1.0)))
    sim.run_until(lambda: len(ann.records) == 10)
    ann.seek(A0, 4)
    assert A0 not in ann.checkpoint
    sim.run_until(lambda: len(ann.records) == 16)
    assert offsets(ann)[10:] == [*range(4, 10)]
    sim.check()


def test_pause_resume_and_assign_by_hand(sim, reader):
    ann = reader(A0, A1)
    ann.pause(A0)
    sim.produce("a", 1, [b"x"])
    sim.run_for(3)
    assert [(record.partition, record.value) for record in ann.records] == [(1, b"x")]
    ann.resume()
    sim.run_until(lambda: len(ann.records) == 11)
    ann.assign([A1])
    sim.produce("a", 0, [b"not for ann"])
    sim.run_for(3)
    assert len(ann.records) == 11 and ann.assigned == [A1]
    sim.check()
    ann.close()
    assert not ann.is_running


# -- errors


def test_out_of_range_goes_to_the_beginning_of_the_log(sim, reader):
    ann = reader(auto_offset_reset="none")
    sim.delete_records(A0, 5)
    ann.seek(A0, 2)
    sim.run_until(lambda: len(ann.records) == 5)
    assert offsets(ann) == [*range(5, 10)]
    assert [type(error) for error in ann.errors] == [OffsetOutOfRangeError]


def test_unexpected_errors_are_violations_and_timeouts_are_not(sim, reader):
    ann = reader()
    ann._cope_with(KafkaTimeoutError("late"))
    assert sim.world.violations == []
    ann._cope_with(KafkaError("odd"))
    with pytest.raises(Violation, match="ann: an unexpected error"):
        sim.check()


# -- random calls


@pytest.mark.parametrize("odd", sorted(set(ODD)))
def test_random_seeks_pauses_and_assigns_break_no_promise(sim, reader, odd):
    ann = reader(A0, A1, behaviour=Behaviour(jumps_far=True))
    sim.run_until(lambda: len(ann.records) == 10)
    for _ in range(5):
        ann.soon(lambda: getattr(ann, f"_odd_{odd}")(A0))
        sim.run_for(1.5)
    ann.resume()
    ann.seek(A0, 0)
    before = len(ann.records)
    sim.run_until(lambda: len(ann.records) == before + 10)
    sim.check()


def test_truncation_seeks_to_the_diverging_offset_or_the_beginning(sim, reader):
    ann = reader()
    sim.run_until(lambda: len(ann.records) == 10)
    for at, expected in ((7, 7), (None, 0)):
        ann._cope_with(LogTruncationError(A0, 9, at))
        assert ann.position(A0) == expected
    assert sim.world.violations == []
