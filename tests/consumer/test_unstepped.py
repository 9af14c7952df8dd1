"""A manager that the engine does not step would have changed nothing.

The engine skips managers that are neither due nor touched (``Engine.touch``). Here it steps those, too, and their state
is compared before and after: an input that touches no manager shows as a difference.
"""

import enum
import random

import pytest

from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.engine import Engine
from thinconsumer.support.agenda import ALL
from thinconsumer.testing import MemoryCluster, Network
from thinconsumer.types import OffsetAndMetadata
from thinconsumer_testing.broker.controller import ControllerError

pytestmark = pytest.mark.once

#: Attributes that a step without effect may change: the time, jitter of later backoffs, and a flag of the planner's.
PASSING = {"_now", "_random", "_shared_jitter", "_pauses", "_errors"}
#: Lists of partitions that follow reported changes when they are next used. Their own tests compare them with all
#: partitions.
PASSING |= {"targets", "changed", "_owner", "unplanned", "_by_state", "_with_error"}
PASSING |= {"_unconfirmed", "indexed_state", "_changes", "_changes_seen", "_agenda", "agenda"}
#: Messages, batches and options, which no manager changes.
OPAQUE = ("thinconsumer.wire", "thinconsumer.records", "thinconsumer.config")


def state(value, seen):
    """Return an object's state as nested tuples, which are equal as long as nothing in it has changed."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, enum.Enum)):
        return value
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = f"#{len(seen)}"
    if isinstance(value, dict):
        return tuple((state(key, seen), state(found, seen)) for key, found in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(hash, value))
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return tuple(state(found, seen) for found in value)
    module, names = type(value).__module__, [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if not module.startswith("thinconsumer.") or module.startswith(OPAQUE):
        return id(value)
    return id(value), tuple((name, state(getattr(value, name, None), seen)) for name in names if name not in PASSING)


def difference(before, after, path=""):
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                return difference(one, other, f"{path}/{one[0] if isinstance(one, tuple) and one else number}")
    return f"{path}: {before!r} -> {after!r}"[:500]


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Step the managers that an engine leaves out as well; return how often that happened."""
    counts = {"skipped": 0}
    step_managers, is_due = Engine._step_managers, Engine.is_due

    def check(engine, stepped, now):
        counts["skipped"] += 1
        others = [manager for name, manager in engine._by_name.items() if name not in stepped]
        owners = [getattr(manager.step, "__self__", manager) for manager in others]
        before = state(owners, {})
        assert [request for manager in others for request in manager.step(now)] == []
        after = state(owners, {})
        assert before == after, f"managers that were not due at {now} changed {difference(before, after)}"

    def step_managers_and_check(engine, now, names):
        if ALL not in names:
            check(engine, names, now)
        return step_managers(engine, now, names)

    def is_due_and_check(engine, now):
        found = is_due(engine, now)
        if not found:
            check(engine, (), now)
        return found

    monkeypatch.setattr(Engine, "_step_managers", step_managers_and_check)
    monkeypatch.setattr(Engine, "is_due", is_due_and_check)
    return counts


@pytest.mark.parametrize("group", [None, "assigned", "subscribed", "whole topics"])
@pytest.mark.parametrize("seed", range(4))
def test_managers_that_are_not_stepped_would_have_changed_nothing(seed, group, checked):
    """Polls in between of any other call, with brokers that die and records that do not fit into the buffer."""
    draw = random.Random(seed)
    cluster = MemoryCluster(2, {"t": 2, "u": 1}, network=Network(chunk=draw.choice([None, 13])))
    times = {"auto_commit_interval_ms": 300, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    in_group = group in ("assigned", "subscribed")
    options = {"group_id": "g", **times} if in_group else {}
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        driver=cluster.driver(),
        auto_offset_reset="earliest",
        max_buffered_bytes=draw.choice([65536, 1 << 20]),
        max_poll_records=3,
        metadata_max_age_ms=2000,
        **options,
    )
    tps = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
    if group in ("subscribed", "whole topics"):
        consumer.subscribe(["t", "u"])
    else:
        consumer.assign(tps)
    down = []

    def kill():
        down.append(draw.choice([1, 2]))
        cluster.kill(down[-1])

    def restart():
        cluster.start(down.pop())

    def produce():
        size, count, number = draw.choice([50, 20_000]), draw.choice([1, 9]), draw.choice([0, 1])
        cluster.produce("t", [b"x" * size] * count, number)

    def recreate():
        cluster.delete_topic("u")
        cluster.create_topic("u", 1)
        cluster.produce("u", [b"x"] * 2)

    calls = {
        "poll": lambda: consumer.poll(draw.choice([0, 1, 50, 700])),
        "produce": produce,
        "recreate": recreate,
        "move_leader": lambda: cluster.move_leader(draw.choice(tps[:2])),
        "delete_records": lambda: cluster.delete_records(tps[0], cluster.leader(tps[0]).log.end_offset),
        "seek": lambda: consumer.seek(draw.choice(tps), OffsetAndMetadata(0, "", draw.choice([-1, 0]))),
        "seek_to_end": lambda: consumer.seek_to_end(draw.choice(tps)),
        "pause": lambda: consumer.pause(draw.choice(tps)),
        "resume": lambda: consumer.resume(*consumer.paused()),
        "end_offsets": lambda: consumer.end_offsets(tps, timeout_ms=20),
        "commit": lambda: consumer.commit_async() if in_group else None,
        "wake_at": consumer.wake_at,
        "broker": lambda: restart() if down else kill(),
        "absence": lambda: cluster.clock.advance(draw.choice([0.4, 1.0, 8.0])),
    }
    for _ in range(120):
        name = draw.choice([*calls, *["poll"] * 8, *["produce"] * 3])
        try:
            calls[name]()
        except (KafkaError, LookupError, ControllerError):
            pass  # a partition that is not assigned just now, or has no leader that could move
    assert checked["skipped"] > 20
    consumer.close()
