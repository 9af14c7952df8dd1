"""Parsed option values: server addresses, the offset reset policy, deserializers."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, TypeVar

from ..support.lazy_dataclass import dataclass, field

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

DEFAULT_PORT = 9092

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

#: The record headers that a deserializer gets.
Headers = Sequence[tuple[str, bytes | None]]

#: The end of error messages about a callback or deserializer that is a coroutine function. It follows the word "is".
ASYNC_DEF = (
    "an async def, which would never be awaited: write a plain def (it may start a task with "
    "asyncio.get_running_loop().create_task())"
)


def is_async(function: object) -> bool:
    """Return whether the function, or an object's ``__call__``, is an ``async def``, which would never be awaited."""
    import inspect  # on demand, since the import takes long, and many consumers have no callback or deserializer

    called = None if inspect.isclass(function) else getattr(function, "__call__", None)  # noqa: B004 - the object's own method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


class HostPort(NamedTuple):
    """A bootstrap server. An IPv6 address is stored without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class DeadLetter(NamedTuple):
    """Write records to a topic, and then go on; made by :func:`dead_letter`."""

    topic: str


def dead_letter(topic: str) -> DeadLetter:
    """Return an ``on_bad_record`` of consumers, or an ``on_failure`` of workers, that writes a record to ``topic``.

    The record keeps its key, value and headers. More headers say where it came from and why it failed. Its offset is
    committed only once all in-sync replicas of the topic have it.
    """
    return DeadLetter(topic)


# Patterns stay text until they are used: to compile them takes a twentieth of the time of ``import thinconsumer``.
_SCHEME = r"([A-Za-z][A-Za-z0-9_+.-]*)://"
_NO_HOST = r"[\s/\\?#@\[\]:,\"'<>]"


def mask_user_info(text: str) -> str:
    """Return ``text`` with the part before ``@`` hidden: it may contain a password, and errors are logged."""
    scheme = re.match(_SCHEME, text)
    start = scheme.end() if scheme else 0
    return f"{text[:start]}***{text[text.rindex('@') :]}" if "@" in text else text


def parse_server(entry: str) -> HostPort:
    """Return the address in ``host``, ``host:port``, ``[ipv6]``, ``[ipv6]:port`` or any of them after a scheme.

    Raises:
        ValueError: the entry has none of these forms. The message shows it, without a user name and password.
    """
    text = entry.strip()
    shown = repr(mask_user_info(text))
    scheme = re.match(_SCHEME, text)
    if scheme:
        if scheme[1].upper() not in SECURITY_PROTOCOLS:
            raise ValueError(
                f"{shown} begins with {scheme[1]}://, which is no security protocol: write host:port, and set "
                "security_protocol"
            )
        text = text[scheme.end() :]
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{shown} is not [ipv6] or [ipv6]:port")
        import ipaddress  # on demand: few bootstrap servers are numeric

        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"{shown}: the text in brackets is not an IPv6 address") from None
        return HostPort(host, _port(rest[1:] if rest else None, shown))
    if text.count(":") > 1:
        # "::1:9092" could mean port 9092 of host ::1, but it is also a valid IPv6 address of another host.
        raise ValueError(f"{shown} has more than one colon: write an IPv6 address in brackets, as in [::1]:9092")
    host, colon, port = text.partition(":")
    if not host or len(host) > 255 or re.search(_NO_HOST, host):
        raise ValueError(f"{shown} does not begin with a host name (expected host or host:port)")
    return HostPort(host, _port(port if colon else None, shown))


def server_schemes(servers: object) -> set[str]:
    """Return the schemes in ``servers`` (a str with commas, or a list or tuple of str), in upper case."""
    entries = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(entries, (list, tuple)):
        return set()
    matches = (re.match(_SCHEME, entry.strip()) for entry in entries if isinstance(entry, str))
    return {match[1].upper() for match in matches if match}


def _port(text: str | None, shown: str) -> int:
    if text is None:
        return DEFAULT_PORT
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ValueError(f"{shown}: the port must be a number from 1 to 65535")
    return int(text)


class OffsetResetStrategy(enum.Enum):
    """Where to start without a committed offset, or outside the log; Kafka's values of ``auto.offset.reset``."""

    EARLIEST = "earliest"  #: Start reading at the log's start.
    LATEST = "latest"  #: Start reading at the log's end.
    NONE = "none"  #: Raise NoOffsetForPartitionError, or outside the log OffsetOutOfRangeError, instead of reading.
    BY_DURATION = "by_duration"  #: Start reading at the first record that is no older than a duration (KIP-1106).


_DURATION = (
    r"\+?P(?:([0-9]{1,12})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,12})H)?(?:([0-9]{1,12})M)?(?:([0-9]{1,12})(?:[.,]([0-9]{0,9}))?S)?)?"
)


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds in an ISO-8601 duration of days, hours, minutes and seconds: ``PT1H``, ``P1DT2H``.

    The syntax is that of ``java.time.Duration.parse`` (KIP-1106), without minus signs, and without signs after ``P``.
    Fractions of a millisecond are dropped, as in Java.

    Raises:
        ValueError: the text is no such duration, or more than 2**63 - 1 milliseconds.
    """
    match = re.fullmatch(_DURATION, text, re.IGNORECASE)
    if match is None or not any(match.groups()):
        raise ValueError(
            f"{text!r} is not a duration of days, hours, minutes and seconds such as PT1H, PT30M, P7D or P1DT2H"
        )
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups()[:4])
    milliseconds = int((match[5] or "").ljust(3, "0")[:3])
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
    if total > INT64_MAX:
        raise ValueError(f"{text!r} is longer than 2**63 - 1 milliseconds")
    return total


@dataclass(frozen=True, slots=True)
class OffsetResetPolicy:
    """The parsed ``auto_offset_reset``. ``str()`` returns a text that parses to the same policy.

    If ``duration_ms`` goes back to a time before 1970, callers look up timestamp 0, because negative timestamps have
    other meanings in ListOffsets (-1: the end).
    """

    strategy: OffsetResetStrategy
    duration_ms: int = 0  #: The age of the oldest record to read, with ``BY_DURATION``.

    @classmethod
    def parse(cls, text: str) -> OffsetResetPolicy:
        """Parse ``earliest``, ``latest``, ``none`` or ``by_duration:<ISO-8601 duration>``.

        Raises:
            ValueError: the text is none of these.
        """
        word, colon, duration = text.partition(":")
        if word == OffsetResetStrategy.BY_DURATION.value:
            if not colon:
                raise ValueError("'by_duration' lacks its duration, as in 'by_duration:PT1H'")
            return cls(OffsetResetStrategy.BY_DURATION, parse_duration_ms(duration))
        try:
            return cls(OffsetResetStrategy(text))
        except ValueError:
            raise ValueError(f"{text!r} is not 'earliest', 'latest', 'none' or 'by_duration:<duration>'") from None

    def __str__(self) -> str:
        if self.strategy is not OffsetResetStrategy.BY_DURATION:
            return str(self.strategy.value)
        seconds, milliseconds = divmod(self.duration_ms, 1000)
        return f"by_duration:PT{seconds}{f'.{milliseconds:03}' if milliseconds else ''}S"


EARLIEST = OffsetResetPolicy(OffsetResetStrategy.EARLIEST)
LATEST = OffsetResetPolicy(OffsetResetStrategy.LATEST)

T_co = TypeVar("T_co", covariant=True)


class TopicDeserializer(Protocol[T_co]):
    """A user's deserializer with the method of older kafka-python."""

    def deserialize(self, topic: str, data: bytes, /) -> T_co: ...


class HeadersDeserializer(Protocol[T_co]):
    """A user's deserializer with the method of Java's client and kafka-python."""

    def deserialize(self, topic: str, headers: Headers, data: bytes, /) -> T_co: ...


@dataclass(frozen=True, slots=True, repr=False)
class Deserializer:
    """A key or value deserializer, adapted to one signature.

    As in Java it is not called for a null (a tombstone's value, a missing key), which becomes None.
    """

    source: object  #: The callable or object that the user passed as deserializer.
    function: Callable[..., Any] = field(compare=False)
    #: How many arguments ``function`` takes: 1 (data), 2 (topic, data) or 3 (topic, headers, data).
    takes: int = field(compare=False)
    close: Callable[[], object] = field(compare=False)  #: The user's method, or a function that does nothing.

    @property
    def uses_headers(self) -> bool:
        return self.takes == 3

    def results(self, topic: str, headers: Iterable[Headers], data: Iterable[bytes]) -> Iterator[Any]:
        """Yield the function's result for each of ``data``; ``headers`` are those of its records, if it takes them."""
        if self.takes == 1:
            return map(self.function, data)
        if self.takes == 2:
            return map(self.function, repeat(topic), data)
        return map(self.function, repeat(topic), headers, data)

    @classmethod
    def adapt(cls, user: object) -> Deserializer:
        """Wrap ``f(data)``, ``.deserialize(topic, data)`` or ``.deserialize(topic, headers, data)``.

        The parameters of ``deserialize`` decide between the last two. Calling it with three arguments and catching
        TypeError would mistake a TypeError inside the deserializer for a wrong call, and call it twice.

        Raises:
            ValueError: ``user`` is none of these, or a class with such a method, or asynchronous.
        """
        if isinstance(user, cls):
            return user
        method = getattr(user, "deserialize", None)
        if method is None:
            if not callable(user):
                raise ValueError(f"must be a callable, or have a deserialize method, not {type(user).__name__}")
            if is_async(user):
                raise ValueError(f"is {ASYNC_DEF}")
            return cls(user, user, 1, _do_nothing)
        if isinstance(user, type):
            raise ValueError(f"the class {user.__name__} must be instantiated: pass an instance")
        if not callable(method):
            raise ValueError("its deserialize attribute cannot be called")
        if is_async(method):
            raise ValueError(f"its deserialize method is {ASYNC_DEF}")
        takes = next((count for count in (3, 2) if _takes(method, count)), 0)
        if not takes:
            raise ValueError("its deserialize method takes neither (topic, headers, data) nor (topic, data)")
        close = getattr(user, "close", None)
        return cls(user, method, takes, close if callable(close) else _do_nothing)


def _do_nothing() -> None:
    pass


def _takes(function: Callable[..., Any], count: int) -> bool:
    import inspect  # on demand, as in is_async

    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a function in C, which has no signature: assume Java's parameters, topic, headers and data
        return count == 3
    return True
