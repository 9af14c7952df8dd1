"""Remove from a response everything that may differ between two brokers.

Ids are called by what they are the id of, or by the order in which they came up; times become distances from the
script's own; addresses and words become stars, so that it still counts whether there are any. Lists are sorted by what
their rows are about: real brokers answer in the order of a hash table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from thinconsumer.records.batch import RecordBatch
from thinconsumer.records.batches import split
from thinconsumer.wire import ZERO_UUID

STAR = "*"
#: Fields that identify a row, in order of preference.
KEYS = (
    "api_key", "name", "topic", "topic_id", "group_id", "transactional_id", "key", "member_id", "partition_index",
    "partition", "index", "broker_id", "node_id", "resource_name", "producer_id", "first_offset",
)  # fmt: skip
NEAR_MS = 10**9  #: Times further from the script's own are not about it.


class Normal:
    """One conversation's names for ids. ``prefix`` begins whatever the script itself has named."""

    def __init__(self, prefix: str, base_ms: int) -> None:
        self.prefix = prefix
        self.base_ms = base_ms
        self._names: dict[tuple[str, Any], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, answer: Any) -> Any:
        if answer is None:
            return "the connection was closed"
        return self._struct(answer)

    def _struct(self, struct: Any) -> dict[str, Any]:
        self._learn(struct)
        row: dict[str, Any] = {}
        for field in dataclasses.fields(struct):
            if field.name == "unknown_tags":
                continue
            row[field.name] = self._value(field.name, getattr(struct, field.name))
        return row

    def _learn(self, struct: Any) -> None:
        """An id beside a name is that name's from now on."""
        topic_id, name = getattr(struct, "topic_id", ZERO_UUID), getattr(struct, "name", None)
        if topic_id != ZERO_UUID and name:
            self._names.setdefault(("topic", topic_id), f"<id of {self._text(name)}>")

    def _value(self, name: str, value: Any) -> Any:
        rule = RULES.get(name)
        if rule is not None:
            return rule(self, value)
        if dataclasses.is_dataclass(value):
            return self._struct(value)
        if isinstance(value, list):
            return self._list(name, value)
        if isinstance(value, (bytes, memoryview)):
            return bytes(value).replace(self.prefix.encode(), b"~")
        return self._text(value) if isinstance(value, str) else value

    def _list(self, name: str, values: list[Any]) -> list[Any]:
        if not values or not dataclasses.is_dataclass(values[0]):
            return [self._text(one) if isinstance(one, str) else one for one in values]
        rows = [self._struct(one) for one in values]
        rows.sort(key=lambda row: [str(row.get(key, "")).zfill(8) for key in KEYS] + [repr(row)])
        return rows

    def _text(self, text: str) -> str:
        return text.replace(self.prefix, "~")

    # -- rules

    def symbol(self, kind: str, value: Any) -> str:
        key = (kind, value)
        if key not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[key] = f"<{kind} {self._counts[kind]}>"
        return self._names[key]

    def time(self, value: int) -> Any:
        """Return a time in milliseconds as a distance from the script's own."""
        if value < 0:
            return value
        near = abs(value - self.base_ms) < NEAR_MS
        return f"base{value - self.base_ms:+d}" if near else value

    def names(self, values: list[str]) -> list[str]:
        return sorted(map(self._text, values))

    def batches(self, data: Any) -> Any:
        if data is None:
            return None
        found, error = split(memoryview(data))
        rest = len(data) - sum(batch.size for batch in found)
        rows: list[Any] = [self._batch(batch) for batch in found]
        return rows + ([f"and {rest} bytes"] if rest else []) + ([repr(error)] if error else [])

    def _batch(self, batch: RecordBatch) -> dict[str, Any]:
        batch.check_crc()
        own_times = batch.timestamp_type == 0 and not batch.is_control
        row: dict[str, Any] = {
            "offsets": (batch.base_offset, batch.next_offset - 1),
            "epoch": batch.leader_epoch,
            "attributes": batch.attributes,
            "producer": (_producer(self, batch.producer_id), batch.producer_epoch),
            "sequence": int.from_bytes(batch.view[53:57], "big", signed=True),
            "count": batch.count,
            "times": (self.time(batch.base_timestamp), self.time(batch.max_timestamp)) if own_times else STAR,
        }
        if batch.is_control:
            row["control"] = int(batch.control_type())
        else:
            row["records"] = [
                (r.offset, r.key, r.value, r.headers, self.time(r.timestamp) if own_times else STAR)
                for r in batch.decode("t", 0)
            ]
        return row


def _id_of(kind: str, *none: Any) -> Callable[[Normal, Any], Any]:
    return lambda normal, value: value if value in none else normal.symbol(kind, value)


def _star(normal: Normal, value: Any) -> Any:
    return STAR if value else value


def _positive(normal: Normal, value: int) -> Any:
    return STAR if value > 0 else value


_producer = _id_of("producer", -1)

RULES: Mapping[str, Callable[[Normal, Any], Any]] = {
    "topic_id": _id_of("topic", ZERO_UUID),
    "member_id": _id_of("member", ""),
    "leader": _id_of("member", ""),
    "producer_id": _producer,
    "ongoing_txn_producer_id": _producer,
    "session_id": _id_of("session", 0),
    "client_instance_id": _id_of("client", ZERO_UUID),
    "subscription_id": _id_of("subscription"),
    "cluster_id": _star,
    "host": _star,
    "port": _positive,
    "rack": _star,
    "client_host": _star,
    "error_message": _star,
    "batch_index_error_message": _star,
    "log_append_time_ms": _positive,
    "timestamp": Normal.time,
    "records": Normal.batches,
    "subscribed_topic_names": Normal.names,
}
