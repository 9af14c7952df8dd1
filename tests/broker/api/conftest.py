"""A client of the only broker of the module's cluster."""

from typing import Any

import pytest


@pytest.fixture
def client(cluster: Any, client_of: Any) -> Any:
    """A client of broker 1 of the module's fixture ``cluster``."""
    return client_of(cluster, 1)
