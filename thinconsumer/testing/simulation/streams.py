"""Randomness with names: every use has a stream of its own, derived from the seed and the name.

So a new knob, or one more draw somewhere, does not reshuffle everything else: a seed that found something still finds
it after most changes. Strings seed through SHA-512, not through ``hash()``, which differs between processes.
"""

from __future__ import annotations

import random


class Streams:
    """All streams of one seed. ``streams("network/latency")`` is the same object each time."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def __call__(self, name: str) -> random.Random:
        """Return the stream of that name."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(f"{self.seed}/{name}")
        return stream
