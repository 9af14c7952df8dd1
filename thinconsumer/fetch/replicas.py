"""Which followers not to follow for a while (KIP-392).

A leader goes on naming a follower in the client's rack until the cluster has noticed that it is gone, nine seconds by
default, and sends no records meanwhile: a client that believes it each time reads nothing. So after a failure leaders
are asked as if we had no rack, and serve us themselves.
"""

from __future__ import annotations

from ..timers import Backoff, Random

#: Longer than clusters take to notice a dead broker; a follower that only we cannot reach is tried ever more rarely, as
#: each try may cost ``request_timeout_ms``. Seconds.
SHUNNED = Backoff(initial=12.0, maximum=300.0)


class Replicas:
    """Followers that failed, and until when they are not to be followed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures: dict[int, int] = {}
        self._until: dict[int, float] = {}

    def failed(self, node_id: int, now: float) -> None:
        """A follower could not be read from. Each partition that read there says so; it counts once."""
        if not self.may_follow(node_id, now):
            return
        failures = self._failures[node_id] = self._failures.get(node_id, 0) + 1
        self._until[node_id] = now + SHUNNED.delay(failures, self._random)

    def worked(self, node_id: int) -> None:
        """A node has answered: what it did before counts no more, but it is not followed earlier than it would be."""
        self._failures.pop(node_id, None)

    def may_follow(self, node_id: int, now: float) -> bool:
        """Return whether a leader's hint to this node shall be followed."""
        return now >= self._until.get(node_id, now)

    def any_shunned(self, now: float) -> bool:
        """Return whether leaders have to be asked as if we had no rack."""
        self._until = {node_id: until for node_id, until in self._until.items() if until > now}
        return bool(self._until)
