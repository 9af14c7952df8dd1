"""The kinds of option values: how each is checked, parsed from text, and described in the docs.

``parse`` takes the value that a program passes and is strict about types (``True`` is not 1, ``"500"`` is not 500);
``from_text`` takes the text of a properties file. Both raise ValueError; the caller adds the option's name and value.
"""

import math
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ..support.lazy_dataclass import dataclass, field
from ..support.shown import shown
from .values import (
    ASYNC_DEF,
    INT32_MAX,
    INT64_MAX,
    DeadLetter,
    Deserializer,
    HostPort,
    OffsetResetPolicy,
    is_async,
    mask_user_info,
    parse_server,
)

#: The text that errors and ``repr`` show instead of a secret.
HIDDEN = "'***'"

#: Kafka's STRING has its length in a signed 16-bit field.
STRING_BYTES_MAX = 2**15 - 1


class Kind(ABC):
    """The type of an option."""

    is_secret: ClassVar[bool] = False  #: Whether no error, warning or ``repr`` may contain the value.
    instead_of_text: ClassVar[str] = ""  #: If text is refused: what to pass instead, in words.

    @abstractmethod
    def parse(self, value: object) -> Any:
        """Check the value that the user has passed and convert it to this type; raise ValueError if it is invalid."""

    def from_text(self, text: str) -> object:
        """Turn text from a properties file into the value to pass to :meth:`parse`, or raise ValueError."""
        if self.instead_of_text:
            raise ValueError(f"cannot be given as text: pass {self.instead_of_text}")
        return text.strip()

    def show(self, value: object) -> str:
        """Return the text of a value, which may be invalid, for errors and ``repr``. It never contains a secret."""
        return HIDDEN if self.is_secret else safe_repr(value)

    @property
    @abstractmethod
    def description(self) -> str:
        """The type and bounds in a few words, for the docs."""


def type_error(expected: str, value: object) -> ValueError:
    """Return the error for a value of a wrong type; it does not contain the value."""
    return ValueError(f"must be {expected}, not {type(value).__name__}")


class _SafeRepr(reprlib.Repr):
    """Formats an option's value with bounded length and without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = 80

    def repr_str(self, x: str, level: int) -> str:
        if "-----BEGIN" in x or "LoginModule" in x:
            return HIDDEN  # PEM text, or credentials for JAAS, meant for another option
        return super().repr_str(mask_user_info(x), level)

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 10_000 else shown(x)

    def repr_instance(self, x: Any, level: int) -> str:
        # The ``__repr__`` of a user's object might contain a secret.
        return repr(x) if x is None or isinstance(x, (bool, float)) else f"<{type(x).__name__}>"


#: Returns the text of an option's value for errors and reprs.
safe_repr = _SafeRepr().repr


def did_you_mean(word: str, known: Iterable[str], similarity: float = 0.6) -> str:
    """Return "; did you mean ...?" with the most similar known word; an empty text if none is so similar (0 to 1)."""
    import difflib  # on demand: only errors need it

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=similarity)
    return f"; did you mean {near[0]!r}?" if near else ""


class Boolean(Kind):
    description = "bool"

    def parse(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise type_error("True or False", value)
        return value

    def from_text(self, text: str) -> object:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError("must be 'true' or 'false'")
        return word == "true"


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """A whole number within bounds. With ``system_default``, -1 stands for the system's own value and becomes None."""

    at_least: int = 0
    at_most: int = INT32_MAX
    system_default: bool = False

    def parse(self, value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise type_error("a whole number", value)
        if self.system_default and value == -1:
            return None
        if value < self.at_least:
            raise ValueError(f"must be at least {self.at_least}")
        if value > self.at_most:
            raise ValueError(f"must be at most {self.at_most}")
        return value

    def from_text(self, text: str) -> object:
        return _integer_text(text)

    @property
    def description(self) -> str:
        bounds = f"int, at least {self.at_least}"
        if self.at_most not in (INT32_MAX, INT64_MAX):
            bounds += f", at most {self.at_most}"
        return bounds + (", or -1 for the system's own" if self.system_default else "")


def _integer_text(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip()):
        raise ValueError("must be a whole number")
    return int(text)


@dataclass(frozen=True, slots=True)
class MillisecondsOrNever(Kind):
    """A duration in milliseconds, or infinity, which Kafka writes as -1."""

    at_least: int = 0

    def parse(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise type_error("a number of milliseconds", value)
        if value in (-1, math.inf):
            return math.inf
        if not self.at_least <= value <= INT64_MAX:  # NaN fails this comparison, as required.
            raise ValueError(f"must be at least {self.at_least}, or float('inf') or -1 for no limit")
        return value

    def from_text(self, text: str) -> object:
        return math.inf if text.strip().lower() == "inf" else _integer_text(text)

    @property
    def description(self) -> str:
        return f"number, at least {self.at_least}, or `float('inf')` or -1 for no limit"


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A string that fits into Kafka's STRING and matches ``pattern``; errors describe it as ``pattern_says``."""

    may_be_empty: bool = True
    pattern: str = ""
    pattern_says: str = ""

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise type_error("a str", value)
        if not value and not self.may_be_empty:
            raise ValueError("must not be empty")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("cannot be written as UTF-8") from None
        if size > STRING_BYTES_MAX:
            raise ValueError(f"must be at most {STRING_BYTES_MAX} bytes long")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ValueError(f"must be {self.pattern_says}")
        return value

    def from_text(self, text: str) -> object:
        return text

    @property
    def description(self) -> str:
        if self.pattern_says:
            return f"str: {self.pattern_says}"
        return "str" if self.may_be_empty else "str, not empty"


INT32, POSITIVE_INT32 = Integer(), Integer(at_least=1)
INT64, POSITIVE_INT64 = Integer(at_most=INT64_MAX), Integer(at_least=1, at_most=INT64_MAX)
#: A text that is not empty.
WORD = Text(may_be_empty=False)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words, not case-sensitive. ``refused`` maps words of Kafka that are unsupported to the reason."""

    words: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise type_error(f"one of {self._words()}", value)
        for word in self.words:
            if value.lower() == word.lower():
                return word
        for word, reason in self.refused.items():
            if value.lower() == word.lower():
                raise ValueError(f"refused: {reason}")
        raise ValueError(f"must be one of {self._words()}{did_you_mean(value, [*self.words, *self.refused])}")

    @property
    def description(self) -> str:
        return " or ".join(f"`{word!r}`" for word in self.words)

    def _words(self) -> str:
        return ", ".join(map(repr, self.words))


class Servers(Kind):
    """Servers as ``host:port`` in a list or separated by commas; becomes a tuple of distinct :class:`HostPort`."""

    description = "str with commas, or list of str: `host`, `host:port`, `[ipv6]:port`"

    def parse(self, value: object) -> tuple[HostPort, ...]:
        entries = value.split(",") if isinstance(value, str) else value
        if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
            raise ValueError("must be a str or a list of str, each 'host:port'")
        joined = next((entry for entry in entries if "," in entry), None)
        if joined is not None:
            raise ValueError(f"{safe_repr(joined)} is more than one server: write one list entry for each server")
        entries = [entry for entry in entries if entry.strip()]
        if not entries:
            raise ValueError("must name at least one server, as 'host:port'")
        return tuple(dict.fromkeys(map(parse_server, entries)))


@dataclass(frozen=True, slots=True)
class OffsetReset(Kind):
    """An offset reset policy; becomes an :class:`OffsetResetPolicy`."""

    words: tuple[str, ...] = ("earliest", "latest", "none", "by_duration")

    def parse(self, value: object) -> OffsetResetPolicy:
        if isinstance(value, OffsetResetPolicy):
            policy = value
        elif isinstance(value, str):
            try:
                policy = OffsetResetPolicy.parse(value)
            except ValueError as error:
                raise ValueError(f"{error}{did_you_mean(value.lower(), self.words)}") from None
        else:
            raise type_error("a str", value)
        if policy.strategy.value not in self.words:
            raise ValueError(f"must be one of {', '.join(map(repr, self.words))}")
        return policy

    @property
    def description(self) -> str:
        words = [f"`{word!r}`" for word in self.words if word != "by_duration"]
        return " or ".join([*words, "`'by_duration:<ISO-8601 duration>'`"])


#: Where Java's deserializers are.
_SERIALIZATION = "org.apache.kafka.common.serialization."


class DeserializerKind(Kind):
    """A key or value deserializer, see :meth:`Deserializer.adapt`."""

    description = (
        "callable `f(data)`, or object with `deserialize(topic, headers, data)` or `deserialize(topic, data)`; "
        "`data` is bytes"
    )

    def parse(self, value: object) -> Deserializer:
        if isinstance(value, str):
            raise ValueError("must be a callable or an object with a deserialize method, not a str")
        return Deserializer.adapt(value)

    def from_text(self, text: str) -> object:
        from ..deserializers.plain import OF_JAVA  # on demand: few programs name deserializers

        package, _, name = text.strip().rpartition(".")
        if f"{package}." == _SERIALIZATION and name == "ByteArrayDeserializer":
            return None
        if f"{package}." == _SERIALIZATION and name in OF_JAVA:
            return OF_JAVA[name]()
        raise ValueError(
            f"of Java's classes, only ByteArrayDeserializer, {', '.join(OF_JAVA)} can be used: pass a callable, such "
            "as one that decodes bytes"
        )


@dataclass(frozen=True, slots=True)
class Function(Kind):
    """A function or other callable, but no coroutine function; errors describe its parameters by ``signature``."""

    signature: str

    def parse(self, value: object) -> Callable[..., Any]:
        if not callable(value):
            raise type_error(f"a callable {self.signature}", value)
        if is_async(value):
            raise ValueError(f"is {ASYNC_DEF}")
        return value

    def from_text(self, text: str) -> object:
        raise ValueError(f"cannot be given as text: pass a callable {self.signature}")

    @property
    def description(self) -> str:
        return f"callable `{self.signature}`"


@dataclass(frozen=True, slots=True)
class Plugins(Kind):
    """Objects of the user's with at least one of ``methods``, or classes of such. Becomes a tuple.

    A class is called without arguments when the consumer is built.
    """

    methods: tuple[str, ...]
    #: Java's classes by the names of which nothing is asked for, as text.
    ignored: tuple[str, ...] = ()

    def parse(self, value: object) -> tuple[Any, ...]:
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            raise type_error("a list of classes or objects", value)
        for entry in value:
            found = {name: getattr(entry, name, None) for name in self.methods}
            if isinstance(entry, str) or not any(map(callable, found.values())):
                raise ValueError(f"holds {safe_repr(entry)}, which has none of {', '.join(self.methods)}")
            for name, method in found.items():
                if is_async(method):
                    raise ValueError(f"holds {safe_repr(entry)}, whose {name} is {ASYNC_DEF}")
        return tuple(value)

    def from_text(self, text: str) -> object:
        if {name.strip() for name in text.split(",")} - {"", *self.ignored}:
            raise ValueError("cannot be given as text: pass a list of Python classes or objects")
        return ()

    @property
    def description(self) -> str:
        return f"list of classes or objects with {' or '.join(f'`{name}`' for name in self.methods)}"


class BadRecordPolicy(Kind):
    """What is done with a record that a deserializer cannot read: ``raise``, ``skip``, a dead letter, or a function."""

    description = "`'raise'`, `'skip'`, `dead_letter(topic)` or callable `(error)`"

    def parse(self, value: object) -> str | DeadLetter | Callable[..., Any]:
        if callable(value):
            return Function("(error)").parse(value)
        if isinstance(value, DeadLetter):
            if not isinstance(value.topic, str) or not value.topic:
                raise ValueError("dead_letter needs the name of a topic")
            return value
        if value not in ("raise", "skip"):
            raise ValueError("must be 'raise', 'skip', dead_letter(topic) or a callable (error)")
        return str(value)


#: Class names of the built-in assignors in Java's client and kafka-python, by the assignor's name in the group
#: protocol.
BUILT_IN_ASSIGNORS = {
    "range": ("RangeAssignor", "RangePartitionAssignor"),
    "roundrobin": ("RoundRobinAssignor", "RoundRobinPartitionAssignor"),
    "sticky": ("StickyAssignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("CooperativeStickyAssignor",),
}


#: Where Java's assignors are.
_JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."


class Assignors(Kind):
    """A list of assignors: names of built-in ones, and classes or instances of a user's PartitionAssignor, or of
    kafka-python's. A built-in assignor of kafka-python is replaced by this package's assignor of the same name.
    """

    description = (
        f"list of {', '.join(f'`{name!r}`' for name in BUILT_IN_ASSIGNORS)}, or of `PartitionAssignor` (kafka-python's "
        "`AbstractPartitionAssignor` too)"
    )

    def parse(self, value: object) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise type_error("a list of assignors or of their names", value)
        if not value:
            raise ValueError("must name at least one assignor")
        from ..assignors.kafka_python import built_in_name  # on demand: needed only if the option is given

        entries = [built_in_name(entry) or entry for entry in value]
        names = [self._name(entry) for entry in entries]
        if len(set(names)) < len(names):
            raise ValueError(f"names an assignor twice: {', '.join(names)}")
        return tuple(entries)

    def from_text(self, text: str) -> object:
        names = {f"{_JAVA_ASSIGNORS}{classes[0]}": name for name, classes in BUILT_IN_ASSIGNORS.items()}
        return [names.get(entry.strip(), entry.strip()) for entry in text.split(",") if entry.strip()]

    def _name(self, entry: object) -> str:
        if not isinstance(entry, str):
            from ..assignors.registry import name_of

            try:
                return name_of(entry)
            except ValueError as error:
                raise ValueError(f"holds {safe_repr(entry)}, {error}") from None
        if entry in BUILT_IN_ASSIGNORS:
            return entry
        for known, class_names in BUILT_IN_ASSIGNORS.items():
            if entry.rpartition(".")[2] in class_names:
                raise ValueError(f"holds the class {entry!r}: write {known!r}")
        if "." in entry:
            raise ValueError(f"holds the class name {entry!r}, which is unknown: pass an assignor object")
        raise ValueError(f"holds {entry!r}, which is not a built-in assignor{did_you_mean(entry, BUILT_IN_ASSIGNORS)}")


class SocketOptions(Kind):
    """A list of arguments ``(level, option, value)`` for ``socket.setsockopt``; becomes a tuple of tuples."""

    description = "list of (level, option, value), as for `socket.setsockopt`"
    instead_of_text = "a list of (level, option, value)"

    def parse(self, value: object) -> tuple[tuple[int, int, int | bytes], ...]:
        if not isinstance(value, (list, tuple)):
            raise type_error("a list of (level, option, value)", value)
        for entry in value:
            if (
                not isinstance(entry, (list, tuple))
                or len(entry) != 3
                or not all(isinstance(part, int) for part in entry[:2])
                or not isinstance(entry[2], (int, bytes))
            ):
                raise ValueError(
                    f"holds {safe_repr(entry)}, which is not (level, option, value) of int, int, and int or bytes"
                )
        return tuple(tuple(entry) for entry in value)
