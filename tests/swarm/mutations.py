"""Deliberate bugs in the client, each of which a swarm has to notice; see ``planting.py``."""

import functools
from collections.abc import Callable

from lab import GroupSwarm, ReaderSwarm
from lab.knobs import OAUTHBEARER, STYLES, Knobs
from planting import bug

from thinconsumer.connection.connection import Connection
from thinconsumer.connection.route import BrokerRoute
from thinconsumer.consumer.managers import ConsumerManagers
from thinconsumer.consumer.reader import ConsumerCore
from thinconsumer.fetch.answers import Answers
from thinconsumer.fetch.buffer import Buffer, Fetched
from thinconsumer.fetch.chunks import ChunkDecoder
from thinconsumer.fetch.collector import Collector
from thinconsumer.fetch.planner import Planner
from thinconsumer.fetch.resets import Resets, _ResetQuery
from thinconsumer.fetch.sessions import FetchSession
from thinconsumer.fetch.validation import Validation
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.commit_queue import CommitQueue
from thinconsumer.group.commits import Commits
from thinconsumer.group.committed import Committed
from thinconsumer.group.consumer_role import ConsumerRole
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.group import Group
from thinconsumer.group.identity import Identity
from thinconsumer.group.join_failures import JoinFailurePolicy
from thinconsumer.group.revocation import PartitionRevocation
from thinconsumer.member import _Role as MemberRole
from thinconsumer.metadata import Metadata
from thinconsumer.partitions import Partition
from thinconsumer.records.batch import RecordBatch
from thinconsumer.sasl.login import SaslLogin
from thinconsumer.sasl.login_manager import LoginManager
from thinconsumer.timers import Backoff
from thinconsumer.topic_metadata import EpochDoubt, TopicMetadata

reading, grouped = functools.partial(bug, ReaderSwarm), functools.partial(bug, GroupSwarm)

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


def cooperative(knobs: Knobs) -> bool:
    """Some members give up only what goes elsewhere, at some time."""
    return any(("cooperative-sticky",) in STYLES[group.style] for group in knobs.group_knobs)


def eager(knobs: Knobs) -> bool:
    """Some members give up everything."""
    return any(STYLES[group.style][0] != ("cooperative-sticky",) for group in knobs.group_knobs)


def commits(*how: str) -> Callable[[Knobs], bool]:
    """Some members commit in one of these ways."""
    return lambda knobs: any(mate.commits in how for group in knobs.group_knobs for mate in group.clients)


def errors_or_absences(knobs: Knobs) -> object:
    """Coordinators refuse, or members are away for too long."""
    return knobs.group_error_rate or knobs.absences


def raising(knobs: Knobs) -> bool:
    """Some callbacks raise."""
    return any(mate.raise_rate for group in knobs.group_knobs for mate in group.clients)


def logins(knobs: Knobs) -> object:
    """Clients log in."""
    return knobs.logins


def tokens(knobs: Knobs) -> object:
    """Clients log in with tokens, and token providers fail for a while."""
    return knobs.logins and knobs.logins.mechanism == OAUTHBEARER and knobs.logins.provider_outages


def rejections(knobs: Knobs) -> object:
    """Logins are rejected for a while."""
    return knobs.logins and knobs.logins.rejections


ROWS = (
    # -- positions
    reading(
        "control batch not passed",
        "The position stays before a control batch; it must pass what is never handed out, or never is at the end.",
        (Collector, "_drain", "max(offset, chunk.next_offset), chunk.epoch",
         "(max(offset, chunk.next_offset) if chunk.records else offset), chunk.epoch"),
        needs=transactions,
    ),
    reading(
        "fetch offset stays at control batches",
        "What ends in a control batch is asked for again from there, for ever; reading must get past it.",
        (Answers, "_keep", "cursor.fetch_offset = batches.next_offset",
         "cursor.fetch_offset = max([cursor.fetch_offset, *(b.next_offset for b in batches if not b.is_control)])"),
        needs=transactions,
    ),
    reading(
        "next offset counted",
        "The next offset is the first one plus the number of records; compaction leaves holes.",
        (Answers, "_keep", "cursor.fetch_offset = batches.next_offset",
         "cursor.fetch_offset = batches[-1].base_offset + max(1, batches[-1].count)"),
        needs=compaction,
    ),
    reading(
        "front of batch not dropped",
        "Records below the position are handed out with the batch they are in; a seek must begin where it says.",
        (ChunkDecoder, "_chunk_of", "if skipped := find_offset(decoded, start):", "if False:"),
    ),
    reading(
        "rest of a poll forgotten",
        "Only the first of what one poll handed over moves its position; what was handed out must not come again.",
        (Collector, "place", "in poll_result.moves:", "in poll_result.moves[:1]:"),
    ),
    reading(
        "paused data thrown away",
        "What is buffered of a paused partition is dropped and not fetched again; pausing must lose nothing.",
        (Collector, "_may_gather", "self._buffer.head(partition)  # releases stale batches",
         "[setattr(lost, 'chunk', 1 << 30) for lost in self._buffer.queue(partition) if partition.paused]"),
        needs=oddities,
    ),
    reading(
        "newest first",
        "What was fetched last of a partition is handed out first; records come in the order of their offsets.",
        (Buffer, "add", "queue.append(fetched)", "queue.appendleft(fetched)"),
    ),
    # -- what is stale
    reading(
        "stale fetch accepted",
        "What was fetched for the position before a seek is taken for the new one; it must be dropped.",
        (Answers, "handle", "if self._partitions.assigned.get(tp) is not partition or partition.cursor is not cursor:",
         ("if partition.cursor is not cursor and partition.state is PositionState.FETCHING and not data.error_code:\n"
          "                self._take(asked, partition, partition.cursor, data, frame, now)\n"
          "            elif self._partitions.assigned.get(tp) is not partition:")),
    ),
    reading(
        "truncation not raised",
        "Under policy none a truncated log is not raised: the partition stands still, and the application waits.",
        (Validation, "_truncated", "partition.error = LogTruncationError(", "_ = LogTruncationError("),
        needs=truncation,
    ),
    reading(
        "stale buffer handed out",
        "What was buffered before a seek is handed out after it; it must be dropped.",
        (Fetched, "fresh", "self.partition.cursor is self.cursor", "True"),
        (Buffer, "head", "partition.cursor is first.cursor and (", "("),
    ),
    reading(
        "stale reset accepted",
        "The answer to an earlier lookup sets the position that a later one was asked for; the last wish counts.",
        (Resets, "is_waiting", "partition.cursor is cursor and partition", "partition"),
        (_ResetQuery, "wanted", "partition.cursor is self._cursor and partition", "partition"),
        needs=oddities,
    ),
    reading(
        "unassigned data handed out",
        "What is buffered of a partition is handed out after it was unassigned; it belongs to somebody else then.",
        (Collector, "_may_gather", " and self._partitions.assigned.get(partition.tp) is partition:", ":"),
        (ConsumerManagers, "_follow_assignment", "self.buffer.sweep(", "len("),
        needs=oddities,
    ),
    reading(
        "pause ignored",
        "Paused partitions are read on; nobody wants their records until they are resumed.",
        (Partition, "may_hand_out", "and not self._paused", ""),
        needs=oddities,
    ),
    # -- leaders and logs that change
    reading(
        "leader change not validated",
        "A new leader is believed to have all that was read; after a truncation records are skipped (KIP-320).",
        (Validation, "_compare", "if doubtful and", "if False and"),
        needs=truncation,
    ),
    reading(
        "truncated buffer kept",
        "What is buffered above the point of truncation is handed out; the new leader has other records there.",
        (Validation, "_found",
         "partition.place(PositionEvent.TRUNCATED, position, min(epoch, data.leader_epoch))",
         "partition.move(PositionEvent.VALIDATED)"),
        needs=truncation,
    ),
    reading(
        "leader epoch not sent",
        "Fetches carry no leader epoch, so a deposed leader answers them; it must refuse (KIP-320).",
        (Planner, "_want", "self._metadata.newest_epoch(partition.tp) if info is None else info.leader_epoch", "-1"),
        needs=truncation,
    ),
    reading(
        "epochs go back",
        "Metadata of a broker that is behind replaces what is known; leaders must not go back to old ones.",
        (TopicMetadata, "newer", "if new.leader_epoch >= seen:", "if True:"),
        needs=truncation,
    ),
    reading(
        "lower epoch without a proof",
        "One rejection by the named leader is taken as the proof that the cluster's epoch is lower; it may lag behind.",
        (EpochDoubt, "refused", "is_proven = self.refusals >= REFUSALS_MIN and now - self.since >= self.proof_s",
         "is_proven = True"),
        needs=truncation,
    ),
    reading(
        "read twice after a leader change",
        "A new leader is asked from the position on, and what is buffered is kept: records come twice.",
        (Validation, "_found", "data.end_offset >= received:",
         "data.end_offset >= received and not setattr(partition.cursor, 'fetch_offset', position):"),
    ),
    reading(
        "leader errors ask for nothing",
        "A broker that is not the leader any more is asked on; the new leader has to be found.",
        (Answers, "_partition_error", "if action is Action.REFRESH_METADATA:", "if False:"),
        (Metadata, "hint_leader", "if topic is None or", "if True or"),
        needs=old_metadata,
    ),
    reading(
        "out of range goes to the end",
        "A position that expired goes to the log's end, whatever the policy; earliest must lose nothing more.",
        (Resets, "_decide", "self._by_policy(partition, wall_time, f",
         "self._look_up(partition, Reset(-1, '')), (f"),
    ),
    reading(
        "checksum not compared",
        "Records are believed whatever their batch's checksum says; flipped bits must be an error (check_crcs).",
        (RecordBatch, "check_crc", "if computed != self.crc:", "if False:"),
        needs=corruption,
    ),
    # -- transactions
    reading(
        "aborted list ignored",
        "read_committed hands out records of aborted transactions.",
        (ChunkDecoder, "is_aborted", "fetched.aborted is None:", "True:"),
        needs=transactions,
    ),
    reading(
        "aborted list ignored in columns",
        "poll_batches returns records of aborted transactions under read_committed, and polls of many records do.",
        (ChunkDecoder, "add", "if source.aborted is None:", "if True:"),
        needs=lambda knobs: knobs.columns and knobs.transactional,
    ),
    reading(
        "isolation level not sent",
        "read_committed does not say so to the broker, and is given records of open transactions.",
        (Planner, "__init__", "1 if settings.isolation_level == \"read_committed\" else 0", "0"),
        needs=transactions,
    ),
    # -- sessions and requests
    reading(
        "forgotten partitions not named",
        "A session is not told what is not wanted any more (KIP-227), so brokers send it again and again.",
        (Planner, "_message", "in plan.forget.items()", "in ()"),
        needs=oddities,
    ),
    reading(
        "changed offsets not named",
        "A session is not told of new offsets (KIP-227), so brokers send the same records again and again.",
        (FetchSession, "plan", "if old == new:", "if old is not None:"),
    ),
    reading(
        "session not renewed",
        "After an error the session goes on with its old epoch, which the broker refuses each time (KIP-227).",
        (FetchSession, "reset", "self.epoch = INITIAL_EPOCH", "pass"),
    ),
    reading(
        "two fetches at once",
        "A second Fetch goes out before the first is answered; a session is strictly sequential (KIP-227).",
        (Planner, "step", "if retry.in_flight:", "if False:"),
    ),
    reading(
        "retry without backoff",
        "What failed is tried again at once, for ever; brokers in trouble must not be stormed (KIP-580).",
        (Backoff, "delay", "return min(min(grown, self.maximum) * spread, self.maximum)", "return 0.0"),
    ),
    reading(
        "refusals without backoff",
        "What a broker refuses is asked again as fast as it refuses; it must get time to recover (KIP-580).",
        (Backoff, "delay", "return min(min(grown, self.maximum) * spread, self.maximum)", "return 0.0"),
    ),
    reading(
        "fetches wait for ever",
        "A Fetch has no deadline, so one that a broker swallows ends reading from it.",
        (Planner, "_wrap", "now + self._timeout", "now + 1e9"),
    ),
    reading(
        "max_poll_records ignored",
        "A poll returns whole batches, however few records it was allowed.",
        (Collector, "_drain", "min(len(chunk.records), record + room)", "len(chunk.records)"),
    ),
    # -- logins
    reading(
        "re-authentication never begins",
        "Connections never log in again (KIP-368), so the broker closes each of them when its session ends.",
        (Connection, "is_login_due", "now >= self.reauthenticate_at", "False"),
        needs=logins,
    ),
    reading(
        "requests during a re-authentication",
        "Requests are written between SaslHandshake and the end of the login; the broker closes the connection.",
        (Connection, "can_send", "self.state is ConnectionState.READY", "self.state in _SET_UP"),
        (Connection, "send", "self.state is not ConnectionState.READY", "self.state not in _SET_UP"),
        (Connection, "is_login_due", "self.can_send(now)", "self.state is ConnectionState.READY"),
        needs=logins,
    ),
    reading(
        "queue dropped at a re-authentication",
        "Requests that wait for a re-authentication are dropped without an answer; their managers wait for ever.",
        (BrokerRoute, "_flush", "connection.reauthenticate(now)", "connection.reauthenticate(now); self.queue.clear()"),
        needs=logins,
    ),
    reading(
        "rejected login keeps the connection",
        "A connection stays open after its login was rejected, and blocks the requests to its broker.",
        (Connection, "_take_setup_response",
         "self._in_flight.popleft()\n        self._log_in(answer, now, item.sent_at)",
         ("self._in_flight.popleft()\n        try:\n            self._log_in(answer, now, item.sent_at)\n"
          "        except KafkaError:\n            pass")),
        needs=rejections,
    ),
    reading(
        "dials without a token",
        "Brokers are dialled while there is no token or the last one has expired; the login cannot succeed.",
        (BrokerRoute, "step", "and self._shared.logins.may_dial()", ""),
        needs=tokens,
    ),
    reading(
        "re-authentication too late",
        "The next login begins after the session's end, so the broker closes the connection before it.",
        (SaslLogin, "_continue", "REAUTHENTICATE_FROM + ", "1.0 + "),
        needs=logins,
    ),
    reading(
        "credentials before the handshake",
        "The first message of a login has the credentials, before the broker has agreed to the mechanism.",
        (SaslLogin, "next_request", "return SaslHandshakeRequest(mechanism=self._mechanism.name)",
         "return self._send(self._mechanism.start())"),
        needs=logins,
    ),
    reading(
        "first token kept",
        "A token is not replaced before it expires, so no connection can log in again.",
        (LoginManager, "provider_call", "self._call if self._refresh.is_due(",
         "self._call if not self._refresh.is_obtained and self._refresh.is_due("),
        needs=tokens,
    ),
    grouped(
        "heartbeats dropped at a re-authentication",
        "Membership requests that wait for a re-authentication are dropped, so the coordinator expels the member.",
        (BrokerRoute, "_flush", "connection.reauthenticate(now)",
         "connection.reauthenticate(now); self.channel and self.queue.clear()"),
        needs=logins,
    ),
    # == groups
    # -- identity
    grouped(
        "identity kept after UNKNOWN_MEMBER_ID",
        "Who is expelled goes on under its old id, which is refused for ever; it must come back as nobody.",
        (Identity, "lost", "Identity(self.group_id, NO_GENERATION, UNKNOWN_MEMBER_ID, self.group_instance_id)",
         "self"),
        needs=errors_or_absences,
    ),
    grouped(
        "id dropped on ILLEGAL_GENERATION",
        "Who has missed a generation comes back as nobody, and the group waits for its ghost; the id must stay.",
        (Identity, "behind", "self._replace(generation_id=NO_GENERATION)", "self.lost()"),
        needs=errors_or_absences,
    ),
    grouped(
        "given id ignored",
        "The id given with MEMBER_ID_REQUIRED is not used (KIP-394), so joining never ends.",
        (ClassicMember, "_failed", "self.identity = self.identity.named(answer.response.member_id)", "pass"),
    ),
    grouped(
        "heartbeat behind a parked join",
        "A heartbeat follows an unanswered JoinGroup on its connection; it is read too late, and fails.",
        (ClassicMember, "_heartbeat", "not self._rebalances.is_open or",
         "self._coordinator.target(MEMBERSHIP) is None or"),
    ),
    grouped(
        "absence ignored",
        "After an absence longer than the session records are handed out; they may be somebody else's by now.",
        (ConsumerCore, "_poll", "group is not None and group.member.withholds(may_wait=now < deadline)", "False"),
        needs=lambda knobs: knobs.absences or knobs.stalls,
    ),
    grouped(
        "joins without backoff",
        "A join that was refused is sent again at once, for ever; coordinators in trouble must not be stormed.",
        (JoinFailurePolicy, "back_off", "self._retry.failed(now)", "return"),
        needs=lambda knobs: knobs.coordinator_load_s or knobs.group_error_rate,
    ),
    grouped(
        "coordinator never lost",
        "NOT_COORDINATOR and broken connections are not believed, so nobody looks for the new coordinator.",
        (Coordinator, "lost", "if self.state is not CoordinatorState.KNOWN or", "if True or"),
        needs=lambda knobs: knobs.coordinator_moves or knobs.coordinator_kills,
    ),
    # -- ownership and rebalance callbacks
    grouped(
        "losing keeps partitions",
        "Partitions stay after they were lost, and are read on; they belong to others by now.",
        (PartitionRevocation, "lose", "self._partitions.assign(())", "pass"),
        needs=errors_or_absences,
    ),
    grouped(
        "lost called revoked",
        "Users hear that lost partitions are revoked, and commit what they may not.",
        (PartitionRevocation, "lose", 'self._call_listener("lost",', 'self._call_listener("revoked",'),
        needs=errors_or_absences,
    ),
    grouped(
        "pending revocation delivered",
        "Records come of partitions whose last offsets are being committed; they will come again elsewhere (D4).",
        (Partition, "may_hand_out", "and not self._pending_revocation", ""),
    ),
    grouped(
        "failed callback forgotten",
        "An on_partitions_assigned that has raised is not called again.",
        (PartitionRevocation, "call_assigned", 'call_listener(self._listener(), "assigned", [p.tp for p in new])',
         ("[(setattr(p, 'callback_pending', False), p.state is PositionState.AWAITING_CALLBACK"
         " and p.move(PositionEvent.CALLBACK_DONE)) for p in new];"
         " call_listener(self._listener(), 'assigned', [p.tp for p in new])")),
        needs=raising,
    ),
    grouped(
        "eager keeps everything",
        "Eager members join with what they own, and are given it again; they must give it up first.",
        (ConsumerRole, "prepare", "return self.revocation.revoke(owned, now, always_call=identity.is_member)",
         "return True"),
        needs=eager,
    ),
    grouped(
        "cooperative gives everything up",
        "Cooperative members give up what they could keep, before each join (KIP-429).",
        (ConsumerRole, "prepare", "[tp for tp in owned if tp.topic not in wanted]", "owned"),
        needs=cooperative,
    ),
    grouped(
        "given up without rejoining",
        "Who has given partitions up for others does not join again, so nobody gets them (KIP-429).",
        (ConsumerRole, "accept", "self._rejoin_due = \"revoked partitions can now be assigned\"", "pass"),
        # The leader would rejoin after a while, which hides the bug.
        (ConsumerRole, "rejoin_reason", "now >= self._rejoin_by", "False"),
        needs=cooperative,
    ),
    grouped(
        "retained partitions start over",
        "What is kept in a cooperative rebalance goes back to what is committed, and comes again.",
        (PartitionRevocation, "assign", "for partition in self._partitions:",
         ("for partition in [p for p in self._partitions if p.tp in before]:\n"
         "        partition.state = PositionState.AWAITING_COMMITTED\n"
         "        partition.rewind()\n"
         "    for partition in self._partitions:")),
        needs=cooperative,
    ),
    grouped(
        "assigned tells of all",
        "on_partitions_assigned hears of what is kept, too; users must hear what is new.",
        (PartitionRevocation, "call_assigned", "[p.tp for p in new]", "self._partitions.tps()"),
        needs=cooperative,
    ),
    grouped(
        "worker not told to stop",
        "A GroupMember is not called before a rebalance, so it goes on working on shards that others get.",
        (MemberRole, "install", "self._works, self.held_generation = True,", "self.held_generation ="),
        needs=lambda knobs: knobs.shards,
    ),
    # -- reasons to rejoin
    grouped(
        "rejoin with every refresh",
        "Every metadata refresh is a reason to join, so the group never comes to rest (E5).",
        (ConsumerRole, "rejoin_reason", "reason = topics_changed(self._joined_with, self.own_topics())",
         "reason = 'metadata' if self._seen is not None else None; self._seen = seen"),
    ),
    grouped(
        "growth ignored",
        "The leader does not notice that a topic has new partitions, so nobody reads them.",
        (ConsumerRole, "rejoin_reason", "if reason is None and self._assigned_with is not None:", "if False:"),
        needs=lambda knobs: knobs.growths,
    ),
    grouped(
        "vanished topics kept",
        "A pattern's topic that is gone stays matched, and is asked about for ever.",
        (Metadata, "_take_listing", "self.topics[name].partitions = {}", "pass"),
        needs=lambda knobs: knobs.vanishings and any(group.pattern for group in knobs.group_knobs),
    ),
    # -- commits
    grouped(
        "no commit before giving up",
        "What was read since the last auto-commit is not committed before partitions go, and is read twice (D4).",
        (PartitionRevocation, "revoke", "if self._auto_commit is not None and self.auto_commits:",
         "if False:"),
        needs=commits("auto"),
    ),
    grouped(
        "commit stamped when asked for",
        "A commit goes out as who we were when it was asked for; it must be stamped when it is sent.",
        (Commits, "_judge", "entry.identity = who", "pass"),
        (Commits, "_build", "stamp = who or Identity(self._group_id)",
         ("stamp = min((e.identity for e in flight.entries.values()), default=who or"
          " Identity(self._group_id))")),
    ),
    grouped(
        "auto-commit ahead of the user",
        "Auto-commit covers what this very poll returns; a crash before it is processed loses it (D2).",
        (ConsumerCore, "_poll",
         "if poll_result.count:\n            self._owes_records = False\n            return poll_result\n",
         ("if poll_result.count:\n"
         "            self._owes_records = False\n"
         "            self.managers.collector.place(poll_result)\n"
         "            if group is not None and group.auto_commit is not None:\n"
         "                group.auto_commit.poll(now)\n"
         "                shell.engine.touch()\n"
         "                shell.engine.step(now)\n"
         "                shell.driver.step(shell.engine, now)\n"
         "            return poll_result\n")),
        (Group, "polled", "return self.auto_commit.poll(now) or is_back", "return is_back"),
        needs=commits("auto"),
    ),
    grouped(
        "commits of the lost go on",
        "What was to be committed before the membership was lost is committed after joining again.",
        (Commits, "_judge", "if objection is not None:", "if False:"),
        (Commits, "_build", "if current.objection(", "if False and current.objection("),
        (Commits, "_foreign", "if self._allows_foreign or", "if True or"),
        needs=errors_or_absences,
    ),
    grouped(
        "commit callbacks dropped",
        "A commit that has failed does not call its callback.",
        (CommitQueue, "_settle", "if pending.callback is not None:",
         "if pending.callback is not None and error is None:"),
        needs=commits("async", "offsets", "sync"),
    ),
    grouped(
        "one behind what is committed",
        "Reading goes on one record behind the committed offset; that one is lost.",
        (Committed, "_take", "COMMITTED_FOUND, value.offset,", "COMMITTED_FOUND, value.offset + 1,"),
    ),
)  # fmt: skip
