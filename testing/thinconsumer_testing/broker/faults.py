"""Fault rules: what a broker does to a request before, after or in place of handling it as Kafka does.

This module chooses the rule for a request; the connection carries out its action. Rules are values: all but those that
hold a function, a message or bytes can be written as JSON for another process (:meth:`FaultRule.as_dict`). The control
functions of franz-go's ``kfake`` are similar: several return values of such a function together say what the broker
does, where a rule here has one named action.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from .wire.requests import REQUESTS

if TYPE_CHECKING:
    from .call import Api, ApiCall


class FaultAction:
    """Base class of the actions that a broker can take on a request."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Pass(FaultAction):
    """The broker handles the request as usual. Later rules, which might have other actions, are not applied to it."""


PASS = Pass()


@dataclass(frozen=True, slots=True)
class Reply(FaultAction):
    """The client gets this response, and the broker does not handle the request.

    ``with_`` is an error code (``Code`` of ``thinconsumer.wire.error_codes``), which refuses the whole request; a
    message; or a function of the ``ApiCall`` that returns a message.
    """

    with_: int | Message | Callable[[ApiCall], Message]

    def answer(self, call: ApiCall, api: Api) -> Message:
        """Return the response to send to the client."""
        if isinstance(self.with_, int):
            return api.refuse(call.request, call.version, int(self.with_))
        return self.with_ if isinstance(self.with_, Message) else self.with_(call)


@dataclass(frozen=True, slots=True)
class Edit(FaultAction):
    """The broker handles the request; ``change(call, response)`` alters the response in place, or returns another."""

    change: Callable[[ApiCall, Any], Message | None]

    def edited(self, call: ApiCall, response: Message) -> Message:
        """Return the handler's ``response`` as altered by ``change``."""
        return self.change(call, response) or response


@dataclass(frozen=True, slots=True)
class EntryError(FaultAction):
    """The broker handles the request, and the entries of the response that match ``where`` carry this error code.

    An entry is a struct with an error code: a topic, a partition, a group, or the whole response. ``where`` names
    fields as in :class:`FaultRule`, but of the response (``{"topic": "orders", "partition_index": 0}``). An entry
    keeps the fields that identify it; its other fields get the protocol's defaults. A response in an incremental fetch
    session has no entries for partitions that have not changed, so an error cannot be set for these.
    """

    code: int
    where: Mapping[str, Any] = field(default_factory=dict)

    def edited(self, call: ApiCall, response: Message) -> Message:
        """Return the handler's ``response`` with the error code in all matching entries."""
        for entry, view in list(_structs(response, call.node.image.names_by_id)):
            if hasattr(entry, "error_code") and _matches(self.where, view):
                empty = type(entry)()
                for name in {one.name for one in fields(entry)} - _IDENTIFYING_FIELDS:
                    setattr(entry, name, getattr(empty, name))
                entry.error_code = int(self.code)
        return response


@dataclass(frozen=True, slots=True)
class Raw(FaultAction):
    """The client gets these bytes in place of a response, unchanged; they need not be a valid frame. With ``after`` the
    broker also handles the request.
    """

    data: bytes
    after: bool = False


@dataclass(frozen=True, slots=True)
class Delay(FaultAction):
    """The request and all later ones of its connection wait for ``seconds``; then the action ``then`` is applied."""

    seconds: float
    then: FaultAction = PASS


@dataclass(frozen=True, slots=True)
class Disconnect(FaultAction):
    """The broker closes the connection in place of handling the request; with ``after``, in place of the response.
    ``reset`` sends a TCP reset, as after a crash.
    """

    after: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Silence(FaultAction):
    """The broker sends no response to this request, and handles no later request of the connection. It does not handle
    this request either, unless ``after`` is True.
    """

    after: bool = False


_ACTIONS: Mapping[str, type[FaultAction]] = {
    kind.__name__: kind for kind in (Pass, Reply, EntryError, Delay, Disconnect, Silence)
}
#: Fields that an entry keeps when its error code is set; they identify the entry.
_IDENTIFYING_FIELDS = frozenset(
    {"name", "topic", "topic_id", "partition", "partition_index", "index", "group_id", "key", "session_id"}
)

#: A function that chooses the action for a call; None leaves the call to later rules.
Decide = Callable[["ApiCall"], "FaultAction | None"]
#: The requests to which a rule applies: names of request fields with the values that they must have, or a function that
#: returns True for a call to which the rule applies.
Where = Mapping[str, Any] | Callable[["ApiCall"], bool]

#: Kafka's names of the APIs: "Fetch", "OffsetCommit", ...
APIS_BY_NAME: Mapping[str, int] = {cls.__name__.removesuffix("Request"): key for key, cls in REQUESTS.items()}
_LIMITS = ("node", "times", "where")
_NAMES_BY_KEY = {key: name for name, key in APIS_BY_NAME.items()}


@dataclass(slots=True, eq=False, repr=False)
class FaultRule:
    """One fault rule.

    Args:
        api: A request class, Kafka's name of the API ("Fetch"), or None for all APIs.
        action: A ``FaultAction``; or a function of the call that returns an action, or None to skip the rule.
        node: Only requests to this node.
        times: How often the rule applies; None: without limit.
        where: Only these requests: a function of the call, or field names with values. One struct of the request,
            together with the structs around it, must have all the values: ``{"topic": "orders", "partition": 0}``.
            Topic names also match requests with topic ids. An incremental Fetch request names only new and changed
            partitions of its fetch session, so the rule does not match the other partitions.

    Raises:
        IllegalArgumentError: The API does not exist, or ``action`` is neither an action nor a function.
    """

    api: InitVar[type[Message] | str | None]
    action: FaultAction | Decide
    _: KW_ONLY
    node: int | None = None
    times: int | None = None
    where: Where | None = None
    hits: int = field(default=0, init=False)  #: The number of requests to which the rule has applied.
    api_key: int | None = field(init=False)

    def __post_init__(self, api: type[Message] | str | None) -> None:
        if not isinstance(self.action, FaultAction) and (isinstance(self.action, type) or not callable(self.action)):
            raise IllegalArgumentError(f"a rule needs an action such as Silence() or a function, not {self.action!r}")
        self.api_key = None if api is None else api_key_of(api)

    def __repr__(self) -> str:
        api = "*" if self.api_key is None else _NAMES_BY_KEY[self.api_key]
        limits = [f"{name}={value!r}" for name in _LIMITS if (value := getattr(self, name)) is not None]
        return f"<FaultRule {', '.join([api, repr(self.action), *limits])}; applied {self.hits} times>"

    @property
    def is_spent(self) -> bool:
        """Whether the rule has applied ``times`` times, so that it applies to no further request."""
        return self.times is not None and self.hits >= self.times

    def action_for(self, call: ApiCall) -> FaultAction | None:
        """Return this rule's action for a call, and increment ``hits``; None if the rule does not apply to the call."""
        if self.is_spent or self.api_key not in (None, call.request.API_KEY):
            return None
        if self.node is not None and call.node.node_id != self.node:
            return None
        if callable(self.where):
            if not self.where(call):
                return None
        elif self.where is not None:
            structs = _structs(call.request, call.node.image.names_by_id)
            if not any(_matches(self.where, view) for _, view in structs):
                return None
        action = self.action if isinstance(self.action, FaultAction) else self.action(call)
        if action is not None:
            self.hits += 1
        return action

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as a mapping of JSON's types, so that it can be sent to a broker in another process.

        Raises:
            IllegalArgumentError: The rule holds a function, a message or bytes.
        """
        if not isinstance(self.action, FaultAction) or callable(self.where):
            raise IllegalArgumentError(f"{self!r} holds a function and cannot be sent to another process")
        api = None if self.api_key is None else _NAMES_BY_KEY[self.api_key]
        limits = {name: getattr(self, name) for name in _LIMITS}
        return {"api": api, "action": _action_as_dict(self.action), **limits}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> FaultRule:
        """Return the rule that :meth:`as_dict` described.

        Raises:
            IllegalArgumentError: ``told`` does not describe a rule.
        """
        try:
            limits = {name: told.get(name) for name in _LIMITS}
            return cls(told["api"], _action_from_dict(told["action"]), **limits)
        except (KeyError, TypeError) as error:
            raise IllegalArgumentError(f"{told!r} does not describe a fault rule: {error!r}") from None


class ReceivedRequest(NamedTuple):
    """One request that a broker received."""

    at: float  #: Time of receipt in monotonic seconds of the cluster.
    node_id: int
    api: type[Message]
    version: int
    message: Any
    client_id: str
    connection_id: int


class FaultRules(list[FaultRule]):
    """The fault rules of a cluster, oldest first; a request gets the action of the first rule that applies to it. If
    ``requests`` is set to a list, every :class:`ReceivedRequest` is appended to it.
    """

    requests: list[ReceivedRequest] | None = None

    def add(self, rule: FaultRule) -> FaultRule:
        """Add a rule, and return it."""
        self.append(rule)
        return rule

    def remove(self, rule: FaultRule) -> None:
        """Remove a rule. Does nothing if it was removed before."""
        if rule in self:
            super().remove(rule)

    def action_for(self, call: ApiCall) -> FaultAction:
        """Return the action of the first rule that applies to a call, or PASS; remove that rule if it is spent."""
        if self.requests is not None:
            at, node, request = call.node.schedule.now, call.node.node_id, call.request
            self.requests.append(
                ReceivedRequest(at, node, type(request), call.version, request, call.client_id, call.connection_id)
            )
        for rule in list(self):
            action = rule.action_for(call)
            if rule.is_spent:
                self.remove(rule)
            if action is not None:
                return action
        return PASS


_MISSING = object()


def api_key_of(api: type[Message] | str) -> int:
    """Return an API's key, by its request class or Kafka's name; raise IllegalArgumentError if there is none."""
    if isinstance(api, str):
        key = APIS_BY_NAME.get(api.removesuffix("Request"))
        if key is None:
            close = difflib.get_close_matches(api, APIS_BY_NAME, 1)
            raise IllegalArgumentError(f"no API is called {api!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return key
    if REQUESTS.get(getattr(api, "API_KEY", -1)) is not api:
        raise IllegalArgumentError(f"{api!r} is not the request class of a Kafka API")
    return api.API_KEY


def _matches(where: Mapping[str, Any], view: Mapping[str, Any]) -> bool:
    return all(view.get(name, _MISSING) == value for name, value in where.items())


def _structs(message: Message, names: Mapping[bytes, str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield every struct of a message, each with a mapping of field names to values. The mapping contains the struct's
    own fields and the fields of the structs that contain it: for a partition also the name of its topic.
    """
    todo: list[tuple[Any, Mapping[str, Any]]] = [(message, {})]
    while todo:
        struct, around = todo.pop()
        own = {field.name: getattr(struct, field.name) for field in fields(struct)}
        if any(own.get("topic_id", b"")):
            # Newer versions of an API contain topic ids; rules contain topic names for every version.
            name = names.get(own["topic_id"])
            own.update({key: name for key in ("topic", "name") if key in own})
        view = {**around, **own}
        yield struct, view
        for value in own.values():
            inside = value if isinstance(value, list) else (value,)
            todo.extend((inner, view) for inner in inside if is_dataclass(inner))


def _action_as_dict(action: FaultAction) -> dict[str, Any]:
    if type(action).__name__ not in _ACTIONS or (isinstance(action, Reply) and not isinstance(action.with_, int)):
        raise IllegalArgumentError(f"{action!r} holds a response or a function and cannot be sent to another process")
    details = {}
    for one in fields(action):  # type: ignore[arg-type]  # every action is a dataclass
        value = getattr(action, one.name)
        if isinstance(value, FaultAction):
            value = _action_as_dict(value)
        details[one.name] = int(value) if isinstance(value, Code) else value
    return {"kind": type(action).__name__, **details}


def _action_from_dict(told: Mapping[str, Any]) -> FaultAction:
    details = dict(told)
    kind = _ACTIONS[details.pop("kind")]
    if "then" in details:
        details["then"] = _action_from_dict(details["then"])
    return kind(**details)
