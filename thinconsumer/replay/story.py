"""Tell what has happened in a trace: from its events, and from looks at the client that a replay runs again.

A :class:`Teller` goes through the events. What the trace says by itself are calls, requests, responses and connections;
the replayed client says in which state its member is, which partitions it has, and why a poll has found no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..positions.partitions import Partition
from ..support.lazy_dataclass import dataclass, field
from .frames import filled
from .looks import Client, connection_of, name_of, place_of, why_closed, why_no_records
from .messages import Answered, Sent, Words, counted, listed, printable

#: Calls that return records: the trace has what they have found, and not their end.
_POLLS = ("poll", "poll_batches", "poll_raw", "__next__", "read_to_end")
#: The events before which the call on the same level has ended.
_AFTER_CALLS = ("call", "taken", "resume", "done")
#: The arguments of a poll that are not shown: the defaults.
_POLL_DEFAULTS = [0, None, True]
#: The states of a member of a group in which no rebalance is in progress.
_SETTLED = {"UNSUBSCRIBED", "UNJOINED", "STABLE", "LEAVING", "FATAL", "STALE"}
#: Errors with which brokers answer each client at first.
_EXPECTED = {("ApiVersions", "UNSUPPORTED_VERSION"), ("JoinGroup", "MEMBER_ID_REQUIRED")}
#: Polls with the same result are one line if less than so many seconds are between them.
PAUSE_MAX = 0.02


class Happening(NamedTuple):
    """One thing that has happened. Times are in seconds since the beginning of the trace."""

    place: int  #: The number of the event in the trace.
    at: float
    kind: str  #: "call", "request", "response", "connection", "member", "assigned", "revoked", "position", ...
    words: str
    depth: int = 0  #: In how many calls of the program it has happened.
    is_error: bool = False
    name: str = ""  #: The API of a request or response.
    #: By partition: the offset of the first record that a poll has returned, and the position after it; or the position
    #: that was set, twice.
    moves: Mapping[str, tuple[int, int]] = {}


@dataclass(slots=True, eq=False)
class Bar:
    """What has lasted for a while: a call, a request up to its response, the state of a member."""

    lane: str  #: The number of a broker's lane in ``Story.brokers``, or "".
    kind: str
    began: float
    words: str = ""
    ended: float | None = None  #: None: it has not ended in the trace.
    is_error: bool = False


@dataclass(slots=True, eq=False)
class Story:
    """The calls, requests and changes of state of a trace, in the order of its events."""

    about: str = ""  #: Who has written the trace.
    began: float | None = None  #: The first reading of the monotonic clock.
    wall: float | None = None  #: The time of day at the beginning, in seconds since the epoch, if the trace has one.
    lasted: float = 0.0
    happenings: list[Happening] = field(default_factory=list)
    calls: list[Bar] = field(default_factory=list)
    requests: list[Bar] = field(default_factory=list)
    states: list[Bar] = field(default_factory=list)  #: Of the member of a group.
    brokers: dict[str, str] = field(default_factory=dict)  #: The names of brokers by address.
    #: By partition: times and positions; None where the partition was given up.
    positions: dict[str, list[tuple[float, int | None]]] = field(default_factory=dict)
    buffered: list[tuple[float, int]] = field(default_factory=list)  #: Times, and how many records were buffered.


class ToldCall:
    """A call that has not ended, or user code that the client calls (``is_user``)."""

    def __init__(self, words: str, name: str, at: float, line: int, *, is_user: bool = False) -> None:
        self.words, self.name, self.at, self.is_user = words, name, at, is_user
        self.line = line  #: The number of its happening.
        self.records = 0
        self.moves: dict[str, tuple[int, int]] = {}
        self.error = ""


class _Poll(NamedTuple):
    """A poll in which nothing happened but its result, or some of them, one after the other."""

    call: ToldCall
    wait: str
    times: int
    seconds: float
    ended: float

    def goes_on(self, poll: _Poll) -> bool:
        """Return whether the poll after this one has a result of the same kind, so that one line is enough."""
        ours, theirs = self.call, poll.call
        is_alike = (ours.words, self.wait, not ours.records) == (theirs.words, poll.wait, not theirs.records)
        return is_alike and not ours.error and not theirs.error and theirs.at - self.ended < PAUSE_MAX

    def plus(self, poll: _Poll) -> _Poll:
        """Return both as one."""
        call = ToldCall(self.call.words, self.call.name, self.call.at, self.call.line)
        call.records = self.call.records + poll.call.records
        call.moves = {**self.call.moves}
        for name, (first, end) in poll.call.moves.items():
            call.moves[name] = (call.moves.get(name, (first,))[0], end)
        return _Poll(call, self.wait, self.times + poll.times, self.seconds + poll.seconds, poll.ended)


def _result(call: ToldCall, wait: str, seconds: float, value: str) -> str:
    after = f"after {duration(seconds)}"
    if call.error:
        return f"{call.error} {after}"
    if call.name not in _POLLS:
        return f"{value or 'done'} {after}"
    if not call.records:
        return f"no records {after}{f'; it waits: {wait}' if wait else ''}"
    ranges = ((name, first, end - 1) for name, (first, end) in call.moves.items() if end > first)
    read = listed(f"{name} {first}{f' to {last}' if last > first else ''}" for name, first, last in ranges)
    return f"{counted(call.records, 'record')} {after}: {read}"


class Teller:
    """Makes a :class:`Story` of the events of a trace."""

    def __init__(self, events: Sequence[tuple[Any, bytes]]) -> None:
        self.story = Story()
        self.open: list[ToldCall] = []
        self.logged: list[str] = []  #: What the client has logged since the last look.
        self._events = events
        self._words = Words()
        self.now = 0.0  #: The last time in the trace, in monotonic seconds.
        self._place = 0  #: The number of the next event.
        self._client: Client | None = None
        self._looked_at: Client | None = None  #: The client of the last look.
        self._last: _Poll | None = None
        self._sent: dict[int, dict[int, tuple[Sent, float, Bar]]] = {}  #: By connection and correlation id.
        self._dialled: dict[int, tuple[str, float]] = {}
        self._nodes: dict[str, str] = {}  #: The short names of brokers by address.
        self._leaders: dict[str, tuple[int, int]] = {}
        self._partitions: dict[Any, Partition] = {}
        self._placed: dict[Any, tuple[object, object]] = {}
        self._generation = -1
        self._member: tuple[object, ...] = ()
        self._coordinator: int | None = None
        self._is_stirred = True  #: Whether positions may have been set since the last look.
        self._handlers: dict[str, Callable[..., None]] = {
            "trace": self._on_trace, "wall": self._on_wall, "call": self._on_call, "return": self._on_return,
            "raise": self._on_raise, "found": self._on_found, "bad": self._on_bad, "resume": self._on_resume,
            "taken": self._on_taken, "user": self._on_user, "done": self._on_done, "woken": self._on_woken,
            "cut": self._on_cut, "dial": self._on_dial, "made": self._on_made, "lost": self._on_lost,
            "hang up": self._on_hang_up, "resolved": self._on_resolved, "request": self._on_request,
            "response": self._on_response,
            "login": self._on_login,
        }  # fmt: skip

    @property
    def at(self) -> float:
        """Seconds since the beginning."""
        return self.now - (self.story.began or 0.0)

    def advance(self, place: int, client: Client | None = None) -> None:
        """Tell the events before this number; ``client`` is the replayed client at that time, if there is one."""
        self._client = client
        while self._place < min(place, len(self._events)):
            event, data = self._events[self._place]
            if isinstance(event, (int, float)):
                self._tick(event)
            else:
                handler = self._handlers.get(event[0])
                if event[0] in ("received", "sent"):
                    self._tick(event[-1])
                if handler is not None:
                    handler(*event[1:], *([data] if event[0] in ("request", "response") else ()))
            self._place += 1
        for line in self.logged:
            self._say("log", f"logged {line}")
        self.logged.clear()
        if client is not None:
            if client is not self._looked_at:
                self._begin_with(client)
            self._look(client)
        following = self._following()
        if self.open and not self.open[-1].is_user and following in _AFTER_CALLS:
            self._end_call()
        self.story.lasted = max(self.story.lasted, self.at)

    def go_on_alone(self) -> None:
        """Tell the rest from the trace alone: the client has done something else."""
        self.logged.clear()
        self._say("divergence", "the client does something else: from here on, as the trace has it", is_error=True)
        self.advance(len(self._events))

    def unfinished(self) -> Iterator[str]:
        """Yield what has begun and not ended."""
        yield from (f"in {call.words}, for {duration(self.at - call.at)}" for call in self.open)
        for number, waiting in self._sent.items():
            for sent, since, _ in waiting.values():
                where = f"{self._broker(number)}, connection {number}"
                yield f"in flight: {sent.api} #{sent.correlation_id} to {where}, for {duration(self.at - since)}"

    def end(self) -> None:
        """Note which requests have no response."""
        for bar in (each for sent in self._sent.values() for *_, each in sent.values()):
            bar.words += "; no response in the trace"

    def _following(self) -> str:
        """Return the kind of the next event that the client takes: "done" at the end of the trace."""
        for event, _ in self._events[self._place : self._place + 1000]:
            if not (isinstance(event, list) and event[0] in ("response", "beginning", "checkpoint")):
                return event[0] if isinstance(event, list) else ""
        return "done"

    def _tick(self, now: float) -> None:
        if self.story.began is None:
            self.story.began = self.now = now
        self.now = max(self.now, now)

    def _say(self, kind: str, words: str, **more: Any) -> None:
        depth = sum(not call.is_user for call in self.open)
        self.story.happenings.append(Happening(self._place, self.at, kind, printable(words), depth, **more))

    # -- calls

    def _on_trace(self, about: Any) -> None:
        options = about["options"]
        named = [f"{name} {options[name]}" for name in ("client_id", "group_id") if name in options]
        by = f"thinconsumer {about['thinconsumer']} on Python {about['python']}"
        self.story.about = printable(", ".join([f"written by {by}", *named]))
        self._say("trace", self.story.about)

    def _on_wall(self, now: float) -> None:
        if self.story.wall is None:
            self.story.wall = now - self.at

    def _begin(self, words: str, name: str, *, is_user: bool = False) -> None:
        self._say("user" if is_user else "call", words)
        self.open.append(ToldCall(printable(words), name, self.at, len(self.story.happenings) - 1, is_user=is_user))

    def _on_call(self, name: str, given: list[Any], named: dict[str, Any]) -> None:
        self._end_open()
        if name == "poll" and len(given) == len(_POLL_DEFAULTS):
            given = [*given]
            while len(given) > 1 and given[-1] == _POLL_DEFAULTS[len(given) - 1]:
                given.pop()
        words = [*map(shown, given), *(f"{key}={shown(value)}" for key, value in named.items())]
        self._begin(f"{name}({', '.join(words)})", name)

    def _end_open(self) -> None:
        if self.open and not self.open[-1].is_user:
            self._end_call()

    def _on_resume(self) -> None:
        self._end_open()
        self._begin("read_to_end() goes on", "read_to_end")

    def _on_taken(self, count: int) -> None:
        self._end_open()

    def _on_return(self, value: Any) -> None:
        self._end_call("" if value is None else shown(value))

    def _on_raise(self, name: str) -> None:
        if self.open:
            self.open[-1].error = name
            self._end_call()

    def _on_user(self, kind: str) -> None:
        self._begin(f"the client calls {kind}", kind, is_user=True)

    def _on_done(self, error: str | None) -> None:
        self._end_open()
        if self.open:
            call = self.open.pop()
            self._is_stirred = True
            seconds = duration(self.at - call.at)
            ends = f"{call.name} has returned" if error is None else f"{call.name} has raised {error}"
            self._say("user", f"{ends} after {seconds}", is_error=error is not None)

    def _on_found(self, _: Any, visited: int, count: int, moves: list[Any], turns: Any) -> None:
        if not self.open:
            return
        call = self.open[-1]
        call.records += count
        for topic, number, _, adds, _, _, offset, *_ in moves:
            name = printable(f"{topic}-{number}", 300)
            series = self.story.positions.setdefault(name, [])
            before = series[-1][1] if series else None
            first = call.moves[name][0] if name in call.moves else offset - adds if before is None else before
            call.moves[name] = (first, offset)
            series.append((self.at, offset))

    def _on_bad(self, _: Any, visited: int, about: list[Any]) -> None:
        name, topic, number, offset, *_ = about
        self._say("record error", f"{name} for {topic}-{number}, offset {offset}", is_error=True)

    def _on_woken(self) -> None:
        self._say("wakeup", "wakeup() was called")

    def _on_cut(self, name: str) -> None:
        self.open.clear()
        self._last = None
        self._say("cut", f"{name} has cut off the call: what the client did then is not in the trace", is_error=True)
        for number in list(self._sent):
            self._gone(number, f"closed after {name}", is_error=True)

    def _on_login(self, result: Any) -> None:
        ends = "is done" if result is None else f"goes on with {result} bytes" if isinstance(result, int) else result
        self._say("login", f"login: {ends}", is_error=isinstance(result, str))

    def _end_call(self, value: str = "") -> None:
        """Say what a call has returned: on its own line if nothing else has happened in it."""
        if not self.open:
            return
        call, last = self.open.pop(), self._last
        self._is_stirred |= call.name not in _POLLS
        wait = ""
        if call.name in _POLLS and not call.records and not call.error and self._client is not None:
            wait = why_no_records(self._client, self.now)
        result, seconds = _result(call, wait, self.at - call.at, value), self.at - call.at
        kind = "error" if call.error else "records" if call.records else "poll" if call.name in _POLLS else "call"
        self.story.calls.append(Bar("", kind, call.at, printable(f"{call.words}: {result}"), self.at, bool(call.error)))
        self._last = None
        words, moves = f"{call.name}: {result}", call.moves
        if call.line == len(self.story.happenings) - 1:
            self.story.happenings.pop()
            poll = _Poll(call, wait, 1, seconds, self.at)
            if last is not None and last.call.line == call.line - 1 and last.goes_on(poll):
                self.story.happenings.pop()
                poll = last.plus(poll)
            times = f", {poll.times} times" if poll.times > 1 else ""
            words = f"{call.words}{times}: {_result(poll.call, wait, poll.seconds, value)}"
            moves, self._last = poll.call.moves, poll if call.name in _POLLS else None
        self._say("returned", words, is_error=bool(call.error), moves=moves)

    # -- connections and requests

    def _address(self, number: int) -> str:
        """Return the address of a connection; that of one that is older than the trace, as the client has it."""
        found = self._dialled.get(number)
        if found is None:
            connection = None if self._client is None else connection_of(self._client, number)
            if connection is None:
                return "?"
            name = f"{connection.host}:{connection.address.sockaddr[1]}"
            found = self._dialled[number] = printable(name, 300), self.at
            self._note_broker(connection.node_id, found[0])
        return found[0]

    def _note_broker(self, node_id: int, address: str) -> None:
        self.story.brokers.setdefault(address, address)
        if node_id >= 0:
            self._nodes[address] = f"broker {node_id}"
            self.story.brokers[address] = f"broker {node_id} ({address})"

    def _broker(self, number: int) -> str:
        address = self._address(number)
        return self._nodes.get(address, address)

    def _on_dial(self, number: int, host: str, address: list[Any], purpose: str) -> None:
        name = printable(f"{host}:{address[1] if len(address) > 1 else ''}", 300)
        self._dialled[number] = name, self.at
        self.story.brokers.setdefault(name, name)
        where = "" if address[0] == host else f" ({address[0]})"
        broker = f"{self._nodes[name]} at {name}" if name in self._nodes else name
        self._say("connection", f"connection {number}: dials {broker}{where}")

    def _on_made(self, number: int, now: float) -> None:
        self._tick(now)
        seconds = duration(self.at - self._dialled.get(number, ("", self.at))[1])
        self._say("connection", f"connection {number}: connected to {self._broker(number)} after {seconds}")

    def _on_lost(self, number: int, about: Any, now: float) -> None:
        self._tick(now)
        why = "the broker has closed it" if about is None else str(about[0])
        self._gone(number, f"lost: {why}", is_error=True)

    def _on_hang_up(self, number: int) -> None:
        why = "" if self._client is None else why_closed(self._client, number)
        is_error = bool(self._sent.get(number)) and not any(call.name == "close" for call in self.open)
        if number >= 0:
            self._gone(number, f"closed by the client{f': {why}' if why else ''}", is_error=is_error)

    def _gone(self, number: int, words: str, *, is_error: bool) -> None:
        waiting = self._sent.pop(number, {})
        left = f"; without an answer: {listed(f'{sent.api} #{sent.correlation_id}' for sent, *_ in waiting.values())}"
        self._say(
            "connection",
            f"connection {number} to {self._broker(number)} {words}{left if waiting else ''}",
            is_error=is_error,
        )
        self._is_stirred = True
        for _, _, bar in waiting.values():
            bar.ended, bar.is_error = self.at, is_error
            bar.words = printable(f"{bar.words}; no response: connection {words}")

    def _on_resolved(self, host: str, port: int, found: Any, error: str, now: float) -> None:
        self._tick(now)
        if error or not found:
            self._say("connection", f"{host}: {error or 'has no address'}", is_error=True)

    def _on_request(self, number: int, size: int, frame: bytes) -> None:
        sent = self._words.of_request(frame)
        name = f"{sent.api} #{sent.correlation_id}"
        words = f"{name} (version {sent.version}, {sent.size} bytes){f': {sent.words}' if sent.words else ''}"
        bar = Bar(self._address(number), sent.api, self.at, printable(f"connection {number}: {words}"))
        self.story.requests.append(bar)
        self._sent.setdefault(number, {})[sent.correlation_id] = sent, self.at, bar
        self._say("request", f"to {self._broker(number)}, connection {number}: {words}", name=sent.api)

    def _on_response(self, number: int, size: int, holes: list[int], kept: int, data: bytes) -> None:
        waiting = self._sent.get(number, {}).pop(int.from_bytes(data[:4], "big"), None)
        if waiting is None:
            words = f"a response of {size} bytes to a request that is not in this part of the trace"
            self._say("response", f"from {self._broker(number)}, connection {number}: {words}")
            return
        sent, since, bar = waiting
        answered = self._words.of_response(sent, filled(data, holes, size))
        errors = f", errors: {listed(answered.errors)}" if answered.errors else ""
        seconds = duration(self.at - since)
        said = f": {answered.words}" if answered.words else ""
        words = f"answered after {seconds}, {size} bytes{errors}{said}"
        is_error = any((sent.api, name) not in _EXPECTED for name in answered.errors)
        bar.ended, bar.is_error = self.at, is_error
        bar.words = printable(f"{bar.words}; {words}")
        self._is_stirred |= sent.api != "Fetch" or bool(answered.errors)
        known = {"is_error": is_error, "name": sent.api}
        self._say("response", f"from {self._broker(number)}: {sent.api} #{sent.correlation_id} {words}", **known)
        if sent.api == "Metadata" and answered.message is not None:
            self._compare(answered)

    def _compare(self, answered: Answered) -> None:
        """Say which leaders have changed since the metadata before."""
        message = answered.message
        for broker in message.brokers:
            address = printable(f"{broker.host}:{broker.port}", 300)
            self._note_broker(broker.node_id, address)
        changed = []
        for topic in message.topics:
            for each in topic.partitions:
                name, leader = f"{topic.name}-{each.partition_index}", (each.leader_id, each.leader_epoch)
                before = self._leaders.get(name)
                self._leaders[name] = leader
                if before is not None and before != leader:
                    now = f"broker {leader[0]}, epoch {leader[1]}" if leader[0] >= 0 else "none"
                    changed.append(f"{name} has leader {now} (was {before[0]}, epoch {before[1]})")
        if changed:
            self._say("metadata", f"metadata: {listed(changed)}")

    # -- looks at the client

    def _begin_with(self, client: Client) -> None:
        """Go on with a client that has the state of a checkpoint: what it has is not new."""
        managers = client._reader.managers
        if managers.partitions.generation or self._looked_at is not None:
            topics = managers.metadata.topics.values()
            self._words.topics.update((each.topic_id, each.name) for each in topics if any(each.topic_id))
            self._generation, self._partitions = managers.partitions.generation, dict(managers.partitions.assigned)
            self._placed = {tp: (each.cursor, each.state) for tp, each in self._partitions.items()}
            for each in self._partitions.values():
                if each.has_position:
                    series = self.story.positions.setdefault(printable(name_of(each), 300), [])
                    series.append((self.at, each.cursor.offset))
            names = listed(map(name_of, self._partitions.values()))
            self._say("checkpoint", f"the trace goes on at a checkpoint: {names or 'no partitions'}")
        self._looked_at = client

    def _look(self, client: Client) -> None:
        managers = client._reader.managers
        if managers.group is not None:
            self._look_at_member(managers.group.member, managers.group.coordinator.node_id)
        if managers.partitions.generation != self._generation:
            self._generation, self._is_stirred = managers.partitions.generation, True
            self._look_at_assignment(dict(managers.partitions.assigned))
        if self._is_stirred:
            self._is_stirred = False
            self._look_at_positions()
        records = managers.buffer.records
        if not self.story.buffered or self.story.buffered[-1][1] != records:
            self.story.buffered.append((self.at, records))

    def _look_at_member(self, member: Any, coordinator: int | None) -> None:
        identity, state = member.identity, member.state
        if coordinator != self._coordinator:
            self._coordinator = coordinator
            self._say("coordinator", f"coordinator: {'not known' if coordinator is None else f'broker {coordinator}'}")
        found = state, identity.generation_id, identity.member_id
        if found == self._member:
            return
        before, self._member = self._member[:1], found
        began = state.name not in _SETTLED and (not before or getattr(before[0], "name", "") in _SETTLED)
        generation = f", generation {identity.generation_id}" if identity.is_member else ""
        named = f", member id {identity.member_id}" if identity.member_id else ""
        words = f"member: {state.value}{generation}{named}"
        self._say("rebalance" if began else "member", words, is_error=state.name in ("FATAL", "LOSING", "FENCED"))
        if self.story.states:
            self.story.states[-1].ended = self.at
        self.story.states.append(Bar("", state.value, self.at, printable(words), None, state.name == "FATAL"))

    def _look_at_assignment(self, assigned: dict[Any, Partition]) -> None:
        gone = [each for tp, each in self._partitions.items() if assigned.get(tp) is not each]
        new = [each for tp, each in assigned.items() if self._partitions.get(tp) is not each]
        self._partitions = assigned
        if gone:
            self._say("revoked", f"revoked: {listed(map(name_of, gone))}")
        for each in gone:
            self._placed.pop(each.tp, None)
            self.story.positions.setdefault(printable(name_of(each), 300), []).append((self.at, None))
        if new:
            self._say("assigned", f"assigned: {listed(map(name_of, new))}")

    def _look_at_positions(self) -> None:
        """Say which positions were set or lost since the last look, those of one cause together."""
        said: dict[str, dict[str, tuple[int, int]]] = {}
        for tp, each in self._partitions.items():
            found: tuple[object, object] = each.cursor, each.state
            before, self._placed[tp] = self._placed.get(tp), found
            if before is None or before[0] is not found[0] or (before[1] is not found[1] and not each.has_position):
                name, offset = printable(name_of(each), 300), each.cursor.offset
                series = self.story.positions.setdefault(name, [])
                if each.has_position:
                    if before is not None and series and series[-1][1] == offset:
                        continue  # fetched again from there
                    series.append((self.at, offset))
                by = "" if not each.has_position or each.placed_by is None else f" ({each.placed_by.value})"
                said.setdefault(f"{place_of(each)}{by}", {})[name] = (offset, offset)
        for words, moves in said.items():
            self._say("position", f"{words}: {listed(moves)}", moves=moves)


def duration(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def shown(value: Any) -> str:
    """Return an encoded argument or result of a call in words."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "tp":
            return f"{content[0]}-{content[1]}"
        if kind in ("offset", "time", "object"):
            return str(content if kind == "object" else content[0])
        if kind == "record":
            return f"{content[0]}-{content[1]} at {content[3]}"
        if kind == "map":
            return f"{{{listed(f'{shown(key)}: {shown(item)}' for key, item in content)}}}"
        if kind == "set":
            return f"{{{listed(map(shown, content))}}}"
        if kind == "tuple":
            return f"({listed(map(shown, content))})"
    if isinstance(value, list):
        return f"[{listed(map(shown, value))}]"
    return str(value)
