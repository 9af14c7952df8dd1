"""The coordinator's assignors: the built-in ones, and users' own, which a broker's configuration gives as the name of a
class, a class or an object.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from thinconsumer.errors import IllegalArgumentError

from .range_assignor import assign_ranges
from .spec import ServerAssignor
from .uniform import assign_uniformly
from .user_assignor import ConsumerGroupPartitionAssignor

#: The built-in assignors by their names.
SERVER_ASSIGNORS: Mapping[str, ServerAssignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})

Assignor = ServerAssignor | ConsumerGroupPartitionAssignor
#: A name of a built-in assignor, the full name of a class (``"my.module.MyAssignor"``), a class, or an object.
AssignorSetting = str | type[ConsumerGroupPartitionAssignor] | ConsumerGroupPartitionAssignor


def resolve(settings: Iterable[AssignorSetting]) -> Mapping[str, Assignor]:
    """Return the assignors by name, in the order of ``group.consumer.assignors``. Classes are called without arguments.

    Raises:
        IllegalArgumentError: No assignor is given, two have the same name, or a setting gives no valid assignor.
    """
    found: dict[str, Assignor] = {}
    for setting in settings:
        name, assignor = _resolved(setting)
        if name in found:
            raise _invalid(name, "there are two of that name")
        found[name] = assignor
    if not found:
        raise _invalid("", "there must be at least one")
    return MappingProxyType(found)


def text_of(settings: str | Iterable[AssignorSetting]) -> str:
    """Return a setting as the text that another process understands: names of built-in assignors and of classes."""
    return settings if isinstance(settings, str) else ",".join(map(_word, settings))


def _word(setting: AssignorSetting) -> str:
    if isinstance(setting, str):
        return setting
    kind = setting if isinstance(setting, type) else type(setting)
    return f"{kind.__module__}.{kind.__qualname__}"


def _resolved(setting: AssignorSetting) -> tuple[str, Assignor]:
    if isinstance(setting, str) and setting in SERVER_ASSIGNORS:
        return setting, SERVER_ASSIGNORS[setting]
    made: Any = _load(setting) if isinstance(setting, str) else setting
    if isinstance(made, type):
        try:
            made = made()
        except Exception as error:
            raise _invalid(setting, f"the class cannot be called without arguments: {error!r}") from error
    name = getattr(made, "name", None)
    if not isinstance(made, ConsumerGroupPartitionAssignor) or not isinstance(name, str) or not name:
        raise _invalid(setting, "an assignor has a name and a method assign")
    if name in SERVER_ASSIGNORS or "," in name:
        raise _invalid(setting, f"an assignor of your own cannot be called {name!r}")
    return name, made


def _load(path: str) -> object:
    module, _, name = path.rpartition(".")
    if not module:
        text = f"it must be one of {', '.join(SERVER_ASSIGNORS)}, or the full name of a class: my.module.MyAssignor"
        raise _invalid(path, text)
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _invalid(path, f"the class cannot be loaded: {error!r}") from error


def _invalid(setting: object, why: str) -> IllegalArgumentError:
    return IllegalArgumentError(f"Invalid value {setting!r} for configuration group.consumer.assignors: {why}")
