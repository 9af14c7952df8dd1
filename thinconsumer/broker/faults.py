"""Fault rules: what a broker does instead of, before or after it handles a request as Kafka does.

This module chooses the rule for a request; the connection carries out its action. Rules are values: all but those that
hold a function, a message or bytes can be written as JSON for another process (:meth:`Rule.as_dict`). The model is the
control functions of franz-go's ``kfake``, with one named action in place of its combinations of results.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import IllegalArgumentError
from ..wire import Message
from ..wire.apis import REQUESTS
from ..wire.error_codes import Code

if TYPE_CHECKING:
    from .call import Api, ApiCall


class Action:
    """What happens to a request."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Pass(Action):
    """The broker handles the request. A rule with this action shields the request from the rules after it."""


PASS = Pass()


@dataclass(frozen=True, slots=True)
class Reply(Action):
    """The client gets this response, and the broker does not handle the request.

    ``with_`` is an error code (:class:`~thinconsumer.wire.error_codes.Code`), which refuses the whole request; a
    message; or a function of the :class:`~.call.ApiCall` that returns one.
    """

    with_: int | Message | Callable[[ApiCall], Message]

    def answer(self, call: ApiCall, api: Api) -> Message:
        """Return the message to send."""
        if isinstance(self.with_, int):
            return api.refuse(call.request, call.version, int(self.with_))
        return self.with_ if isinstance(self.with_, Message) else self.with_(call)


@dataclass(frozen=True, slots=True)
class Edit(Action):
    """The broker handles the request, and ``change(call, response)`` alters the response before it is sent.

    ``change`` modifies the response in place, or returns another one.
    """

    change: Callable[[ApiCall, Any], Message | None]

    def edited(self, call: ApiCall, response: Message) -> Message:
        """Return the response to send."""
        return self.change(call, response) or response


@dataclass(frozen=True, slots=True)
class EntryError(Action):
    """The broker handles the request, and the entries of the response that match ``where`` carry this error code.

    An entry is a struct with an error code: a topic, a partition, a group, or the whole response. ``where`` names
    fields as in :class:`Rule`, but of the response (``{"topic": "orders", "partition_index": 0}``). An entry keeps the
    fields that identify it; all others get the protocol's defaults. A response to an incremental Fetch has no entries
    for partitions without news, so these cannot carry an error.
    """

    code: int
    where: Mapping[str, Any] = field(default_factory=dict)

    def edited(self, call: ApiCall, response: Message) -> Message:
        """Return the response to send."""
        for entry, view in list(_structs(response, call.node.image.names_by_id)):
            if hasattr(entry, "error_code") and _matches(self.where, view):
                empty = type(entry)()
                for name in {one.name for one in fields(entry)} - _IDENTIFYING_FIELDS:
                    setattr(entry, name, getattr(empty, name))
                entry.error_code = int(self.code)
        return response


@dataclass(frozen=True, slots=True)
class Raw(Action):
    """The client gets these bytes in place of a response, as they are: a frame with its size, or anything else.

    ``after``: the request takes effect.
    """

    data: bytes
    after: bool = False


@dataclass(frozen=True, slots=True)
class Delay(Action):
    """The request waits for so many seconds, and all behind it on its connection; then ``then`` happens to it."""

    seconds: float
    then: Action = PASS


@dataclass(frozen=True, slots=True)
class Disconnect(Action):
    """The broker closes the connection before it handles the request or, with ``after``, in place of the response.

    ``reset`` breaks the connection off instead, as a crashed host does.
    """

    after: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Silence(Action):
    """The request, and all behind it, gets no response; the connection stays open. ``after``: it takes effect."""

    after: bool = False


_ACTIONS: Mapping[str, type[Action]] = {
    kind.__name__: kind for kind in (Pass, Reply, EntryError, Delay, Disconnect, Silence)
}
#: What an entry keeps when it is given an error code.
_IDENTIFYING_FIELDS = frozenset(
    {"name", "topic", "topic_id", "partition", "partition_index", "index", "group_id", "key", "session_id"}
)

#: A rule's action: what to do, or who decides; None leaves the request to the rules after it.
Decide = Callable[["ApiCall"], "Action | None"]
#: Names of request fields with the values they must have, or a function of the call.
Where = Mapping[str, Any] | Callable[["ApiCall"], bool]

#: Kafka's names of the APIs: "Fetch", "OffsetCommit", ...
APIS_BY_NAME: Mapping[str, int] = {cls.__name__.removesuffix("Request"): key for key, cls in REQUESTS.items()}
_NAMES_BY_KEY = {key: name for name, key in APIS_BY_NAME.items()}


class Rule:
    """One fault rule.

    Args:
        api: A request class, Kafka's name of the API ("Fetch"), or None for all of them.
        action: An :class:`Action`, or a function of the call that returns one (None: this rule does not apply).
        node: Only requests to this node.
        times: How often it applies; None for ever.
        where: Which requests: field names with values, looked for in the request and in the structs inside it, all of
            them in one struct or in those around it (``{"topic": "orders", "partition": 0}``; where topics have ids,
            their names count); or a function of the call. What a fetch session keeps is not in an incremental Fetch.

    Raises:
        IllegalArgumentError: An API that does not exist, or an action that is none.
    """

    __slots__ = ("action", "api_key", "hits", "node", "times", "where")

    def __init__(
        self,
        api: type[Message] | str | None,
        action: Action | Decide,
        *,
        node: int | None = None,
        times: int | None = None,
        where: Where | None = None,
    ) -> None:
        if not isinstance(action, Action) and (isinstance(action, type) or not callable(action)):
            raise IllegalArgumentError(f"a rule needs an action such as Silence() or a function, not {action!r}")
        self.api_key = None if api is None else api_key_of(api)
        self.action = action
        self.node = node
        self.times = times
        self.where = where
        self.hits = 0  #: How often it has applied.

    def __repr__(self) -> str:
        api = "*" if self.api_key is None else _NAMES_BY_KEY[self.api_key]
        limits = [f"{name}={value!r}" for name, value in self._limits() if value is not None]
        return f"<Rule {', '.join([api, repr(self.action), *limits])}; applied {self.hits} times>"

    @property
    def is_spent(self) -> bool:
        """Whether it has applied as often as it may."""
        return self.times is not None and self.hits >= self.times

    def action_for(self, call: ApiCall) -> Action | None:
        """Return what this rule does with a call, and count it; None when it does not apply."""
        if self.is_spent or self.api_key not in (None, call.request.API_KEY):
            return None
        if self.node is not None and call.node.node_id != self.node:
            return None
        if self.where is not None and not self._holds(self.where, call):
            return None
        action = self.action if isinstance(self.action, Action) else self.action(call)
        if action is not None:
            self.hits += 1
        return action

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types, for another process.

        Raises:
            IllegalArgumentError: There is a function or a message in it.
        """
        if not isinstance(self.action, Action) or callable(self.where):
            raise IllegalArgumentError(f"{self!r} holds a function and cannot leave this process")
        api = None if self.api_key is None else _NAMES_BY_KEY[self.api_key]
        where = None if self.where is None else dict(self.where)
        return {
            "api": api,
            "action": _action_as_dict(self.action),
            "node": self.node,
            "times": self.times,
            "where": where,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Rule:
        """Read what :meth:`as_dict` returned.

        Raises:
            IllegalArgumentError: It makes no sense.
        """
        try:
            limits = {name: told.get(name) for name in ("node", "times", "where")}
            return cls(told["api"], _action_from_dict(told["action"]), **limits)
        except (KeyError, TypeError) as error:
            raise IllegalArgumentError(f"{told!r} is no rule: {error!r}") from None

    def _limits(self) -> tuple[tuple[str, Any], ...]:
        return ("node", self.node), ("times", self.times), ("where", self.where)

    @staticmethod
    def _holds(where: Where, call: ApiCall) -> bool:
        if callable(where):
            return where(call)
        structs = _structs(call.request, call.node.image.names_by_id)
        return any(_matches(where, view) for _, view in structs)


class ReceivedRequest(NamedTuple):
    """One request as it reached a broker."""

    at: float  #: The cluster's monotonic seconds.
    node_id: int
    api: type[Message]
    version: int
    message: Any
    client_id: str
    connection_id: int


class Rules:
    """The rules of a cluster, oldest first: the first that applies decides.

    ``requests``, if set to a list, gets every :class:`ReceivedRequest`, also of requests that no rule applies to.
    """

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self.requests: list[ReceivedRequest] | None = None

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._rules))

    def __len__(self) -> int:
        return len(self._rules)

    def on(
        self,
        api: type[Message] | str | None,
        action: Action | Decide,
        *,
        node: int | None = None,
        times: int | None = None,
        where: Where | None = None,
    ) -> Rule:
        """Add a rule; see :class:`Rule`. Returns it, to be given to :meth:`remove`."""
        return self.add(Rule(api, action, node=node, times=times, where=where))

    def add(self, rule: Rule) -> Rule:
        """Add a rule that exists already."""
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule away. One that is not there (any more): nothing."""
        if rule in self._rules:
            self._rules.remove(rule)

    def clear(self) -> None:
        """Take all rules away."""
        self._rules.clear()

    def action_for(self, call: ApiCall) -> Action:
        """Return the action for a call, and remove the rules that are spent."""
        if self.requests is not None:
            self.requests.append(
                ReceivedRequest(
                    call.node.schedule.now,
                    call.node.node_id,
                    type(call.request),
                    call.version,
                    call.request,
                    call.client_id,
                    call.connection_id,
                )
            )
        if not self._rules:
            return PASS
        for rule in list(self._rules):
            action = rule.action_for(call)
            if rule.is_spent:
                self.remove(rule)
            if action is not None:
                return action
        return PASS


_MISSING = object()


def api_key_of(api: type[Message] | str) -> int:
    """Return the key of an API, given by its request class or by Kafka's name of it.

    Raises:
        IllegalArgumentError: There is no such API.
    """
    if isinstance(api, str):
        key = APIS_BY_NAME.get(api.removesuffix("Request"))
        if key is None:
            close = difflib.get_close_matches(api, APIS_BY_NAME, 1)
            raise IllegalArgumentError(f"no API is called {api!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return key
    if REQUESTS.get(getattr(api, "API_KEY", -1)) is not api:
        raise IllegalArgumentError(f"{api!r} is no request")
    return api.API_KEY


def _matches(where: Mapping[str, Any], view: Mapping[str, Any]) -> bool:
    return all(view.get(name, _MISSING) == value for name, value in where.items())


def _structs(message: Message, names: Mapping[bytes, str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield every struct of a message, with its fields and those of the structs around it as a mapping."""
    todo: list[tuple[Any, Mapping[str, Any]]] = [(message, {})]
    while todo:
        struct, around = todo.pop()
        own = {field.name: getattr(struct, field.name) for field in fields(struct)}
        if any(own.get("topic_id", b"")):
            # Newer versions of an API name topics by id; rules name them by name in every version.
            name = names.get(own["topic_id"])
            own.update({key: name for key in ("topic", "name") if key in own})
        view = {**around, **own}
        yield struct, view
        for value in own.values():
            inside = value if isinstance(value, list) else (value,)
            todo.extend((inner, view) for inner in inside if is_dataclass(inner))


def _action_as_dict(action: Action) -> dict[str, Any]:
    if type(action).__name__ not in _ACTIONS or (isinstance(action, Reply) and not isinstance(action.with_, int)):
        raise IllegalArgumentError(f"{action!r} holds a response or a function and cannot leave this process")
    details = {}
    for one in fields(action):  # type: ignore[arg-type]  # every action is a dataclass
        value = getattr(action, one.name)
        if isinstance(value, Action):
            value = _action_as_dict(value)
        details[one.name] = int(value) if isinstance(value, Code) else value
    return {"kind": type(action).__name__, **details}


def _action_from_dict(told: Mapping[str, Any]) -> Action:
    details = dict(told)
    kind = _ACTIONS[details.pop("kind")]
    if "then" in details:
        details["then"] = _action_from_dict(details["then"])
    return kind(**details)
