"""Deliberate bugs in reading, each of which the swarm of readers has to notice; see ``planting.py``."""

import sys
from pathlib import Path

from planting import BugTable, bug

from thinconsumer import metadata
from thinconsumer.consumer.managers import ConsumerManagers
from thinconsumer.fetch.answers import Answers
from thinconsumer.fetch.buffer import Buffer, Fetched
from thinconsumer.fetch.collector import Collector
from thinconsumer.fetch.planner import Planner
from thinconsumer.fetch.resets import Resets
from thinconsumer.fetch.sessions import FetchSession
from thinconsumer.fetch.validation import Validation
from thinconsumer.partitions import Partition
from thinconsumer.records.batch import RecordBatch
from thinconsumer.testing.simulation import ReaderSwarm
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.timers import Backoff, Retry


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


ROWS = (
    # -- positions
    bug(
        "control batch not passed",
        "The position stays before a control batch; it must pass what is never handed out, or never is at the end.",
        (Collector, "_drain", "max(offset, chunk.next_offset), chunk.epoch",
         "(max(offset, chunk.next_offset) if chunk.records else offset), chunk.epoch"),
        needs=transactions,
    ),
    bug(
        "fetch offset stays at control batches",
        "What ends in a control batch is asked for again from there, for ever; reading must get past it.",
        (Answers, "_take_records", "cursor.fetch_offset = batches[-1].next_offset",
         "cursor.fetch_offset = max([cursor.fetch_offset, *(b.next_offset for b in batches if not b.is_control)])"),
        needs=transactions,
    ),
    bug(
        "next offset counted",
        "The next offset is the first one plus the number of records; compaction leaves holes.",
        (Answers, "_take_records", "cursor.fetch_offset = batches[-1].next_offset",
         "cursor.fetch_offset = batches[-1].base_offset + max(1, batches[-1].count)"),
        needs=compaction,
    ),
    bug(
        "front of batch not dropped",
        "Records below the position are handed out with the batch they are in; a seek must begin where it says.",
        (Collector, "_decode", "start=fetched.start", "start=0"),
    ),
    bug(
        "rest of a poll forgotten",
        "Only the first of what one poll handed over moves its position; what was handed out must not come again.",
        (Collector, "place", "in poll_result.moves:", "in poll_result.moves[:1]:"),
    ),
    bug(
        "paused data thrown away",
        "What is buffered of a paused partition is dropped and not fetched again; pausing must lose nothing.",
        (Collector, "_due", "self._buffer.head(partition)  # releases stale batches",
         "[setattr(lost, 'chunk', 1 << 30) for lost in self._buffer.queue(partition) if partition.paused]"),
        needs=oddities,
    ),
    bug(
        "newest first",
        "What was fetched last of a partition is handed out first; records come in the order of their offsets.",
        (Buffer, "add", "queue.append(fetched)", "queue.appendleft(fetched)"),
    ),
    # -- what is stale
    bug(
        "stale fetch accepted",
        "What was fetched for the position before a seek is taken for the new one; it must be dropped.",
        (Answers, "handle", "is not partition or partition.cursor is not cursor:", "is not partition:"),
    ),
    bug(
        "truncation not raised",
        "Under policy none a truncated log is not raised: the partition stands still, and the application waits.",
        (Validation, "_truncated", "partition.error = LogTruncationError(", "_ = LogTruncationError("),
        needs=truncation,
    ),
    bug(
        "stale buffer handed out",
        "What was buffered before a seek is handed out after it; it must be dropped.",
        (Fetched, "fresh", "self.partition.cursor is self.cursor", "True"),
    ),
    bug(
        "stale reset accepted",
        "The answer to an earlier lookup sets the position that a later one was asked for; the last wish counts.",
        (Resets, "_add", "partition.cursor is cursor and partition", "partition"),
        needs=oddities,
    ),
    bug(
        "unassigned data handed out",
        "What is buffered of a partition is handed out after it was unassigned; it belongs to somebody else then.",
        (Collector, "_due", " and self._partitions.get(partition.tp) is partition:", ":"),
        (ConsumerManagers, "_follow_assignment", "self.buffer.sweep(set(self.partitions))", "pass"),
        needs=oddities,
    ),
    bug(
        "pause ignored",
        "Paused partitions are read on; nobody wants their records until they are resumed.",
        (Partition, "may_hand_out", "and not self.paused", ""),
        needs=oddities,
    ),
    # -- leaders and logs that change
    bug(
        "leader change not validated",
        "A new leader is believed to have all that was read; after a truncation records are skipped (KIP-320).",
        (Validation, "_compare", "if doubtful and", "if False and"),
        needs=truncation,
    ),
    bug(
        "truncated buffer kept",
        "What is buffered above the point of truncation is handed out; the new leader has other records there.",
        (Validation, "_found",
         "partition.place(PositionEvent.TRUNCATED, position, min(epoch, data.leader_epoch))",
         "partition.move(PositionEvent.VALIDATED)"),
        needs=truncation,
    ),
    bug(
        "leader epoch not sent",
        "Fetches carry no leader epoch, so a deposed leader answers them; it must refuse (KIP-320).",
        (Planner, "_want", "-1 if info is None else info.leader_epoch", "-1"),
        needs=truncation,
    ),
    bug(
        "epochs go back",
        "Metadata of a broker that is behind replaces what is known; leaders must not go back to old ones.",
        (metadata, "_newer", "if new.leader_epoch >= seen:", "if True:"),
        needs=truncation,
    ),
    bug(
        "read twice after a leader change",
        "A new leader is asked from the position on, and what is buffered is kept: records come twice.",
        (Validation, "_found", "data.end_offset >= received:",
         "data.end_offset >= received and not setattr(partition.cursor, 'fetch_offset', position):"),
    ),
    bug(
        "leader errors ask for nothing",
        "A broker that is not the leader any more is asked on; the new leader has to be found.",
        (Answers, "_partition_error", "if action is Action.REFRESH_METADATA:", "if False:"),
        (metadata.Metadata, "hint_leader", "if topic is None or", "if True or"),
        needs=old_metadata,
    ),
    bug(
        "out of range goes to the end",
        "A position that expired goes to the log's end, whatever the policy; earliest must lose nothing more.",
        (Resets, "_decide", "self._by_policy(partition, wall_time, f",
         "self._look_up(partition, Reset(-1, '')), (f"),
    ),
    bug(
        "checksum not compared",
        "Records are believed whatever their batch's checksum says; flipped bits must be an error (check_crcs).",
        (RecordBatch, "check_crc", "if computed != self.crc:", "if False:"),
        needs=corruption,
    ),
    # -- transactions
    bug(
        "aborted list ignored",
        "read_committed hands out records of aborted transactions.",
        (Collector, "_is_aborted", "fetched.aborted is None:", "True:"),
        needs=transactions,
    ),
    bug(
        "aborted list ignored in columns",
        "poll_batches returns records of aborted transactions under read_committed.",
        (Collector, "_span", "judged = fetched.aborted is not None", "judged = False"),
        needs=lambda knobs: knobs.columns and knobs.transactional,
    ),
    bug(
        "isolation level not sent",
        "read_committed does not say so to the broker, and is given records of open transactions.",
        (Planner, "_message", "1 if settings.isolation_level == \"read_committed\" else 0", "0"),
        needs=transactions,
    ),
    # -- sessions and requests
    bug(
        "forgotten partitions not named",
        "A session is not told what is not wanted any more (KIP-227), so brokers send it again and again.",
        (Planner, "_message", "in plan.forget.items()", "in ()"),
        needs=oddities,
    ),
    bug(
        "changed offsets not named",
        "A session is not told of new offsets (KIP-227), so brokers send the same records again and again.",
        (FetchSession, "plan", "if held.get(tp) != new", "if tp not in held"),
    ),
    bug(
        "session not renewed",
        "After an error the session goes on with its old epoch, which the broker refuses each time (KIP-227).",
        (FetchSession, "reset", "self.epoch = INITIAL_EPOCH", "pass"),
    ),
    bug(
        "two fetches at once",
        "A second Fetch goes out before the first is answered; a session is strictly sequential (KIP-227).",
        (Planner, "step", "if not session.retry.may_send(now):", "if False:"),
    ),
    bug(
        "retry without backoff",
        "What failed is tried again at once, for ever; brokers in trouble must not be stormed (KIP-580).",
        (Backoff, "delay", "return min(min(grown, self.maximum) * spread, self.maximum)", "return 0.0"),
    ),
    bug(
        "refusals without backoff",
        "What a broker refuses is asked again as fast as it refuses; it must get time to recover (KIP-580).",
        (Retry, "failed", "self.not_before = now + self.backoff.delay(self.attempts, self.random)", "pass"),
    ),
    bug(
        "fetches wait for ever",
        "A Fetch has no deadline, so one that a broker swallows ends reading from it.",
        (Planner, "_wrap", "now + self._settings.request_timeout_ms / 1000", "NEVER"),
    ),
    bug(
        "max_poll_records ignored",
        "A poll returns whole batches, however few records it was allowed.",
        (Collector, "_drain", "min(len(chunk.records), record + room)", "len(chunk.records)"),
    ),
)  # fmt: skip

TABLE = BugTable(Path(__file__), ReaderSwarm, ROWS, events_max=100_000, cheap=1500, tries=30, small=6)

if __name__ == "__main__":
    sys.exit(TABLE.main())
