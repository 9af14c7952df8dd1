"""All public names, and no others, can be imported from the top level, and are in ``__all__``."""

import importlib
import os
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import thinconsumer
import thinconsumer_testing

#: Modules with an ``__all__`` that the top level exports.
PUBLIC = ("consumer", "errors", "types", "group", "member")
#: Public places of their own: what they hold is imported from there.
PLACES = (
    "testing", "spark", "polars", "prometheus", "opentelemetry", "config", "broker", "assignors", "partitioning",
    "deserializers",
)  # fmt: skip
#: Rooms hand over single names that belong at the top although the rest of them does not.
FROM_ELSEWHERE = {
    "config": {"ConfigurationWarning", "dead_letter"},
    "consumer.interceptors": {"ConsumerInterceptor"},
    "fetch.record_sequence": {"RecordSequence"},
    "records.raw_batch": {"RawBatch"},
    "assignors": {"Assignment", "GroupMetadata", "PartitionAssignor", "RebalanceProtocol", "Subscription"},
}


def existing(names):
    return [name for name in names if importlib.util.find_spec(f"thinconsumer.{name}")]


def declared(name):
    """Return what a room's ``__all__`` says; a public room without one is an error of its own."""
    module = importlib.import_module(f"thinconsumer.{name}")
    assert hasattr(module, "__all__"), f"thinconsumer.{name} has no __all__"
    return set(module.__all__)


def test_the_top_level_is_the_union_of_what_public_modules_declare():
    expected = {"__version__"}.union(*(declared(name) for name in existing(PUBLIC)))
    expected = expected.union(*(names & declared(name) for name, names in FROM_ELSEWHERE.items()))
    found = set(thinconsumer.__all__)
    assert found - expected == set(), "exported at the top, but public nowhere"
    assert expected - found == set(), "public, but not exported at the top"


@pytest.mark.parametrize("name", ["", *(f".{name}" for name in existing(PUBLIC + PLACES))])
def test_every_declared_name_is_there_once_and_in_order(name):
    needs = {".spark": "pyspark", ".prometheus": "prometheus_client"}
    if name in (".spark", ".polars", ".prometheus", ".opentelemetry"):
        pytest.importorskip(needs.get(name, name[1:]))
    module = importlib.import_module(f"thinconsumer{name}")
    names = list(module.__all__)
    if not name:  # the top level appends the errors to its own names
        names = names[: -len(thinconsumer.errors.__all__)]
    assert len(names) == len(set(names))
    assert names == sorted(names) or names == sorted(names, key=lambda n: (not n.isupper(), n))
    for exported in names:
        assert getattr(module, exported) is not None or exported == "NEVER"


def test_the_top_level_has_no_public_name_beside_its_exports():
    """Sub-modules aside, dir() shows what __all__ says: a helper without an underscore would become a promise."""
    found = {
        name
        for name in dir(thinconsumer)
        if not name.startswith("_") and not isinstance(getattr(thinconsumer, name), types.ModuleType)
    }
    assert found == set(thinconsumer.__all__) - {"__version__"}


def test_errors_and_values_say_where_users_import_them_from():
    """``pickle`` and tracebacks name the module a class is found in, and it is found there."""
    for name in thinconsumer.__all__:
        value = getattr(thinconsumer, name)
        if isinstance(value, type):
            home = importlib.import_module(value.__module__)
            assert getattr(home, value.__qualname__) is value


def test_importing_any_module_starts_no_thread_and_opens_nothing(tmp_path):
    """Nothing happens before a call: threads, sockets and warnings would come with every import."""
    modules = sorted(
        found.name
        for package in (thinconsumer, thinconsumer_testing)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not {"spark", "polars", "prometheus", "opentelemetry", "columnar", "__main__"} & set(found.name.split("."))
    )
    assert len(modules) > 10
    code = (
        "import importlib, os, sys, threading\n"
        "def fds(): return len(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else 0\n"
        "before = fds()\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "assert fds() == before, 'a descriptor was left open'\n"
        "print(importlib.import_module('thinconsumer').__file__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *modules], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == thinconsumer.__file__


def test_what_is_tested_is_the_installed_wheel_when_that_was_promised():
    """tox promises it. A checkout that hides the wheel would let a file missing from the wheel pass."""
    if os.environ.get("THINCONSUMER_TEST_INSTALLED") != "1":
        pytest.skip("not promised: THINCONSUMER_TEST_INSTALLED is not 1")
    for package in (thinconsumer, thinconsumer_testing):
        assert "site-packages" in Path(package.__file__).parts
        assert (Path(package.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", ["testing", "testing.fixtures", "broker"])
def test_names_of_thinconsumer_testing_are_the_same_objects_in_thinconsumer(name):
    here = importlib.import_module(f"thinconsumer.{name}")
    there = importlib.import_module(f"thinconsumer_{name}" if name != "broker" else "thinconsumer_testing.broker")
    assert here.__all__ == there.__all__
    assert all(getattr(here, exported) is getattr(there, exported) for exported in there.__all__)


@pytest.mark.parametrize("name", ["testing", "testing.fixtures", "broker"])
@pytest.mark.usefixtures("without_testing")
def test_without_thinconsumer_testing_the_error_names_the_command(name):
    with pytest.raises(ImportError, match="pip install thinconsumer-testing"):
        importlib.import_module(f"thinconsumer.{name}")
