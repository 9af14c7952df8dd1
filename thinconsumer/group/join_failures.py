"""Failed joins of one member: the backoff before the next join, the log lines, and the error that polls raise."""

import logging

from ..errors import KafkaError
from ..failures import EXPULSIONS, GRACE, Action, OutageLog
from ..support.agenda import Agenda
from ..support.timers import Backoff, Random, Retry
from ..wire import Message
from .coordinator import GroupSettings

log = logging.getLogger(__name__)

#: Number of failed joins in a row that are retried without a backoff. While many members join, a generation may end
#: before this member has synced, and the member should join the next generation at once. If every generation ends that
#: early, unlimited retries without a backoff would be a tight loop.
AT_ONCE_MAX = 3
#: How many ConsumerGroupHeartbeats may follow each other without a pause.
BURST = 5
#: Number of log lines about failed joins that keep their level until a heartbeat succeeds; further ones are at DEBUG.
LINES_MAX = 4


class JoinFailurePolicy:
    """Track consecutive failed joins of one member, and decide when it may join again."""

    def __init__(self, settings: GroupSettings, group_id: str, random: Random, agenda: Agenda) -> None:
        self._group_id = group_id
        self._session_timeout = settings.session_timeout_ms / 1000
        self._backoff = Backoff.from_settings(settings)
        self._retry = Retry(self._backoff, random, agenda)
        #: The error of the last response, if it lasts until the application or an operator acts (a missing ACL, for
        #: example); else None. Polls raise the error of each response once, or in every poll if it is final.
        self.error: KafkaError | None = None
        self.is_final = False  #: Whether the member must not join again.
        self._raised_by: type[Message] | None = None
        self._outages = OutageLog(log)
        self._lines = 0
        self._recovers_at = 0.0  #: When :data:`BURST` heartbeats may follow each other without a pause again.
        self._pace = agenda.alarm()  #: After a burst of ConsumerGroupHeartbeats: when the next one may follow.

    def may_send(self, now: float) -> bool:
        """Return whether a JoinGroup, SyncGroup or ConsumerGroupHeartbeat may be sent now."""
        return not self._retry.pause.is_ahead(now) and not self._pace.is_ahead(now)

    def heartbeat_sent(self, now: float) -> None:
        """Count a ConsumerGroupHeartbeat: after :data:`BURST` without a pause, one may follow per two initial backoffs.

        A member acknowledges each new assignment at once. If a coordinator changed the assignment in each response, the
        member would otherwise send heartbeats without a pause, and OffsetFetch and ListOffsets as well.
        """
        pause = 2 * self._backoff.initial
        self._recovers_at = max(self._recovers_at, now) + pause
        due = self._recovers_at - (BURST - 1) * pause
        if due > now:
            self._pace.set(due)

    def back_off(self, now: float, *, at_once: bool = False, at_maximum: bool = False) -> None:
        """Count a failure and set the time of the next join.

        ``at_once`` skips the backoff, at most :data:`AT_ONCE_MAX` times in a row; ``at_maximum`` takes the longest
        backoff.
        """
        self._retry.failed(now)
        if at_once and self._retry.attempts <= AT_ONCE_MAX:
            self._retry.pause.set(now)
        if at_maximum:
            self._retry.pause.set(now + self._backoff.maximum)

    def heartbeat_succeeded(self) -> None:
        """End the backoff. A successful JoinGroup or SyncGroup does not end it: the generation may end at once."""
        if self._lines > LINES_MAX:
            about = self._group_id, self._lines - LINES_MAX
            log.info("group %s: stable after failed joins; %d log lines about them are at DEBUG", *about)
        self._lines = 0
        self._retry.succeeded()

    def log_limited(self, level: int, text: str, *args: object) -> None:
        """Log a line, at DEBUG after :data:`LINES_MAX` lines about failed joins since the last successful heartbeat."""
        self._lines += self._retry.attempts > 0
        log.log(level if self._lines <= LINES_MAX else logging.DEBUG, text, *args)

    def gap(self, text: str, now: float) -> None:
        """Log a long time between two polls, ever more rarely if a slow program has such a gap before each poll."""
        self._outages.failed("gap", now, text, subject="gap")
        self._outages.forget("gap")

    def note(self, action: Action, error: KafkaError, api: type[Message], now: float) -> None:
        """Log a member's failed request; if the error lasts until the application acts, store it in :attr:`error`."""
        if action is Action.GIVE_UP:
            self.log_limited(logging.ERROR, "group %s: left, and will not join again: %s", self._group_id, error)
        elif action is Action.FIND_COORDINATOR:
            # ``Coordinator`` logs each search for another coordinator. Most searches are over within seconds, so a
            # warning comes only after the session timeout.
            text = f"group {self._group_id}: no coordinator has accepted this member within session_timeout_ms: {error}"
            is_logged = self._outages.is_logged(action)
            self._outages.failed(action, now, text, grace=self._session_timeout, logs=not is_logged)
        elif action not in EXPULSIONS:  # the member logs its expulsion
            kind = action, getattr(error, "code", None)
            grace = 0.0 if action is Action.RAISE else GRACE
            self._outages.failed(kind, now, f"group {self._group_id}: {error}", grace=grace)
        if action in (Action.GIVE_UP, Action.RAISE):
            self.error = error
            self.is_final = action is Action.GIVE_UP
            self._raised_by = api

    def recovered(self, now: float, api: type[Message] | None = None) -> None:
        """Clear :attr:`error`; with ``api``, only if a response to that API caused it."""
        if api is None or self._raised_by is api:
            self.error = self._raised_by = None
            self.is_final = False
            self._outages.recovered(None, now, f"group {self._group_id}: the coordinator accepts this member again")
