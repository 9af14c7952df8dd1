"""Tests on real clusters: marked as such, with the time that takes. The clusters are in ``realkafka.fixtures``."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMEOUT = 180


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here; the first test of a session may download Kafka, so a minute would be tight."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(TIMEOUT))
