"""Named random generators (*streams*): every purpose has its own, derived from the seed and the name.

A new stream, or one more draw from a stream, therefore changes no draw from the other streams: a seed that found a bug
still finds it after most changes. ``random`` seeds from strings by SHA-512, not by ``hash()``, which differs between
processes.
"""

import random


class Streams:
    """All random generators of one seed. ``streams("network/latency")`` is the same object each time."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def __call__(self, name: str) -> random.Random:
        """Return the generator of that name."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(f"{self.seed}/{name}")
        return stream
