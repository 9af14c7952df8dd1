"""The control protocol of a broker in its own process: one JSON object per line, in both directions.

``{"id": 1, "call": "kill", "args": [2], "kwargs": {}}`` is answered by ``{"id": 1, "result": null}`` or by ``{"id": 1,
"error": {...}}``. Values without a JSON form (bytes, records, rules) are objects with one key that begins with ``$``.
Owns the encoding and decoding of both sides and the list of calls. Must not know pipes or processes.
"""

from __future__ import annotations

import base64
import builtins
import json
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thinconsumer import errors
from thinconsumer.errors import IllegalArgumentError, KafkaError
from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition

from .client_metrics import PushedMetrics
from .controller import ControllerError
from .faults import FaultRule
from .image import TopicImage
from .operations import BrokerOperations

if TYPE_CHECKING:
    from .server import EmbeddedBroker

#: Methods of EmbeddedBroker that the control protocol can call.
BROKER_METHODS = frozenset(name for name in vars(BrokerOperations) if name[0] != "_") - {"close"}


class BrokerProcessError(KafkaError):
    """The broker process did not start, has ended, hangs or has a bug; ``stderr``: its last output or a traceback."""

    returncode: int | None = None
    stderr: str = ""

    def __init__(self, message: str, *, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


def pack(value: Any) -> Any:
    """Return the JSON form of an argument or a result. A value without one, such as a function, raises
    IllegalArgumentError.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, FaultRule):
        return {"$rule": pack(value.as_dict())}
    if isinstance(value, NewRecord):
        return {"$record": [pack(item) for item in value]}
    if isinstance(value, PushedMetrics):
        return {"$pushed": [pack(item) for item in value]}
    if isinstance(value, TopicPartition):
        return {"$partition": list(value)}
    if isinstance(value, TopicImage):
        return None  # TopicImage has no JSON form, so create_topic returns None if the broker is in another process.
    if isinstance(value, Mapping):
        return {str(key): pack(item) for key, item in value.items()}
    try:
        return [pack(item) for item in value]
    except TypeError:
        raise IllegalArgumentError(f"{value!r} has no JSON form and cannot be sent to another process") from None


_UNPACKED: Mapping[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$record": lambda items: _record(*(unpack(item) for item in items)),
    "$pushed": lambda items: PushedMetrics(*(unpack(item) for item in items)),
    "$partition": lambda items: TopicPartition(*items),
    "$rule": lambda encoded: FaultRule.from_dict(unpack(encoded)),
}


def _record(value: Any, key: Any, headers: Any, *rest: Any) -> NewRecord:
    return NewRecord(value, key, [(name, data) for name, data in headers], *rest)


def unpack(message: Any) -> Any:
    """Return the value that :func:`pack` encoded."""
    if isinstance(message, list):
        return [unpack(item) for item in message]
    if not isinstance(message, dict):
        return message
    if len(message) == 1:
        ((key, inside),) = message.items()
        if key in _UNPACKED:
            return _UNPACKED[key](inside)
    return {key: unpack(item) for key, item in message.items()}


def call_line(number: int, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return the line that makes a call; raise IllegalArgumentError if an argument has no JSON form."""
    return _line({"id": number, "call": name, "args": pack(args), "kwargs": pack(kwargs)})


def answers_earlier_call(line: bytes, number: int) -> bool:
    """Return whether this line is the response to a call with a lower number than ``number``. A caller that was
    interrupted while it waited (by Ctrl-C, for example) has left such a response unread.
    """
    try:
        return bool(0 < json.loads(line)["id"] < number)
    except (ValueError, TypeError, KeyError):
        return False


def result_of(line: bytes, number: int) -> Any:
    """Return the result in a response line.

    Raises:
        BrokerProcessError: The line does not answer this call, or the broker has a bug.
        Exception: The exception that the call raised, of the same type.
    """
    try:
        message = json.loads(line)
        found = _error_from_json(message["error"]) if "error" in message else unpack(message["result"])
        is_ours = message["id"] == number
    except (ValueError, TypeError, KeyError, AttributeError):
        is_ours = False
    if not is_ours:
        raise BrokerProcessError(f"the broker process sent {line[:200]!r}, which does not answer call {number}")
    if isinstance(found, Exception):
        raise found
    return found


class Dispatcher:
    """Executes the calls of the control protocol on an embedded broker in this process."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._rules: dict[int, FaultRule] = {}
        self._methods: Mapping[str, Callable[..., Any]] = {
            "on": self._on,
            "rule_hits": lambda number: self._rules[number].hits,
            "rule_remove": lambda number: broker.cluster.rules.remove(self._rules[number]),
            "leader": self._leader,
            "bugs": lambda: broker.cluster.bugs,
        }

    def answer(self, line: bytes) -> bytes:
        """Return the response line to a call line; it contains the error if the call fails."""
        number = None
        try:
            message = json.loads(line)
            number, name = message["id"], message["call"]
            args, kwargs = unpack(message["args"]), unpack(message["kwargs"])
            result = self._method(name)(*args, **kwargs)
            return _line({"id": number, "result": pack(result)})
        except Exception as error:  # noqa: BLE001 - the error is returned, and the broker keeps running
            return _line({"id": number, "error": _error_to_json(error)})

    def _method(self, name: str) -> Callable[..., Any]:
        if name in self._methods:
            return self._methods[name]
        if name not in BROKER_METHODS:
            raise IllegalArgumentError(f"unknown control call {name!r}")
        method: Callable[..., Any] = getattr(self._broker, name)
        return method

    def _on(self, rule: FaultRule) -> int:
        number = len(self._rules) + 1
        self._rules[number] = self._broker.cluster.rules.add(rule)
        return number

    def _leader(self, tp: TopicPartition) -> int:
        found = self._broker.cluster.controller.image.partition(*tp)
        if found is None:
            raise self._broker.cluster.no_leader(tp)
        return found.leader


#: Exceptions that the broker's methods are documented to raise: they are raised again in the calling process. Any other
#: exception is a bug of the broker and becomes a BrokerProcessError there.
_EXPECTED = (KafkaError, ControllerError, LookupError, ValueError, TypeError, OSError)


def _error_to_json(error: Exception) -> dict[str, Any]:
    kind = type(error)
    if isinstance(error, _EXPECTED) and _exception_class(kind.__name__) is kind:
        try:
            return {"type": kind.__name__, "args": pack(error.args), "state": pack(error.__dict__)}
        except IllegalArgumentError:
            pass  # the exception's arguments have no JSON form: send its traceback instead
    text = "".join(traceback.format_exception(error))
    return {"type": "BrokerProcessError", "args": [f"the broker has a bug: {error!r}"], "state": {"stderr": text}}


def _error_from_json(encoded: Mapping[str, Any]) -> Exception:
    kind = _exception_class(encoded["type"])
    if kind is None:
        return BrokerProcessError(f"the broker raised an unknown exception type: {encoded!r}")
    # The constructor is not called, because its parameters may differ from ``args``.
    error = kind.__new__(kind)
    error.args = tuple(unpack(encoded["args"]))
    error.__dict__.update(unpack(encoded["state"]))
    return error


def _exception_class(name: str) -> type[Exception] | None:
    own = {"ControllerError": ControllerError, "BrokerProcessError": BrokerProcessError}
    kind = own.get(name) or getattr(errors, name, None) or getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
