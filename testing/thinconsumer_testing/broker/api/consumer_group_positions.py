"""ConsumerGroupPositions version 0 (not Kafka's): members of a group exchange positions through its coordinator
(KIP-253).

A member of the group's current generation sends positions of its own partitions, and gets those of the partitions that
it waits for. Partitions that are not in this broker's metadata, or that the client may not read, are left out.
"""

from collections.abc import Iterable

from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest, ConsumerGroupPositionsResponse
from thinconsumer.wire.error_codes import Code

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall, error_code_in


def _handle(call: ApiCall) -> Message | None:
    request: ConsumerGroupPositionsRequest = call.request
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refuse(request, call.version, int(Code.GROUP_AUTHORIZATION_FAILED))
    ids = dict.fromkeys([topic.topic_id for topic in request.positions] + [topic.topic_id for topic in request.wanted])
    counts = _partition_counts(call, ids)
    positions = [
        ((topic.topic_id, one.partition_index), one.position)
        for topic in request.positions
        for one in topic.partitions
        if 0 <= one.partition_index < counts.get(topic.topic_id, 0)
    ]
    wanted = [
        (topic.topic_id, number)
        for topic in request.wanted
        for number in topic.partitions
        if 0 <= number < counts.get(topic.topic_id, 0)
    ]
    call.node.group_coordinator.exchange_positions(request, positions, wanted, call.reply)
    return None


_refuse = error_code_in(ConsumerGroupPositionsResponse)


def _partition_counts(call: ApiCall, ids: Iterable[bytes]) -> dict[bytes, int]:
    """Return, by topic id, the partition count of each topic in this broker's metadata that the client may read."""
    image = call.node.image
    names = {topic_id: image.names_by_id[topic_id] for topic_id in ids if topic_id in image.names_by_id}
    denied = denied_names(call, AclOperation.READ, ResourceType.TOPIC, names.values())
    return {topic_id: len(image.topics[name].partitions) for topic_id, name in names.items() if name not in denied}


API = Api(ConsumerGroupPositionsRequest, 0, 0, _handle, _refuse)
