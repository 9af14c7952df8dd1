"""Write the state of a client as JSON, and give it to another client of the same options.

A trace that has run for days cannot be kept from its beginning. With a checkpoint, a replay begins between two public
calls. The client's objects refer to each other, so a checkpoint is a list of nodes, one for each object, and references
are numbers of nodes. Objects that a client has from its construction are named by the path of attributes that leads to
them: the other client has them, too, with what cannot be written, such as its clock and its loggers. They get the
recorded state; all other objects are made anew, of classes and functions of this package.

Records are left out, as in the whole trace: of batches only the headers are kept. A replay does not need them.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dis import get_instructions
from enum import Enum
from functools import cache, partial
from importlib import import_module
from itertools import count
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from ..config.values import Deserializer
from ..consumer.core import ConsumerCore
from ..consumer.deserializing import Deserializing
from ..consumer.iteration import Iteration
from ..engine import Guard
from ..errors import RecordError
from ..fetch.buffer import Chunk
from ..fetch.collector import Collector, PollResult
from ..network.framing import SIZE_BYTES, Frames
from ..records.batch import HEADER_SIZE
from ..records.batches import Batches
from ..types import ConsumerRecord, TopicPartition
from .frames import masked_metadata

ATOMS = (bool, int, float, str)
CONTAINERS = (list, dict, set, deque, OrderedDict)
_MUTABLE = {cls.__name__: cls for cls in CONTAINERS}
#: Only modules whose names begin so have classes and functions of a client.
_ROOMS = tuple(
    f"thinconsumer.{room}"
    for room in (
        "assignors", "config.values", "consumer", "driver", "engine", "errors", "failures", "fetch", "group", "metrics",
        "network", "ordered", "partitioning", "positions", "records", "sasl.login", "support", "types", "wire",
    )
)  # fmt: skip
#: Strings in these attributes are metadata of commits.
_METADATA = ("metadata", "committed_metadata")
#: Attributes that are not written: of responses, the trace has what is needed; a recorder and a replay have their own
#: collectors.
_LEFT_OUT: dict[type, tuple[str, ...]] = {
    Frames: ("_shared", "_shared_view", "_bodies", "_body", "_view"),
    Batches: ("source",),
    Collector: ("gather", "gather_many", "gather_columns", "gather_raw", "first", "_may_gather"),
    Iteration: ("listed",),
    Guard: ("_calls",),  # Ctrl-C may have left one there, with the number of its thread, which is another one's later.
    ConsumerCore: ("_on_bad_record",),
    Deserializing: ("_policy", "_not_ready"),
}


class CheckpointError(ValueError):
    """A checkpoint cannot be written, or does not fit the client."""


class User(NamedTuple):
    """User code: a function of a kind, or an object with these methods."""

    kind: str
    methods: list[str] | None


def attributes(value: object) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, of slots and of its dict, in the order of their definition."""
    for name in slots(type(value)):
        try:
            yield name, getattr(value, name)
        except AttributeError:
            pass
    cls: Any = type(value)
    for name in _stored(cls):
        try:
            found = getattr(value, name)
        except AttributeError:
            continue
        if getattr(found, "__func__", found) is not getattr(cls, name, None) or not callable(found):
            yield name, found


@cache
def _stored(cls: type) -> tuple[str, ...]:
    """Return the names of the attributes that methods of a class store, apart from slots and properties.

    The ``__dict__`` of an object would have them. But in CPython 3.11 and 3.12, looking at it makes all later uses of
    the object's attributes slower: polls of one record took half as long again.
    """
    if not cls.__dictoffset__:
        return ()
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update(dict.fromkeys(vars(base).get("__annotations__", ())))
        codes = [each.__code__ for each in map(_plain_function, vars(base).values()) if isinstance(each, FunctionType)]
        while codes:
            code = codes.pop()
            codes += [each for each in code.co_consts if isinstance(each, CodeType)]
            names.update(dict.fromkeys(one.argval for one in get_instructions(code) if one.opname == "STORE_ATTR"))
    skipped = {*slots(cls), *(name for name in names if hasattr(getattr(cls, name, None), "__set__"))}
    return tuple(name for name in names if name not in skipped)


def slots(cls: type) -> list[str]:
    """Return the names of a class's slots, and of those that it inherits."""
    found = []
    for base in cls.__mro__:
        own = base.__dict__.get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def is_ours(value: object) -> bool:
    """Return whether an object's class is one of a client."""
    return type(value).__module__.startswith(_ROOMS)


def _is_written(value: object) -> bool:
    """Return whether an object is no user code, whose own objects (arguments of a partial) may be secret."""
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, FunctionType):
        return str(value.__module__).startswith(_ROOMS)
    if isinstance(value, MethodType):
        return is_ours(value.__self__)
    return not isinstance(value, Deserializer)


def roots_of(consumer: Any) -> dict[str, Any]:
    """Return what a consumer consists of."""
    return {"reader": consumer._reader, "iteration": consumer._iteration, "queries": consumer._queries}


class Built:
    """The objects that a client has from its construction, by their paths."""

    def __init__(self, roots: dict[str, Any]) -> None:
        self.by_path: dict[str, Any] = {}
        self.paths: dict[int, str] = {}
        queue: deque[tuple[str, Any]] = deque(roots.items())
        while queue:
            path, value = queue.popleft()
            if value is None or isinstance(value, (*ATOMS, bytes, type, Enum, count)) or id(value) in self.paths:
                continue
            children: Iterator[tuple[str, Any]] = iter(())
            if isinstance(value, dict):
                children = ((f"[{key}]", each) for key, each in value.items())
            elif isinstance(value, (list, tuple, deque)):
                children = ((f"[{number}]", each) for number, each in enumerate(value))
            elif not _is_written(value):
                pass
            elif isinstance(value, partial):
                children = iter([("func", value.func), ("args", value.args)])
            elif isinstance(value, MethodType):
                children = iter([("self", value.__self__)])
            elif isinstance(value, FunctionType):
                cells = zip(value.__code__.co_freevars, value.__closure__ or ())
                children = ((name, cell.cell_contents) for name, cell in cells if cell != CellType())
            elif is_ours(value):
                children = attributes(value)
            self.paths[id(value)] = path
            self.by_path[path] = value
            queue.extend((f"{path}.{name}", child) for name, child in children)

    def knows(self, value: object) -> bool:
        return id(value) in self.paths


def _globals() -> dict[int, str]:
    """Return where the modules of a client have objects that are compared by identity."""
    found: dict[int, str] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_ROOMS):
            for key, value in vars(module).items():
                if is_ours(value) and not isinstance(value, (type, Enum)):
                    found.setdefault(id(value), f"{name}:{key}")
    return found


class CheckpointWriter:
    """Writes nodes. ``stand_ins`` returns what is written in place of an object of the recorder, or the object."""

    def __init__(self, built: Built, stand_ins: Callable[[Any], Any]) -> None:
        self._built = built
        self._stand_ins = stand_ins
        self._globals = _globals()
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  #: The objects of the nodes: an id is only good as long as its object exists.
        self._nodes: list[Any] = []

    def write(self, roots: dict[str, Any]) -> list[Any]:
        """Return the nodes; the first one is of the roots."""
        self._value(roots)
        done = 0
        while done < len(self._kept):
            self._nodes.append(self._node(self._kept[done]))
            done += 1
        return self._nodes

    def _value(self, value: Any) -> Any:
        value = self._stand_ins(value)
        if value is None or type(value) in ATOMS:
            return value
        if isinstance(value, (Chunk, ConsumerRecord)):
            return None
        if type(value) is bytes:
            return ["x", value.hex()]
        if isinstance(value, memoryview):
            return ["zeros", len(value)]
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return ["r", number]

    def _values(self, values: Any) -> list[Any]:
        return [self._value(each) for each in values]

    def _node(self, value: Any) -> list[Any]:
        path = self._built.paths.get(id(value))
        place = self._globals.get(id(value))
        if place is not None:
            return ["global", place]
        cls = type(value)
        if cls in (dict, OrderedDict):
            return [cls.__name__, path, [self._values(item) for item in value.items()]]
        if cls in (list, deque, set):
            return [cls.__name__, path, self._values(value)]
        if cls in (tuple, frozenset):
            return [cls.__name__, None, self._values(value)]
        if cls is bytearray:
            return ["bytearray", path, bytes(value).hex()]
        if cls is array:
            return ["array", path, value.typecode, value.tolist()]
        if cls is count:
            return ["count", int(repr(value)[len("count(") : -1])]
        return self._other(value, cls, path)

    def _other(self, value: Any, cls: type, path: str | None) -> list[Any]:
        if isinstance(value, type):
            return ["class", _name(value)]
        if isinstance(value, Enum):
            return ["enum", _name(cls), value.value if type(value.value) in ATOMS else None, value.name]
        if isinstance(value, MethodType) and (is_ours(value.__self__) or self._built.knows(value.__self__)):
            return ["method", self._value(value.__self__), value.__func__.__name__]
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, (*CONTAINERS, array)):
            return ["method", self._value(value.__self__), value.__name__]
        if isinstance(value, partial) and _is_written(value):
            return ["partial", self._value(value.func), self._values(value.args), self._value(value.keywords)]
        if isinstance(value, User):
            return ["user", value.kind, value.methods]
        if path is not None and not (is_ours(value) and _is_written(value)):
            return ["built", path]
        if isinstance(value, FunctionType) and value.__module__.startswith(_ROOMS):
            cells = [self._cell(cell) for cell in value.__closure__ or ()]
            return ["function", *_place_of(value), cells, self._value(value.__defaults__)]
        if not (is_ours(value) and _is_written(value)):
            return ["foreign"]
        if isinstance(value, RecordError):
            return ["record error", _name(cls), self._values(value.partition), value.offset, value.next_offset]
        if isinstance(value, BaseException):
            return ["error", path, _name(cls), self._values(value.args), self._state(value)]
        if isinstance(value, tuple):
            return ["named", _name(cls), self._masked(value._asdict())]  # type: ignore[attr-defined]
        return ["object", path, _name(cls), self._state(value)]

    def _cell(self, cell: CellType) -> Any:
        try:
            return [self._value(cell.cell_contents)]
        except ValueError:
            return []

    def _masked(self, state: dict[str, Any]) -> list[Any]:
        masked = {k: masked_metadata(v) if k in _METADATA and isinstance(v, str) else v for k, v in state.items()}
        return [[name, self._value(each)] for name, each in masked.items()]

    def _state(self, value: Any) -> list[Any]:
        state = dict(attributes(value))
        for name in _LEFT_OUT.get(type(value), ()):
            state.pop(name, None)
        if isinstance(value, PollResult):
            state["records"] = dict.fromkeys(value.records, ())
        more = []
        if isinstance(value, Batches):
            source = value.source
            heads = [source[at : at + HEADER_SIZE].hex() for at in value.starts[:-1]] if len(source) else []
            more.append(["source", ["source", len(source), heads]])
        if isinstance(value, Frames):
            more.append(["_shared", ["buffers", len(value._shared), None if value._body is None else len(value._body)]])
        return [*self._masked(state), *more]


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


class CheckpointReader:
    """Gives the state of a checkpoint to a client.

    ``user`` returns what stands for user code of a kind, with the names of its methods, if it is an object with such.
    """

    def __init__(self, nodes: list[Any], built: Built, user: Callable[[str, Any], Any]) -> None:
        self._nodes = nodes
        self._built = built
        self._user = user
        self._made: dict[int, Any] = {}
        self._unfilled: list[tuple[Any, list[Any]]] = []
        self._sources: list[tuple[Batches, int, list[str]]] = []

    def read(self) -> Any:
        """Return the roots."""
        roots = self._make(0)
        # Keys of dicts and items of sets must have their attributes before: their hashes may depend on them.
        late = []
        while self._unfilled:
            value, content = self._unfilled.pop()
            if isinstance(value, (dict, set)):
                late.append((value, self._decoded_items(value, content)))
            elif isinstance(value, list):
                value[:] = self._decode_all(content)
            elif isinstance(value, deque):
                items = self._decode_all(content)
                value.clear()
                value.extend(items)
            else:
                self._fill(value, content)
        for value, items in late:
            value.clear()
            value.update(items)
        for batches, size, heads in self._sources:
            source = bytearray(size)
            for start, head in zip(batches.starts, heads):
                source[start : start + HEADER_SIZE] = bytes.fromhex(head)
            batches.source = memoryview(source).toreadonly()
        return roots

    def _decoded_items(self, value: Any, content: list[Any]) -> list[Any]:
        if isinstance(value, dict):
            return [(self._decode(key), self._decode(each)) for key, each in content]
        return self._decode_all(content)

    def _decode_all(self, content: list[Any]) -> list[Any]:
        return [self._decode(each) for each in content]

    def _decode(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        kind = value[0]
        if kind == "r":
            return self._make(value[1])
        if kind == "x":
            return bytes.fromhex(value[1])
        if kind == "zeros":
            return memoryview(bytes(value[1]))
        raise CheckpointError(f"a value of the unknown kind {kind!r}")

    def _make(self, number: int) -> Any:
        if number in self._made:
            return self._made[number]
        kind, *rest = self._nodes[number]
        if kind in _MUTABLE:
            value = self._container(number, _MUTABLE[kind], *rest)
        else:
            value = getattr(self, f"_make_{kind.replace(' ', '_')}")(number, *rest)
        self._made[number] = value
        return value

    def _container(self, number: int, cls: Callable[[], Any], path: str | None, content: list[Any]) -> Any:
        return self._unfilled_as(number, self._built_or(cls, path, cls), content)

    def _built_or(self, cls: Any, path: str | None, make: Callable[[], Any]) -> Any:
        """Return the client's own object of this path, if it is of the class; else one that is made."""
        value = self._built.by_path.get(path or "")
        return value if type(value) is cls else make()

    def _unfilled_as(self, number: int, value: Any, content: list[Any]) -> Any:
        """Return an object that gets its content later, as the content may refer to it."""
        self._made[number] = value
        self._unfilled.append((value, content))
        return value

    def _make_tuple(self, number: int, path: None, content: list[Any]) -> Any:
        return tuple(self._decode_all(content))

    def _make_frozenset(self, number: int, path: None, content: list[Any]) -> Any:
        return frozenset(self._decode_all(content))

    def _make_bytearray(self, number: int, path: str | None, content: str) -> Any:
        value = self._built_or(bytearray, path, bytearray)
        value[:] = bytes.fromhex(content)
        return value

    def _make_array(self, number: int, path: str | None, typecode: str, content: list[Any]) -> Any:
        made = array(typecode, content)
        value = self._built_or(array, path, lambda: made)
        if value.typecode != typecode:
            return made
        value[:] = made
        return value

    def _make_count(self, number: int, first: int) -> Any:
        return count(first)

    def _make_global(self, number: int, place: str) -> Any:
        return _found(place)

    def _make_class(self, number: int, place: str) -> Any:
        return _class_of(place)

    def _make_enum(self, number: int, place: str, value: Any, name: str) -> Any:
        cls: Any = _class_of(place)
        return cls[name] if value is None else cls(value)

    def _make_method(self, number: int, owner: Any, name: str) -> Any:
        method = getattr(self._decode(owner), name)
        if not isinstance(method, (MethodType, BuiltinMethodType)):
            raise CheckpointError(f"{name} is no method")
        return method

    def _make_partial(self, number: int, function: Any, arguments: list[Any], keywords: Any) -> Any:
        named = {key: self._decode(value) for key, value in self._nodes[keywords[1]][2]}
        return partial(self._decode(function), *self._decode_all(arguments), **named)

    def _make_built(self, number: int, path: str) -> Any:
        return self._built.by_path.get(path)  # None for user code that a replay has not, such as a deserializer

    def _make_function(self, number: int, place: str, at: list[int], cells: list[Any], defaults: Any) -> Any:
        function = _found(place)
        code: CodeType = _plain_function(function).__code__
        for index in at:
            code = code.co_consts[index]
        # A function may refer to itself, as others that are defined beside it.
        made = [CellType() for _ in cells]
        value = FunctionType(code, vars(_module(place.partition(":")[0])), code.co_name, None, tuple(made))
        self._made[number] = value
        for cell, content in zip(made, cells):
            if content:
                cell.cell_contents = self._decode(content[0])
        value.__defaults__ = self._decode(defaults)
        return value

    def _make_user(self, number: int, kind: str, methods: Any) -> Any:
        return self._user(kind, methods)

    def _make_foreign(self, number: int) -> Any:
        return None

    def _make_record_error(self, number: int, place: str, tp: list[Any], offset: int, next_offset: int) -> Any:
        cls: Any = _class_of(place)
        value = cls.__new__(cls)
        RecordError.__init__(value, "as in the trace", TopicPartition(*self._decode_all(tp)), offset, next_offset)
        return value

    def _make_error(self, number: int, path: str | None, place: str, arguments: list[Any], state: list[Any]) -> Any:
        cls: Any = _class_of(place)
        value = self._unfilled_as(number, cls.__new__(cls), state)
        value.args = tuple(self._decode_all(arguments))
        return value

    def _make_named(self, number: int, place: str, state: list[Any]) -> Any:
        cls: Any = _class_of(place)
        return tuple.__new__(cls, self._decode_all([each for _, each in state]))

    def _make_object(self, number: int, path: str | None, place: str, state: list[Any]) -> Any:
        cls = _class_of(place)
        return self._unfilled_as(number, self._built_or(cls, path, lambda: object.__new__(cls)), state)

    def _fill(self, value: Any, state: list[Any]) -> None:
        left_out = _LEFT_OUT.get(type(value), ())
        found = dict(state)
        for name in slots(type(value)):
            if name not in found and name not in left_out and hasattr(value, name):
                object.__delattr__(value, name)
        if isinstance(value, Batches):
            self._sources.append((value, *found.pop("source")[1:]))
        if isinstance(value, Frames):
            _make_buffers(value, *found.pop("_shared")[1:])
        for name, each in found.items():
            object.__setattr__(value, name, self._decode(each))


def _make_buffers(frames: Any, shared: int, body: int | None) -> None:
    """Make buffers of zeros: the bytes of a response that was in part received come from the trace."""
    frames._shared = bytearray(shared)
    frames._shared_view = memoryview(frames._shared)
    frames._body = None if body is None else bytearray(body)
    frames._bodies = []
    frames._view = None


def refill(frames: Frames, received: bytes | bytearray) -> None:
    """Write the beginning of the response that was in part received before the checkpoint."""
    # After an interrupted step the trace may have less: the client hangs up then.
    if frames._body is None:
        known = received[: min(frames._filled, len(frames._shared))]
        frames._shared[: len(known)] = known
    else:
        known = received[SIZE_BYTES : SIZE_BYTES + min(frames._filled, len(frames._body))]
        frames._body[: len(known)] = known


def _module(name: str) -> Any:
    if not name.startswith(_ROOMS):
        raise CheckpointError(f"{name} is no module of a client")
    return import_module(name)


def _found(place: str) -> Any:
    module, _, path = place.partition(":")
    found = _module(module)
    for name in path.split("."):
        found = vars(found)[name]
    return found


def _class_of(place: str) -> type:
    found = _found(place)
    if not isinstance(found, type):
        raise CheckpointError(f"{place} is no class")
    return found


def _plain_function(found: Any) -> FunctionType:
    """Return the function of a method, property or decorated function."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        while hasattr(found, name):
            found = getattr(found, name)
    function: FunctionType = found
    return function


def _place_of(function: FunctionType) -> tuple[str, list[int]]:
    """Return the module's function that a function is defined in, and the places of its code in those around it."""
    place = f"{function.__module__}:{function.__qualname__.partition('.<locals>.')[0]}"
    try:
        outer = _plain_function(_found(place))
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{place} cannot be found: {error!r}") from error
    queue: deque[tuple[CodeType, list[int]]] = deque([(outer.__code__, [])])
    while queue:
        code, at = queue.popleft()
        if code is function.__code__:
            return place, at
        queue.extend((each, [*at, n]) for n, each in enumerate(code.co_consts) if isinstance(each, CodeType))
    raise CheckpointError(f"{function.__qualname__} is not in {place}")
