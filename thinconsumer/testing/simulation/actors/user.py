"""An actor that runs a test's own code, which may use clients on the simulation's drivers."""

from collections.abc import Callable

from ..world import Actor, World


class UserActor(Actor):
    """Calls ``function`` in each turn. It returns the seconds until the next turn; ``None`` ends the turns.

    The function may wait in a client's call. Other actors then run on top of it on the stack, and delay it if they wait
    too.
    """

    def __init__(self, world: World, name: str, function: Callable[[], float | None]) -> None:
        super().__init__(world, name)
        self._function = function

    def turn(self) -> float:
        """Call the test's code; return the time of its next call."""
        pause = self._function()
        return float("inf") if pause is None else self.world.now() + pause
