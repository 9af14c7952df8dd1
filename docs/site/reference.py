"""The reference of the API, made of docstrings: which page has which public names."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator

import thinconsumer

#: Optional packages that modules derive classes from or import first.
MOCKED = ["polars", "pyspark", "pyarrow"]
Names = list[str]

_VALUES = [
    "ConsumerRecord",
    "RecordSequence",
    "RawBatch",
    "TopicPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "Node",
    "ClusterView",
    "SubscriptionPattern",
]
_GROUPS = [
    "RebalanceListener",
    "PartitionKeyRebalanceListener",
    "PartitionAssignor",
    "RebalanceProtocol",
    "Assignment",
    "Subscription",
    "GroupMetadata",
    "GroupMember",
]
#: Pages: file, title, what it has, and the names by the module that they are imported from; no names: all that it has.
PAGES: list[tuple[str, str, str, dict[str, Names]]] = [
    (
        "consumer",
        "Consumer",
        "all calls of a consumer, and its health",
        {"thinconsumer": ["Consumer", "Health", "HealthState", "MemberHealth"]},
    ),
    ("values", "Records, partitions and offsets", "what calls take and return", {"thinconsumer": _VALUES}),
    ("groups", "Listeners, assignors, group members", "classes to derive your own from", {"thinconsumer": _GROUPS}),
    (
        "errors",
        "Exceptions",
        "each with its attributes",
        {"thinconsumer": [*thinconsumer.errors.__all__, "ConfigurationWarning"]},
    ),
    ("aio", "AsyncConsumer", "for asyncio, uvloop and trio", {"thinconsumer.aio": []}),
    ("workers", "Workers", "handlers that run in parallel", {"thinconsumer.workers": []}),
    ("testing", "Brokers and simulations", "`thinconsumer.testing`", {"thinconsumer.testing": []}),
    ("broker", "Settings and faults of brokers", "`thinconsumer.broker`", {"thinconsumer.broker": []}),
    (
        "others",
        "Spark, Polars, partitioners, columns",
        "`thinconsumer.spark`, `.polars`, `.partitioning`, `RecordColumns`",
        {
            "thinconsumer": [],  # names that are on no other page, see below
            "thinconsumer.polars": [],
            "thinconsumer.spark": [],
            "thinconsumer.partitioning": [],
            "thinconsumer.records.columnar.record_columns": ["RecordColumns"],
        },
    ),
]
_LISTED = {name for _, _, _, modules in PAGES for name in modules.get("thinconsumer", [])}
PAGES[-1][3]["thinconsumer"] = [name for name in thinconsumer.__all__ if name not in {*_LISTED, "__version__"}]
ENTRIES = [(f"api/{name}.rst", title, says) for name, title, says, _ in PAGES]


def exports(module: str, names: Names) -> dict[str, object]:
    """Return the public names of a module, or these of them, with their values."""
    from sphinx.ext.autodoc.mock import mock  # here, so that tests read PAGES without Sphinx

    with mock(MOCKED):
        found = importlib.import_module(module)
        return {name: getattr(found, name) for name in (names if module == "thinconsumer" else names or found.__all__)}


def directive(name: str, value: object) -> str:
    """Return how Sphinx is told to document one name."""
    if not inspect.isclass(value):
        return f".. auto{'function' if callable(value) else 'data'}:: {name}\n"
    if issubclass(value, BaseException):
        return f".. autoexception:: {name}\n   :members:\n   :show-inheritance:\n"
    options = "   :members:\n" + ("   :undoc-members:\n" if issubclass(value, enum.Enum) else "")
    if not issubclass(value, enum.Enum):
        options += "   :inherited-members: tuple, dict, Mapping, Sequence, Protocol, Generic\n"
    # The overloads differ only in the types of deserializers.
    signature = "(*topics, driver=None, **options)" if name in ("Consumer", "AsyncConsumer") else ""
    return f".. autoclass:: {name}{signature}\n{options}"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    seen: set[int] = set()  # thinconsumer.broker and thinconsumer.testing share names
    for (name, title, _), (*_, modules) in zip(ENTRIES, PAGES):
        lines = [title, "=" * len(title), ""]
        for module, names in modules.items():
            lines += [f".. currentmodule:: {module}", ""]
            for exported, value in exports(module, names).items():
                if id(value) not in seen:
                    seen.add(id(value))
                    lines.append(directive(exported, value))
        yield name, "\n".join(lines)
