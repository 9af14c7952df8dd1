"""The list of requests."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import thinconsumer.wire
import thinconsumer_testing.broker.wire
from thinconsumer.wire import Message
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer_testing.broker.wire.requests import REQUESTS


def test_requests_are_found_by_key() -> None:
    assert REQUESTS[1] is FetchRequest
    assert all(key == request.API_KEY for key, request in REQUESTS.items())
    assert len(REQUESTS) == 41


@pytest.mark.parametrize("package", [thinconsumer.wire, thinconsumer_testing.broker.wire])
def test_every_request_is_listed(package: ModuleType) -> None:
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for declared in vars(importlib.import_module(info.name)).values():
            if isinstance(declared, type) and issubclass(declared, Message) and "RESPONSE" in vars(declared):
                assert REQUESTS[declared.API_KEY] is declared


def test_the_list_is_read_only() -> None:
    with pytest.raises(TypeError):
        REQUESTS[1] = FetchRequest  # type: ignore[index]
