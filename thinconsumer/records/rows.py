"""Build ``ConsumerRecord`` objects from columns, and apply deserializers to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import DeserializationError, DeserializerNotReadyError, RetriableDeserializationError
from ..types import ConsumerRecord, TopicPartition
from .columns import Columns
from .encoded_headers import USE, RecordWithEncodedHeaders, new_record_with_encoded_headers
from .headers import Header, read_headers

if TYPE_CHECKING:
    from .columnar.lazy_rows import LazyRows

Raw = ConsumerRecord["bytes | None", "bytes | None"]

#: Makes a record from the tuple of its fields: the fastest way to instantiate a tuple subclass.
new_record: Callable[[tuple[object, ...]], Raw] = type.__call__.__get__(ConsumerRecord)


class ColumnDeserializer(Protocol):
    """Deserializes the keys or the values of many records at once."""

    @property
    def uses_headers(self) -> bool:
        """Whether :meth:`results` reads its ``headers``. If not, they may be undecoded, and need not match ``data``."""

    def results(self, topic: str, headers: Iterable[Sequence[Header]], data: Iterable[bytes]) -> Iterator[Any]:
        """Yield the object for each of ``data``, given the headers of its record."""


def build(
    topic: str, partition: int, leader_epoch: int, timestamp_type: int, columns: Columns, start: int = 0
) -> list[ConsumerRecord[bytes | None, bytes | None]]:
    """Return the records of a batch from offset ``start`` on as ``ConsumerRecord`` objects."""
    offsets, timestamps, keys, values, headers = columns
    if len(offsets) == 1:  # the iterators below take three times as long for a single record
        if offsets[0] < start:
            return []
        fields = topic, partition, leader_epoch, offsets[0], timestamps[0], timestamp_type
        return [new_record((*fields, keys[0], values[0], headers[0]))]
    rows = list(
        map(
            new_record,
            zip(
                repeat(topic), repeat(partition), repeat(leader_epoch), offsets, timestamps, repeat(timestamp_type),
                keys, values, headers,
            ),
        )
    )  # fmt: skip
    if rows and offsets[0] < start:
        del rows[: bisect_left(offsets, start)]
    return rows


def deserialize(
    records: Sequence[Raw],
    key: ColumnDeserializer | None,
    value: ColumnDeserializer | None,
    interrupted: Callable[[int], object] = lambda offset: None,
) -> tuple[list[ConsumerRecord[Any, Any]], DeserializationError | None]:
    """Apply the deserializers to keys and values; without a deserializer they stay bytes, and null stays null.

    The records are of one partition and of one class. Encoded headers are decoded if a deserializer uses them.
    Returns the records before the first one that cannot be deserialized, and the error to raise after they are
    consumed. If a deserializer raises a ``BaseException`` that is no ``Exception``, as Ctrl-C does, calls
    ``interrupted`` with the offset of the record, and lets the exception pass.
    """
    count = len(records)
    if not count:
        return [], None
    # Fields are taken and put together as columns, at C's speed: for each record, only the deserializers are called.
    if isinstance(records, list):
        new = new_record_with_encoded_headers if isinstance(records[0], RecordWithEncodedHeaders) else new_record
        # A raw record stores nine items, which are taken here. Iterating over the record would yield all 13 items of a
        # ``ConsumerRecord``, and decode its headers.
        columns: list[Any] = [*zip(*map(tuple.__iter__, records))]
    else:
        new, columns = cast("LazyRows", records).columns()
    *first, keys, values, headers = columns
    if any(each.uses_headers for each in (key, value) if each):
        if new is new_record_with_encoded_headers:
            USE.reads += count
            new, headers = new_record, map(read_headers, headers)
        headers = [*islice(headers, count)]
    topic = next(iter(first[0]))
    done: list[list[object]] = []
    sizes: list[list[int]] = []
    failure: tuple[str, Exception] | None = None
    for field, data, deserializer in (("key", keys, key), ("value", values, value)):
        sizes.append([-1 if piece is None else len(piece) for piece in data])
        if deserializer is None:
            done.append(data)
            continue
        results, error = _results(deserializer, topic, headers, data[:count], lambda n: interrupted(records[n].offset))
        if error is not None:
            count, failure = len(results), (field, error)
        done.append(results)
    rows = list(map(new, zip(*first, *done, headers, *sizes)))  # as many as the shortest column has
    return rows, None if failure is None else _failed(records[count], *failure)


def deserialize_good(
    records: Sequence[Raw],
    key: ColumnDeserializer | None,
    value: ColumnDeserializer | None,
    interrupted: Callable[[int], object],
    on_bad_record: Callable[[DeserializationError], object],
) -> tuple[list[ConsumerRecord[Any, Any]], DeserializationError | None]:
    """Do the same as :func:`deserialize`, but leave out each record for which ``on_bad_record`` returns.

    If it raises an ``Exception``, the record's error is returned with that exception as its cause. It is not called for
    a record that the deserializer can read later.
    """
    found, failure = deserialize(records, key, value, interrupted)
    # From the first bad record on one at a time: to try all others again after each bad one would take quadratic time.
    for n, record in enumerate(records[len(found) :] if failure is not None else ()):
        if n:
            more, failure = deserialize([record], key, value, interrupted)
            found += more
        if failure is None:
            continue
        if failure.retriable:
            return found, failure
        try:
            on_bad_record(failure)
        except DeserializerNotReadyError as raised:
            return found, _failed(record, failure.field, raised)
        except Exception as raised:  # noqa: BLE001  # user code may raise anything
            if raised is not failure:
                failure.__cause__ = raised
            return found, failure
        except BaseException:
            interrupted(failure.offset)
            raise
    return found, None


def _results(
    deserializer: ColumnDeserializer,
    topic: str,
    headers: Iterable[Sequence[Header]],
    data: Sequence[bytes | None],
    interrupted: Callable[[int], object],
) -> tuple[list[object], Exception | None]:
    """Return the deserialized data before the first piece that fails, and the exception for it (None if none fails).

    If the deserializer raises a ``BaseException`` that is no ``Exception``, calls ``interrupted`` with the index of the
    piece, and lets the exception pass.
    """
    given = [piece for piece in data if piece is not None]
    has_nulls = len(given) < len(data)
    if has_nulls and deserializer.uses_headers:
        headers = [some for some, piece in zip(headers, data) if piece is not None]
    results: list[object] = []
    error: Exception | None = None
    try:
        results.extend(deserializer.results(topic, headers, given))  # keeps the results before an exception
    except Exception as raised:  # noqa: BLE001  # user code may raise anything; the error reports it with the record
        error = raised
    except BaseException:
        given_at = [place for place, piece in enumerate(data) if piece is not None]
        if len(results) < len(given_at):
            interrupted(given_at[len(results)])
        raise
    else:
        if len(results) < len(given):
            error = StopIteration("the deserializer raised it")  # a StopIteration ends ``map`` without an error
    if has_nulls:
        places = [place for place, piece in enumerate(data) if piece is not None]
        found = dict(zip(places, results))
        results = [found.get(place) for place in range(len(data) if error is None else places[len(results)])]
    return results, error


def _failed(record: ConsumerRecord[bytes | None, bytes | None], field: str, exc: Exception) -> DeserializationError:
    is_bad = not isinstance(exc, DeserializerNotReadyError)
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    go_on = f"skip(error) or seek to {record.offset + 1} to continue after it"
    failed = f"failed for {where}: {type(exc).__name__}: {exc}; {go_on}"
    error = (DeserializationError if is_bad else RetriableDeserializationError)(
        f"the {field} deserializer {failed if is_bad else f'is not ready for {where}: {exc}'}",
        TopicPartition(record.topic, record.partition),
        record.offset,
        record.offset + 1,
        field=field,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        timestamp=record.timestamp,
    )
    error.__cause__ = exc
    if isinstance(error, RetriableDeserializationError):
        error.retry_after_ms = cast(DeserializerNotReadyError, exc).retry_after_ms
    return error
