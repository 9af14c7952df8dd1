"""Record what goes into a consumer, and run the same client again with it: see docs/replay.md.

The client imports this room only if a program does.
"""

from .player import Replayed, replay
from .recording import RecordingConsumer
from .replay_driver import Divergence
from .trace_file import TraceError, read_trace

__all__ = ["Divergence", "RecordingConsumer", "Replayed", "TraceError", "read_trace", "replay"]
