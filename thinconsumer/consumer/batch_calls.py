"""The methods of the public Consumer that return columns instead of records."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ..errors import IllegalArgumentError
from ..net.imports import import_uninterrupted
from ..types import TopicPartition
from .arguments import is_whole, to_seconds

if TYPE_CHECKING:
    from ..client import Shell
    from ..records.columnar.record_columns import RecordColumns
    from .reader import ConsumerCore

#: The module that needs numpy.
DECODER = f"{__name__.split('.')[0]}.records.columnar.decode"
#: Default ``max_bytes`` of one call. Calls that return more take longer per byte, since they wait for memory.
MAX_BYTES = 8 << 20
#: Upper limit of ``max_bytes``: byte offsets in one result must fit into 31 bits, and the last batch may add 256 MB.
MAX_BYTES_LIMIT = 1 << 30


class BatchCalls:
    """A base class of :class:`Consumer`."""

    _reader: ConsumerCore
    _shell: Shell
    _warned_of_seconds = False

    def _poll_seconds(self, timeout_ms: float) -> float:
        """Return a poll's timeout in seconds; warn once if it looks like confluent-kafka's timeout in seconds."""
        # A float with more than two decimals was probably computed (the time left until a deadline): no warning.
        seconds = isinstance(timeout_ms, float) and 0 < timeout_ms < 50 and round(timeout_ms, 2) == timeout_ms
        if seconds and not self._warned_of_seconds:
            self._warned_of_seconds = True
            words = f"poll({timeout_ms!r}) waits {timeout_ms!r} milliseconds: for seconds write {timeout_ms * 1000:.0f}"
            warnings.warn(words, UserWarning, stacklevel=3)
        return to_seconds(timeout_ms)

    def poll_batches(self, timeout_ms: float = 0, max_bytes: int | None = None) -> dict[TopicPartition, RecordColumns]:
        """Return records as columns: numpy arrays, and on request an Arrow batch (:meth:`RecordColumns.to_arrow`).

        Waits, moves positions and raises errors as :meth:`poll` does; both methods can be used in turn. Returns whole
        batches as the producers wrote them, until their decompressed size reaches ``max_bytes`` (default: 8 MB).
        Deserializers are not applied: keys and values are bytes.

        Raises:
            ImportError: numpy is not installed (``pip install 'thinconsumer[arrow]'``).
        """
        _load()
        if max_bytes is not None and not is_whole(max_bytes, 1):
            raise IllegalArgumentError(f"max_bytes must be a whole number from 1 on, not {max_bytes!r}")
        limit = min(MAX_BYTES if max_bytes is None else max_bytes, MAX_BYTES_LIMIT)
        with self._shell.enter(touches=False):
            poll_result = self._reader.poll(self._poll_seconds(timeout_ms), limit, columns=True)
        # The last statement, as in poll: an exception before it leaves the positions unchanged, so no record is lost.
        self._reader.poll_result = poll_result
        return poll_result.columns


def _load() -> None:
    """Import the columnar decoder before the call begins."""
    try:
        import_uninterrupted(DECODER)
    except ImportError as exc:
        raise ImportError(f"poll_batches() needs numpy ({exc}): pip install 'thinconsumer[arrow]'") from exc
