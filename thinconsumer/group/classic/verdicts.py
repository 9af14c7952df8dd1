"""Detect responses to JoinGroup and SyncGroup that contradict the request."""

from collections.abc import Collection

from ...connection.negotiate import api_name
from ...connection.request import Answer
from ...errors import KafkaError, KafkaProtocolError
from ...wire.error_codes import Code, to_error
from ...wire.join_group import JoinGroupResponse
from ...wire.sync_group import SyncGroupResponse


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
