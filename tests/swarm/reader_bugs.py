"""Deliberate bugs in reading assigned partitions, each of which a swarm has to notice; see ``planting.py``."""

import functools

from lab import ReaderSwarm
from lab.knobs import Knobs
from planting import Plant, bug, meanwhile, returns, sending, within

from thinconsumer.fetch import chunks, validation
from thinconsumer.fetch.answers import Answers
from thinconsumer.fetch.buffer import Buffer
from thinconsumer.fetch.chunks import ChunkDecoder
from thinconsumer.fetch.collector import Collector
from thinconsumer.fetch.planner import Planner
from thinconsumer.fetch.resets import NO_POSITION, Resets, _ResetQuery
from thinconsumer.fetch.sessions import FetchSession
from thinconsumer.fetch.validation import Validation
from thinconsumer.network import topic_metadata
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.topic_metadata import EpochDoubt, TopicMetadata
from thinconsumer.positions.partitions import Partition, Reset
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.records.batch import RecordBatch
from thinconsumer.support.timers import Backoff, Retry
from thinconsumer.wire.fetch import FetchRequest

reading = functools.partial(bug, ReaderSwarm)

# -- the worlds that a bug needs: in others it does nothing, and they need not be searched


def transactions(knobs: Knobs) -> object:
    """There are control batches."""
    return knobs.transactional


def compaction(knobs: Knobs) -> object:
    """There are batches with holes."""
    return knobs.compacted and knobs.compactions


def truncation(knobs: Knobs) -> object:
    """Logs lose what was committed."""
    return knobs.unclean and (knobs.unclean_elections or knobs.takeovers) and knobs.replication > 1


def oddities(knobs: Knobs) -> object:
    """A reader seeks, pauses or assigns anew."""
    return any(client.odd_rate for client in knobs.clients)


def old_metadata(knobs: Knobs) -> object:
    """A reader refreshes its metadata too rarely to find a new leader in time by that alone."""
    return any(client.metadata_max_age_ms >= 300_000 for client in knobs.clients)


def corruption(knobs: Knobs) -> object:
    """Bits flip on their way to a reader that checks CRCs."""
    return knobs.corruptions and any(client.check_crcs for client in knobs.clients)


# -- positions


def chunk_that_passes_nothing(chunk, *args, **options):
    found = chunk(*args, **options)
    return found if found.records else found._replace(next_offset=0)


def keep_with_end(end_of):
    """Return ``Answers._keep`` with another end of the batches."""

    def keep(keep, self, asked, partition, data, batches, *rest):
        begin = partition.cursor.fetch_offset
        ends = end_of(batches) if batches else begin
        keep(self, asked, partition, data, batches, *rest)
        partition.cursor.fetch_offset = max(begin, ends)

    return keep


def end_of_records(batches):
    return max([0, *(batch.next_offset for batch in batches if not batch.is_control)])


def counted_end(batches):
    return batches[-1].base_offset + max(1, batches[-1].count)


def gather_without_paused(may_gather, self, partition):
    for fetched in self._buffer.queue(partition) if partition.paused else ():
        fetched.chunk = fetched.count
    return may_gather(self, partition)


def settle_first(settle, self, result):
    del result.moves[1:]
    settle(self, result)


def add_in_front(add, self, fetched):
    size = add(self, fetched)
    queue = self.queue(fetched.partition)
    queue.appendleft(queue.pop())
    return size


POSITIONS = (
    reading(
        "control batch not passed",
        "The position stays before a control batch; it must pass what is never handed out, or never is at the end.",
        Plant(ChunkDecoder, "chunk", chunk_that_passes_nothing),
        needs=transactions,
    ),
    reading(
        "fetch offset stays at control batches",
        "Records before a control batch are fetched again and again; the fetch offset must get past that batch.",
        Plant(Answers, "_keep", keep_with_end(end_of_records)),
        needs=transactions,
    ),
    reading(
        "next offset counted",
        "The next offset is the first one plus the number of records; compaction leaves holes.",
        Plant(Answers, "_keep", keep_with_end(counted_end)),
        needs=compaction,
    ),
    reading(
        "front of batch not dropped",
        "Records below the position are handed out with the batch they are in; a seek must begin where it says.",
        returns(chunks, "find_offset", 0),
        Plant(RecordBatch, "decode", lambda decode, self, *args, **options: decode(self, *args)),
    ),
    reading(
        "rest of a poll forgotten",
        "Only the first of what one poll handed over moves its position; what was handed out must not come again.",
        Plant(Collector, "settle", settle_first),
    ),
    reading(
        "paused data thrown away",
        "What is buffered of a paused partition is dropped and not fetched again; pausing must lose nothing.",
        Plant(Collector, "_may_gather", gather_without_paused),
        needs=oddities,
    ),
    reading(
        "newest first",
        "What was fetched last of a partition is handed out first; records come in the order of their offsets.",
        Plant(Buffer, "add", add_in_front),
    ),
)


# -- what is stale


def handle_stale(handle, self, answer, now):
    listed = answer.request.context.listed
    sent = dict(listed.wanted)
    for tp, (partition, cursor) in list(listed.cursors.items()):
        if partition.cursor is not cursor and partition.state is PositionState.FETCHING:
            listed.cursors[tp] = partition, partition.cursor
            listed.wanted[tp] = sent[tp]._replace(fetch_offset=partition.cursor.fetch_offset)
    is_smooth = handle(self, answer, now)
    listed.wanted.update(sent)
    return is_smooth


def head_of_all(head, self, partition):
    for fetched in self.queue(partition):
        fetched.cursor = partition.cursor
    return head(self, partition)


def wants_any(wanted, self):
    self._cursor = self._partition.cursor
    return wanted(self)


STALE = (
    reading(
        "stale fetch accepted",
        "What was fetched for the position before a seek is taken for the new one; it must be dropped.",
        Plant(Answers, "handle", handle_stale),
    ),
    reading(
        "stale buffer handed out",
        "What was buffered before a seek is handed out after it; it must be dropped.",
        Plant(Buffer, "head", head_of_all),
    ),
    reading(
        "stale reset accepted",
        "The answer to an earlier lookup sets the position that a later reset determines; the last reset counts.",
        Plant(_ResetQuery, "wanted", wants_any),
        needs=oddities,
    ),
    reading(
        "unassigned data handed out",
        "Buffered records of a partition are returned after it was unassigned; another consumer may read it by then.",
        Plant(Collector, "_may_gather", lambda may, self, one: one.may_hand_out and self._buffer.head(one) is not None),
        returns(Buffer, "sweep"),
        needs=oddities,
    ),
    reading(
        "pause ignored",
        "Records of paused partitions are returned before the partitions are resumed.",
        Plant(Partition, "may_hand_out", meanwhile(_paused=False)),
        needs=oddities,
    ),
)


# -- leaders and logs that change


def compare_without_doubt(compare, self, partition, topic):
    before = partition.state
    compare(self, partition, topic)
    if before is PositionState.FETCHING and partition.state is PositionState.VALIDATING:
        partition.move(PositionEvent.VALIDATED)


def place_truncated(place, self, event, offset, epoch=-1):
    if event is PositionEvent.TRUNCATED and offset == self.cursor.offset:
        self.move(PositionEvent.VALIDATED)
    else:
        place(self, event, offset, epoch)


def send_no_leader_epoch(encode_into, self, *args):
    for partition in (one for topic in self.topics for one in topic.partitions):
        partition.current_leader_epoch = -1
    encode_into(self, *args)


def newer_as_named(newer, self, new, *args):
    self.epochs.pop(new.partition, None)
    return newer(self, new, *args)


def found_from_the_position(found, self, partition, data):
    found(self, partition, data)
    partition.cursor.fetch_offset = partition.cursor.offset


def reset_to_the_end(by_policy, self, partition, wall_time, why):
    if why == NO_POSITION:
        by_policy(self, partition, wall_time, why)
    else:
        self._look_up(partition, Reset(Reset.LATEST, why))


LEADERS = (
    reading(
        "truncation not raised",
        "Under policy none a truncated log is not raised: the partition stands still, and the application waits.",
        within(Validation, "_truncated", returns(validation, "LogTruncationError")),
        needs=truncation,
    ),
    reading(
        "leader change not validated",
        "Positions are not validated after a leader change, so that records are skipped after a truncation (KIP-320).",
        Plant(Validation, "_compare", compare_without_doubt),
        needs=truncation,
    ),
    reading(
        "truncated buffer kept",
        "What is buffered above the point of truncation is handed out; the new leader has other records there.",
        Plant(Partition, "place", place_truncated),
        needs=truncation,
    ),
    reading(
        "leader epoch not sent",
        "Fetches carry no leader epoch, so a deposed leader answers them; it must refuse (KIP-320).",
        Plant(FetchRequest, "encode_into", send_no_leader_epoch),
        needs=truncation,
    ),
    reading(
        "epochs go back",
        "Metadata of a broker that is behind replaces what is known; leaders must not go back to old ones.",
        Plant(TopicMetadata, "newer", newer_as_named),
        needs=truncation,
    ),
    reading(
        "lower epoch without a proof",
        "One rejection by the named leader is taken as the proof that the cluster's epoch is lower; it may lag behind.",
        Plant(topic_metadata, "REFUSALS_MIN", lambda least: 1),
        Plant(EpochDoubt, "refused", meanwhile(proof_s=0.0)),
        needs=truncation,
    ),
    reading(
        "read twice after a leader change",
        "After a leader change fetching begins at the position, and what is buffered is kept: records come twice.",
        Plant(Validation, "_found", found_from_the_position),
    ),
    reading(
        "leader errors ask for nothing",
        "Fetches go on to a broker that is no longer the leader; the new leader has to be found.",
        within(Answers, "_partition_error", returns(Metadata, "request_update")),
        returns(Metadata, "hint_leader", False),
        needs=old_metadata,
    ),
    reading(
        "out of range goes to the end",
        "A position that expired goes to the log's end, whatever the policy; earliest must lose nothing more.",
        Plant(Resets, "_by_policy", reset_to_the_end),
    ),
    reading(
        "checksum not compared",
        "Records of batches with a wrong checksum are returned; flipped bits must be an error (check_crcs).",
        returns(RecordBatch, "check_crc"),
        needs=corruption,
    ),
)


# -- transactions


def add_all(add, self, decoder, source, begin, end, **limits):
    return decoder.add(source.batches, source.partition.tp, begin, end, **limits)


TRANSACTIONS = (
    reading(
        "aborted list ignored",
        "read_committed hands out records of aborted transactions.",
        returns(ChunkDecoder, "is_aborted", False),
        needs=transactions,
    ),
    reading(
        "aborted list ignored in columns",
        "poll_batches returns records of aborted transactions under read_committed, and polls of many records do.",
        Plant(ChunkDecoder, "add", add_all),
        needs=lambda knobs: knobs.columns and knobs.transactional,
    ),
    reading(
        "isolation level not sent",
        "Fetches under read_committed lack the isolation level, and the broker returns records of open transactions.",
        sending(FetchRequest, isolation_level=0),
        needs=transactions,
    ),
)


# -- sessions and requests


def plan_without_changes(plan, self, wanted, **options):
    listed = set(self.listed.wanted)
    found = plan(self, wanted, **options)
    is_incremental = found.epoch > 0
    return found._replace(send={tp: one for tp, one in found.send.items() if not is_incremental or tp not in listed})


def reset_without_a_new_session(reset, self, **options):
    epoch = self.epoch
    reset(self, **options)
    self.epoch = epoch


def step_twice(step, self, now):
    for session in self._sessions.values():
        session.retry.in_flight = False
    return step(self, now)


def fail_without_backoff(failed, self, now):
    failed(self, now)
    self.pause.clear()


def step_without_deadline(step, self, now):
    requests = step(self, now)
    for request in requests:
        request.deadline += 1e9
    return requests


REQUESTS = (
    reading(
        "forgotten partitions not named",
        "A session is not told what is not wanted any more (KIP-227), so brokers send it again and again.",
        sending(FetchRequest, forgotten_topics_data=[]),
        needs=oddities,
    ),
    reading(
        "changed offsets not named",
        "A session is not told of new offsets (KIP-227), so brokers send the same records again and again.",
        Plant(FetchSession, "plan", plan_without_changes),
    ),
    reading(
        "session not renewed",
        "After an error the session goes on with its old epoch, which the broker refuses each time (KIP-227).",
        Plant(FetchSession, "reset", reset_without_a_new_session),
    ),
    reading(
        "two fetches at once",
        "A second Fetch goes out before the first is answered; a session is strictly sequential (KIP-227).",
        Plant(Planner, "step", step_twice),
    ),
    reading(
        "retry without backoff",
        "What failed is tried again at once, for ever; brokers in trouble must not be stormed (KIP-580).",
        returns(Backoff, "delay", 0.0),
    ),
    reading(
        "refusals without backoff",
        "A rejected request is repeated as fast as the broker rejects it; it must get time to recover (KIP-580).",
        Plant(Retry, "failed", fail_without_backoff),
        within(Answers, "handle", returns(Backoff, "delay", 0.0)),
    ),
    reading(
        "fetches wait for ever",
        "A Fetch has no deadline, so one that a broker swallows ends reading from it.",
        Plant(Planner, "step", step_without_deadline),
    ),
    reading(
        "max_poll_records ignored",
        "A poll returns whole batches, however few records it was allowed.",
        Plant(
            Collector,
            "_drain",
            lambda drain, self, fetched, place, room, *rest: drain(self, fetched, place, 1 << 30, *rest),
        ),
    ),
)

READER_BUGS = (*POSITIONS, *STALE, *LEADERS, *TRANSACTIONS, *REQUESTS)
