"""A pytest plugin that records which lines of the package each test executes, and how long each test takes.

``pytest -p covering`` needs ``MUTATION_COVERAGE``, the file to write, and ``MUTATION_PACKAGE``, the folder with the
rooms to record, in the environment. Only Python's own tracing is used: a test that sets a trace function is recorded
up to that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOMS = ("group", "fetch", "ordered", "network")


class Recorder:
    """Records the lines that run, by file."""

    def __init__(self, package: str) -> None:
        self._prefixes = tuple(os.path.join(package, room) + os.sep for room in ROOMS)
        self._skip = len(package) + 1
        self.lines: dict[str, set[int]] = {}

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Return the trace function for the lines of a frame, or None for code of other folders."""
        code = frame.f_code
        if not code.co_filename.startswith(self._prefixes):
            return None
        lines = self.lines.setdefault(code.co_filename[self._skip :], set())
        lines.add(frame.f_lineno)
        add = lines.add

        def of_line(frame: FrameType, event: str, argument: object) -> Any:
            if event == "line":
                add(frame.f_lineno)
            return of_line

        return of_line

    def start(self) -> None:
        """Record from here on."""
        threading.settrace(self.trace)
        sys.settrace(self.trace)


class Plugin:
    """Writes one line of JSON for each test."""

    def __init__(self, file: Path, package: str) -> None:
        self._file = file.open("a", encoding="utf-8")
        self._recorder = Recorder(package)
        self._has_passed = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record setup, call and teardown as one."""
        self._recorder.lines = {}
        self._has_passed = True
        began = time.perf_counter()
        self._recorder.start()
        try:
            return (yield)
        finally:
            sys.settrace(None)
            seconds = time.perf_counter() - began
            lines = {path: sorted(found) for path, found in self._recorder.lines.items()}
            if self._has_passed:
                self._file.write(json.dumps({"test": item.nodeid, "seconds": seconds, "lines": lines}) + "\n")
                self._file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out tests that fail or are skipped: they say nothing about a change."""
        self._has_passed = self._has_passed and report.passed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Record again, if a fixture has set another trace function."""
        self._recorder.start()
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Record if a file is named."""
    if file := os.environ.get("MUTATION_COVERAGE"):
        config.pluginmanager.register(Plugin(Path(file), os.environ["MUTATION_PACKAGE"]))
