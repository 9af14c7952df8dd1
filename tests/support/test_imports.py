"""Imports that an exception in the main thread cannot leave half done."""

import signal
import subprocess
import sys

import pytest

from thinconsumer.broker import BrokerProcess
from thinconsumer.support.imports import TIMEOUT, TIMEOUT_VARIABLE, import_uninterrupted

READER = """
import sys
import threading
from thinconsumer import Consumer, TopicPartition

class Noticed:
    imports = []

    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            self.imports.append(name)

bootstrap, protocol = sys.argv[1:]
if protocol:
    group = {"group_id": "g", "group_protocol": protocol}
    consumer = Consumer("t", bootstrap_servers=bootstrap, auto_offset_reset="earliest", **group)
else:
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", 0)])
sys.meta_path.insert(0, Noticed())
count = 0
while count < 200:
    count += sum(map(len, consumer.poll(100).values()))
if protocol:
    consumer.commit()
consumer.close()
print(Noticed.imports)
"""


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


@pytest.mark.once
@pytest.mark.parametrize("protocol", ["", "classic", "consumer"])
def test_a_poll_imports_nothing_in_the_main_thread(protocol):
    """Ctrl-C could end such an import while it has Python's import lock, and every later import would wait for ever."""
    with BrokerProcess(topics={"t": 1}) as broker:
        broker.produce("t", [b"value"] * 200)
        done = subprocess.run(
            [sys.executable, "-c", READER, broker.bootstrap_servers, protocol],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout == "[]\n", done.stdout + done.stderr


# -- numpy

NUMPY = """
import os
import sys
from thinconsumer.fetch.chunks import DECODER
from thinconsumer.support.imports import import_with_numpy

class Noticed:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get({timeout!r}))

sys.meta_path.insert(0, Noticed())
import_with_numpy(DECODER)
import_with_numpy(DECODER)
print(os.environ.get({timeout!r}))
print(DECODER in sys.modules)
"""


def printed(monkeypatch, before, value, script=NUMPY):
    """Run the script in a fresh process, after the statements ``before``; return its words."""
    pytest.importorskip("numpy")
    monkeypatch.delenv(TIMEOUT_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(TIMEOUT_VARIABLE, value)
    code = before + script.format(timeout=TIMEOUT_VARIABLE)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_threads_of_numpy_sleep_soon_and_child_processes_inherit_nothing(monkeypatch):
    assert printed(monkeypatch, "", None) == [TIMEOUT, "None", "True"]


def test_a_timeout_of_the_user_is_kept(monkeypatch):
    assert printed(monkeypatch, "", "4") == ["4", "4", "True"]


def test_nothing_is_set_for_a_program_that_has_imported_numpy_itself(monkeypatch):
    assert printed(monkeypatch, "import numpy", None) == ["None", "True"]


def test_a_value_that_the_program_sets_during_the_import_is_kept(monkeypatch):
    sets = NUMPY.replace("print(os.environ.get({timeout!r}))\n\n", "os.environ[{timeout!r}] = '26'\n\n", 1)
    assert sets != NUMPY
    assert printed(monkeypatch, "", None, sets) == ["26", "True"]


MISSING = """
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise ImportError("no numpy here")

sys.meta_path.insert(0, Missing())
try:
    import_with_numpy(DECODER)
except ImportError as error:
    print(error)
"""


def test_the_environment_is_restored_if_numpy_is_missing(monkeypatch):
    imports = "import_with_numpy(DECODER)\nimport_with_numpy(DECODER)\n"
    script = NUMPY.replace(imports, MISSING)
    assert printed(monkeypatch, "", None, script) == ["no", "numpy", "here", "None", "False"]
