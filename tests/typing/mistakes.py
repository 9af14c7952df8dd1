"""Mistakes that a type checker has to report, each with the comment that expects it; a comment without one is an error.

Checked by ``mypy --strict`` and by pyright, and never run.
"""

from thinconsumer import Consumer, GroupMember, TopicPartition
from thinconsumer.broker import BrokerProcess
from thinconsumer.testing import Simulation
from thinconsumer.workers import run

TP = TopicPartition("orders", 0)


class Worker(GroupMember):
    """A member of a group."""


def mistakes() -> None:
    """Misspell options, and pass values of wrong types."""
    Consumer(bootstrap_server="localhost:9092")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Consumer(group_id=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Consumer(fetch_min_bytes="1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Consumer(key_deserializer="text")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Consumer({"bootstrap.servers": "a:9092"})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Worker("workers", group="w")  # type: ignore[call-arg, abstract]  # pyright: ignore[reportCallIssue, reportAbstractUsage]
    consumer = Consumer(group_id="g")
    offset: int = consumer.committed(TP)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    BrokerProcess(nodes="three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Simulation(sed=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    run(consumer, print, atempts=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    run(consumer, print, order="keys")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    consumer.commit([offset])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def without_deserializer() -> Consumer[str, bytes | None]:
    """Only a deserializer changes the type of keys."""
    return Consumer("orders")  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
