"""Handlers run in order, and commits name only what is finished, also when unclean elections replace records."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from lab.checkers.commits import CommitChecker, Plans
from lab.checkers.work import WorkChecker
from lab.ledger import Ledger
from lab.work_knobs import LETTERS, WorkKnobs

from thinconsumer.produce.dead_letters import HEADER_PREFIX
from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from thinconsumer.workers.dispatcher import Job, PartitionJobs
from thinconsumer.workers.offset_map import OffsetMap, encode
from thinconsumer.workers.progress import PartitionProgress
from thinconsumer_testing.simulation.checkers.base import Jury, Member

ANN = Member("ann", group="g")


class Bench:
    """The checkers of a group with workers, which get all events."""

    def __init__(self, accuse, truth):
        self.ledger = Ledger(truth, read_committed=False)
        known = {"ledgers": {"g": self.ledger}}
        knobs = replace(WorkKnobs.draw(1), order="key", metadata_max=100)
        self.work = WorkChecker(accuse, truth, knobs={"g": knobs}, names={bytes(16): "t"}, **known)
        commits = CommitChecker(accuse, truth, plans=Plans(accuse, truth), name_of=lambda topic_id: "t", **known)
        self.jury = Jury([commits, self.work])

    def __getattr__(self, event):
        return lambda *what: self.jury.tell(event, *what)


@pytest.fixture
def court(new_court):
    """The log has six batches of one record, all of one key."""
    court = new_court(Bench)
    write(court, 6)
    court.lane = PartitionJobs(court.tp, PartitionProgress(0))
    return court


def write(court, count, epoch=0):
    for _ in range(count):
        court.write(NewRecord(b"v", b"k"), epoch=epoch)


def process(court, *offsets, epoch=0):
    court.checker.processed(ANN, court.rows(*offsets, epoch=epoch))


def commit(court, offset, epoch, metadata=""):
    row = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
    )
    topics = [OffsetCommitRequestTopic(name="t", partitions=[row])]
    taken = [OffsetCommitResponseTopic(name="t", partitions=[OffsetCommitResponsePartition(partition_index=0)])]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id="ann-id", topics=topics)
    court.checker.answered("ann", 1, request, OffsetCommitResponse(topics=taken), 0.0)


def finished(offset, end, *epochs):
    """Return the metadata of a commit: everything behind its offset is finished."""
    return encode(OffsetMap(offset, end, [], epochs))


def begin(court, *offsets, epoch=0):
    job = Job(court.lane, b"k", court.rows(*offsets, epoch=epoch), list(offsets), attempt=1)
    court.checker.work.began(ANN, job)
    court.checker.work.left(job, is_done=True)


def read_commit(court):
    court.checker.work.reading(ANN, [court.tp])


def test_a_record_that_begins_before_one_of_its_key_is_a_violation(court):
    process(court, 0, 2)
    begin(court, 3)
    assert court.verdict() == "ann begins t-0 offset 3 before offset 1 of its key"


@pytest.mark.parametrize("metadata", ["", finished(1, 5, (1, 0))], ids=["below", "behind"])
def test_a_record_that_a_commit_has_named_may_not_begin_again(court, metadata):
    process(court, 0, 2, 3, 4, *([] if metadata else [1]))
    commit(court, 1 if metadata else 5, 0, metadata)
    read_commit(court)
    begin(court, 1)
    if not metadata:
        assert court.verdict() == "ann begins t-0 offset 1, which a commit that it has read names as done"
    process(court, 1)
    begin(court, 4)
    assert court.verdict() == "ann begins t-0 offset 4, which a commit that it has read names as done"


def test_maps_keep_to_their_budget_and_name_no_unprocessed_record(court):
    process(court, 0, 3)
    commit(court, 1, 0, finished(1, 4, (1, 0)))
    assert court.verdict() == "ann has committed a map for t-0 offset 1 in which offset 2 is done"
    commit(court, 1, 0, encode(OffsetMap(1, 4, [2], [(1, 1 << 30)] * 12)))
    assert court.accused[0].startswith("ann has committed a map of 1")


def letter(offset, value=b"v"):
    at = {"topic": "t", "partition": 0, "offset": offset}
    headers = [(HEADER_PREFIX + name, str(each).encode()) for name, each in at.items()]
    return SimpleNamespace(key=b"k", value=value, headers=headers)


def test_a_record_that_counts_as_done_before_its_dead_letter_is_written_is_a_violation(court):
    court.truths[TopicPartition(LETTERS, 0)] = letters = SimpleNamespace(rows={(0, 0): letter(1)})
    court.checker.work.written(ANN, Job(court.lane, b"k", court.rows(1), [1], attempt=1))
    assert court.verdict() == ""
    court.checker.work.written(ANN, Job(court.lane, b"k", court.rows(2), [2], attempt=1))
    assert court.verdict() == "ann counts t-0 offset 2 as done before its dead letter was written"
    letters.rows[1, 0] = letter(2, b"other")
    court.checker.work.written(ANN, Job(court.lane, b"k", court.rows(2), [2], attempt=1))
    assert court.verdict() == "the dead letter of t-0 offset 2 has another key or value"


# -- after an unclean election


def truncate(court, end, epoch=1):
    """Elect a replica that lacks the records from ``end`` on; return the log of the old leader."""
    old = court.log
    court.elect_short(end, epoch)
    return old


def test_a_commit_of_a_member_that_has_not_noticed_a_truncation_must_have_its_old_epoch(court):
    """By the epoch, the next reader notices that other records are there (KIP-320)."""
    process(court, *range(6))
    truncate(court, 3)
    write(court, 3, epoch=1)
    commit(court, 6, 0)
    assert court.verdict() == ""
    for epoch in (1, -1):
        commit(court, 6, epoch)
        assert court.verdict() == "ann has committed offset 6 of t-0, but offset 3 was never processed"


def test_a_map_names_what_has_replaced_its_records_only_by_their_epoch(court):
    process(court, 0, 1, 3, 4, 5)
    truncate(court, 4)
    write(court, 2, epoch=1)
    commit(court, 2, 0, finished(2, 6, (2, 0)))
    assert court.verdict() == ""
    commit(court, 2, 0, finished(2, 5, (2, 0), (4, 1)))
    assert court.verdict() == "ann has committed a map for t-0 offset 2 in which offset 4 is done"


def test_records_that_were_lost_and_come_back_need_not_be_processed(court):
    process(court, 0, 1, 2)
    old = truncate(court, 3)
    old.begin_epoch(2)
    court.log = old
    assert court.truth.counts(3, 0) and court.checker.ledger.first_missing(court.tp) is None
    write(court, 1, epoch=2)
    assert court.checker.ledger.first_missing(court.tp) == 6


def test_records_that_have_replaced_processed_ones_must_be_processed(court):
    process(court, *range(6))
    assert court.checker.ledger.first_missing(court.tp) is None
    truncate(court, 3)
    write(court, 1, epoch=1)
    assert court.checker.ledger.first_missing(court.tp) == 3
    process(court, 3, epoch=1)
    process(court, 3, epoch=0)  # by a member that has not noticed yet
    assert court.checker.ledger.first_missing(court.tp) is None


def test_records_that_were_lost_may_begin_again(court):
    """The old leader is elected again, and members have gone back meanwhile."""
    process(court, 0, 2, 3, 4)
    commit(court, 1, 0, finished(1, 5, (1, 0)))
    read_commit(court)
    process(court, 1)
    truncate(court, 3).begin_epoch(2)
    begin(court, 2)
    assert court.verdict() == "ann begins t-0 offset 2, which a commit that it has read names as done"
    begin(court, 4)
    assert court.verdict() == ""


def test_records_before_the_committed_offset_may_begin_again_after_records_were_lost(court):
    """Their leader epochs are not part of the commit: members cannot know whether others have replaced them."""
    process(court, *range(6))
    commit(court, 6, 0)
    read_commit(court)
    truncate(court, 3).begin_epoch(2)
    begin(court, 2)
    assert court.verdict() == ""


def test_a_commit_names_no_record_of_a_newer_epoch_than_its_own(court):
    """The commit was under way while the record that has replaced another was processed."""
    process(court, *range(6))
    truncate(court, 3)
    write(court, 1, epoch=1)
    process(court, 3, epoch=1)
    commit(court, 6, 0)
    read_commit(court)
    begin(court, 3, epoch=1)
    assert court.verdict() == ""


def test_a_job_of_a_lost_record_has_no_place_in_the_order(court):
    """What an old leader has written meanwhile, and brings with it when it is elected again, may be before it."""
    process(court, 0, 1, 2)
    old = truncate(court, 3)
    write(court, 5, epoch=1)
    lost, court.log = court.rows(7, epoch=1), old
    court.append(NewRecord(b"v", b"k"))  # offset 6, which nothing has lost
    old.begin_epoch(2)
    old.high_watermark = old.end_offset
    job = Job(court.lane, b"k", lost, [7], attempt=1)
    court.checker.work.began(ANN, job)
    assert court.verdict() == ""


def test_what_a_rival_lacks_need_not_be_processed_once_a_leader_says_that_it_never_had_an_epoch(court, validation):
    """A member whose last record is the rival's goes on at the end of the epoch before (see docs/testing.md, 1)."""
    process(court, 0, 1, 2)
    old = truncate(court, 3)
    write(court, 5, epoch=1)
    court.log = old
    court.append(NewRecord(b"v", b"k"))  # offset 6 of the deposed leader, which nothing has lost
    old.begin_epoch(2)
    old.high_watermark = old.end_offset
    assert court.checker.ledger.first_missing(court.tp) == 6
    commit(court, 8, 1)  # of a member that reads from the rival
    assert court.verdict() == ""
    commit(court, 8, 2)
    assert court.verdict() == "ann has committed offset 8 of t-0, but offset 6 was never processed"
    court.checker.answered("ann", 1, *validation(epoch=1, leader=2, answer=(0, 7)), 0.0)
    assert court.checker.ledger.first_missing(court.tp) is None
