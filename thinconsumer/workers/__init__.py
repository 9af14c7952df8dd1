"""Work in parallel, in order by key, of which only what is finished is committed.

``run(consumer, handler)`` processes the records of a subscribed consumer until it is stopped. What is finished behind
the committed offset is written into the commit's metadata, so that it is not processed again after a crash or a
rebalance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, overload

from ..config.values import dead_letter
from ..consumer import Consumer
from ..errors import IllegalArgumentError
from .calling import CallResult
from .health import PartitionWork, UnfinishedRecord, WorkersHealth
from .settings import WorkerOptions, WorkerSettings, exponential
from .work import HandlerFailedError

if TYPE_CHECKING:
    from typing_extensions import Unpack  # for type checkers only: not a runtime dependency

    from ..aio import AsyncConsumer
    from .running import Workers
    from .tasks import AsyncWorkers

__all__ = [
    "AsyncWorkers",
    "CallResult",
    "HandlerFailedError",
    "PartitionWork",
    "UnfinishedRecord",
    "WorkerOptions",
    "WorkerSettings",
    "Workers",
    "WorkersHealth",
    "dead_letter",
    "exponential",
    "run",
]


def __getattr__(name: str) -> Any:
    # asyncio takes long to import, and a program uses one of the two.
    if name == "Workers":
        from .running import Workers

        return Workers
    if name == "AsyncWorkers":
        from .tasks import AsyncWorkers

        return AsyncWorkers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@overload
def run(consumer: Consumer[Any, Any], handler: Callable[[Any], Any], **options: Unpack[WorkerOptions]) -> None: ...
@overload
def run(
    consumer: AsyncConsumer[Any, Any], handler: Callable[[Any], Awaitable[Any]], **options: Unpack[WorkerOptions]
) -> Coroutine[Any, Any, None]: ...
def run(consumer: Any, handler: Callable[[Any], Any], **options: Unpack[WorkerOptions]) -> Any:
    """Process the records of a subscribed consumer with workers, and commit what they have finished.

    Returns only by an exception: Ctrl-C, an error of the consumer, or ``HandlerFailedError``. Before that it waits for
    handlers that run, and commits. With an ``AsyncConsumer`` the handler is a coroutine function: await the result.
    """
    checked = WorkerSettings(**options)
    if isinstance(consumer, Consumer):
        from .running import Workers

        with Workers(consumer, handler, checked) as workers:
            return workers.run()
    if not hasattr(consumer, "_reader"):  # else all that was wrong would be a coroutine that is never awaited
        raise IllegalArgumentError(f"run() takes a Consumer or an AsyncConsumer, not {type(consumer).__name__}")
    return _run_tasks(consumer, handler, checked)


async def _run_tasks(
    consumer: AsyncConsumer[Any, Any], handler: Callable[[Any], Any], settings: WorkerSettings
) -> None:
    from .tasks import AsyncWorkers

    async with AsyncWorkers(consumer, handler, settings) as workers:
        await workers.run()
