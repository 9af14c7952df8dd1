"""Imports that an exception in the main thread cannot leave half done."""

import signal
import sys

import pytest

from thinconsumer.imports import import_uninterrupted


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that makes a module of this source, and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(source):
        (tmp_path / "made_for_a_test.py").write_text(source)
        monkeypatch.delitem(sys.modules, "made_for_a_test", raising=False)
        return "made_for_a_test"

    yield make
    sys.modules.pop("made_for_a_test", None)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")
def test_an_exception_of_a_signal_handler_ends_the_wait_and_not_the_import(module, monkeypatch):
    name = module("import time\ntime.sleep(0.3)\nwhole = True\n")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            import_uninterrupted(name)
    finally:
        signal.signal(signal.SIGALRM, before)
    import_uninterrupted(name)
    assert sys.modules[name].whole


def test_errors_of_the_import_are_raised(module):
    with pytest.raises(ImportError, match="not_there_at_all"):
        import_uninterrupted(module("import not_there_at_all\n"))
