"""An actor that runs a test's own code, which may use clients on the simulation's drivers."""

from collections.abc import Callable

from ..world import Actor, World


class UserActor(Actor):
    """Calls ``function`` in each turn; it may wait, and returns the seconds to the next turn (None: no more turns)."""

    def __init__(self, world: World, name: str, function: Callable[[], float | None]) -> None:
        super().__init__(world, name)
        self._function = function

    def turn(self) -> float:
        """Call the test's code; return the time of its next call."""
        pause = self._function()
        return float("inf") if pause is None else self.world.now() + pause
