"""How options are declared: one :class:`Option` in the metadata of each dataclass field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..support.lazy_dataclass import dataclass, field
from .kinds import Kind
from .values import HostPort, OffsetResetPolicy


@dataclass(frozen=True, slots=True)
class Option:
    """One option's declaration."""

    kind: Kind
    doc: str
    default: Any
    section: str
    needs_group: bool = False  #: Whether the option has no effect without ``group_id``.


def section(title: str, *, needs_group: bool = False) -> Callable[..., Any]:
    """Return a function that declares an option of one section of docs/options.md, as a dataclass field."""

    def option(kind: Kind, doc: str, default: Any = None) -> Any:
        return field(default=default, metadata={"option": Option(kind, doc, default, title, needs_group)})

    return option


def as_passed(value: object) -> object:
    """Return a parsed option value as ``from_options`` accepts it: servers and offset reset policies as text again."""
    if isinstance(value, OffsetResetPolicy):
        return str(value)
    if isinstance(value, tuple) and value and isinstance(value[0], HostPort):
        return ",".join(map(str, value))
    return value


def is_changed(value: object, default: object) -> bool:
    """Return whether a value differs from the default.

    With the default None, the ``==`` of a user's class is not called.
    """
    return value is not default and (default is None or value != default)
