"""JoinGroup and SyncGroup: what they carry, how long the coordinator may hold back the response, and their deadlines.

No request may follow a JoinGroup or SyncGroup on the membership connection until its response has arrived: the
coordinator holds back these responses until the whole group has joined or synced, and reads no later request on the
connection, such as a heartbeat, before it has responded.
"""

from collections.abc import Callable, Collection

from ...errors import KafkaError, KafkaProtocolError
from ...network.negotiate import api_name
from ...network.request import Answer, Request
from ...support.timers import Random
from ...wire import Message
from ...wire.error_codes import Code, to_error
from ...wire.join_group import JoinGroupRequest, JoinGroupResponse
from ...wire.sync_group import SyncGroupRequest, SyncGroupResponse
from ..coordinator import MEMBERSHIP, Coordinator
from ..coordinator_requests import CoordinatorRequests
from ..identity import Identity
from ..settings import GroupSettings
from . import requests
from .rebalance_attempt import RebalanceAttempt

#: Seconds that a JoinGroup may take beyond the rebalance timeout, as in Java.
JOIN_GRACE = 5.0


class RebalanceRequests(CoordinatorRequests):
    """Send the JoinGroup and SyncGroup requests of one member."""

    def __init__(
        self,
        asker: str,
        settings: GroupSettings,
        coordinator: Coordinator,
        random: Random,
        current_identity: Callable[[], Identity],
    ) -> None:
        super().__init__(asker, settings, coordinator, random, MEMBERSHIP)
        #: Returns the member id and generation. Called when a request is queued, and again when the request is written,
        #: since the membership may change in between.
        self._current_identity = current_identity
        self._settings = settings
        self._rebalance_timeout = settings.max_poll_interval_ms / 1000

    def join(self, protocol_type: str, attempt: RebalanceAttempt, now: float) -> Request | None:
        """Return a JoinGroup; None while the coordinator is unknown, or a JoinGroup or SyncGroup is in flight."""

        def message(version: int) -> Message:
            identity, protocols = self._current_identity(), attempt.protocols or ()
            return requests.join(self._settings, identity, protocol_type, protocols, attempt.reason)

        timeout = max(self._request_timeout, self._rebalance_timeout + JOIN_GRACE)
        return self._send(JoinGroupRequest, message, now, timeout, self._rebalance_timeout)

    def sync(self, protocol_type: str, attempt: RebalanceAttempt, now: float) -> Request | None:
        """Return a SyncGroup request; None in the same cases as :meth:`join`.

        The coordinator responds to followers only after the leader has sent the assignment, so a follower may wait for
        its response as long as the request timeout without a fault of the coordinator.
        """

        def message(version: int) -> Message:
            return requests.sync(self._current_identity(), protocol_type, attempt.protocol, attempt.plan or {})

        max_wait = 0.0 if attempt.leads else self._request_timeout
        return self._send(SyncGroupRequest, message, now, self._request_timeout, max_wait)

    def _send(
        self, api: type[Message], message: Callable[[int], Message], now: float, timeout: float, max_wait: float
    ) -> Request | None:
        if not self.is_open:
            return None
        lowest = requests.lowest_version(api, self._current_identity())
        return self.send(api, message, now, deadline=now + timeout, min_version=lowest, max_wait=max_wait)


def unusable_join(answer: Answer, protocol_type: str, offered: Collection[str]) -> KafkaError | None:
    """Return the error in a successful JoinGroup response, or None.

    The error is a missing member id or generation, another protocol type, or a protocol that the member did not offer.
    """
    response: JoinGroupResponse = answer.response
    if response.generation_id < 0 or not response.member_id:
        return KafkaProtocolError(
            f"broker {answer.node_id} answered JoinGroup with member {response.member_id!r} "
            f"in generation {response.generation_id}; expected a member id and a generation from 0"
        )
    return _mismatch(answer, protocol_type, response.protocol_type, offered, response.protocol_name)


def unusable_sync(answer: Answer, protocol_type: str, protocol: str) -> KafkaError | None:
    """Return the error in a successful SyncGroup response (another protocol type or name, KIP-559), or None."""
    response: SyncGroupResponse = answer.response
    named = protocol if response.protocol_name is None else response.protocol_name
    return _mismatch(answer, protocol_type, response.protocol_type, (protocol,), named)


def _mismatch(
    answer: Answer, our_type: str, their_type: str | None, offered: Collection[str], elected: str | None
) -> KafkaError | None:
    if their_type in (None, our_type) and elected in offered:
        return None
    return to_error(
        Code.INCONSISTENT_GROUP_PROTOCOL,
        api=api_name(answer.request.api),
        node_id=answer.node_id,
        detail=f"the response names protocol {elected!r} of type {their_type!r}",
    )
