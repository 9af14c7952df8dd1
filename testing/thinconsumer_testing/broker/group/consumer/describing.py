"""The description of a consumer group for ConsumerGroupDescribe.

Follows ``ConsumerGroup.asDescribedGroup`` and ``ConsumerGroupMember.asConsumerGroupDescribeMember``.
"""

from __future__ import annotations

from thinconsumer.wire.groups import (
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)

from ...image import ClusterImage
from .group import ConsumerGroup
from .member import ConsumerGroupMember, Partitions, Target

#: The ``member_type`` of a member with the classic protocol, and of one with the consumer group protocol.
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described(group: ConsumerGroup, image: ClusterImage, default_assignor: str) -> DescribedConsumerGroup:
    """Return the state, epochs and members of a group; assignments leave out topics that do not exist any more."""
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(member, group.target(member_id), image) for member_id, member in group.members.items()],
    )


def _member(member: ConsumerGroupMember, target: Target, image: ClusterImage) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        # A partition that is to be revoked belongs to the member until the member has confirmed the revocation.
        assignment=_assignment(member.owned, image),
        target_assignment=_assignment(target, image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, image: ClusterImage) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(
                topic_id=topic_id, topic_name=image.names_by_id[topic_id], partitions=sorted(indexes)
            )
            for topic_id, indexes in partitions.items()
            if topic_id in image.names_by_id
        ]
    )
