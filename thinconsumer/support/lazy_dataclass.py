"""A ``dataclass`` decorator that generates only ``__init__``, at its first call; all classes share the other methods.

``dataclasses.dataclass`` compiles up to six functions for each class at import, most of which a client never calls, and
imports ``inspect``: together a third of the client's start. Classes of this decorator have the same constructor,
``==``, ``hash`` and ``repr``. ``dataclasses.fields``, ``replace`` and ``asdict`` accept their instances.
"""

import sys
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

__all__ = ["Field", "FromDataclasses", "dataclass", "declared_fields", "field", "generate_init"]


#: The value of ``default`` and ``default_factory`` of a field that has none.
_MISSING: Any = object()


class Field(NamedTuple):
    default: Any = _MISSING
    default_factory: Callable[[], Any] = _MISSING
    repr: bool = True
    compare: bool = True
    init: bool = True
    metadata: Mapping[str, Any] = {}
    kw_only: bool = False


def _lazy_dataclass(
    *,
    slots: bool,
    frozen: bool = False,
    init: bool = True,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - as in dataclasses
    kw_only: bool = False,
) -> Callable[[type], type]:
    assert slots, "without slots, the defaults of fields would hide their values"
    assert not (init and kw_only), "generated constructors take positional arguments"

    def decorate(cls: type) -> type:
        names = _annotated_names(cls)
        namespace = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
        inherited: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= getattr(base, "_fields", {})
        given = {name: namespace.pop(name, _MISSING) for name in names}
        fields = inherited | {
            name: value if isinstance(value, Field) else Field(value) for name, value in given.items()
        }
        namespace |= {
            "__slots__": tuple(name for name in names if name not in inherited),
            "__match_args__": tuple(fields),
            "__dataclass_fields__": FromDataclasses("__dataclass_fields__"),
            "__dataclass_params__": FromDataclasses("__dataclass_params__"),
            "_fields": fields,
        }
        if init:
            namespace["__init__"] = generate_init
        if repr:
            namespace.setdefault("__repr__", _repr)
        if eq:
            # With ``__module__``, which all instances share, attrgetter works without compared fields, and returns a
            # tuple if there is only one.
            compared = [name for name, declared in fields.items() if declared.compare]
            namespace["_compared"] = attrgetter("__module__", *compared)
            namespace.setdefault("__eq__", _eq)
            namespace["__hash__"] = _hash if frozen else None
        if frozen:
            namespace |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change, "__setstate__": _set_state}
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__qualname__ = cls.__qualname__
        return made

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    dataclass = _lazy_dataclass
    field = Field


def _annotated_names(cls: type) -> list[str]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return list(get_annotations(cls, format=Format.FORWARDREF))
    return list(vars(cls).get("__annotations__", ()))


def declared_fields(cls: type) -> Mapping[str, Field]:
    """Return the fields of a class by name, those of its bases first. Does not import ``dataclasses``."""
    found: Mapping[str, Field] = cls._fields  # type: ignore[attr-defined]
    return found


def generate_init(self: Any, /, *args: Any, **values: Any) -> None:
    """Generate ``__init__`` from ``_fields``, set it on the class that has this function as ``__init__``, and call it.

    That class is the instance's, or a base of it.
    """
    # A list, not ``next`` of a generator: while Python closes an unfinished generator, Ctrl-C only prints a warning.
    # Another thread may have generated the constructor since this thread called the class.
    owners = [cls for cls in type(self).__mro__ if _is_generated(vars(cls).get("__init__"))]
    cls: Any = owners[0]
    is_frozen = cls.__setattr__ is _refuse_change
    names: dict[str, Any] = {"MISSING": _MISSING}
    parameters, body = ["self"], []
    for name, declared in cls._fields.items():
        if not declared.init:
            continue
        value = name
        if declared.kw_only and "*" not in parameters:
            parameters.append("*")
        if declared.default_factory is not _MISSING:
            names[f"make_{name}"] = declared.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        elif declared.default is _MISSING:
            parameters.append(name)
        else:
            names[f"default_{name}"] = declared.default
            parameters.append(f"{name}=default_{name}")
        if is_frozen:  # the slot's own setter: the class refuses assignments
            names[f"set_{name}"] = getattr(cls, name).__set__
            body.append(f"set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    source = "\n    ".join([f"def __init__({', '.join(parameters)}):", *(body or ["pass"])])
    exec(compile(source, f"<{cls.__qualname__}>", "exec"), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    names["__init__"].is_generated = True
    cls.__init__ = names["__init__"]
    cls.__init__(self, *args, **values)


def _is_generated(init: Any) -> bool:
    return init is generate_init or getattr(init, "is_generated", False)


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = [f"{name}={getattr(self, name)!r}" for name, declared in self._fields.items() if declared.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_change(self: object, name: str, value: object = None) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to or delete the field {name!r}")


def _set_state(self: object, state: tuple[None, dict[str, Any]]) -> None:
    """Restore a frozen instance for ``pickle`` and ``copy``."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


class FromDataclasses:
    """An attribute that ``dataclasses`` and ``pprint`` read. The first read of each class creates its value.

    The embedded broker reads it for every struct that a fault rule or ``replace`` changes: creating it takes 1 ms.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: dict[Any, Any] = {}  #: By class, since a subclass has other fields.

    def __get__(self, instance: object, owner: Any) -> Any:
        if owner in self._made:
            return self._made[owner]
        import dataclasses

        fields: list[tuple[str, Any, Any]] = []
        for name, declared in owner._fields.items():
            options: dict[str, Any] = declared._asdict()
            given = {key: value for key, value in options.items() if value is not _MISSING}
            fields.append((name, Any, dataclasses.field(**given)))
        made: Any = dataclasses.make_dataclass(owner.__name__, fields, namespace={"__doc__": "-"})
        self._made[owner] = getattr(made, self._name)
        return self._made[owner]
