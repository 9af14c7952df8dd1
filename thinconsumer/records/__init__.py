"""Record batches: finding them in a Fetch response, decoding them to rows, and encoding them.

Owns the three message formats, their checksums and codecs. Knows no broker, no position and no consumer: the bytes of a
partition go in, rows and typed errors with partition and offset come out.

``batch`` walks headers and decodes; ``columns`` and ``legacy`` know the two record layouts; ``aborted`` tells which
batches read_committed leaves out; ``compression`` the codecs; ``builder`` the way back.
"""

from __future__ import annotations

from .aborted import AbortedTransactions
from .batch import ControlType, RecordBatch, info, split
from .rows import deserialize

__all__ = ["AbortedTransactions", "ControlType", "RecordBatch", "deserialize", "info", "split"]
