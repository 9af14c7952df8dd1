"""Look at the client of a replay, between two of its steps and without a call of it, and say in words what it does."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

from ..consumer import Consumer, Health, HealthState
from ..failures import OutageLog
from ..network.connection import Connection
from ..positions.partitions import Partition
from .messages import counted, listed

#: Takes the lines of copies, which the client itself has logged or will log.
_SILENT = logging.getLogger(__name__)
_SILENT.setLevel(logging.CRITICAL + 1)

Client = Consumer[Any, Any]


def name_of(partition: Partition) -> str:
    return f"{partition.tp.topic}-{partition.tp.partition}"


def health(consumer: Client, now: float) -> Health:
    """Return the health of the client at a time, from a copy of what notes it: the client must not change by a look."""
    monitor = copy.copy(consumer._reader.watch)
    monitor._outages = OutageLog(_SILENT)
    return monitor.report(now)


def why_no_records(consumer: Client, now: float) -> str:
    """Return why a poll has ended without a record."""
    found = health(consumer, now)
    if found.reason:
        return found.reason
    if found.state is HealthState.IDLE:
        return "nothing is subscribed or assigned"
    # Health waits for a while before it reports a broker that does not answer.
    routes = consumer._reader.managers.engine.network._all_routes()
    failing = {each.name: each.cause for each in routes if each.failures and not each.is_ready}
    return "; ".join([_why_idle(consumer), *(f"no connection to {name}: {why}" for name, why in failing.items())])


def _why_idle(consumer: Client) -> str:
    """Return why a consumer that nothing keeps from its work has no records."""
    partitions = list(consumer._reader.managers.partitions)
    paused = [name_of(each) for each in partitions if each.paused]
    if not partitions:
        return "no partition is assigned"
    if len(paused) == len(partitions):
        return f"{listed(paused)}: paused"
    behind = [each for each in partitions if not each.paused and (each.high_watermark or 0) > each.cursor.offset >= 0]
    if behind:
        return f"{listed(map(name_of, behind))}: records are to be fetched"
    return f"no new records in {counted(len(partitions) - len(paused), 'partition')}"


def place_of(partition: Partition) -> str:
    """Return a partition's position in words, or what it waits for, and why."""
    if partition.has_position:
        return f"position {partition.cursor.offset}"
    reset, out_of_range = partition.reset, partition.out_of_range
    why = f": {reset.reason}" if reset is not None else ""
    return f"{partition.state.value}{why}{'' if out_of_range is None else f', {out_of_range} is out of range'}"


def why_closed(consumer: Client, number: int) -> str:
    """Return why the client has closed a connection, by its number in the trace."""
    connection = connection_of(consumer, number)
    return "" if connection is None or connection.error is None else str(connection.error)


def connection_of(consumer: Client, number: int) -> Connection | None:
    """Return a connection by its number in the trace; None if there is no such."""
    driver: Any = consumer._shell.driver
    stream = driver._streams.get(number)
    return None if stream is None else stream.stream


def state_lines(consumer: Client, now: float) -> Iterator[str]:
    """Yield lines about the client: its member, positions, connections and health."""
    managers = consumer._reader.managers
    if managers.group is not None:
        member = managers.group.member
        identity, node_id = member.identity, managers.group.coordinator.node_id
        about = f"generation {identity.generation_id}, member id {identity.member_id or 'none'}"
        yield f"member: {member.situation}, {about}, coordinator {'not known' if node_id is None else node_id}"
    yield f"positions: {counted(len(managers.partitions), 'partition')}"
    for partition in managers.partitions:
        yield f"  {name_of(partition)}: {', '.join(_about(partition, managers.buffer.waiting(partition)))}"
    network = managers.engine.network
    yield "connections:"
    for route in network._all_routes():
        node = f"broker {route.node_id}" if route.node_id >= 0 else "bootstrap"
        yield f"  {node} ({route.name}{f', {route.channel}' if route.channel else ''}): {route.describe(now)}"
    found = health(consumer, now)
    yield f"health: {found.state.value}{f': {found.reason}' if found.reason else ''}"


def _about(partition: Partition, waiting: int) -> Iterator[str]:
    yield place_of(partition)
    if partition.has_position:
        yield partition.state.value
    if partition.paused:
        yield "paused"
    if partition.pending_revocation:
        yield "being revoked"
    if partition.committed is not None:
        yield f"committed {partition.committed.offset}"
    if partition.high_watermark is not None:
        yield f"log end {partition.high_watermark}"
    if waiting:
        yield f"{counted(waiting, 'record')} buffered"
    if partition.last_error is not None:
        yield f"last error: {partition.last_error}"
