"""Declarations of messages: one line per field, in the order of Kafka's own definition.

A struct is a keyword-only dataclass; the default of each field declares its wire type::

    class FetchPartition(Struct):
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
        replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)

A type checker regards ``int32(...)`` as an int, so it reports an annotation that contradicts the wire type. At run time
``int32(...)`` returns a :class:`WireField`, which ``encoding`` and ``decoding`` compile.

Declaring a struct generates no code: its ``__init__`` is generated when the first instance is made. Generating the
``__init__``, ``__repr__`` and ``__eq__`` of all structs at import would take half of the client's start.

Follows Kafka's ``clients/src/main/resources/common/message/README.md`` (versions, defaults, ignorable, tags: KIP-482).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast, overload

from ..support.lazy_dataclass import Field, FromDataclasses, generate_init

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # Python has it in ``typing`` only from 3.11 on.
else:

    def dataclass_transform(**_):
        return lambda cls: cls


#: Kafka's null id. Ids stay ``bytes``, because building ``uuid.UUID`` objects takes longer than decoding.
ZERO_UUID = bytes(16)

#: A number that no API version reaches. As ``Message.FLEXIBLE`` it means that no version is flexible; as the end of a
#: version range, that the range is open.
OPEN_END = 32767

T = TypeVar("T")
S = TypeVar("S", bound="Struct")


class Versions(NamedTuple):
    """A range of versions; ``last`` is :data:`OPEN_END` if the range is open, and below ``first`` if it is empty."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)


@cache
def parse_versions(text: str) -> Versions:
    """Read Kafka's notation: ``"3+"``, ``"3-7"``, ``"3"`` or ``"none"``."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), OPEN_END)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class WireField(NamedTuple):
    """The wire format of one field. If ``array`` is set, ``of`` is the type of the elements."""

    of: Any  #: A :class:`Primitive`, or a subclass of :class:`Struct`.
    array: bool
    versions: Versions
    nullable: Versions
    tag: int  #: -1 for a field that is not tagged.
    ignorable: bool  #: Whether a value may be dropped in versions without the field.
    default: Any  #: None, a number, a string or bytes; for lists and structs a function that returns the default.
    in_repr: bool = True


def _declare(
    of: Primitive[Any] | type[Struct],
    versions: str,
    default: Any,
    *,
    array: bool = False,
    nullable: str = "none",
    tag: int = -1,
    ignorable: bool = False,
    is_secret: bool = False,
) -> Any:
    """Return a field; ``is_secret`` leaves its value out of the struct's ``repr``, which reaches log lines."""
    nulls = parse_versions(nullable)
    return WireField(of, array, parse_versions(versions), nulls, tag, ignorable, default, not is_secret)


class Primitive(Generic[T]):
    """A wire type other than a struct, such as int32; calling it declares a field of that type.

    ``code`` is the type's format code in the ``struct`` module if its size is fixed. Otherwise ``code`` is empty, and
    ``prefix`` is the code of the length before a value in non-flexible versions. ``size`` is that of the value or of
    the length, and ``zero`` the default of fields.
    """

    def __init__(self, name: str, code: str, size: int, zero: T, prefix: str = "") -> None:
        self.name = name
        self.code = code
        self.size = size
        self.zero = zero
        self.prefix = prefix

    def __repr__(self) -> str:
        return self.name

    @overload
    def __call__(
        self, versions: str, *, default: T = ..., tag: int = -1, ignorable: bool = False, is_secret: bool = False
    ) -> T: ...

    @overload
    def __call__(
        self, versions: str, *, nullable: str, default: T | None = ..., tag: int = -1, ignorable: bool = False
    ) -> T | None: ...

    def __call__(self, versions: str, **options: Any) -> Any:
        return _declare(self, versions, options.pop("default", self.zero), **options)


boolean = Primitive[bool]("bool", "?", 1, False)
int8 = Primitive[int]("int8", "b", 1, 0)
int16 = Primitive[int]("int16", "h", 2, 0)
int32 = Primitive[int]("int32", "i", 4, 0)
int64 = Primitive[int]("int64", "q", 8, 0)
uuid = Primitive[bytes]("uuid", "16s", 16, ZERO_UUID)
string = Primitive[str]("string", "", 2, "", prefix="h")
binary = Primitive[bytes]("bytes", "", 4, b"", prefix="i")

#: Encoded record batches: a memoryview of the frame after decoding, any bytes-like object for encoding.
Records = bytes | bytearray | memoryview
record_bytes = Primitive[Records]("records", "", 4, b"", prefix="i")


@overload
def array(of: Primitive[T] | type[T], versions: str, *, tag: int = -1, ignorable: bool = False) -> list[T]: ...


@overload
def array(
    of: Primitive[T] | type[T],
    versions: str,
    *,
    nullable: str,
    default: type[list[Any]] | None = ...,
    tag: int = -1,
    ignorable: bool = False,
) -> list[T] | None: ...


def array(of: Any, versions: str, **options: Any) -> Any:
    """Declare a field with a list of ``of``. The default is an empty list, or None with ``default=None``."""
    return _declare(of, versions, options.pop("default", list), array=True, **options)


@overload
def struct(of: type[S], versions: str, *, tag: int = -1) -> S: ...


@overload
def struct(of: type[S], versions: str, *, nullable: str, default: None, tag: int = -1) -> S | None: ...


def struct(of: Any, versions: str, **options: Any) -> Any:
    """Declare a field with one nested struct of class ``of``; its default is an instance with ``of``'s own defaults.

    With ``nullable`` a byte before the struct says whether it is null (KIP-893), and ``default`` must be None.
    """
    return _declare(of, versions, options.pop("default", of), **options)


#: The declaration of ``unknown_tags``, which is not a field on the wire.
_UNKNOWN_TAGS = WireField(None, False, NO_VERSIONS, NO_VERSIONS, -1, True, dict, in_repr=False)


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """The metaclass of structs: fields become slots, and the first call of a class generates its ``__init__``."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        own = {key: value for key, value in namespace.items() if isinstance(value, WireField)}
        kept = {key: value for key, value in namespace.items() if key not in own}
        declared = {key: wire for base in reversed(bases) for key, wire in getattr(base, "_declared", {}).items()}
        # Each class has an own __init__: an inherited one may be generated already, without this class's fields.
        kept |= {"__slots__": tuple(own), "_declared": declared | own, "__init__": generate_init}
        return super().__new__(mcs, name, bases, kept, **options)


class _Fields:
    """The fields of a struct as those of a dataclass, computed when its ``__init__`` is generated."""

    def __get__(self, instance: object, owner: type[Struct]) -> dict[str, Field]:
        return {
            name: Field(**{"default_factory" if callable(wire.default) else "default": wire.default}, kw_only=True)
            for name, wire in owner._declared.items()
        }


class Struct(metaclass=StructType):
    """The base class of messages and nested structs.

    ``unknown_tags`` holds undeclared tagged fields by tag, so that they are kept when the struct is encoded again.
    """

    unknown_tags: dict[int, bytes] = cast(Any, _UNKNOWN_TAGS)

    if TYPE_CHECKING:
        _declared: ClassVar[Mapping[str, WireField]]
        __dataclass_fields__: ClassVar[dict[str, Any]]
    else:
        _fields = _Fields()
        __dataclass_fields__ = FromDataclasses("__dataclass_fields__")
        __dataclass_params__ = FromDataclasses("__dataclass_params__")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._declared)

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name, wire in self._declared.items() if wire.in_repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"


@cache
def wire_fields(cls: type[Struct]) -> tuple[tuple[str, WireField], ...]:
    """Return ``(attribute, declaration)`` of each field of ``cls``, in wire order."""
    return tuple((name, wire) for name, wire in cls._declared.items() if wire is not _UNKNOWN_TAGS)
