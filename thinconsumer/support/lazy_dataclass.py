"""A ``dataclass`` that generates each of its methods at the first call.

``dataclasses.dataclass`` compiles up to six functions for each class at import, most of which a client never calls, and
imports ``inspect``: together a third of the client's start. Classes of this decorator have the same constructor,
``==``, ``hash`` and ``repr``. ``dataclasses.fields``, ``replace`` and ``asdict`` accept their instances.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

__all__ = ["Field", "FromDataclasses", "dataclass", "declared_fields", "field", "generate_init"]


#: The default of a field without a default.
_REQUIRED: Any = object()


class Field(NamedTuple):
    default: Any = _REQUIRED
    default_factory: Callable[[], Any] | None = None
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
        inherited = {key: value for base in reversed(cls.__mro__[1:]) for key, value in _own_fields(base).items()}
        own = {name: _as_field(namespace.pop(name, _REQUIRED)) for name in names}
        fields = inherited | own
        namespace |= {
            "__slots__": tuple(name for name in names if name not in inherited),
            "__match_args__": tuple(fields),
            "__dataclass_fields__": FromDataclasses("__dataclass_fields__"),
            "__dataclass_params__": FromDataclasses("__dataclass_params__"),
            "_own_fields": own,
            "_fields": fields,
        }
        if init:
            namespace["__init__"] = generate_init
        if repr:
            namespace.setdefault("__repr__", _repr)
        if eq:
            namespace.setdefault("__eq__", _first_eq)
            namespace["__hash__"] = _first_hash if frozen else None
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


def _own_fields(cls: type) -> Mapping[str, Field]:
    found: Mapping[str, Field] = vars(cls).get("_own_fields", {})
    return found


def _as_field(default: object) -> Field:
    return default if isinstance(default, Field) else Field(default)


def _owner(instance: object, name: str, stub: object) -> Any:
    """Return the class from which an instance has a method that is still to be generated."""
    # A list: Ctrl-C at the end of an unfinished generator would be a warning, and no KeyboardInterrupt.
    owners = [cls for cls in type(instance).__mro__ if vars(cls).get(name) is stub]
    return owners[0]


def generate_init(self: Any, /, *args: Any, **values: Any) -> None:
    """Generate the ``__init__`` of the instance's class from ``_fields``, put it into this one's place, and call it."""
    cls = _owner(self, "__init__", generate_init)
    is_frozen = cls.__setattr__ is _refuse_change
    names: dict[str, Any] = {"REQUIRED": _REQUIRED}
    parameters, body = [], []
    for name, declared in cls._fields.items():
        if not declared.init:
            continue
        value = name
        if declared.kw_only and "*" not in parameters:
            parameters.append("*")
        if declared.default_factory is not None:
            names[f"make_{name}"] = declared.default_factory
            parameters.append(f"{name}=REQUIRED")
            value = f"make_{name}() if {name} is REQUIRED else {name}"
        elif declared.default is _REQUIRED:
            parameters.append(name)
        else:
            names[f"default_{name}"] = declared.default
            parameters.append(f"{name}=default_{name}")
        if is_frozen:  # the slot's own setter: the class refuses assignments
            names[f"set_{name}"] = getattr(cls, name).__set__
            body.append(f"set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    _generate(cls, f"__init__({', '.join(['self', *parameters])})", body, names)
    cls.__init__(self, *args, **values)


def _first_eq(self: Any, other: object) -> Any:
    cls = _owner(self, "__eq__", _first_eq)
    mine, others = _compared(cls, "self"), _compared(cls, "other")
    body = ["if other.__class__ is not self.__class__: return NotImplemented", f"return {mine} == {others}"]
    _generate(cls, "__eq__(self, other)", body, {})
    return cls.__eq__(self, other)


def _first_hash(self: Any) -> Any:
    cls = _owner(self, "__hash__", _first_hash)
    _generate(cls, "__hash__(self)", [f"return hash({_compared(cls, 'self')})"], {})
    return cls.__hash__(self)


def _compared(cls: Any, variable: str) -> str:
    return f"({''.join(f'{variable}.{name}, ' for name, declared in cls._fields.items() if declared.compare)})"


def _generate(cls: Any, header: str, body: list[str], names: dict[str, Any]) -> None:
    """Compile one method from the names of the fields, and put it into the class."""
    source = "\n    ".join([f"def {header}:", *(body or ["pass"])])
    exec(compile(source, f"<{cls.__qualname__}>", "exec"), names)
    name = header.partition("(")[0]
    names[name].__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, names[name])


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
    """An attribute that ``dataclasses`` and ``pprint`` read, created when it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        import dataclasses

        fields: list[tuple[str, Any, Any]] = []
        for name, declared in owner._fields.items():
            options: dict[str, Any] = declared._asdict()
            del options["default"], options["default_factory"]
            if declared.default_factory is not None:
                options["default_factory"] = declared.default_factory
            elif declared.default is not _REQUIRED:
                options["default"] = declared.default
            fields.append((name, Any, dataclasses.field(**options)))
        made: Any = dataclasses.make_dataclass(owner.__name__, fields, namespace={"__doc__": "-"})
        return getattr(made, self._name)
