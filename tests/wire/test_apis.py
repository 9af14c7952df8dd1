"""The list of requests."""

import pkgutil

import pytest

import thinconsumer.wire
from thinconsumer.wire.apis import REQUESTS
from thinconsumer.wire.fetch import FetchRequest

MACHINERY = {
    "apis", "consumer_protocol", "current_leader", "decoding", "encoding", "error_codes", "extensions", "header",
    "message", "primitives", "schema", "source",
}  # fmt: skip


def test_requests_are_found_by_key() -> None:
    assert REQUESTS[1] is FetchRequest
    assert all(key == request.API_KEY for key, request in REQUESTS.items())
    assert len(REQUESTS) == 38


def test_every_api_module_is_listed() -> None:
    modules = {info.name for info in pkgutil.iter_modules(thinconsumer.wire.__path__)}
    assert modules - MACHINERY == {request.__module__.rsplit(".", 1)[1] for request in REQUESTS.values()}


def test_the_list_is_read_only() -> None:
    with pytest.raises(TypeError):
        REQUESTS[1] = FetchRequest  # type: ignore[index]
