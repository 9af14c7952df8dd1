"""A listener of streaming queries: how far each one is behind, and its offsets committed for a group, the last too.

Spark tells a source that a batch is done only when there is another one, so that ``commitGroup`` alone always leaves
out the last batch of a stream that stands still. A listener hears of each batch when Spark's checkpoint has it. It runs
where the session is, in none of the source's processes; what it does goes into no query's way. What a progress report
means is decided by pure functions.
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
from .lookup import Lookup
from .offsets import Offsets, from_json
from .options import Assigned, Selection, Topics, parse

log = logging.getLogger(__name__)

#: Commits of one query are at least so far apart; seconds. What is left out comes with the next, or when it ends.
COMMIT_EVERY_S = 5.0


class Lag(NamedTuple):
    """How many offsets a query has not read yet of each partition, as of one batch."""

    query: str  #: Its name, or its id if it has none.
    batch: int
    behind: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """Offsets behind in all partitions."""
        return sum(self.behind.values())


class KafkaListener(StreamingQueryListener):
    """Hand it to ``spark.streams.addListener``: it reports lag, and commits for a group if ``commitGroup`` is given.

    Args:
        options: The options of the streams that are meant: whose partitions these options choose. None: all that look
            like Kafka, and nothing is committed.
        report: Called with each :class:`Lag`; by default they are logged.
        queries: Names or ids of the queries that are meant; None: all. Where two queries read the same topics, one
            listener for both would commit for one what the other has read.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        report: Callable[[Lag], Any] | None = None,
        *,
        queries: Collection[str] | None = None,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(queries, str):
            raise KafkaConfigurationError(f"queries={queries!r}: a list of names or ids is needed")
        self._queries = None if queries is None else frozenset(map(str, queries))
        self._options = None if options is None else parse(options)
        self._report = report or (lambda lag: log.info("%s, batch %d: %d behind", lag.query, lag.batch, lag.total))
        self._lookup = Lookup(self._options) if lookup is None and self._options is not None else lookup
        self._clock = clock
        self._due: dict[str, Offsets] = {}  #: By query: what has been read and not committed yet.
        self._next: dict[str, float] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has been read yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Report, and commit what the checkpoint has."""
        self.take(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:
        """Commit what was not committed with the last batch."""
        self._commit(str(event.id), now=True)

    def onQueryTerminated(self, event: Any) -> None:
        """Commit what is left."""
        query = str(event.id)
        self._commit(query, now=True, last=True)
        self._next.pop(query, None)
        self._due.pop(query, None)
        if self._lookup is not None and not self._due:
            self._lookup.close()

    def take(self, progress: Mapping[str, Any]) -> None:
        """Take one progress report, as Spark's JSON has it."""
        if self._queries is not None and self._queries.isdisjoint((progress["id"], progress.get("name"))):
            return
        selection = None if self._options is None else self._options.selection
        self._report(lag_of(progress, selection))
        if self._options is not None and self._options.commit_group is not None:
            self._due.setdefault(progress["id"], {}).update(read_of(progress, selection))
            self._commit(progress["id"], now=False)

    def _commit(self, query: str, *, now: bool, last: bool = False) -> None:
        offsets, group = self._due.get(query), None if self._options is None else self._options.commit_group
        if not offsets or group is None or self._lookup is None:
            return
        if now or self._clock() >= self._next.get(query, float("-inf")):
            self._next[query] = self._clock() + COMMIT_EVERY_S
            if self._lookup.commit(group, offsets, last=last):
                del self._due[query]


def read_of(progress: Mapping[str, Any], selection: Selection | None = None) -> Offsets:
    """Return up to where a batch has read, of the partitions that are meant."""
    found: Offsets = {}
    for end, _ in _sources(progress):
        found.update({tp: offset for tp, offset in end.items() if is_meant(tp, selection)})
    return found


def lag_of(progress: Mapping[str, Any], selection: Selection | None = None) -> Lag:
    """Return how far a query is behind, of the partitions that are meant."""
    behind = {
        tp: max(0, offset - end.get(tp, 0))
        for end, latest in _sources(progress)
        for tp, offset in latest.items()
        if is_meant(tp, selection)
    }
    return Lag(progress.get("name") or progress["id"], progress["batchId"], behind)


def is_meant(tp: TopicPartition, selection: Selection | None) -> bool:
    """Return whether options choose a partition, going by its name alone."""
    if selection is None:
        return True
    if isinstance(selection, Assigned):
        return tp in selection.partitions
    if isinstance(selection, Topics):
        return tp.topic in selection.names
    return selection.pattern.fullmatch(tp.topic) is not None


def _sources(progress: Mapping[str, Any]) -> list[tuple[Offsets, Offsets]]:
    """Return end and latest offsets of each source that is one of Kafka."""
    found = []
    for source in progress["sources"]:
        try:
            end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        except (KafkaConfigurationError, ValueError):
            continue
        found.append((end, latest))
    return found


def _offsets(value: Any) -> Offsets:
    """Return offsets out of a report, where they are an object, or its text."""
    if isinstance(value, str):
        value = json.loads(value)
    return {} if value is None else from_json(value) if isinstance(value, dict) else _none_of_ours()


def _none_of_ours() -> Offsets:
    raise ValueError("another source's offset")
