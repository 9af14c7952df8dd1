"""Fixtures of the wire tests: every message, its versions, and random messages of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from thinconsumer.wire import Message, Struct
from thinconsumer.wire.extensions import FIRST_API_KEY, FIRST_TAG
from thinconsumer.wire.schema import Primitive, WireField, wire_fields
from thinconsumer_testing.broker.wire.requests import REQUESTS

#: Whether a test module judges messages by Kafka's definitions, which lack the additions of ``wire.extensions``.
BY_KAFKA = "JUDGED_BY_KAFKA"
MESSAGES = [message for request in REQUESTS.values() for message in (request, request.RESPONSE)]
Generate = Callable[..., Message]

_BOUNDS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``message`` runs for every request and response."""
    if "message" in metafunc.fixturenames:
        by_kafka = getattr(metafunc.module, BY_KAFKA, False)
        messages = [one for one in MESSAGES if not by_kafka or one.API_KEY < FIRST_API_KEY]
        metafunc.parametrize("message", messages, ids=[message.__name__ for message in messages])


def _text(rng: random.Random) -> str:
    if rng.random() < 0.05:
        return "x" * rng.choice([126, 127, 128, 300])  # Around and beyond the first byte of a compact length.
    return "".join(rng.choice("ab-_.ä語🙂") for _ in range(rng.randrange(6)))


def _primitive(of: Primitive[Any], name: str, rng: random.Random, tame: bool) -> Any:
    if of.name == "bool":
        return rng.random() < 0.5
    if of.name == "uuid":
        return rng.randbytes(16)
    if of.name == "string":
        return _text(rng)
    if of.name in ("bytes", "records"):
        return rng.randbytes(rng.choice([0, 1, 3, 200]))
    if tame and name.endswith("error_code"):
        return rng.choice([0, 1, 3, 6, 100])
    bits = _BOUNDS[of.name]
    if tame and (name.endswith("_ms") or "timestamp" in name):
        return rng.randrange(2 ** min(bits, 40))
    return rng.choice([0, 1, -1, 2**bits - 1, -(2**bits), rng.randrange(-(2**bits), 2**bits)])


def _value(wire: WireField, name: str, version: int, rng: random.Random, options: dict[str, bool]) -> Any:
    if version in wire.nullable and rng.random() < 0.3:
        return None
    if wire.array:
        return [_element(wire, name, version, rng, options) for _ in range(rng.choice([0, 1, 2, 3]))]
    return _element(wire, name, version, rng, options)


def _element(wire: WireField, name: str, version: int, rng: random.Random, options: dict[str, bool]) -> Any:
    if isinstance(wire.of, Primitive):
        return _primitive(wire.of, name, rng, options["tame"])
    return _generate(wire.of, version, rng, options)


def _generate(cls: type[Struct], version: int, rng: random.Random, options: dict[str, bool]) -> Any:
    values: dict[str, Any] = {}
    for name, wire in wire_fields(cls):
        if wire.tag >= FIRST_TAG and not options["extensions"]:
            continue
        if version in wire.versions and not (wire.tag >= 0 and rng.random() < 0.5):
            values[name] = _value(wire, name, version, rng, options)
    if options["tags"] and rng.random() < 0.3:
        values["unknown_tags"] = {rng.choice([100, 300, 70000]): rng.randbytes(rng.choice([0, 5, 130]))}
    return cls(**values)


@pytest.fixture
def generate(request: pytest.FixtureRequest) -> Generate:
    """``generate(cls, version, seed)`` makes a random message that has only what the version has.

    ``tame`` keeps error codes and times in the ranges that other codecs turn into types of their own; ``tags`` adds
    undeclared tagged fields. Modules that are judged by Kafka get no fields of ``wire.extensions``.
    """
    extensions = not getattr(request.module, BY_KAFKA, False)

    def make(cls: type[Message], version: int, seed: int, *, tame: bool = False, tags: bool = False) -> Message:
        rng = random.Random(f"{cls.__name__} {version} {seed}")
        options = {"tame": tame, "tags": tags and version >= cls.FLEXIBLE, "extensions": extensions}
        message: Message = _generate(cls, version, rng, options)
        return message

    return make


@pytest.fixture
def versions() -> Callable[[type[Message]], Iterator[int]]:
    """``versions(cls)`` yields every supported version of a message."""
    return lambda cls: iter(range(cls.VERSIONS[0], cls.VERSIONS[1] + 1))
