"""When a token or another credential with an expiry is fetched again, and until when it is used.

After Java's ``ExpiringCredentialRefreshingLogin``: by default, a new credential is fetched after 80 % to 85 % of the
lifetime; if that fails, the old one is used until it expires. Java waits ten seconds after a failure, this client for a
backoff.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import SecurityOptions
from ..support.agenda import Alarm
from ..support.timers import Backoff, Random

#: Seconds after which a credential without a known expiry is fetched again: it may expire within minutes. This
#: costs little, since providers cache tokens, as kafka-python calls its provider for every connection.
UNKNOWN_LIFETIME = 240.0
#: Minimum seconds between two successful fetches. Without it, a credential that lives for milliseconds would be fetched
#: in a tight loop.
LEAST_PERIOD = 1.0


def refresh_after(lifetime: float, options: SecurityOptions, random: Random) -> float:
    """Return after how many seconds to replace a credential that expires in ``lifetime`` seconds."""
    window = options.sasl_login_refresh_window_factor + options.sasl_login_refresh_window_jitter * random.random()
    first = options.sasl_login_refresh_min_period_seconds
    buffer = options.sasl_login_refresh_buffer_seconds
    wanted = lifetime * min(window, 1.0)
    if lifetime >= first + buffer:
        wanted = lifetime - buffer if wanted > lifetime - buffer else max(wanted, first)
    return max(wanted, LEAST_PERIOD)


@dataclass(slots=True)
class Refresh:
    """Whether a credential must be fetched, and whether the last one may still be used.

    Times are monotonic, but an expiry is a time of the wall clock: while a laptop sleeps, the monotonic clock stands
    still and the token expires.
    """

    options: SecurityOptions
    random: Random
    planned: Alarm  #: When the next attempt is due; set by the owner for the first one.
    unknown_lifetime: float = UNKNOWN_LIFETIME
    expires_at: float | None = None  #: Wall seconds; None if unknown.
    is_obtained: bool = False  #: Whether an attempt has ever succeeded.
    failures: int = 0  #: Consecutive failed attempts.
    failing_since: float | None = None
    _obtained_at: float = 0.0

    def is_due(self, now: float, wall: float) -> bool:
        """Return whether an attempt is due: as planned, or earlier if the credential has expired (a laptop slept).

        After a failed attempt, only the plan counts. An expired credential must be LEAST_PERIOD old: otherwise a poll
        would never stop calling a provider whose credentials live for a millisecond.
        """
        has_expired = self.failures == 0 and self.is_obtained and not self.is_valid(wall)
        return self.planned.is_over(now) or (has_expired and now >= self._obtained_at + LEAST_PERIOD)

    def is_valid(self, wall: float) -> bool:
        """Return whether there is a credential that has not expired."""
        return self.is_obtained and (self.expires_at is None or wall < self.expires_at)

    def succeeded(self, expires_at: float | None, now: float, wall: float) -> None:
        """Record a new credential, and when to replace it."""
        self.is_obtained = True
        self._obtained_at = now
        self.expires_at = expires_at
        self.failures = 0
        self.failing_since = None
        if expires_at is None:
            self.planned.set(now + self.unknown_lifetime)
        else:
            self.planned.set(now + refresh_after(expires_at - wall, self.options, self.random))

    def renew_early(self, now: float) -> None:
        """Plan to replace the credential now if it is older than ``sasl_login_refresh_min_period_seconds``."""
        if now >= self._obtained_at + max(LEAST_PERIOD, self.options.sasl_login_refresh_min_period_seconds):
            self.planned.set_earlier(now)

    def rejected(self, now: float) -> None:
        """Plan to replace a credential that a broker has rejected, but not before it is as old as the longest backoff.

        If it were not replaced, the client would log in for hours with a credential that was revoked, or that has
        expired while this machine's clock is late.
        """
        pause = max(LEAST_PERIOD, self.options.sasl_login_retry_backoff_max_ms / 1000)
        self.planned.set_earlier(max(now, self._obtained_at + pause))

    def failed(self, now: float, *, retriable: bool) -> None:
        """Record a failed attempt: the next one waits for the backoff.

        After a failure that is not ``retriable``, the next attempt waits for the longest backoff: a server may lock an
        account whose credentials it has to reject in a fast sequence.
        """
        self.failures += 1
        if self.failing_since is None:
            self.failing_since = now
        maximum = self.options.sasl_login_retry_backoff_max_ms / 1000
        backoff = Backoff(max(0.01, self.options.sasl_login_retry_backoff_ms / 1000), max(0.01, maximum))
        delay = backoff.delay(self.failures, self.random)
        self.planned.set(now + (delay if retriable else max(delay, maximum, LEAST_PERIOD)))

    def has_lasted(self, now: float) -> bool:
        """Return whether attempts have failed for ``sasl_login_retry_backoff_max_ms``, as long as Java retries."""
        since = self.failing_since
        return since is not None and now - since >= self.options.sasl_login_retry_backoff_max_ms / 1000
