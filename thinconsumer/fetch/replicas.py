"""Avoid followers that failed as preferred read replicas for a while (KIP-392).

A leader names a dead follower in the client's rack as the preferred read replica until the cluster notices the failure
(9 s by default), and sends no records meanwhile. While any follower is avoided, Fetches carry an empty rack id, and
leaders send the records themselves.
"""

from ..timers import Backoff, Random

#: How long to avoid a failed follower, in seconds. The initial value is longer than a cluster takes to notice a dead
#: broker. The time grows with each failure: if only this client cannot reach the follower, leaders keep naming it, and
#: each attempt may cost ``request_timeout_ms``.
SHUNNED = Backoff(initial=12.0, maximum=300.0)


class Replicas:
    """Track failed followers, and until when to avoid each."""

    __slots__ = ("_random", "failures", "until")

    def __init__(self, random: Random) -> None:
        self._random = random
        self.failures: dict[int, int] = {}  #: By follower: consecutive failed Fetches.
        self.until: dict[int, float] = {}  #: By follower: when to fetch from it again.

    def failed(self, node_id: int, now: float) -> None:
        """Avoid a follower after a failed Fetch, which counts once even if several partitions report the failure."""
        if not self.may_follow(node_id, now):
            return
        failures = self.failures[node_id] = self.failures.get(node_id, 0) + 1
        self.until[node_id] = now + SHUNNED.delay(failures, self._random)

    def worked(self, node_id: int) -> None:
        """Reset the node's failure count after a successful response.

        If the node is being avoided, it is avoided until the time already set.
        """
        self.failures.pop(node_id, None)

    def may_follow(self, node_id: int, now: float) -> bool:
        """Return whether to accept this node as a preferred read replica."""
        return now >= self.until.get(node_id, now)

    def any_shunned(self, now: float) -> bool:
        """Return whether any follower is being avoided, so that Fetches must carry an empty rack id."""
        self.until = {node_id: until for node_id, until in self.until.items() if until > now}
        return bool(self.until)
