"""Fixtures of the tests of options."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def kafka_python():
    """The parts of kafka-python that options are compared with; importing it warns about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.serializer import DefaultSerializer, JsonSerializer
    return SimpleNamespace(
        DEFAULT_CONFIG=KafkaConsumer.DEFAULT_CONFIG,
        RangePartitionAssignor=RangePartitionAssignor,
        DefaultSerializer=DefaultSerializer,
        JsonSerializer=JsonSerializer,
    )


@pytest.fixture(scope="session")
def docs():
    return Path(__file__).parents[2] / "docs"
