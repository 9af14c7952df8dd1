"""What Spark calls: the format ``thinconsumer``, its batch reader and its stream reader; its writers are in ``sink``.

Owns when each question is asked and what is kept between two calls; what the answers mean is the planner's. Spark
pickles all of this between processes, calls the readers in one process and ``read`` in others, and keeps of an offset
nothing but its JSON: what a task has to know is in its range or in the options. ``pushFilters`` is not defined, since
Spark 4.3 mixes up the results of queries that share one ``load()`` if it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from .columns import COLUMNS
from .lookup import Lookup
from .offsets import EARLIEST, LATEST, Json, Offsets, first_end, from_json, start_of, to_json
from .options import AtOffsets, Bound, Committed, SourceOptions
from .planner import (
    DataLossError,
    Facts,
    OffsetRange,
    Plan,
    check_named,
    ends,
    limited,
    must_wait,
    offsets_within,
    plan_batch,
    plan_micro_batch,
    question,
    split,
    starts,
    tell,
    waiting,
)
from .reading import ReadSettings, read

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 know no limits
    HAS_LIMITS = False
else:
    HAS_LIMITS = True

if TYPE_CHECKING:
    import pyarrow as pa

    from .write_options import WriteSettings

log = logging.getLogger(__name__)

#: How long what was seen of the sizes of records is believed; seconds.
SAMPLE_EVERY_S = 30.0


class KafkaPartition(InputPartition):
    """One task: a range of offsets, and nothing that may be out of date when it runs."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.range = wanted

    def __repr__(self) -> str:
        return f"KafkaPartition({self.range})"


class KafkaDataSource(DataSource):
    """Kafka as a source for Spark, with the rows and the options of Spark's own connector."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``; ``kafka`` is Spark's own and cannot be taken."""
        return "thinconsumer"

    def schema(self) -> StructType:
        """Return the columns; refuse wrong options here, which is when ``load()`` is called."""
        return spark_schema(include_headers=self._options().include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        found = self._options()
        found.start_of_batch()
        for name in found.ignored_in_batch():
            log.warning("%s has no effect in a batch read", name)
        return KafkaBatchReader(found, _columns(schema, found))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads a stream."""
        found = self._options()
        found.start_of_stream()
        if found.is_limited and not HAS_LIMITS:
            names = ", ".join(sorted(found.given & source_options.LIMITS))
            raise KafkaConfigurationError(
                f"{names}: this PySpark has no read limits, so that a batch takes all there is: leave it out, or use "
                "PySpark 4.2 or newer"
            )
        columns = _columns(schema, found)
        return KafkaAvailableNowReader(found, columns) if HAS_LIMITS else KafkaStreamReader(found, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a frame; refuse here what cannot be written."""
        if overwrite:
            raise KafkaConfigurationError("a topic cannot be overwritten: write with mode('append')")
        from .sink import KafkaBatchWriter  # not above: the process of a stream that is read would wait for it

        return KafkaBatchWriter(self._write_settings(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what writes a stream. With ``overwrite``, in complete mode, each result is added to those before."""
        from .sink import KafkaStreamWriter

        return KafkaStreamWriter(self._write_settings(schema))

    def _write_settings(self, schema: StructType) -> WriteSettings:
        from .write_options import parse_write

        return parse_write(dict(self.options), [(one.name, one.dataType.simpleString()) for one in schema.fields])

    def _options(self) -> SourceOptions:
        return source_options.parse(dict(self.options))


class _Reader:
    """What both readers do alike."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], lookup: Lookup | None = None) -> None:
        self._options = options
        self._lookup = Lookup(options) if lookup is None else lookup
        self._how = ReadSettings(
            options.kafka, columns, options.fail_on_data_loss, options.max_batch_bytes, options.poll_timeout_ms
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range; runs on an executor."""
        if not isinstance(partition, KafkaPartition):
            return iter(())  # Spark makes up one partition of nothing where there are none
        return read(partition.range, self._how, attempt=_attempt())

    def _tasks(self, plan: Plan, topic_ids: Mapping[TopicPartition, bytes]) -> Sequence[InputPartition]:
        self._judge(plan)
        ranges = split(
            plan.ranges,
            parts_min=self._options.min_partitions,
            records_max=self._options.max_records_per_partition,
        )
        return [KafkaPartition(one._replace(topic_id=topic_ids[one.tp])) for one in ranges]

    def _judge(self, plan: Plan) -> None:
        """Fail for what is lost, or tell it, as ``failOnDataLoss`` has it."""
        if plan.losses and self._options.fail_on_data_loss:
            raise DataLossError(plan.losses)
        if plan.losses:
            log.warning("%s", tell(plan.losses))

    def _facts(self, partitions: Iterable[TopicPartition], *bounds: Bound) -> list[Facts]:
        """Return what the cluster says about bounds, all in one round trip (two, if a group has to be asked)."""
        for bound, option in zip(bounds, ("startingOffsets", "endingOffsets")):
            check_named(bound, partitions, option)
        asked = [question(bound, partitions) for bound in bounds]
        earliest, latest, *found = self._lookup.offsets(
            dict.fromkeys(partitions, EARLIEST), dict.fromkeys(partitions, LATEST), *asked
        )
        result = []
        for bound, times in zip(bounds, found):
            committed: Mapping[Any, int | None] = {}
            if isinstance(bound, Committed):
                committed = self._lookup.committed(bound.group, partitions)
            matched = {tp: offset if offset >= 0 else None for tp, offset in times.items()}
            result.append(Facts(earliest, latest, matched, committed))
        return result


class KafkaBatchReader(_Reader, DataSourceReader):
    """Plans and reads one batch."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, from offsets as they are now."""
        options = self._options
        starting, ending = options.start_of_batch(), options.end_of_batch()
        try:
            partitions = self._lookup.partitions()
            at_start, at_end = self._facts(partitions, starting, ending)
        finally:
            self._lookup.close()
        first = starts(starting, at_start, no_match_is_latest=options.no_match_is_latest)
        return self._tasks(plan_batch(first, ends(ending, at_end), at_start), partitions)


class KafkaStreamReader(_Reader, DataSourceStreamReader):
    """Plans and reads micro-batches; see ``offsets`` for what an offset is."""

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(options, columns, lookup)
        self._clock = clock
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None  #: What this reader has committed for ``commitGroup``.
        self._seen: Json | None = None  #: The last end given out, for PySpark 4.0 and 4.1, which do not hand it in.
        self._target: Offsets | None = None  #: Where a stream of what is available now ends.
        self._has_target = False
        self._fired_at: float | None = None
        self._sizes: list[tuple[int, int]] = []  #: Offsets and bytes of the records looked at last, ...
        self._sample_at = float("-inf")  #: ... and when to look again.

    def initialOffset(self) -> Json:
        """Return the constant that stands for "not begun yet"; see ``offsets`` for why it is one."""
        return {}

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Return where the next micro-batch ends; ``start`` itself when there is none.

        Spark calls this only once the batch that ended at ``start`` is in its checkpoint, and again while the stream
        is idle, so that ``start`` is committed for the group here. It calls :meth:`commit` one batch later.
        """
        if start is None:
            start = self._seen or {}
        elif start:
            self.commit(start)
        begin: Offsets
        if start:
            begin, first = from_json(start), None
            latest = self._find_latest(begin)
        else:
            begin, latest = self._begin()
            first = begin
        end = self._limited(begin, latest, limit)
        if first is not None:
            self._seen = first_end(first, end)
        else:
            # The empty object would be a stream that has not begun yet.
            self._seen = start if end == begin else to_json(end) or first_end({}, {})
        return self._seen

    def reportLatestOffset(self) -> Json | None:
        """Return the ends of the logs as :meth:`latestOffset` found them, so that lag can be seen."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch, which may be one that is being repeated."""
        self._seen = end
        first = start_of(end) if not start else from_json(start)
        until = from_json(end)
        if first is None and until:
            raise KafkaConfigurationError(
                "the checkpoint does not say where the first batch began: Spark's own connector planned it and did not "
                "finish it. Let that one finish it, or give this query a checkpoint of its own"
            )
        if first is None or first == until:
            return []
        there = self._lookup.partitions(known=first)
        earliest = self._lookup.earliest(tp for tp in until if tp in there)
        return self._tasks(plan_micro_batch(first, until, earliest), there)

    def commit(self, end: Json) -> None:
        """Commit the end of a finished batch for ``commitGroup``."""
        group, offsets = self._options.commit_group, from_json(end)
        if group is not None and offsets != self._committed and self._lookup.commit(group, offsets):
            self._committed = offsets

    def stop(self) -> None:
        """Hang up. Spark does not always call this."""
        self._lookup.close()

    # -- inside

    def _begin(self) -> tuple[Offsets, Offsets]:
        """Return where a new stream begins, and where logs end: both are known from one round trip."""
        starting = self._options.start_of_stream()
        (facts,) = self._facts(self._lookup.partitions(), starting)
        found = starts(starting, facts, no_match_is_latest=self._options.no_match_is_latest)
        if isinstance(starting, (AtOffsets, Committed)):
            self._judge(plan_batch(found, facts.latest, facts))
            found = {tp: min(max(offset, facts.earliest[tp]), facts.latest[tp]) for tp, offset in found.items()}
        return found, self._noted(dict(facts.latest))

    def _find_latest(self, begin: Offsets) -> Offsets:
        if self._target is not None:
            return self._target
        return self._noted(self._lookup.latest(self._lookup.partitions(known=begin), begin))

    def _noted(self, latest: Offsets) -> Offsets:
        self._latest = latest
        if self._has_target:
            self._target = latest
        return latest

    def _limited(self, begin: Offsets, latest: Offsets, bound: Any) -> Offsets:
        options = self._options
        if not options.is_limited or bound is None or type(bound).__name__ == "ReadAllAvailable":
            return latest
        earliest = self._lookup.earliest(latest.keys() - begin.keys()) if latest.keys() - begin.keys() else {}
        backlog = waiting(begin, latest, earliest)
        if options.min_offsets_per_trigger is not None and not self._has_target:
            now = self._clock()
            waited = float("inf") if self._fired_at is None else (now - self._fired_at) * 1000
            if must_wait(backlog, options.min_offsets_per_trigger, waited, options.max_trigger_delay_ms):
                return begin
            self._fired_at = now
        most = self._most(begin, latest)
        return latest if most is None or backlog <= most else limited(begin, latest, earliest, most)

    def _most(self, begin: Offsets, latest: Offsets) -> int | None:
        options = self._options
        found = [] if options.max_offsets_per_trigger is None else [options.max_offsets_per_trigger]
        if options.max_bytes_per_trigger is not None:
            now = self._clock()
            if now >= self._sample_at:
                # Now and then: a look into records costs more than all the other questions of a trigger.
                self._sizes = self._lookup.sizes(begin, latest) or self._sizes
                self._sample_at = now + SAMPLE_EVERY_S if self._sizes else now
            found.append(offsets_within(options.max_bytes_per_trigger, self._sizes))
        return min(found, default=None)


if HAS_LIMITS:

    class KafkaAvailableNowReader(KafkaStreamReader, SupportsTriggerAvailableNow):
        """A stream reader with limits, for PySpark 4.2 and newer."""

        def getDefaultReadLimit(self) -> Any:
            """Return a limit that says which option there is; what it means is read from the options themselves."""
            options = self._options
            if options.max_offsets_per_trigger is not None:
                return ReadMaxRows(options.max_offsets_per_trigger)
            if options.max_bytes_per_trigger is not None:
                return ReadMaxBytes(options.max_bytes_per_trigger)
            if options.min_offsets_per_trigger is not None:
                return ReadMinRows(options.min_offsets_per_trigger)
            return ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:
            """From now on read up to where the logs end now, and then say that there is nothing more."""
            self._has_target = True


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the official connector's columns. In code, since PySpark reads DDL in the JVM only."""
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    types = (
        BinaryType(),
        BinaryType(),
        StringType(),
        IntegerType(),
        LongType(),
        TimestampType(),
        IntegerType(),
        ArrayType(header),
    )
    return StructType(
        [StructField(name, kind) for name, kind in zip(COLUMNS, types) if name != "headers" or include_headers]
    )


def _columns(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """Return the columns of a schema, which may leave some out; a schema given by hand is checked here."""
    types = {one.name: one.dataType for one in spark_schema(include_headers=options.include_headers).fields}
    for one in schema.fields:
        if one.name not in types:
            raise KafkaConfigurationError(
                f"no column {one.name!r}: there are {', '.join(types)}, and headers with includeHeaders"
            )
        if one.dataType != types[one.name]:
            raise KafkaConfigurationError(
                f"column {one.name!r} is of type {types[one.name].simpleString()}: read it as that, and cast it then"
            )
    return tuple(schema.fieldNames())


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
