"""Handlers that worker processes import."""

import os
import signal
import sys
import time
from pathlib import Path


def log_record(record):
    """Append the record to the file that its header names."""
    with Path(dict(record.headers)["log"].decode()).open("a") as log:
        log.write(f"{os.getpid()} {record.partition} {record.offset} {record.key.decode()} {record.value}\n")


def log_slowly(record):
    time.sleep(0.01)
    log_record(record)


def kill_once(record):
    """Kill the process at the value 13, unless its marker file exists."""
    marker = Path(dict(record.headers)["log"].decode() + ".killed")
    if record.value == 13 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), 9)
    log_record(record)


def kill_always(record):
    if record.value == 13:
        os._exit(3)
    log_record(record)


def fail(record):
    if record.value == 13:
        raise ValueError("thirteen")
    log_record(record)


def double(record):
    if record.value == 13:
        raise ValueError("thirteen")
    return 2 * record.value


def log_very_slowly(record):
    time.sleep(0.05)
    log_record(record)


def interrupt_and_name_sockets(record):
    """Send this process a Ctrl-C, and write down how many sockets it has."""
    os.kill(os.getpid(), signal.SIGINT)
    log_record(record)
    if record.value == 13 and sys.platform == "linux":
        sockets = [each for each in Path("/proc/self/fd").iterdir() if "socket:" in os.path.realpath(each)]
        Path(dict(record.headers)["log"].decode() + ".sockets").write_text(str(len(sockets)))


def log_trace(record):
    """Append the trace in which this is called to the file that the record's header names, if it has one."""
    from opentelemetry import trace  # the other handlers do without

    if log := dict(record.headers).get("trace-log"):
        with Path(log.decode()).open("a") as file:
            file.write(f"{trace.get_current_span().get_span_context().trace_id}\n")


class Coroutine:
    """An object to call like a coroutine function, which ``iscoroutinefunction`` does not know."""

    async def __call__(self, record):
        log_record(record)


def do(record):
    """Sleep for so many seconds as the value says, or kill the process."""
    if record.value == b"kill":
        os._exit(3)
    time.sleep(float(record.value))
