"""Deliberate bugs, which are planted in the client or the broker while a swarm runs.

A bug replaces methods, properties or functions by others, which get the original as their first argument; it reads no
source text. A bug that no checker notices shows that the checkers miss something. ``seed_search.py`` finds the seeds
that show each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lab.order_swarm import OrderSwarm
from lab.swarm import Swarm

from thinconsumer.wire import Message

AnySwarm = type[Swarm] | type[OrderSwarm]


@dataclass(frozen=True)
class Plant:
    """One attribute of a class or module, and ``function``, which is called in its place.

    The first argument of ``function`` is the original: a function, a property's getter, or the value of a constant.
    """

    owner: type | ModuleType
    name: str
    function: Callable[..., Any]

    @property
    def original(self) -> Any:
        """The attribute as it is now. Raises: AttributeError, so that a bug whose name is gone is noticed."""
        return inspect.getattr_static(self.owner, self.name)

    def replacement(self) -> Any:
        """Return the attribute with the bug."""
        original, function = self.original, self.function
        if isinstance(original, property):
            return property(lambda self: function(original.fget, self), original.fset)
        if not callable(original):
            return function(original)
        return lambda *args, **options: function(original, *args, **options)


@contextmanager
def planted(*plants: Plant) -> Iterator[None]:
    """Have a bug inside of the block."""
    with ExitStack() as stack:
        for plant in plants:
            owner, name, replacement = plant.owner, plant.name, plant.replacement()
            if name in vars(owner):
                stack.callback(setattr, owner, name, plant.original)
            else:  # inherited
                stack.callback(delattr, owner, name)
            setattr(owner, name, replacement)
        yield


def returns(owner: type | ModuleType, name: str, value: object = None) -> Plant:
    """Do nothing, and return a value."""
    return Plant(owner, name, lambda original, *args, **options: value)


def returns_itself(owner: type, name: str) -> Plant:
    """Return the object that the method is called of."""
    return Plant(owner, name, lambda original, self, *args, **options: self)


def within(owner: type | ModuleType, name: str, *plants: Plant) -> Plant:
    """Have other plants while a function runs."""

    def run(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with planted(*plants):
            return original(*args, **options)

    return Plant(owner, name, run)


def meanwhile(**attributes: Any) -> Callable[..., Any]:
    """Return the function of a :class:`Plant` that calls the original while ``self`` has these attributes."""

    def run(original: Callable[..., Any], self: Any, *args: Any, **options: Any) -> Any:
        before = {name: getattr(self, name) for name in attributes}
        try:
            for name, value in attributes.items():
                setattr(self, name, value)
            return original(self, *args, **options)
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    return run


def sending(api: type[Message], **fields: Any) -> Plant:
    """Send each message of a class with these values of its fields."""

    def encode_into(original: Callable[..., Any], self: Message, *args: Any) -> None:
        for name, value in fields.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        original(self, *args)

    return Plant(api, "encode_into", encode_into)


@dataclass(frozen=True)
class PlantedBug:
    """One bug: ``breaks`` says what is wrong with it, and what a user was promised instead."""

    swarm: AnySwarm
    name: str
    breaks: str
    plants: tuple[Plant, ...]
    needs: Callable[[Any], object] | None  #: Worlds in which the bug cannot do anything need not be searched.

    def can_show(self, seed: int) -> bool:
        """Return whether the world of a seed has what the bug needs."""
        return self.needs is None or bool(self.needs(self.swarm.draw(seed)))


def bug(
    swarm: AnySwarm, name: str, breaks: str, *plants: Plant, needs: Callable[[Any], object] | None = None
) -> PlantedBug:
    """Return one row of the table."""
    return PlantedBug(swarm, name, breaks, plants, needs)
