"""Fault rules: what a broker is to do instead of, before or after working on a request as it should.

Owns which rule a request meets; the connection carries the action out. Rules are values: all but those with a callable
in them can be written down as JSON and read again in another process (:meth:`Rule.as_dict`). The model is franz-go's
``kfake`` with its control functions, with one named action in place of its combinations of results.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

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
    """Nothing special. As a rule of its own it shields a request from the rules after it."""


@dataclass(frozen=True, slots=True)
class Reply(Action):
    """An answer of your own, and the request is not worked on.

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
class Delay(Action):
    """The request is worked on so many seconds later; what else the client sends on that connection waits behind it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Disconnect(Action):
    """The connection is closed: before the request is worked on, or ``after`` it took effect, with the answer lost.

    ``reset`` breaks it off instead, as a crashed host does.
    """

    after: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Silence(Action):
    """No answer ever comes, nor to anything behind it; the connection stays. ``after``: the request takes effect."""

    after: bool = False


_ACTIONS: Mapping[str, type[Action]] = {kind.__name__: kind for kind in (Pass, Reply, Delay, Disconnect, Silence)}
PASS = Pass()

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
        self.api_key = _api_key(api)
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
        action = self.action
        if not isinstance(action, Action) or callable(self.where):
            raise IllegalArgumentError(f"{self!r} holds a function and cannot leave this process")
        if isinstance(action, Reply) and not isinstance(action.with_, int):
            raise IllegalArgumentError(f"{self!r} holds an answer of its own and cannot leave this process")
        assert is_dataclass(action)
        told = {name: int(value) if isinstance(value, Code) else value for name, value in asdict(action).items()}
        api = None if self.api_key is None else _NAMES_BY_KEY[self.api_key]
        where = None if self.where is None else dict(self.where)
        return {
            "api": api,
            "action": {"kind": type(action).__name__, **told},
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
            details = dict(told["action"])
            kind = _ACTIONS[details.pop("kind")]
            limits = {name: told.get(name) for name in ("node", "times", "where")}
            return cls(told["api"], kind(**details), **limits)
        except (KeyError, TypeError) as error:
            raise IllegalArgumentError(f"{told!r} is no rule: {error!r}") from None

    def _limits(self) -> tuple[tuple[str, Any], ...]:
        return ("node", self.node), ("times", self.times), ("where", self.where)

    @staticmethod
    def _holds(where: Where, call: ApiCall) -> bool:
        if callable(where):
            return where(call)
        return any(all(seen.get(name, _MISSING) == value for name, value in where.items()) for seen in _views(call))


class Rules:
    """The rules of a cluster, oldest first: the first that applies decides."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

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
        """Return what is to happen to a call. Rules that are spent leave."""
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


def _api_key(api: type[Message] | str | None) -> int | None:
    if api is None:
        return None
    if isinstance(api, str):
        key = APIS_BY_NAME.get(api.removesuffix("Request"))
        if key is None:
            close = difflib.get_close_matches(api, APIS_BY_NAME, 1)
            raise IllegalArgumentError(f"no API is called {api!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return key
    if REQUESTS.get(getattr(api, "API_KEY", -1)) is not api:
        raise IllegalArgumentError(f"{api!r} is no request")
    return api.API_KEY


def _views(call: ApiCall) -> Iterator[Mapping[str, Any]]:
    """Yield every struct of a request as a mapping that holds the fields of those around it as well."""
    names = call.node.image.names_by_id
    todo: list[tuple[Any, Mapping[str, Any]]] = [(call.request, {})]
    while todo:
        struct, around = todo.pop()
        own = {field.name: getattr(struct, field.name) for field in fields(struct)}
        if any(own.get("topic_id", b"")):
            # From some version on requests name topics by id; rules go on naming them by name.
            name = names.get(own["topic_id"])
            own.update({key: name for key in ("topic", "name") if key in own})
        view = {**around, **own}
        yield view
        for value in own.values():
            inside = value if isinstance(value, list) else (value,)
            todo.extend((inner, view) for inner in inside if is_dataclass(inner))
