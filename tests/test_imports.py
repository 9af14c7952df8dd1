"""Imports that an exception in the main thread cannot leave half done."""

import signal
import subprocess
import sys

import pytest

from thinconsumer.broker import BrokerProcess
from thinconsumer.imports import import_uninterrupted

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
