"""The line to the coordinator: what is out on it, what may follow, and when to stop waiting.

Owns the rule that nothing follows a JoinGroup or SyncGroup on the connection for membership: their answers are held
back until the whole group is there, and a heartbeat behind one would be read too late and fail. Decides neither what to
say nor what an answer means.
"""

from __future__ import annotations

from collections.abc import Callable

from ...connection.request import Answer, Request, Target
from ...errors import IllegalStateError, KafkaError
from ...failures import Action
from ...timers import NEVER, Random
from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import FAREWELL, MEMBERSHIP, Coordinator
from ..identity import Identity
from ..settings import GroupSettings
from . import requests
from .heartbeat import Heartbeats
from .leave_attempt import LeaveGroupAttempt
from .rebalance_attempt import RebalanceAttempt

#: Java's allowance for the coordinator to answer after the rebalance timeout, in seconds.
JOIN_GRACE = 5.0


class CoordinatorChannel:
    """What one member has out with its coordinator."""

    def __init__(self, asker: str, settings: GroupSettings, coordinator: Coordinator, random: Random) -> None:
        self._asker = asker
        self._settings = settings
        self._coordinator = coordinator
        self._random = random
        self._request_timeout = settings.request_timeout_ms / 1000
        self._rebalance_timeout = settings.max_poll_interval_ms / 1000
        self.beats = Heartbeats(settings, random)
        self.out: Request | None = None  #: The JoinGroup or SyncGroup that is unanswered.
        self.out_at = 0.0
        self._is_written = False  #: Whether that has left; else it waits for its connection.
        self.farewell: LeaveGroupAttempt | None = None
        self.drops: list[Target] = []

    @property
    def is_open(self) -> bool:
        """Whether there is a coordinator, and nothing out that must not be followed."""
        return self.out is None and self._coordinator.target(MEMBERSHIP) is not None

    @property
    def is_asking(self) -> bool:
        """Whether a JoinGroup or SyncGroup is on its way, or with the coordinator."""
        return self.out is not None and self._is_written

    # -- saying

    def join(
        self, who: Callable[[], Identity], protocol_type: str, attempt: RebalanceAttempt, now: float
    ) -> Request | None:
        """Ask to be in the next generation."""

        def message() -> Message:
            protocols = attempt.protocols or ()
            return requests.join(self._settings, who(), protocol_type, protocols, attempt.reason)

        patience = max(self._request_timeout, self._rebalance_timeout + JOIN_GRACE)
        return self._hold(JoinGroupRequest, who(), message, now, patience, self._rebalance_timeout)

    def sync(
        self, who: Callable[[], Identity], protocol_type: str, attempt: RebalanceAttempt, now: float
    ) -> Request | None:
        """Hand in the plan, or ask for what the leader hands in, which takes as long as the leader does."""

        def message() -> Message:
            return requests.sync(who(), protocol_type, attempt.protocol, attempt.plan or {})

        held_back = 0.0 if attempt.leads else self._request_timeout
        return self._hold(SyncGroupRequest, who(), message, now, self._request_timeout, held_back)

    def _hold(
        self,
        api: type[Message],
        who: Identity,
        message: Callable[[], Message],
        now: float,
        patience: float,
        held: float,
    ) -> Request | None:
        if not self.is_open:
            return None
        self.out = self._request(api, who, message, now + patience, held)
        self.out_at = now
        self._is_written = False
        return self.out

    def beat(self, who: Callable[[], Identity], now: float) -> Request | None:
        """Say that we are alive, if that is due."""
        if not self.is_open or now < self.beats.due_at():
            return None
        deadline = now + self.beats.timeout
        request = self._request(HeartbeatRequest, who(), lambda: requests.heartbeat(who()), deadline, 0.0)
        self.beats.sent(request, now)
        return request

    def _request(
        self, api: type[Message], who: Identity, message: Callable[[], Message], deadline: float, held_back: float
    ) -> Request:
        target = self._coordinator.target(MEMBERSHIP)
        if target is None:
            raise IllegalStateError("there is no coordinator to talk to")

        def build(version: int) -> Message:
            if request is not self.out and request is not self.beats.out:
                raise IllegalStateError("this request was abandoned before it was written")
            self._is_written = self._is_written or request is self.out
            return message()

        lowest = requests.lowest_version(api, who)
        request = Request(
            self._asker, api, target, build, deadline, context=who, min_version=lowest, held_back=held_back
        )
        return request

    # -- hearing

    def awaits(self, request: Request) -> bool:
        """Return whether the answer to this still matters."""
        return request in (self.out, self.beats.out) or (self.farewell is not None and request is self.farewell.out)

    def report(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        """Tell the coordinator's keeper what an answer, or its absence, says of the coordinator."""
        node_id = answer.request.target.node_id
        if action is Action.FIND_COORDINATOR:
            self._coordinator.lost(node_id, str(error), now)
        elif action is Action.WAIT_FOR_COORDINATOR:
            self._coordinator.loading(now)
        elif answer.response is not None:
            self._coordinator.answered(node_id)

    # -- leaving

    def say_goodbye(self, who: Identity, reason: str, now: float) -> None:
        """Have a LeaveGroup sent, on a connection on which nothing is parked."""
        channel = MEMBERSHIP if self.out is None else FAREWELL
        self.farewell = LeaveGroupAttempt(self._settings, who, reason, channel, now, self._random)

    def goodbye(self, now: float) -> Request | None:
        """Return the LeaveGroup, if one is due."""
        if self.farewell is None:
            return None
        channel = self.farewell.channel if self.out is None else FAREWELL
        request = self.farewell.step(self._asker, self._coordinator.target(channel), now)
        if self.farewell.over:
            self.farewell = None
        return request

    def goodbye_answered(self, now: float, *, again: bool) -> None:
        """Take the answer to the LeaveGroup that is out; ``again`` when it shows that nobody has heard it."""
        if self.farewell is not None:
            self.farewell.answered(now, again=again)
            self.farewell = None if self.farewell.over else self.farewell

    def goodbye_at(self) -> float:
        """Return when :meth:`goodbye` has something to do."""
        return NEVER if self.farewell is None else self.farewell.wake_at(self._coordinator.target(MEMBERSHIP))

    # -- not waiting any more

    def take_back(self) -> None:
        """Do not say what has not been said yet: who says it is nobody now. Nor wait for the heartbeat that is out."""
        self.beats.forget()
        if self.out is not None and not self._is_written:
            self.out = None

    def hang_up(self) -> None:
        """Wait no longer for what is parked: its connection is of no use before that is answered."""
        if self.out is not None:
            self._drop(self.out.target)
            self.out = None

    def doubt(self, now: float) -> bool:
        """Say for how long we have been waiting; hang up on a coordinator that has moved. Return whether we did."""
        node_id = self._coordinator.node_id
        if node_id is None:
            return False  # it may well turn out to be the same
        moved = self.out is not None and self.out.target.node_id != node_id
        if moved:
            self.hang_up()
        if self.beats.out is not None and self.beats.out.target.node_id != node_id:
            self._drop(self.beats.out.target)
            self.beats.failed(now)
        waits = [self.out_at] if self.out is not None else []
        waits += [self.beats.sent_at] if self.beats.out is not None else []
        self._coordinator.waiting(min(waits, default=None), now, self._asker)
        return moved

    def _drop(self, target: Target) -> None:
        if target not in self.drops:
            self.drops.append(target)

    def restart(self, now: float) -> None:
        """Forget what is out, since who would have answered is gone."""
        self.out = None
        self.beats.forget()
        self.beats.hurry(now)
        self.drops.clear()
        if self.farewell is not None:
            self.farewell.restart()
