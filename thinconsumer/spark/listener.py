"""A query listener: reports the lag of streaming queries after each batch, and commits their offsets for a group.

Spark tells a source only at the next trigger that a batch is finished, so the source cannot commit the last batch of a
query. A listener gets a progress report as soon as a batch is in the checkpoint. The listener runs in the session's
process, and neither fails nor delays a query.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from ..errors import KafkaConfigurationError
from ..types import TopicPartition
from .cluster_client import ClusterClient
from .offsets import Offsets
from .options import Selection, parse
from .order import offsets_of

log = logging.getLogger(__name__)

#: Minimum seconds between two commits for one query. The offsets of a batch that ends sooner after a commit are
#: committed with those of a later batch, or when the query idles or ends.
COMMIT_EVERY_S = 5.0


class Lag(NamedTuple):
    """How many offsets of each partition a query had not read after a batch."""

    query: str  #: The query's name, or its id if it has none.
    batch: int
    behind: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """The number of offsets that the query had not read, over all partitions."""
        return sum(self.behind.values())


class KafkaListener(StreamingQueryListener):
    """Reports lag, and commits offsets if ``commitGroup`` is set. Pass it to ``spark.streams.addListener``.

    Args:
        options: Options of the stream; partitions that they do not select are ignored. None: all Kafka sources
            are reported, and nothing is committed.
        report: Called with each :class:`Lag`; by default it is logged.
        queries: Names or ids of the queries to follow; None: all. Queries that read the same topics need one listener
            each, or the offsets of one query would be committed for the other.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        report: Callable[[Lag], Any] | None = None,
        *,
        queries: Collection[str] | None = None,
        cluster: ClusterClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(queries, str):
            raise KafkaConfigurationError(f"queries={queries!r}: pass a list of names or ids")
        self._queries = None if queries is None else frozenset(map(str, queries))
        self._options = None if options is None else parse(options)
        self._report = report or (
            lambda lag: log.info("query %s, batch %d: lag %d offsets", lag.query, lag.batch, lag.total)
        )
        self._cluster = ClusterClient(self._options) if cluster is None and self._options is not None else cluster
        self._clock = clock
        self._uncommitted: dict[str, Offsets] = {}  #: Offsets that are not committed yet, by query id.
        self._committed_at: dict[str, float] = {}  #: When a commit for a query was last tried.

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: PySpark requires the method."""

    def onQueryProgress(self, event: Any) -> None:
        """Report the lag after a batch, and commit its end offsets, now or later (``COMMIT_EVERY_S``)."""
        self.handle_progress(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:
        """Try to commit the query's offsets, if ``COMMIT_EVERY_S`` or a failed commit has delayed them."""
        self._commit(str(event.id), now=True)

    def onQueryTerminated(self, event: Any) -> None:
        """Commit the query's offsets that ``COMMIT_EVERY_S`` or a failed commit has delayed."""
        query = str(event.id)
        self._commit(query, now=True, last=True)
        self._committed_at.pop(query, None)
        self._uncommitted.pop(query, None)
        if self._cluster is not None and not self._uncommitted:
            self._cluster.close()

    def handle_progress(self, progress: Mapping[str, Any]) -> None:
        """Handle a progress report of Spark, parsed from its JSON."""
        if self._queries is not None and self._queries.isdisjoint((progress["id"], progress.get("name"))):
            return
        selection = None if self._options is None else self._options.selection
        ends, latest = offsets_in(progress, selection)
        behind = {tp: max(0, offset - ends.get(tp, 0)) for tp, offset in latest.items()}
        self._report(Lag(progress.get("name") or progress["id"], progress["batchId"], behind))
        if self._options is not None and self._options.commit_group is not None:
            self._uncommitted.setdefault(progress["id"], {}).update(ends)
            self._commit(progress["id"], now=False)

    def _commit(self, query: str, *, now: bool, last: bool = False) -> None:
        offsets, group = self._uncommitted.get(query), None if self._options is None else self._options.commit_group
        if not offsets or group is None or self._cluster is None:
            return
        if now or self._clock() >= self._committed_at.get(query, float("-inf")) + COMMIT_EVERY_S:
            self._committed_at[query] = self._clock()
            if self._cluster.commit(group, offsets, last=last):
                del self._uncommitted[query]


def offsets_in(progress: Mapping[str, Any], selection: Selection | None = None) -> tuple[Offsets, Offsets]:
    """Return the end offsets of a batch and the latest offsets, of the selected partitions of all Kafka sources."""
    ends: Offsets = {}
    latest: Offsets = {}
    for source in progress["sources"]:
        try:
            found = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        except (KafkaConfigurationError, ValueError):
            continue
        for into, offsets in zip((ends, latest), found):
            into.update({tp: one for tp, one in offsets.items() if selection is None or selection.matches(tp)})
    return ends, latest


def _offsets(value: Any) -> Offsets:
    """Return a report's offsets, from an object or JSON text.

    Raises:
        ValueError, KafkaConfigurationError: these are no offsets by topic, so the source is of another kind.
    """
    if isinstance(value, str):
        value = json.loads(value)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is no object of offsets by topic, which a Kafka source reports")
    return offsets_of(value or {})
