"""FindCoordinator (key 10): the coordinator of a group or of a transactional id.

Version 1 adds the key type (0: group, 1: transaction, 2: share group, from version 6 on). From version 4 on a request
can hold several keys, each with a result of its own (KIP-699); up to version 3, the response itself is the only result.
"""

from .message import Message
from .schema import Struct, array, int8, int16, int32, string


class FindCoordinatorResult(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible=3):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[FindCoordinatorResult] = array(FindCoordinatorResult, "4+")


class FindCoordinatorRequest(Message, response=FindCoordinatorResponse):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")
