"""Say in words what a request asks for, and what its response has: no key, value, header or metadata of a commit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..network.negotiate import api_name
from ..wire import Message
from ..wire.api_versions import ApiVersionsRequest
from ..wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ..wire.consumer_group_positions import ConsumerGroupPositionsRequest
from ..wire.consumer_protocol import decode_assignment
from ..wire.error_codes import Code
from ..wire.fetch import FetchRequest
from ..wire.find_coordinator import FindCoordinatorRequest
from ..wire.header import decode_response_header, skip_tags
from ..wire.heartbeat import HeartbeatRequest
from ..wire.join_group import JoinGroupRequest
from ..wire.leave_group import LeaveGroupRequest
from ..wire.list_offsets import ListOffsetsRequest
from ..wire.metadata import MetadataRequest
from ..wire.offset_commit import OffsetCommitRequest
from ..wire.offset_fetch import OffsetFetchRequest
from ..wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ..wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from ..wire.schema import Struct
from ..wire.sync_group import SyncGroupRequest

#: The requests of a consumer by the key of their API.
REQUESTS: Mapping[int, type[Message]] = {
    api.API_KEY: api
    for api in (
        ApiVersionsRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupPositionsRequest, FetchRequest,
        FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest,
        MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
        PartitionLeaderEpochsForPartitionsRequest, SyncGroupRequest,
    )
}  # fmt: skip
#: The names of APIs whose messages are not shown: those of logins are in no trace.
_ONLY_NAMED = {17: "SaslHandshake", 36: "SaslAuthenticate"}
#: The names of these APIs.
APIS = tuple(sorted((*map(api_name, REQUESTS.values()), *_ONLY_NAMED.values())))
#: So many names are in a list; further ones are counted.
NAMED_MAX = 8
_SIZE = 4
_HEADER = struct.Struct(">hhih")
_UNSUPPORTED = int(Code.UNSUPPORTED_VERSION).to_bytes(2, "big")
_TIMES = {-1: "the end", -2: "the beginning", -3: "the greatest time"}
#: Of a record batch: base offset, the length of what follows, and (format 2) last offset delta and record count.
_BATCH, _MAGIC_AT, _DELTA_AT, _COUNT_AT, _BATCH_MIN = struct.Struct(">qi"), 16, 23, 57, 61


class Sent(NamedTuple):
    """A request: its API, correlation id, size and content in words."""

    api: str
    version: int
    correlation_id: int
    size: int
    words: str
    request: type[Message] | None


class Answered(NamedTuple):
    """The content of a response in words, its error codes, and the message (None if it cannot be decoded)."""

    words: str
    errors: tuple[str, ...]
    message: Any


def listed(items: Iterable[str], most: int = NAMED_MAX) -> str:
    """Return the items with commas; how many more there are if they are many."""
    found = list(items)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def printable(text: str, most: int = 1000) -> str:
    """Return the text without characters that are not shown, or change what is shown around them; cut if it is long.

    Names come from brokers and from other clients: escape sequences of a terminal could be in them.
    """
    shown = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= most else f"{shown[:most]}... ({len(shown)} characters)"


class Words:
    """Turns requests and responses into words. It keeps the names of topics, which later messages name by their ids."""

    def __init__(self) -> None:
        self.topics: dict[bytes, str] = {}

    def of_request(self, frame: bytes) -> Sent:
        """Return what a request has, with the four bytes of its size in front."""
        if len(frame) < _SIZE + _HEADER.size:
            return Sent("?", 0, -1, len(frame), "", None)
        api, version, correlation_id, length = _HEADER.unpack_from(frame, _SIZE)
        request = REQUESTS.get(api)
        if request is None:
            return Sent(_ONLY_NAMED.get(api, f"API {api}"), version, correlation_id, len(frame), "", None)
        start = _SIZE + _HEADER.size + max(length, 0)
        words = ""
        try:
            start = skip_tags(frame, start) if version >= request.FLEXIBLE else start
            words = self._say(_REQUEST_WORDS, request, request.decode(frame, version, start))
        except KafkaError:
            pass
        return Sent(api_name(request), version, correlation_id, len(frame), words, request)

    def of_response(self, sent: Sent, frame: bytes) -> Answered:
        """Return what the response to a request has; of record batches their offsets and counts."""
        if sent.request is None:
            return Answered("", (), None)
        try:
            start = decode_response_header(frame, sent.request, sent.version)[1]
            if sent.request is ApiVersionsRequest and frame[start : start + 2] == _UNSUPPORTED:
                return Answered("", (Code.UNSUPPORTED_VERSION.name,), None)  # in version 0
            message: Any = sent.request.RESPONSE.decode(frame, sent.version, start, ignore_trailing=True)
        except KafkaError:
            return Answered("cannot be decoded", (), None)
        if sent.request is MetadataRequest:
            self.topics.update((one.topic_id, one.name) for one in message.topics if one.name and any(one.topic_id))
        errors = dict.fromkeys(f"{place}{place and ': '}{name}" for place, name in self._errors(message))
        return Answered(self._say(_RESPONSE_WORDS, sent.request, message), tuple(errors), message)

    def _say(self, table: Mapping[type[Message], Callable[..., str]], request: type[Message], message: Any) -> str:
        say = table.get(request)
        return "" if say is None else say(self, message)

    def name(self, topic: Any) -> str:
        """Return the name of a topic in a message, which may have its id only."""
        name = getattr(topic, "topic", None) or getattr(topic, "name", None)
        topic_id = getattr(topic, "topic_id", b"")
        return str(name or self.topics.get(topic_id) or f"topic id {topic_id.hex()}")

    def each(self, topics: Iterable[Any] | None, say: Callable[[Any], str] = lambda partition: "") -> Iterator[str]:
        """Yield the partitions of topics in words."""
        for topic in topics or ():
            name = self.name(topic)
            partitions = getattr(topic, "partitions", None)
            for partition in topic.partition_indexes if partitions is None else partitions:
                yield f"{name}-{_number(partition)}{say(partition)}"

    def _errors(self, message: Any, place: str = "") -> Iterator[tuple[str, str]]:
        """Yield the error codes of a response, each with the partition, topic or group that has it."""
        if getattr(message, "error_code", 0):
            yield place, code_name(message.error_code)
        for field in type(message)._declared:
            values = getattr(message, field)
            for value in values if isinstance(values, list) else (values,):
                if isinstance(value, Struct):
                    yield from self._errors(value, self._place(value, place))

    def _place(self, part: Any, outer: str) -> str:
        if hasattr(part, "partition_index") or hasattr(part, "partition"):
            return f"{outer}-{_number(part)}"
        if hasattr(part, "topic_id") or hasattr(part, "topic") or hasattr(part, "name"):
            return self.name(part)
        return str(getattr(part, "group_id", outer))


def _number(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    number = getattr(partition, "partition_index", None)
    return int(partition.partition if number is None else number)


def code_name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return f"error code {code}"


def batches(records: Any) -> tuple[int, int, int, int]:
    """Return the number of batches and of records, and the first and the last offset, by the headers of batches."""
    count, found, first, last, at = 0, 0, -1, -1, 0
    while records is not None and at + _BATCH_MIN <= len(records):
        base, length = _BATCH.unpack_from(records, at)
        is_new = records[at + _MAGIC_AT] >= 2
        delta, size = (int.from_bytes(records[at + p : at + p + 4], "big") for p in (_DELTA_AT, _COUNT_AT))
        first, last = base if first < 0 else first, base + (delta if is_new else 0)
        count, found = count + 1, found + (size if is_new else 1)
        at += _BATCH.size + max(length, 0)
    return count, found, first, last


def _fetched(words: Words, message: Any) -> str:
    found, total = [], 0
    for topic in message.responses:
        for partition in topic.partitions:
            count, records, first, last = batches(partition.records)
            total += records
            leader = partition.current_leader
            if leader.leader_id >= 0:
                where = f"broker {leader.leader_id}, epoch {leader.leader_epoch}"
                found.append(f"{words.name(topic)}-{partition.partition_index} has leader {where}")
            if count:
                ends = f"offsets {first} to {last}" if last > first else f"offset {first}"
                found.append(f"{words.name(topic)}-{partition.partition_index} {ends}, {counted(records, 'record')}")
    return listed(found) if found else "no records"


def _fetch(words: Words, message: Any) -> str:
    asked = listed(words.each(message.topics, lambda p: f" from {p.fetch_offset}"))
    without = listed(words.each(message.forgotten_topics_data))
    if message.session_id and message.session_epoch < 0:
        return f"closes session {message.session_id}"
    session = f"session {message.session_id}, epoch {message.session_epoch}: " if message.session_id else ""
    return f"{session}{asked or 'the partitions as before'}{f', without {without}' if without else ''}"


def _joined(words: Words, message: Any) -> str:
    if message.generation_id < 0:
        return f"member id {message.member_id}" if message.member_id else ""
    is_leader = message.leader == message.member_id
    role = f"leader of {counted(len(message.members), 'member')}" if is_leader else "follower"
    return f"generation {message.generation_id}, {role}, protocol {message.protocol_name}"


def _synced(words: Words, message: Any) -> str:
    try:
        topics = decode_assignment(message.assignment).assigned_partitions if message.assignment else ()
    except KafkaError:
        return "an assignment of a wrong form"
    return f"assigned {listed(words.each(topics)) or 'nothing'}"


def _consumer_heartbeat(words: Words, message: Any) -> str:
    epoch = {0: "joins", -1: "leaves", -2: "leaves, to come back"}.get(message.member_epoch, "")
    owned = (
        "" if message.topic_partitions is None else f", owns {listed(words.each(message.topic_partitions)) or 'none'}"
    )
    return f"{epoch or f'member epoch {message.member_epoch}'}{owned}"


def _consumer_heartbeat_answer(words: Words, message: Any) -> str:
    target = message.assignment
    assigned = "" if target is None else f", assigned {listed(words.each(target.topic_partitions)) or 'nothing'}"
    return f"member epoch {message.member_epoch}{assigned}"


def _metadata(words: Words, message: Any) -> str:
    brokers = listed(f"{one.node_id} ({one.host}:{one.port})" for one in message.brokers)
    topics = listed(f"{words.name(one)} with {counted(len(one.partitions), 'partition')}" for one in message.topics)
    return f"brokers {brokers}{'; ' if topics else ''}{topics}"


def _coordinator(words: Words, message: Any) -> str:
    found = getattr(message, "coordinators", None) or [message]
    return listed(f"broker {one.node_id} ({one.host}:{one.port})" for one in found if one.node_id >= 0)


def counted(number: int, noun: str) -> str:
    """Return "1 record" or "2 records"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _offset(number: int) -> str:
    return f" at {number}" if number >= 0 else " at none"


def _groups(message: Any) -> list[Any]:
    return [topic for group in (message, *message.groups) for topic in group.topics or ()]


_REQUEST_WORDS: Mapping[type[Message], Callable[[Words, Any], str]] = {
    FetchRequest: _fetch,
    MetadataRequest: lambda w, m: "all topics" if m.topics is None else listed(map(w.name, m.topics)) or "brokers only",
    FindCoordinatorRequest: lambda w, m: f"of group {listed(getattr(m, 'coordinator_keys', ()) or [m.key])}",
    JoinGroupRequest: lambda w, m: (
        f"{f'member id {m.member_id}' if m.member_id else 'a new member'}, "
        f"protocols {listed(p.name for p in m.protocols)}"
        f"{f', since: {m.reason}' if m.reason else ''}"
    ),
    SyncGroupRequest: lambda w, m: (
        f"generation {m.generation_id}{f', assignments of {len(m.assignments)} members' if m.assignments else ''}"
    ),
    HeartbeatRequest: lambda w, m: f"generation {m.generation_id}",
    LeaveGroupRequest: lambda w, m: listed(p.reason for p in m.members if p.reason),
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
    OffsetCommitRequest: lambda w, m: (
        f"{listed(w.each(m.topics, lambda p: f' at {p.committed_offset}'))}, "
        f"generation {m.generation_id_or_member_epoch}"
    ),
    OffsetFetchRequest: lambda w, m: listed(w.each(_groups(m))) or "all partitions",
    ListOffsetsRequest: lambda w, m: listed(
        w.each(m.topics, lambda p: f" at {_TIMES.get(p.timestamp, f'time {p.timestamp}')}")
    ),
    OffsetForLeaderEpochRequest: lambda w, m: listed(w.each(m.topics, lambda p: f" in leader epoch {p.leader_epoch}")),
}
_RESPONSE_WORDS: Mapping[type[Message], Callable[[Words, Any], str]] = {
    FetchRequest: _fetched,
    MetadataRequest: _metadata,
    FindCoordinatorRequest: _coordinator,
    JoinGroupRequest: _joined,
    SyncGroupRequest: _synced,
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat_answer,
    OffsetFetchRequest: lambda w, m: listed(w.each(_groups(m), lambda p: _offset(p.committed_offset))),
    ListOffsetsRequest: lambda w, m: listed(w.each(m.topics, lambda p: _offset(p.offset))),
    OffsetForLeaderEpochRequest: lambda w, m: listed(w.each(m.topics, lambda p: f" ends at {p.end_offset}")),
}
