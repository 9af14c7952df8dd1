"""Fixtures of the tests of options."""

import importlib.util
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


@pytest.fixture(scope="session")
def docs_script(docs):
    """Imports a script of docs/, which is no package."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, docs / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
