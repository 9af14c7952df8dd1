"""The built-in assignors by name, and the creation of assignors from ``partition_assignment_strategy``."""

from collections.abc import Iterable

from .base import PartitionAssignor
from .range import RangeAssignor
from .roundrobin import RoundRobinAssignor
from .sticky import CooperativeStickyAssignor, StickyAssignor

#: The classes of the built-in assignors by name.
BUILT_IN: dict[str, type[PartitionAssignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


def name_of(entry: object) -> str:
    """Return the name of an assignor class or instance.

    Raises:
        ValueError: ``entry`` is no usable assignor. The message is the end of a sentence that begins with the name of
            ``entry``, for example "which has no name".
    """
    from .kafka_python import class_of, is_kafka_python_assignor

    if not issubclass(class_of(entry), PartitionAssignor) and not is_kafka_python_assignor(entry):
        raise ValueError("which is no PartitionAssignor")
    if lacking := getattr(entry, "__abstractmethods__", None):
        raise ValueError(f"which lacks {', '.join(sorted(lacking))}")
    name = getattr(entry, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError("which has no name")
    return name


def create(strategy: Iterable[object]) -> tuple[PartitionAssignor, ...]:
    """Return the assignors of one consumer: new instances for names and classes, given instances as they are, and
    wrappers for kafka-python's classes and instances.
    """
    return tuple(_create(entry) for entry in strategy)


def _create(entry: object) -> PartitionAssignor:
    if isinstance(entry, str):
        return BUILT_IN[entry]()
    from .kafka_python import KafkaPythonAssignor, is_kafka_python_assignor  # on demand: it imports inspect

    if is_kafka_python_assignor(entry):
        return KafkaPythonAssignor(entry)
    made = entry() if isinstance(entry, type) else entry
    assert isinstance(made, PartitionAssignor)
    return made
