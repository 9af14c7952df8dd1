"""Clusters with an authorizer, clients with a principal, and what responses contain."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER


@pytest.fixture
def secured(new_cluster: Any) -> Callable[..., Any]:
    """``secured(topics, **config)`` makes a cluster with an authorizer."""
    return lambda topics=None, **config: new_cluster(
        1, topics or {"orders": 2}, authorizer_class_name=STANDARD_AUTHORIZER, **config
    )


@pytest.fixture
def alice(client_of: Any) -> Callable[[Any], Any]:
    """``alice(cluster)`` connects a client with the principal User:alice."""

    def connect(cluster: Any) -> Any:
        client = client_of(cluster, 1)
        client.connection.principal = "User:alice"
        return client

    return connect


def values(struct: Any, wanted: str) -> Iterator[Any]:
    """Yield the values of all fields with a name that ends with ``wanted``."""
    for field in fields(struct):
        value = getattr(struct, field.name)
        if field.name.endswith(wanted):
            yield value
        for one in value if isinstance(value, list) else [value]:
            if is_dataclass(one):
                yield from values(one, wanted)


@pytest.fixture(scope="session")
def codes() -> Callable[[Any], set[int]]:
    """``codes(answer)`` returns all error codes of a response other than 0."""
    return lambda answer: {code for code in values(answer, "error_code") if code}
