"""The columns of many batches, one after the other."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .fields import HeaderPlaces

__all__ = ["FlatColumns"]

Int64s: TypeAlias = npt.NDArray[np.int64]


class FlatColumns(NamedTuple):
    """The columns of all decoded batches; the fields are described at :class:`.RecordColumns`, a slice of these."""

    offsets: Int64s
    timestamps: Int64s
    timestamp_types: npt.NDArray[np.int8]
    leader_epochs: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint8]
    key_starts: Int64s
    key_lengths: Int64s
    value_starts: Int64s
    value_lengths: Int64s
    headers: HeaderPlaces | None
