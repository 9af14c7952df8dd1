"""Auto-commit: decide when ``poll`` commits positions without a call of ``commit()``, and which positions.

``poll`` commits before it returns records, so that a position covers only records of *earlier* polls. It commits
positions that moved since the last commit, and once an hour all of them. It commits none once the membership is lost:
the new owner has gone on from the last commit, and a later commit from here would reset the group's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import BrokerResponseError, CommitFailedError, KafkaError, RebalanceInProgressError
from ...failures import OutageLog
from ...positions.partitions import Partition, Partitions
from ...support.agenda import Agenda
from ...support.calls import Call
from ...types import OffsetAndMetadata, TopicPartition
from .commit_queue import Callback, log_failure
from .commits import Commits

if TYPE_CHECKING:
    from ...config import ConsumerConfig

log = logging.getLogger(__name__)

#: Seconds after which all positions are committed again, even if they have not moved. Brokers delete an offset
#: offsets.retention.minutes after its commit: brokers before 2.1 in any case, later ones if the group has no members
#: (as under manual assignment).
REFRESH = 3600.0


class AutoCommit:
    """Commit positions in polls, every ``auto_commit_interval_ms``, and on demand by :meth:`commit_now`."""

    def __init__(self, config: ConsumerConfig, partitions: Partitions, commits: Commits, agenda: Agenda) -> None:
        self._interval = config.auto_commit_interval_ms / 1000
        self._timeout = config.default_api_timeout_ms / 1000
        self._partitions = partitions
        self._commits = commits
        self._next = agenda.alarm()  #: When the next ``poll`` commits.
        self._refresh = agenda.alarm()  #: When all positions are committed, even if they have not moved.
        self._call: Call[None] | None = None
        self._outages = OutageLog(log)

    def poll(self, now: float) -> None:
        """Commit the positions if the interval has passed since the last auto-commit, or since the first poll."""
        if not self._refresh.is_set:
            self._next.set(now + self._interval)
            self._refresh.set(now + REFRESH)
        if self._call is not None:
            if not self._call.done:
                return  # the previous auto-commit has no result yet: start no second one
            self._report(self._call, now)
            self._call = None
        if self._interval:  # with 0 each poll commits, so no alarm has to be set for a commit
            if not self._next.is_over(now):
                return
            self._next.set(now + self._interval)
        everything = self._refresh.is_over(now)
        if everything:
            self._refresh.set(now + REFRESH)
        self._call = self.commit_now(self._partitions, now + self._timeout, everything=everything, callback=None)

    def commit_now(
        self,
        partitions: Iterable[Partition],
        deadline: float,
        *,
        everything: bool = False,
        callback: Callback | None = log_failure,
    ) -> Call[None] | None:
        """Commit positions of these partitions: with ``everything`` all, else those that differ from the last commit.

        Return None if there is nothing to commit. While the application iterates, the position excludes the record
        that was returned last, which may still be processed.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in partitions if self._commits.may_commit else ():
            # Before on_partitions_assigned is called, no record of the partition is returned: nothing to commit.
            if not partition.may_commit or partition.callback_pending:
                continue
            value, committed = self._partitions.processed(partition), partition.committed
            if everything or committed is None or committed.offset != value.offset:
                found[partition.tp] = value
        return self._commits.add(found, deadline, callback, what="auto-commit") if found else None

    def _report(self, call: Call[None], now: float) -> None:
        try:
            call.result()
            self._outages.recovered(None, now, "auto-commits succeed again")
        except RebalanceInProgressError as error:
            # no outage to report: the revocation in this rebalance commits the positions
            log.debug("auto-commit failed in a rebalance: %s", error)
        except KafkaError as error:
            # If commits get no response, only the first line is logged: repeated log lines about connections tell the
            # cause.
            is_late = isinstance(error, CommitFailedError) and error.reason in ("coordinator", "timeout")
            is_unanswered = is_late and not isinstance(error.__cause__, BrokerResponseError)
            self._outages.failed(None, now, str(error), logs=not (is_unanswered and self._outages.is_logged(None)))
