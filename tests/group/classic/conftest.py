"""Fixtures of the membership tests: a role that records its calls, and a scripted coordinator."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.group.role import JoinedMember
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import Answer, Request
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from thinconsumer.wire.leave_group import LeaveGroupRequest, LeaveGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

GROUP = "g"
#: Entries of a script besides error codes: no response, or a broken connection.
SILENCE = "silence"
RESET = "reset"


#: Options with round numbers.
OPTIONS = ConsumerConfig(
    group_id=GROUP, session_timeout_ms=10_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=60_000
)


class FakeRole:
    """A role with methods that return True, unless the test sets another result in ``says``."""

    protocol_type = "pool"
    summary = "something moved"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.says: dict[str, Any] = {}  #: By method: a result, an exception, or a function to call.
        self.owns = False
        self.names = ["a", "b"]
        self.why: str | None = None  #: Why to join again.
        self.taken: list[tuple[Identity, str, bytes]] = []
        self.lost_because: list[str] = []
        self.members: Sequence[JoinedMember] = ()
        self.skips: list[bool] = []
        self.missed: list[bool] = []

    def _do(self, name: str) -> Any:
        self.calls.append(name)
        says = self.says.get(name, True)
        if isinstance(says, deque):
            says = says.popleft() if says else True
        if isinstance(says, BaseException):
            raise says
        return says() if callable(says) else says

    def take_calls(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        self._do("protocols")
        return [(name, name.encode()) for name in self.names]

    def prepare(self, identity: Identity, now: float) -> bool:
        return bool(self._do("prepare"))

    def ready_to_assign(self, protocol: str, members: Sequence[JoinedMember], now: float) -> bool:
        self.members = members
        return bool(self._do("ready_to_assign"))

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[JoinedMember], *, skip: bool
    ) -> Mapping[str, bytes]:
        self._do("perform_assignment")
        self.skips.append(skip)
        return {} if skip else {member.member_id: b"share of " + member.member_id.encode() for member in members}

    def accept(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool) -> None:
        self._do("accept")
        self.missed.append(missed)
        self.taken.append((identity, protocol, assignment))

    def revoke_unassigned(self, identity: Identity, now: float) -> bool:
        return bool(self._do("revoke"))

    def install(self, identity: Identity, now: float) -> bool:
        done = bool(self._do("install"))
        self.owns = self.owns or done
        return done

    def lose(self, why: str, now: float) -> bool:
        self.lost_because.append(why)
        done = bool(self._do("lose"))
        self.owns = self.owns and not done
        return done

    def rejoin_reason(self, now: float) -> str | None:
        return self.why


class Script:
    """A healthy coordinator, except for the faults listed by API."""

    def __init__(self) -> None:
        self.lines: dict[type[Message], deque[Any]] = defaultdict(deque)
        self.always: dict[type[Message], Any] = {}
        self.node_id = 1
        self.generation = 0
        self.named = 0
        self.leads = False
        self.skips = False
        self.requires_id = True
        self.protocol = "a"

    def answer(self, request: Request, message: Any, version: int) -> Any:
        """Return a response, an error, or SILENCE."""
        line = self.lines[request.api]
        says = line.popleft() if line else self.always.get(request.api)
        if says == SILENCE or isinstance(says, KafkaError):
            return says
        if says == RESET:
            return KafkaConnectionError("connection reset")
        if callable(says):
            return says(message)
        return _GOOD[request.api](self, message, version, int(says or 0))

    def find(self, message: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
        node = (-1, "", -1) if code else (self.node_id, f"b{self.node_id}", 9092)
        if version >= 4:
            [key] = message.coordinator_keys
            row = FindCoordinatorResult(key=key, node_id=node[0], host=node[1], port=node[2], error_code=code)
            return FindCoordinatorResponse(coordinators=[row])
        return FindCoordinatorResponse(node_id=node[0], host=node[1], port=node[2], error_code=code)

    def join(self, message: JoinGroupRequest, version: int, code: int) -> JoinGroupResponse:
        member_id = message.member_id
        if not member_id:
            self.named += 1
            member_id = f"m{self.named}"
            if not code and self.requires_id and version >= 4 and message.group_instance_id is None:
                code = Code.MEMBER_ID_REQUIRED
        if code:
            named = member_id if code == Code.MEMBER_ID_REQUIRED else ""
            return JoinGroupResponse(error_code=code, member_id=named, protocol_name="", leader="")
        self.generation += 1
        members = [
            JoinGroupResponseMember(member_id=member_id, metadata=b"x"),
            JoinGroupResponseMember(member_id="other", metadata=b"y"),
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="pool" if version >= 7 else None,
            protocol_name=self.protocol,
            leader=member_id if self.leads else "other",
            skip_assignment=self.skips and version >= 9,
            member_id=member_id,
            members=members if self.leads else [],
        )

    def sync(self, message: SyncGroupRequest, version: int, code: int) -> SyncGroupResponse:
        shares = {share.member_id: share.assignment for share in message.assignments}
        return SyncGroupResponse(
            error_code=code,
            protocol_type="pool" if version >= 5 and not code else None,
            protocol_name=message.protocol_name if version >= 5 and not code else None,
            assignment=b"" if code else bytes(shares.get(message.member_id, b"a share")),
        )

    def heartbeat(self, message: HeartbeatRequest, version: int, code: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=code)

    def leave(self, message: LeaveGroupRequest, version: int, code: int) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)


_GOOD: dict[type[Message], Callable[..., Message]] = {
    FindCoordinatorRequest: Script.find,
    JoinGroupRequest: Script.join,
    SyncGroupRequest: Script.sync,
    HeartbeatRequest: Script.heartbeat,
    LeaveGroupRequest: Script.leave,
}


#: By state, the request without a response in which the member stays in it.
_WITHOUT_RESPONSE: dict[ClassicMemberState, type[Message]] = {
    ClassicMemberState.UNJOINED: FindCoordinatorRequest,
    ClassicMemberState.PREPARING_REBALANCE: JoinGroupRequest,
    ClassicMemberState.COMPLETING_REBALANCE: SyncGroupRequest,
}
#: By state, the role method that returns False, so that the member stays in it.
_UNFINISHED = {
    ClassicMemberState.REVOKING_BEFORE_JOIN: "prepare",
    ClassicMemberState.REVOKING_AFTER_SYNC: "revoke",
    ClassicMemberState.ASSIGNING: "install",
}


@dataclass
class World:
    """A member, its ``Coordinator``, a role, a script, and a manual clock."""

    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    now: float = 1000.0
    version: int | None = None  #: Of every message; None: the highest.

    def __post_init__(self) -> None:
        self.settings = replace(OPTIONS, **self.options)
        draws = random.Random(self.seed)
        self.agenda = Agenda()
        self.metadata = Metadata(self.settings, draws, self.agenda)
        self.metadata.nodes = {n: Node(n, f"b{n}", 9092, f"r{n}") for n in (1, 2, 3)}
        self.coordinator = Coordinator(self.settings, GROUP, self.metadata, draws, self.agenda)
        self.role = FakeRole()
        identity = Identity(GROUP, group_instance_id=self.settings.group_instance_id)
        self.member = ClassicMember(self.settings, identity, self.role, self.coordinator, draws)
        self.member.drop_connection = lambda target: self.dropped.append(target)
        self.script = Script()
        self.dropped: list[Any] = []  #: Connections that the member has closed.
        self.open: list[Request] = []  #: Requests without a response.
        self.said: list[tuple[float, Request, Any]] = []  #: Written requests: time, request and decoded message.
        self.unheard: list[Request] = []  #: Written requests that get no response.
        self.working = True  #: Whether calls are polls, not only ``drive``.

    # -- turning

    def step(self) -> list[Request]:
        """Step the managers once; their requests become open."""
        self.agenda.take(self.now)
        requests = self.coordinator.step(self.now) + self.member.step(self.now)
        self.open += requests
        dropped, self.dropped = self.dropped, []
        for request in [request for request in self.open if request.target in dropped]:
            self.reply(request, KafkaConnectionError("dropped by us"))
        return requests

    def serve(self) -> bool:
        """Answer open requests as scripted; return whether there were any."""
        busy = False
        for request in list(self.open):
            if request not in self.open:
                continue
            if self.now >= request.deadline:
                self.reply(request, KafkaTimeoutError("no answer in time"))
            elif request in self.unheard:
                continue
            elif (says := self.write(request)) == SILENCE:
                self.unheard.append(request)
                continue
            else:
                self.reply(request, says)
            busy = True
        return busy

    def write(self, request: Request) -> Any:
        """Build the message, as a connection does, and return the scripted response."""
        version = request.api.VERSIONS[1] if self.version is None else max(self.version, request.min_version)
        try:
            message = request.build(version)
        except KafkaError as error:
            return error
        decoded = request.api.decode(message.encode(version), version)
        self.said.append((self.now, request, decoded))
        says = self.script.answer(request, decoded, version)
        if isinstance(says, Message):
            response = request.api.RESPONSE  # type: ignore[attr-defined]
            return Answer(request, request.target.node_id, version, response.decode(says.encode(version), version))
        return says

    def reply(self, request: Request, says: Any) -> None:
        self.open.remove(request)
        answer = says if isinstance(says, Answer) else Answer(request, request.target.node_id, error=says)
        manager = self.coordinator if request.asker == self.coordinator.asker else self.member
        manager.handle(answer, self.now)

    def turn(self, *, every: bool = True) -> None:
        """Do what a poll does without waiting: steps, answers and work until nothing is due."""
        self.member.called(self.now, polls=self.working and every)
        for _ in range(200):
            busy = bool(self.step()) or bool(self.agenda.touched)
            busy = self.serve() or busy
            if self.working and self.member.has_work(self.now, every=every):
                busy = self.member.work(self.now, every=every) or busy
            if not busy:
                return
        raise AssertionError("the member loops without a pause")

    def due(self) -> float:
        """Return when the agenda has something."""
        return max(self.now, self.agenda.next())

    def run(self, seconds: float, *, until: Callable[[], bool] | None = None) -> bool:
        """Advance the clock to each wake-up, and at least once a second."""
        end = self.now + seconds
        while True:
            self.turn()
            if until is not None and until():
                return True
            if self.now >= end:
                return until is None
            due = min([self.due(), *(request.deadline for request in self.open)])
            # Something due at once may wait for another event: the clock must advance nevertheless.
            self.now = min(end, self.now + 1.0, due if due > self.now else self.now + 0.001)

    # -- looking

    def sent(self, api: type[Message]) -> list[Any]:
        return [message for _, request, message in self.said if request.api is api]

    def times(self, api: type[Message]) -> list[float]:
        return [at for at, request, _ in self.said if request.api is api]

    def join(self) -> World:
        self.member.subscribe("the test wants it")
        self.turn()
        return self

    def rejoin(self, api: type[Message] = JoinGroupRequest) -> Request:
        """Join again; return the JoinGroup or SyncGroup that gets no response until :meth:`respond_late`."""
        self.member.request_rejoin("the test wants it again")
        self.script.always[api] = SILENCE
        self.turn()
        return next(request for request in self.open if request.api is api)

    def respond_late(self, request: Request) -> None:
        """End all faults, and respond."""
        self.heal()
        self.reply(request, self.write(request))

    def restart(self) -> None:
        """Lose every connection without a response, as after an interrupted step."""
        self.open.clear()
        self.coordinator.restart(self.now)
        self.member.restart(self.now)

    def reach(self, state: ClassicMemberState) -> World:
        member, script, role = self.member, self.script, self.role
        if state is ClassicMemberState.UNSUBSCRIBED:
            return self
        if state in _WITHOUT_RESPONSE:
            script.always[_WITHOUT_RESPONSE[state]] = SILENCE
        elif state in _UNFINISHED:
            role.says[_UNFINISHED[state]] = False
        self.join()
        if state is ClassicMemberState.LOSING:
            role.says["lose"] = False
            script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
            self.run(3.0)
        elif state is ClassicMemberState.LEAVING:
            script.always[LeaveGroupRequest] = SILENCE
            member.leave("the test leaves", self.now)
            self.turn()
        elif state is ClassicMemberState.FATAL:
            script.lines[HeartbeatRequest].append(Code.FENCED_INSTANCE_ID)
            self.run(3.0)
        assert member.state is state, member
        return self

    def heal(self) -> None:
        self.script.always.clear()
        self.script.lines.clear()
        self.role.says.clear()


@pytest.fixture
def options() -> ConsumerConfig:
    return OPTIONS


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    return World
