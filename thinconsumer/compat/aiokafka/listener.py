"""Calls a listener that was written for aiokafka."""

from __future__ import annotations

import logging
from collections.abc import Collection
from inspect import isawaitable
from typing import Any

from ...types import TopicPartition
from .structs import partitions_of

log = logging.getLogger(__name__)


class AIOKafkaListenerCalls:
    """Implements the callbacks of this package by those of aiokafka's listener, with its two rules.

    An exception of the listener is logged. A revocation precedes each assignment, even that of a member without
    partitions, which gets an empty set.
    """

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._is_revoked = False

    def __repr__(self) -> str:
        return repr(self._listener)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._is_revoked = True
        await self._call("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        await self.on_partitions_revoked(lost)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        if not self._is_revoked:
            await self._call("on_partitions_revoked", ())
        self._is_revoked = False
        await self._call("on_partitions_assigned", assigned)

    async def _call(self, name: str, tps: Collection[TopicPartition]) -> None:
        try:
            result = getattr(self._listener, name)(partitions_of(tps))
            if isawaitable(result):
                await result
        except Exception:
            log.exception("%s of %r failed", name, self._listener)
