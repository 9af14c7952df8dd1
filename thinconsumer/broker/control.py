"""The words that a broker in a process of its own and its owner exchange: one JSON object to a line, each way.

``{"id": 1, "call": "kill", "args": [2], "kwargs": {}}`` is answered by ``{"id": 1, "result": null}`` or by
``{"id": 1, "error": {...}}``. What JSON has no word for (bytes, records, rules) is an object with one key that begins
with ``$``. Owns both directions of that, and which calls there are; pipes and processes are elsewhere.
"""

from __future__ import annotations

import base64
import builtins
import json
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import errors
from ..errors import IllegalArgumentError, KafkaError
from ..records.builder import NewRecord
from ..types import TopicPartition
from .controller import ControllerError
from .faults import Rule
from .image import TopicImage

if TYPE_CHECKING:
    from .server import EmbeddedBroker

__all__ = ["BrokerProcessError", "Dispatcher", "answers_earlier_call", "call_line", "pack", "result_of", "unpack"]

#: Methods of EmbeddedBroker that can be called from outside, as they are.
BROKER_METHODS = frozenset(
    {
        "create_topic", "delete_topic", "expand", "produce", "delete_records", "compact",
        "kill", "start", "pause", "resume", "move_leader", "move_coordinator", "cut", "heal",
    }
)  # fmt: skip


class BrokerProcessError(KafkaError):
    """The broker's process could not be started, has ended, does not answer, or has a bug; its last words are here."""

    returncode: int | None = None
    stderr: str = ""

    def __init__(self, message: str, *, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


# -- values


def pack(value: Any) -> Any:
    """Return what JSON can say, for whatever a call takes or returns.

    Raises:
        IllegalArgumentError: Nothing can be said for it, a function for instance.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, Rule):
        return {"$rule": pack(value.as_dict())}
    if isinstance(value, NewRecord):
        return {"$record": [pack(item) for item in value]}
    if isinstance(value, TopicPartition):
        return {"$partition": list(value)}
    if isinstance(value, TopicImage):
        return None  # a broker's own picture of a topic: no use where the rest of that picture is not
    if isinstance(value, Mapping):
        return {str(key): pack(item) for key, item in value.items()}
    try:
        return [pack(item) for item in value]
    except TypeError:
        raise IllegalArgumentError(f"{value!r} cannot leave this process") from None


_UNPACKED: Mapping[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$record": lambda items: _record(*(unpack(item) for item in items)),
    "$partition": lambda items: TopicPartition(*items),
    "$rule": lambda told: Rule.from_dict(unpack(told)),
}


def _record(value: Any, key: Any, headers: Any, *rest: Any) -> NewRecord:
    return NewRecord(value, key, [(name, data) for name, data in headers], *rest)


def unpack(message: Any) -> Any:
    """Return what :func:`pack` was given."""
    if isinstance(message, list):
        return [unpack(item) for item in message]
    if not isinstance(message, dict):
        return message
    if len(message) == 1:
        ((key, inside),) = message.items()
        if key in _UNPACKED:
            return _UNPACKED[key](inside)
    return {key: unpack(item) for key, item in message.items()}


# -- the owner's side


def call_line(number: int, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return the line that makes a call.

    Raises:
        IllegalArgumentError: An argument cannot leave this process.
    """
    return _line({"id": number, "call": name, "args": pack(args), "kwargs": pack(kwargs)})


def answers_earlier_call(line: bytes, number: int) -> bool:
    """Return whether this answers a call made before that one."""
    try:
        return bool(0 < json.loads(line)["id"] < number)
    except (ValueError, TypeError, KeyError):
        return False


def result_of(line: bytes, number: int) -> Any:
    """Return what an answer holds.

    Raises:
        BrokerProcessError: It is no answer to this call, or the broker has a bug.
        Exception: What the call raised there, of the same type.
    """
    try:
        message = json.loads(line)
        is_ours = message["id"] == number
        found = _error_from_json(message["error"]) if "error" in message else unpack(message["result"])
    except (ValueError, TypeError, KeyError, AttributeError):
        is_ours, found = False, None
    if not is_ours:
        raise BrokerProcessError(f"the broker's process said {line[:200]!r}, which is no answer to call {number}")
    if isinstance(found, Exception):
        raise found
    return found


# -- the broker's side


class Dispatcher:
    """Makes the calls that come in on a broker, and says how they went."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._rules: dict[int, Rule] = {}
        self._methods: Mapping[str, Callable[..., Any]] = {
            "on": self._on,
            "rule_hits": lambda number: self._rules[number].hits,
            "rule_remove": lambda number: broker.cluster.rules.remove(self._rules[number]),
            "leader": self._leader,
            "bugs": lambda: broker.cluster.bugs,
        }

    def answer(self, line: bytes) -> bytes:
        """Return the line that answers this one. Whatever goes wrong is in it."""
        number = None
        try:
            message = json.loads(line)
            number, name = message["id"], message["call"]
            args, kwargs = unpack(message["args"]), unpack(message["kwargs"])
            result = self._method(name)(*args, **kwargs)
            return _line({"id": number, "result": pack(result)})
        except Exception as error:  # noqa: BLE001 - the owner is to know, and the broker is to go on
            return _line({"id": number, "error": _error_to_json(error)})

    def _method(self, name: str) -> Callable[..., Any]:
        if name in self._methods:
            return self._methods[name]
        if name not in BROKER_METHODS:
            raise IllegalArgumentError(f"a broker has no call {name!r}")
        method: Callable[..., Any] = getattr(self._broker, name)
        return method

    def _on(self, rule: Rule) -> int:
        number = len(self._rules) + 1
        self._rules[number] = self._broker.cluster.rules.add(rule)
        return number

    def _leader(self, tp: TopicPartition) -> int:
        found = self._broker.cluster.controller.image.partition(*tp)
        if found is None:
            raise LookupError(f"there is no {tp[0]}-{tp[1]}")
        return found.leader


# -- errors


#: What a call may raise on purpose; anything else is a bug of the broker's.
_EXPECTED = (KafkaError, ControllerError, LookupError, ValueError, TypeError, OSError)


def _error_to_json(error: Exception) -> dict[str, Any]:
    kind = type(error)
    if isinstance(error, _EXPECTED) and _exception_class(kind.__name__) is kind:
        try:
            return {"type": kind.__name__, "args": pack(error.args), "state": pack(error.__dict__)}
        except IllegalArgumentError:
            pass  # something in it stays here; its words do not
    text = "".join(traceback.format_exception(error))
    return {"type": "BrokerProcessError", "args": [f"the broker failed at this: {error!r}"], "state": {"stderr": text}}


def _error_from_json(told: Mapping[str, Any]) -> Exception:
    kind = _exception_class(told["type"])
    if kind is None:
        return BrokerProcessError(f"the broker raised {told!r}, of a kind that is not known here")
    # Not by calling it: constructors want more than what ends up in args.
    error = kind.__new__(kind)
    error.args = tuple(unpack(told["args"]))
    error.__dict__.update(unpack(told["state"]))
    return error


def _exception_class(name: str) -> type[Exception] | None:
    own = {"ControllerError": ControllerError, "BrokerProcessError": BrokerProcessError}
    kind = own.get(name) or getattr(errors, name, None) or getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
