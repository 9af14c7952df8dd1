"""For all tests: check that the installed wheel is tested, and choose the selector."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from realkafka.fixtures import (  # noqa: F401 - fixtures and hooks for every folder
    _kdc_or_reason,
    _three,
    kafka,
    kafka3,
    kafka28,
    kdc,
    new_topic,
    own_kafka,
    pytest_terminal_summary,
    secured_kafka,
)

import thinconsumer
from thinconsumer.errors import SaslAuthenticationFailedError

try:
    from hypothesis import settings
except ImportError:  # the tests on real clusters alone need none
    pass
else:
    # A deadline measures the machine, and a busy one fails it.
    settings.register_profile("thinconsumer", deadline=None)
    settings.load_profile("thinconsumer")

T = TypeVar("T")
#: The test files that take longest, longest first. Begun last, such a file would leave all but one worker idle.
LONGEST = {
    name: rank
    for rank, name in enumerate(
        (
            "spark/jvm/test_official_connector.py",
            "real/test_differential.py",
            "spark/jvm/test_connect.py",
            "spark/jvm/test_end_to_end.py",
            "spark/jvm/test_pipeline.py",
            "real/test_failover.py",
            "real/test_group_coordinator.py",
            "real/test_security.py",
            "real/test_group_mixed.py",
            "real/test_exact.py",
            "real/test_fetching.py",
            "spark/jvm/test_security.py",
            "spark/jvm/test_official_security.py",
            "spark/jvm/test_writing_end_to_end.py",
            "spark/jvm/test_crashes.py",
            "behaviour/test_groups.py",
            "real/test_group_matrix.py",
            "real/test_group_lasting.py",
            "real/test_programs.py",
        )
    )
}


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs us in the background has us ignore Ctrl-C, and so would every program that is tested with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A checkout: the programs that tests start find the packages where this process finds them.
_place = Path(thinconsumer.__file__).parents[1]
if "site-packages" not in _place.parts:
    _folders = [str(_place), str(_place / "testing")]
    sys.path += [folder for folder in _folders if folder not in sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join([*_folders, *filter(None, [os.environ.get("PYTHONPATH")])])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--soak``, which runs tests for their full length."""
    parser.addoption("--soak", action="store_true", help="run tests marked soak for their stated length")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run on the checkout when the wheel was promised: every result would be about other code."""
    if os.environ.get("THINCONSUMER_TEST_INSTALLED") != "1":
        return
    for name in ("thinconsumer", "thinconsumer_testing"):
        spec = importlib.util.find_spec(name)
        place = Path(spec.origin if spec and spec.origin else "nowhere")
        if "site-packages" not in place.parts:
            said = f"the wheel was to be tested, but {name} comes from {place}"
            raise pytest.UsageError(f"{said}: run pytest, not python -m")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt all tests and their modules from garbage collection, which would visit them again and again.

    With some ten thousand tests that is a fifth of the processor's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; xdist keeps this order with ``--dist loadfile --no-loadscope-reorder``."""
    tests = Path(__file__).parent
    ranks = {path: LONGEST.get(path.relative_to(tests).as_posix(), len(LONGEST)) for path in {i.path for i in items}}
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture
def without_testing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports find no ``thinconsumer_testing``, as where only the client is installed."""

    class Missing:
        def find_spec(self, name: str, *about: object) -> None:
            if name == "thinconsumer_testing":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    names = ("thinconsumer_testing", "thinconsumer.testing", "thinconsumer.broker")
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(names)]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    """Return the length of a test marked ``soak(seconds)``: those with ``--soak``, else at most half a minute."""
    marker = request.node.get_closest_marker("soak")
    stated = float(marker.args[0])
    return stated if request.config.getoption("--soak") else min(stated, 30.0)


class RefusedLogin:
    """A login that the broker rejects."""

    def __init__(self, host: str) -> None:
        self.host = host

    def next_request(self, answer: object, now: float) -> None:
        raise SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")


@pytest.fixture
def refused_login() -> type[RefusedLogin]:
    """Return the class of a login that the broker rejects."""
    return RefusedLogin


@pytest.fixture
def closed_at_end() -> Iterator[Callable[[T], T]]:
    """Return a function that returns its argument, and closes it after the test."""
    found: list[Any] = []

    def keep(one: T) -> T:
        found.append(one)
        return one

    yield keep
    for one in found:
        one.close()


@pytest.fixture
def leftovers_forgiven(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """For tests of other clients: close the sockets that they leave open here, and not in a later test.

    They have to let ``pytest.PytestUnraisableExceptionWarning`` pass.
    """
    yield
    # A logged exception refers, by its traceback, to the connection that failed, until the test is over: what then
    # complains of never having been closed would do so in a later test.
    for phase in ("setup", "call"):
        caplog.get_records(phase).clear()
    gc.collect()
    # A thread or a traceback may still refer to a socket, which would be collected in a later test. The sockets of this
    # package are made without a protocol number.
    for one in gc.get_objects():
        if type(one) is socket.socket and one.fileno() >= 0 and one.proto == socket.IPPROTO_TCP:
            one.close()


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let processes that tests start find this package compiled, as users' do: compiling takes longer than the rest.

    A wheel is compiled where it was installed. A checkout is not where nothing may be written beside the sources: then
    the first process compiles, for those of all of xdist's workers. Elsewhere than needed that would be the slower way,
    since it begins with Python's own library.
    """
    spec = importlib.util.find_spec("thinconsumer")
    with pytest.MonkeyPatch.context() as patch:
        if spec is None or spec.cached is None or not Path(spec.cached).exists():
            base = tmp_path_factory.getbasetemp()
            shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "compiled"))
        yield
