"""Log records are held, and written later as they would have been."""

import logging
import threading
import time

import pytest

from thinconsumer.support import held_logs
from thinconsumer.support.held_logs import HeldLogs

log = logging.getLogger("thinconsumer.something")


@pytest.fixture
def written(caplog):
    caplog.set_level(logging.INFO, "thinconsumer")
    return lambda: caplog.records


def test_records_wait_and_keep_their_time_and_place(written):
    held = HeldLogs()
    with held:
        log.info("one %s", 1)
        try:
            raise KeyError("k")
        except KeyError:
            log.exception("two")
        before = time.time()
        held.write()
        log.debug("not enabled")
    assert written() == []
    time.sleep(0.01)
    held.write()
    one, two = written()
    assert one.getMessage() == "one 1" and one.created <= before and two.exc_info[0] is KeyError
    assert one.funcName == "test_records_wait_and_keep_their_time_and_place" and one.filename == "test_held_logs.py"
    assert 0 <= one.msecs < 1000
    held.write()
    log.info("three")
    assert len(written()) == 3 and "_log" not in vars(log)


def test_a_logger_is_enabled_as_ever(written, monkeypatch):
    with HeldLogs():
        assert log.isEnabledFor(logging.INFO) and not log.isEnabledFor(logging.DEBUG)
        logging.disable(logging.INFO)
        try:
            assert not log.isEnabledFor(logging.INFO) and log.isEnabledFor(logging.ERROR)
        finally:
            logging.disable(logging.NOTSET)


def test_other_threads_and_other_packages_log_at_once(written):
    held = HeldLogs()
    with held:
        thread = threading.Thread(target=log.info, args=("from a thread",))
        thread.start()
        thread.join()
        logging.getLogger("someone").warning("else")
    assert [record.getMessage() for record in written()] == ["from a thread", "else"]


def test_no_lock_of_a_handler_is_taken(written, caplog):
    """Another thread has it while this one logs."""
    taken, done = threading.Event(), threading.Event()

    def hold():
        with caplog.handler.lock:
            taken.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(20)
    held = HeldLogs()
    with held:
        log.info("held")
    done.set()
    thread.join()
    held.write()
    assert [record.getMessage() for record in written()] == ["held"]


def test_too_many_are_counted(written, monkeypatch):
    monkeypatch.setattr(held_logs, "HELD_MAX", 3)
    held = HeldLogs()
    with held:
        for number in range(5):
            log.info("%d", number)
    held.write()
    assert [record.getMessage() for record in written()][:3] == ["0", "1", "2"]
    assert "2 further records were dropped" in written()[3].getMessage()
