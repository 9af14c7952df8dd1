"""PySpark's data source ``thinconsumer``, with its batch reader and its stream reader; ``sink`` has the writers.

Spark pickles readers: planning and ``read`` run on different instances, so ``read`` gets from planning only the task's
range. Spark stores an offset as JSON text.

``pushFilters`` is not defined: with it, Spark up to 4.3 mixes up the results of queries that share one ``load()``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import KafkaConfigurationError
from ..types import TopicPartition
from . import options as source_options
from . import order, planner
from .cluster_client import ClusterClient, Found
from .offsets import EARLIEST, LATEST, Json, Offsets, first_batch_end, first_batch_start, partition_names, to_json
from .options import AtCommitted, AtTimes, Bound, SourceOptions
from .reading import COLUMNS, read
from .worker_process import prepare

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 lack these classes
    HAS_LIMITS, SupportsTriggerAvailableNow = False, object
else:
    HAS_LIMITS = True

if TYPE_CHECKING:
    import pyarrow as pa

    from .writing import WriteSettings

log = logging.getLogger(__name__)

#: Seconds for which sampled record sizes are used: sampling takes longer than all other requests of a trigger.
SAMPLE_EVERY_S = 30.0


class KafkaDataSource(DataSource):
    """Kafka as a PySpark data source, with the rows and options of Spark's own connector."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``; Spark reserves ``kafka`` for its own connector."""
        return "thinconsumer"

    def schema(self) -> StructType:
        """Return the columns. Without a user's schema, ``load()`` calls this, and so raises for wrong options."""
        prepare()
        return spark_schema(include_headers=self._options().include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        prepare()
        options = self._options()
        options.batch_start()
        for name in options.ignored_in_batch():
            log.warning("%s has no effect in a batch read", name)
        return KafkaBatchReader(options, _columns(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        prepare()
        options = self._options()
        options.stream_start()
        if options.is_limited and not HAS_LIMITS:
            names = ", ".join(sorted(options.given & source_options.LIMITS))
            raise KafkaConfigurationError(
                f"{names}: this PySpark has no read limits, so a batch reads everything available: leave the option "
                "out, or use PySpark 4.2 or newer"
            )
        return KafkaStreamReader(options, _columns(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise KafkaConfigurationError("a topic cannot be overwritten: write with mode('append')")
        from .sink import KafkaBatchWriter  # on demand: importing the producer delays the start of a query

        return KafkaBatchWriter(self._write_settings(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the stream writer. ``overwrite`` (output mode complete) appends each result to the earlier ones."""
        from .sink import KafkaStreamWriter

        return KafkaStreamWriter(self._write_settings(schema))

    def _write_settings(self, schema: StructType) -> WriteSettings:
        from .writing import parse_write

        return parse_write(dict(self.options), [(one.name, one.dataType.simpleString()) for one in schema.fields])

    def _options(self) -> SourceOptions:
        return source_options.parse(dict(self.options))


class _Reader:
    def __init__(self, options: SourceOptions, columns: tuple[str, ...], cluster: ClusterClient | None = None) -> None:
        self._options = options
        self._cluster = ClusterClient(options) if cluster is None else cluster
        self._columns = columns

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read one range; runs on an executor."""
        prepare()
        # For an empty list of partitions, Spark calls this with None (4.0 and 4.1) or InputPartition(None).
        if partition is None or partition.value is None:
            return iter(())
        return read(partition.value, self._options, self._columns, attempt=task_attempt())

    def _tasks(self, plan: planner.ReadPlan, topic_ids: Mapping[TopicPartition, bytes]) -> Sequence[InputPartition]:
        self._handle_losses(plan.losses)
        ranges = planner.split_ranges(
            plan.ranges, parts_min=self._options.min_partitions, records_max=self._options.max_records_per_partition
        )
        return [InputPartition(one._replace(topic_id=topic_ids[one.tp])) for one in ranges]

    def _handle_losses(self, losses: Sequence[planner.Loss]) -> None:
        """Raise the losses if ``failOnDataLoss`` is true, else log them."""
        if losses and self._options.fail_on_data_loss:
            raise planner.DataLossError(losses)
        if losses:
            log.warning("%s", planner.describe_losses(losses))

    def _cluster_offsets(
        self, partitions: Iterable[TopicPartition], *bounds: Bound
    ) -> tuple[list[planner.ClusterOffsets], Found]:
        """Return the offsets that each of ``bounds`` (start, end) needs; and the whole result of the look-up."""
        for bound, option in zip(bounds, ("startingOffsets", "endingOffsets")):
            planner.check_every_partition_named(bound, partitions, option)
        asked = [planner.times_to_look_up(bound, partitions) for bound in bounds]
        answers = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST), dict.fromkeys(partitions, LATEST), *asked)
        earliest, latest, *found = answers.offsets
        result = []
        for bound, times in zip(bounds, found):
            matched: dict[TopicPartition, int | None] = {tp: one if one >= 0 else None for tp, one in times.items()}
            if isinstance(bound, AtCommitted):
                matched = self._cluster.committed(bound.group, partitions)
            result.append(planner.ClusterOffsets(earliest, latest, matched))
        return result, answers


class KafkaBatchReader(_Reader, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, planned with the logs' current offsets."""
        options = self._options
        starting, ending = options.batch_start(), options.batch_end()
        try:
            partitions = self._cluster.partitions()
            (at_start, at_end), found = self._cluster_offsets(partitions, starting, ending)
        finally:
            self._cluster.close()
        first = planner.offsets_of(starting, at_start, no_match_is_latest=options.no_match == "latest")
        last = planner.offsets_of(ending, at_end, no_match_is_latest=True)
        if found.order.held:
            last = self._open(first, last, at_start, found.order)
        return self._tasks(planner.plan_batch(first, last, at_start), partitions)

    @staticmethod
    def _open(first: Offsets, last: Offsets, cluster: planner.ClusterOffsets, found: order.TopicOrder) -> Offsets:
        begin = {tp: max(offset, cluster.earliest[tp]) for tp, offset in first.items()}
        ends = {tp: min(offset, cluster.latest[tp]) for tp, offset in last.items()}
        opened = found.open_ends_of_batch(begin, ends, cluster.earliest)
        held = [tp for tp in sorted(ends) if opened[tp] < ends[tp]]
        if held:
            log.warning(
                "%s: records are left out, since this batch lacks earlier records of their keys in other partitions",
                partition_names(held),
            )
        return {tp: opened[tp] if tp in held else offset for tp, offset in last.items()}


class LogEnds(NamedTuple):
    """The log ends of all partitions, the ``TopicOrder`` of their topics, and when both were looked up."""

    latest: Offsets
    order: order.TopicOrder
    when: order.LookedUp


class KafkaStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches. The module ``offsets`` describes the format of their offsets."""

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        cluster: ClusterClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(options, columns, cluster)
        self._clock = clock
        self._wall_clock = wall_clock
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None  #: The last offsets committed for ``commitGroup``.
        #: Partitions in the stream's offsets that were removed from counted topics.
        self._removed: frozenset[TopicPartition] = frozenset()
        self._held: frozenset[TopicPartition] = frozenset()  #: Partitions that wait for others to be read.
        #: Where the next micro-batch starts, which PySpark 4.0 and 4.1 do not pass to :meth:`latestOffset`.
        self._seen: Json | None = None
        #: With the trigger AvailableNow, the log end offsets at which the stream ends; None until they are looked up.
        self._target: LogEnds | None = None
        self._has_target = False
        self._fired_at: float | None = None
        self._sizes: list[tuple[int, int]] = []  #: (number of offsets, bytes) sampled in each of some partitions.
        self._sampled_at = float("-inf")

    def initialOffset(self) -> Json:
        """Return ``{}``: newer offsets would skip records when Spark repeats the first batch after a crash."""
        return {}

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Return the end of the next micro-batch; ``start`` itself if that would be empty and is not the first.

        If Spark passes ``start``, the batch that ended there is in its checkpoint, so ``start`` is committed for the
        group here. Spark calls :meth:`commit` one batch later, so an idle stream's last batch would not be committed.
        """
        is_finished = bool(start)
        if start is None:
            start = self._seen or {}
        begin, before = order.offsets_of(start), order.state_of(start)
        if start:
            ends = self._find_latest(begin)
        else:
            begin, ends = self._begin()
        if is_finished:
            self.commit(start)  # after the lookup, which shows the partitions that were removed
        opened, counted = self._open_ends(begin, ends), ends.order.counted
        offered, state = order.open_topics(begin, opened, before, ends.when, self._options.order, counted)
        self._note_held(begin, offered, ends)
        end = self._limit(begin, offered, ends, limit)
        state = order.unfinished(state, end)
        if not start:
            self._seen = first_batch_end(begin, end)
        elif end == begin and state == before:
            self._seen = start
        else:
            # If no partition exists, to_json() returns ``{}``, which is also the offset before the first batch: the
            # stream would start anew. So the end is written like that of a first batch, which is never ``{}``.
            self._seen = order.with_state(to_json(end), state) or first_batch_end({}, {})
        return self._seen

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of a micro-batch, which Spark passes to :meth:`latestOffset` (PySpark 4.2 and newer).

        ``latestOffset`` only tests whether the limit is ReadAllAvailable, and takes numbers from the options.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Have the stream end at the current log end offsets, which the next :meth:`latestOffset` looks up."""
        self._has_target = True

    def reportLatestOffset(self) -> Json | None:
        """Return the log end offsets that :meth:`latestOffset` found, for Spark's progress reports."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch, which may be repeated after a crash."""
        self._seen = end
        first = first_batch_start(end) if not start else order.offsets_of(start)
        until = order.offsets_of(end)
        if first is None and until:
            raise KafkaConfigurationError(
                "the checkpoint lacks the start of the first batch, which Spark's own connector planned but did not "
                "finish: finish it with that connector, or give this query a checkpoint of its own"
            )
        if first is None or first == until:
            return []
        there = self._cluster.partitions(known=first)
        earliest = self._cluster.earliest(tp for tp in until if tp in there)
        return self._tasks(planner.plan_micro_batch(first, until, earliest), there)

    def commit(self, end: Json) -> None:
        """Commit the end of a finished batch for ``commitGroup``."""
        group = self._options.commit_group
        offsets = {tp: offset for tp, offset in order.offsets_of(end).items() if tp not in self._removed}
        if group is not None and offsets != self._committed and self._cluster.commit(group, offsets):
            self._committed = offsets

    def stop(self) -> None:
        """Close connections. PySpark up to 4.3 does not call this when a query stops."""
        self._cluster.close()

    def _begin(self) -> tuple[Offsets, LogEnds]:
        """Return the start offsets of a new stream, and the log ends."""
        starting, begun_ms = self._options.stream_start(), self._now_ms()
        (cluster,), found = self._cluster_offsets(self._cluster.partitions(), starting)
        begin = planner.offsets_of(starting, cluster, no_match_is_latest=self._options.no_match == "latest")
        if not isinstance(starting, AtTimes):
            self._handle_losses(planner.plan_batch(begin, cluster.latest, cluster).losses)
            begin = {tp: min(max(offset, cluster.earliest[tp]), cluster.latest[tp]) for tp, offset in begin.items()}
        return begin, self._remember(dict(cluster.latest), found, begun_ms)

    def _find_latest(self, begin: Offsets) -> LogEnds:
        if self._target is not None:
            return self._target
        begun_ms = self._now_ms()
        found = self._cluster.latest(self._cluster.partitions(known=begin), begin)
        (latest,) = found.offsets
        # Partitions that were marked for deletion are removed once retention has emptied them. Their offsets stay part
        # of the stream's: if the count grows again, a new partition of the same number continues after them.
        removed = {tp: offset for tp, offset in begin.items() if tp not in latest and tp.topic in found.order.counted}
        self._removed = frozenset(removed)
        self._handle_losses(planner.removed_before_read(removed, self._latest or {}))
        return self._remember({**latest, **removed}, found, begun_ms)

    def _remember(self, latest: Offsets, found: Found, begun_ms: int) -> LogEnds:
        self._latest = latest
        ends = LogEnds(latest, found.order, order.LookedUp(begun_ms, self._now_ms()))
        if self._has_target:
            self._target = ends
        return ends

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    def _open_ends(self, begin: Offsets, ends: LogEnds) -> Offsets:
        """Return the offset up to which the next micro-batch may read a partition: its log end, unless it is held."""
        held_topics = ends.order.held.keys()
        if not held_topics:
            return ends.latest
        # Partitions may have been removed since the target of AvailableNow was looked up.
        there = self._cluster.partitions(known=begin).keys() if self._has_target else ends.latest.keys() - self._removed
        earliest = self._cluster.earliest(tp for tp in ends.latest if tp.topic in held_topics and tp in there)
        return ends.order.open_ends(begin, ends.latest, earliest)

    def _note_held(self, begin: Offsets, offered: Offsets, ends: LogEnds) -> None:
        """Log which partitions are held, if that has changed: an idle query must say what it waits for."""
        held = frozenset(tp for tp, end in ends.latest.items() if offered.get(tp, begin.get(tp, 0)) < end)
        if held != self._held:
            self._held = held
            waits = f"{partition_names(held)}: held until other partitions have been read further"
            log.info("%s", waits if held else "no partition is held any more")

    def _limit(self, begin: Offsets, offered: Offsets, ends: LogEnds, limit: Any) -> Offsets:
        options = self._options
        if not options.is_limited or limit is None or type(limit).__name__ == "ReadAllAvailable" or offered == begin:
            return offered
        new = offered.keys() - begin.keys()
        earliest = self._cluster.earliest(new) if new else {}
        if options.min_offsets_per_trigger is not None and not self._has_target:
            # Held offsets count, too: otherwise the last few offsets before them could wait for the maximum delay.
            now, backlog = self._clock(), planner.backlog_of(begin, ends.latest, earliest)
            waited = float("inf") if self._fired_at is None else (now - self._fired_at) * 1000
            if backlog < options.min_offsets_per_trigger and waited < options.max_trigger_delay_ms:
                return begin
            self._fired_at = now
        offsets_max = self._offsets_max(begin, offered)
        if offsets_max is None or planner.backlog_of(begin, offered, earliest) <= offsets_max:
            return offered
        return planner.limit_ends(begin, offered, earliest, offsets_max)

    def _offsets_max(self, begin: Offsets, latest: Offsets) -> int | None:
        options = self._options
        found = [] if options.max_offsets_per_trigger is None else [options.max_offsets_per_trigger]
        if options.max_bytes_per_trigger is not None:
            now = self._clock()
            if now >= self._sampled_at + SAMPLE_EVERY_S:
                self._sizes = self._cluster.sizes(begin, latest) or self._sizes
                self._sampled_at = now if self._sizes else self._sampled_at
            found.append(planner.offsets_within(options.max_bytes_per_trigger, self._sizes))
        return min(found, default=None)


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the columns of Spark's own connector as type objects: PySpark needs a JVM to parse a DDL string."""
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    text, binary, integer = StringType(), BinaryType(), IntegerType()
    types = (binary, binary, text, integer, LongType(), TimestampType(), integer, ArrayType(header))
    fields = [StructField(name, kind) for name, kind in zip(COLUMNS, types)]
    return StructType(fields if include_headers else fields[:-1])


def _columns(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """Return the names of a schema's columns, which may be only some; other names or types raise an error."""
    types = {one.name: one.dataType for one in spark_schema(include_headers=options.include_headers).fields}
    for one in schema.fields:
        if one.name not in types:
            raise KafkaConfigurationError(
                f"no column {one.name!r}: the columns are {', '.join(types)}, and headers with includeHeaders"
            )
        if one.dataType != types[one.name]:
            raise KafkaConfigurationError(
                f"column {one.name!r} must have the type {types[one.name].simpleString()}: cast it after reading"
            )
    return tuple(schema.fieldNames())


def task_attempt() -> int:
    """Return the number of earlier attempts of the current task."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
