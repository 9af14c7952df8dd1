"""Deliberate bugs, which are planted in the client or the broker while a swarm runs.

A bug that no checker notices shows that the checkers miss something. ``seed_search.py`` finds the seeds that show each.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lab.knobs import Knobs
from lab.order_swarm import OrderSwarm
from lab.swarm import Swarm

AnySwarm = type[Swarm] | type[OrderSwarm]


@dataclass(frozen=True)
class Edit:
    """One method of the client with some of its words changed."""

    owner: type | ModuleType
    method: str
    old: str
    new: str

    def rewritten(self) -> Any:
        """Return the method as it reads with the change. Raises: LookupError, where there is nothing to change."""
        found = inspect.getattr_static(self.owner, self.method)
        function = found.fget if isinstance(found, property) else found
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.owner.__name__}.{self.method} has {self.old!r} {source.count(self.old)} times")
        code = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        names: dict[str, Any] = {}
        exec(compile(code, f"<{self.owner.__name__}.{self.method}, mutated>", "exec"), function.__globals__, names)
        return names[function.__name__]


@contextmanager
def planted(*edits: Edit) -> Iterator[None]:
    """Have a bug inside of the block."""
    with ExitStack() as stack:
        for edit in edits:
            original = inspect.getattr_static(edit.owner, edit.method)
            new = edit.rewritten()
            stack.callback(setattr, edit.owner, edit.method, original)
            setattr(edit.owner, edit.method, new)
        yield


@dataclass(frozen=True)
class PlantedBug:
    """One bug: ``breaks`` says what is wrong with it, and what a user was promised instead."""

    swarm: AnySwarm
    name: str
    breaks: str
    edits: tuple[Edit, ...]
    needs: Callable[[Knobs], object] | None  #: Worlds in which the bug cannot do anything need not be searched.

    def can_show(self, seed: int) -> bool:
        """Return whether the world of a seed has what the bug needs."""
        return self.needs is None or bool(self.needs(self.swarm.draw(seed)))


def bug(
    swarm: AnySwarm,
    name: str,
    breaks: str,
    *edits: tuple[type | ModuleType, str, str, str],
    needs: Callable[[Knobs], object] | None = None,
) -> PlantedBug:
    """Return one row of the table."""
    return PlantedBug(swarm, name, breaks, tuple(Edit(*edit) for edit in edits), needs)
