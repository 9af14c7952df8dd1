"""Which offsets and timestamps of a partition a predicate allows.

Polars has no public tree of an expression's nodes. ``meta.pop`` returns the inputs of its last operation, and the
operation is found by trying: ``(left >= right).meta.eq(predicate)``. Whatever is not recognized allows everything,
since the predicate is applied to the rows in any case.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from ..types import TopicPartition

Comparison = Callable[[Any, Any], Any]
#: Above all offsets and timestamps.
MAX = 2**63
#: Expressions nested more deeply are not looked into: a filter by a thousand conditions would exceed Python's stack.
DEPTH_MAX = 100


class Bounds(NamedTuple):
    """The records that may be wanted: offsets from ``start`` to ``end``, and timestamps from ``since`` to ``until``.

    ``end`` and ``until`` are exclusive. Timestamps are in microseconds.
    """

    start: int = 0
    end: int = MAX
    since: int = -MAX
    until: int = MAX

    @property
    def is_empty(self) -> bool:
        """Whether no record can match."""
        return self.start >= self.end or self.since >= self.until

    def both(self, other: Bounds) -> Bounds:
        """Return the bounds of records that are within these and others."""
        lows, highs = zip(self[::2], other[::2]), zip(self[1::2], other[1::2])
        return _of(map(max, lows), map(min, highs))

    def either(self, other: Bounds) -> Bounds:
        """Return bounds that contain these and others."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        lows, highs = zip(self[::2], other[::2]), zip(self[1::2], other[1::2])
        return _of(map(min, lows), map(max, highs))


def _of(lows: Any, highs: Any) -> Bounds:
    (start, since), (end, until) = lows, highs
    return Bounds(start, end, since, until)


#: Returns what is allowed in a partition.
Allowed = Callable[[TopicPartition], Bounds]
ALL, NOTHING = Bounds(), Bounds(end=0)
#: Each comparison, with the one that is true if both sides are exchanged, and the range of integers for which it is.
_COMPARISONS: dict[Comparison, tuple[Comparison, Callable[[int], tuple[int, int]]]] = {
    operator.ge: (operator.le, lambda value: (value, MAX)),
    operator.gt: (operator.lt, lambda value: (value + 1, MAX)),
    operator.le: (operator.ge, lambda value: (-MAX, value + 1)),
    operator.lt: (operator.gt, lambda value: (-MAX, value)),
    operator.eq: (operator.eq, lambda value: (value, value + 1)),
}
_CLOSED: dict[Any, tuple[Comparison, Comparison]] = {
    "both": (operator.ge, operator.le),
    "left": (operator.ge, operator.lt),
    "right": (operator.gt, operator.le),
    "none": (operator.gt, operator.lt),
}


def parse(predicate: pl.Expr, depth: int = DEPTH_MAX) -> Allowed:
    """Return a function that returns what ``predicate`` allows in a partition; no row that it selects is outside."""
    inputs = predicate.meta.pop()[::-1] if depth else []
    if len(inputs) == 2:
        left, right = inputs
        if (left & right).meta.eq(predicate):
            return _together(Bounds.both, parse(left, depth - 1), parse(right, depth - 1))
        if (left | right).meta.eq(predicate):
            return _together(Bounds.either, parse(left, depth - 1), parse(right, depth - 1))
        for compare, (mirrored, _) in _COMPARISONS.items():
            if compare(left, right).meta.eq(predicate):
                return _together(Bounds.both, _compared(left, compare, right), _compared(right, mirrored, left))
        if left.is_in(right).meta.eq(predicate):
            return _one_of(left, right)
    elif len(inputs) == 3:
        column, low, high = inputs
        for closed, (above, below) in _CLOSED.items():
            if column.is_between(low, high, closed=closed).meta.eq(predicate):
                return _together(Bounds.both, _compared(column, above, low), _compared(column, below, high))
    return _everything


def _together(combine: Callable[[Bounds, Bounds], Bounds], left: Allowed, right: Allowed) -> Allowed:
    return lambda tp: combine(left(tp), right(tp))


def _everything(tp: TopicPartition) -> Bounds:
    return ALL


def _compared(column: pl.Expr, compare: Comparison, other: pl.Expr) -> Allowed:
    """Return what a comparison allows: everything unless ``column`` is one and ``other`` a constant."""
    name, constant = _column_and_constant(column, other)
    if constant is None:
        return _everything
    value, limits = constant.item(), _COMPARISONS[compare][1]
    if name == "timestamp" and isinstance(constant.dtype, pl.Datetime) and constant.dtype.time_unit != "ns":
        since, until = limits(constant.dt.epoch("us").item())
        return lambda tp: Bounds(since=since, until=until)
    if name == "offset" and isinstance(value, int):
        start, end = limits(value)
        return lambda tp: Bounds(start, end)
    if isinstance(value, {"topic": str, "partition": int}.get(name, ())):
        return lambda tp: ALL if compare(getattr(tp, name), value) else NOTHING
    return _everything


def _one_of(column: pl.Expr, other: pl.Expr) -> Allowed:
    name, constant = _column_and_constant(column, other)
    values = None if constant is None else constant.to_list()[0]
    if not isinstance(values, list) or None in values:
        return _everything
    if name in TopicPartition._fields:
        return lambda tp: ALL if getattr(tp, name) in values else NOTHING
    if name == "offset":
        return lambda tp: Bounds(min(values), max(values) + 1) if values else NOTHING
    return _everything


def _column_and_constant(column: pl.Expr, other: pl.Expr) -> tuple[str, pl.Series | None]:
    """Return the column's name, and the value of ``other`` as a series; None unless it depends on no column."""
    names = (*TopicPartition._fields, "offset", "timestamp")
    name = next((name for name in names if column.meta.eq(pl.col(name))), "")
    if not name or other.meta.root_names():
        return name, None
    constant = pl.select(other).to_series()
    return name, None if len(constant) != 1 or constant.has_nulls() else constant
