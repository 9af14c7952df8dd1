"""A test's own code as an actor: whatever it does with clients on drivers of this world, it does in turns."""

from __future__ import annotations

from collections.abc import Callable

from ..world import Actor, World


class UserActor(Actor):
    """Calls ``function`` in each turn; what it returns is how many seconds later the next turn is, ``None``: never.

    It may block in clients' calls. Other actors go on meanwhile, on its stack, and delay it if they block.
    """

    def __init__(self, world: World, name: str, function: Callable[[], float | None]) -> None:
        super().__init__(world, name)
        self._function = function

    def turn(self) -> float:
        """Let the test's code have its turn."""
        pause = self._function()
        return float("inf") if pause is None else self.world.now() + pause
