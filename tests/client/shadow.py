"""Check in any test that a manager which the engine does not step would have changed nothing.

:func:`check_unstepped` makes every engine step those managers, too, and compares their state before and after.
"""

from __future__ import annotations

import enum

from thinconsumer.client import Engine

#: Attributes that a step without effect may change: the time, and random numbers for later backoffs.
PASSING = {"_now", "_random", "_shared_jitter", "_stepped_at", "freed"}


def state(value, seen=None):
    """Return a value as nested tuples, which compare equal if nothing has changed in between."""
    seen = {} if seen is None else seen
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
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if not type(value).__module__.startswith(("thinconsumer.", "tests.")) or not names:
        return id(value)
    if type(value).__module__.startswith(("thinconsumer.wire", "thinconsumer.records", "thinconsumer.config")):
        return id(value)
    return type(value).__name__, id(value), tuple((n, state(getattr(value, n, None), seen)) for n in names if n not in PASSING)


def check_unstepped(monkeypatch):
    """Make all engines step the managers that are not due as well, and fail if one changes or sends anything."""
    step_touched, skip = Engine._touched_managers, Engine.skip

    def check(engine, stepped, now):
        others = [manager for manager in engine._managers if manager not in stepped]
        before = state([_of(manager) for manager in others])
        requests = [request for manager in others for request in manager.step(now)]
        assert not requests, f"managers that are not due at {now} had requests to send: {requests}"
        after = state([_of(manager) for manager in others])
        assert after == before, f"managers that are not due at {now} changed {_difference(before, after)}"

    def touched_managers(engine):
        found = step_touched(engine)
        check(engine, found, engine._now)
        return found

    def skipped(engine, now):
        skip(engine, now)
        check(engine, (), now)

    monkeypatch.setattr(Engine, "_touched_managers", touched_managers)
    monkeypatch.setattr(Engine, "skip", skipped)


def _of(manager):
    return getattr(manager.step, "__self__", manager)


def _difference(before, after, path=""):
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            if one != other:
                name = one[0] if isinstance(one, tuple) and one and isinstance(one[0], str) else number
                return _difference(one, other, f"{path}.{name}")
    return f"{path}: {before!r} -> {after!r}"[:2000]
