"""Rebalance listeners whose methods may be coroutines.

The group's state machine calls a listener and goes on when it returns. A method that returns a coroutine has not run
yet. The shell has it completed in the same call, before it runs another callback:

* After ``on_partitions_revoked`` and ``on_partitions_lost`` the state machine has gone on, but the revocation waits for
  the coroutine as it waits for commits. An exception is raised by the poll later. These callbacks are never repeated.
* The other callbacks must succeed before records of the partitions are returned. The call ends early, and is repeated
  after the coroutine: then it has an outcome, and the method is called only for partitions that have come meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from functools import partial
from inspect import isawaitable
from typing import Any

from ..consumer.group_calls import LISTENER_METHODS
from ..engine import ListenerPendingError, Shell
from ..group.revocation import PartitionRevocation
from ..types import TopicPartition

#: The callbacks that are not repeated, and that a new assignment follows.
ENDING = ("on_partitions_revoked", "on_partitions_lost")


class CoroutineListener:
    """Passes calls to a listener; leaves the coroutines that it returns to the shell."""

    def __init__(self, listener: Any, shell: Shell, revocation: PartitionRevocation) -> None:
        self.listener = listener
        self._shell = shell
        self._revocation = revocation
        #: By callback: the partitions for which its coroutine has succeeded, until the call is repeated.
        self._done: dict[str, set[TopicPartition]] = {}

    def __repr__(self) -> str:
        return repr(self.listener)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.listener, name)
        is_callback = name in LISTENER_METHODS and callable(method)
        return partial(self._call, name, method) if is_callback else method

    def _call(self, name: str, method: Any, partitions: Collection[TopicPartition]) -> None:
        tps = set(partitions)
        if name in ENDING:
            self._done.clear()
            result = method(tps)
            if isawaitable(result):
                self._shell.coroutines.append(self._finish(result))
            return
        done = self._done.pop(name, None)
        if done is not None:
            tps -= done
            if not tps:
                return
        result = method(tps)
        if isawaitable(result):
            self._shell.coroutines.append(self._run(name, tps | (done or set()), result))
            raise ListenerPendingError

    async def _finish(self, coroutine: Awaitable[Any]) -> None:
        self._revocation.awaits_listener = True
        try:
            await coroutine
        except Exception as error:  # noqa: BLE001 - the poll raises it after the rebalance went on, as a plain one's
            self._revocation.error = self._revocation.error or error
        finally:
            self._revocation.awaits_listener = False

    async def _run(self, name: str, tps: set[TopicPartition], coroutine: Awaitable[Any]) -> None:
        await coroutine
        self._done[name] = tps
