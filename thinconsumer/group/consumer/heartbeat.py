"""Build ConsumerGroupHeartbeat requests: all fields to join, or if a heartbeat may be lost; else only changed fields.

Follows Java's ``ConsumerHeartbeatRequestManager``.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from ...errors import BrokerResponseError, KafkaError, UnsupportedVersionError
from ...support.timers import NEVER, Random
from ...wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ...wire.error_codes import Code
from ..identity import Identity
from .assignment import PartitionIds, topic_partitions

#: The member epochs of a request to join; to leave; and of a static member that leaves and will return.
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
#: The version from which on the coordinator evaluates regular expressions.
REGEX_SINCE = 1
#: Seconds between heartbeats until the coordinator has named its interval.
FIRST_INTERVAL = 5.0
#: Limits in seconds for the interval that the coordinator names. With an interval of 0 the member would send heartbeats
#: without pause; with a very long one it would send none, and so never receive the right interval.
INTERVAL_MIN, INTERVAL_MAX = 0.1, 60.0


class HeartbeatFields(NamedTuple):
    """The fields that a heartbeat leaves out while they are the same as in the last one."""

    rebalance_timeout_ms: int
    topics: frozenset[str]  #: Subscribed names; empty with a regular expression that the coordinator evaluates.
    regex: str | None
    assignor: str | None
    owned: PartitionIds


class KnownFields:
    """Track what the coordinator has stored of this member, as far as its responses tell."""

    def __init__(self) -> None:
        self.fields: HeartbeatFields | None = None  #: The stored fields; None if they are uncertain.
        self.written: HeartbeatFields | None = None  #: The fields of the heartbeat in flight, once it is written.
        self.may_have_member = False  #: Whether the coordinator may count this consumer as a member.
        self.may_have_regex = False  #: Whether a heartbeat was written that had a regular expression.

    def wrote(self, fields: HeartbeatFields) -> None:
        """Note a written heartbeat: the coordinator may process it even if its response is lost."""
        self.written, self.may_have_member = fields, True
        self.may_have_regex = self.may_have_regex or fields.regex is not None

    def answered(self, *, is_join: bool) -> None:
        """Note the response. After a join the coordinator has stored that the member owns nothing, as requested."""
        self.fields = self.written
        if is_join and self.written is not None:
            self.fields = self.written._replace(owned=frozenset())

    def count_as_owned(self, unseen: PartitionIds) -> None:
        """Note partitions that the coordinator assigned, and has revoked before this member owned them.

        The coordinator waits for a heartbeat that lists the owned partitions without ``unseen``. As the owned
        partitions have not changed, the next heartbeats would otherwise leave out the list.
        """
        if self.fields is not None:
            self.fields = self.fields._replace(owned=self.fields.owned | unseen)


class Gaps(NamedTuple):
    """The gaps between calls of the application, and the longest pause between heartbeats that a session has survived.

    The client has no other measure of the broker's session timeout, except that it exceeds the heartbeat interval.
    """

    survived: float = 0.0  #: The longest time between two heartbeats of one session, whose timeout is not shorter.
    confirmed_at: float = -NEVER  #: When the last successful heartbeat was sent.
    longest: float = 0.0  #: The longest gap since a response last confirmed the membership.
    #: Whether no response has confirmed the membership between the last two gaps.
    is_outpaced: bool = False

    def away(self, seconds: float, *, is_unconfirmed: bool) -> Gaps:
        """Return the state after a gap; ``is_unconfirmed`` is whether no response came since the gap before."""
        return self._replace(longest=max(seconds, self.longest if is_unconfirmed else 0.0), is_outpaced=is_unconfirmed)

    def confirmed(self, sent_at: float, *, is_first: bool, is_session: bool) -> Gaps:
        """Return the state after a heartbeat sent at ``sent_at`` has succeeded; ``is_first``: it was a join.

        The time since the previous success counts as survived if both were in one session (``is_session``). If a
        heartbeat has failed in between, the coordinator may have moved, which begins a new session.
        """
        survived = max(self.survived, sent_at - self.confirmed_at) if is_session else self.survived
        return self._replace(survived=0.0 if is_first else survived, confirmed_at=sent_at)

    @property
    def are_survivable(self) -> bool:
        """Whether gaps come faster than responses, but a session has survived a pause as long as each of these gaps."""
        return self.is_outpaced and self.longest <= self.survived


def new_member_id(random: Random) -> str:
    """Return a random id in the form of Kafka's ``Uuid``: 22 letters, digits, hyphens and underscores (KIP-1082)."""
    drawn = random.randrange(1 << 128).to_bytes(16, "big")
    # Like Java's, the id does not begin with a hyphen, which command line tools would take for an option.
    return base64.urlsafe_b64encode(drawn).decode().rstrip("=").replace("-", "_", 1)


def heartbeat(
    who: Identity, rack: str | None, fields: HeartbeatFields, sent: HeartbeatFields | None, *, had_regex: bool = False
) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat with the fields that differ from ``sent``, or all of them if that is None.

    While ``who`` is no member, the request joins: it has epoch 0, all fields, and no owned partitions. ``had_regex``
    tells whether the coordinator may have a regular expression of this member.
    """
    request = bare_heartbeat(who, who.generation_id if who.is_member else JOIN_EPOCH)
    if not who.is_member:
        sent, fields = None, fields._replace(owned=frozenset())
    if sent is None:
        request.rack_id = rack
    if sent is None or sent.rebalance_timeout_ms != fields.rebalance_timeout_ms:
        request.rebalance_timeout_ms = fields.rebalance_timeout_ms
    if sent is None or sent.topics != fields.topics:
        request.subscribed_topic_names = sorted(fields.topics)
    if (had_regex or fields.regex is not None) if sent is None else sent.regex != fields.regex:
        request.subscribed_topic_regex = fields.regex or ""  # "" removes the former expression
    if sent is None or sent.assignor != fields.assignor:
        request.server_assignor = fields.assignor
    if sent is None or sent.owned != fields.owned:
        request.topic_partitions = topic_partitions(fields.owned)
    return request


def bare_heartbeat(who: Identity, epoch: int) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat that only names the member and its epoch, as one that leaves the group does."""
    return ConsumerGroupHeartbeatRequest(
        group_id=who.group_id, member_id=who.member_id, member_epoch=epoch, instance_id=who.group_instance_id
    )


def explain(error: KafkaError, *, has_regex: bool) -> KafkaError:
    """Add advice to an error which says that the group cannot use this protocol; return any other error as it is.

    ``has_regex``: the member subscribes by a regular expression, and perhaps the cluster lacks only the version of the
    request that has such expressions.
    """
    if isinstance(error, UnsupportedVersionError):
        what = "a SubscriptionPattern" if has_regex else "group_protocol='consumer'"
        instead = "pass the pattern as a str" if has_regex else "use 'classic' or 'auto'"
        text = f"{what} needs a cluster of Kafka 4.0 or later with its feature group.version: {instead}"
    elif isinstance(error, BrokerResponseError) and error.code == Code.GROUP_ID_NOT_FOUND:
        text = (
            "the group has members of the classic protocol, and the broker does not convert it: use "
            "group_protocol='classic' or 'auto', stop those members first, or set the brokers' "
            "group.consumer.migration.policy to bidirectional"
        )
    else:
        return error
    return type(error)(
        f"{error}; {text}",
        code=error.code,
        name=error.name,
        retriable=error.retriable,
        api=error.api,
        node_id=error.node_id,
    )


def leave_epoch(who: Identity, leave_group: bool | None) -> int | None:
    """Return the epoch to leave with (KIP-1092); None if the coordinator is not told.

    A static member leaves for a while, unless ``leave_group`` is True. A dynamic one leaves for good; with
    ``leave_group=False`` it sends no request, and the coordinator keeps its partitions until the session ends.
    """
    if leave_group is True or (leave_group is None and who.group_instance_id is None):
        return LEAVE_EPOCH
    return LEAVE_STATIC_EPOCH if who.group_instance_id is not None else None
