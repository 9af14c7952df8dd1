"""Programs with a timer that ticks a thousand times a second, beside alarms, C libraries, imports and log files."""

import re
import signal
import subprocess
import sys
import textwrap

import pytest

from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = [pytest.mark.once, pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")]

#: What each program begins with: a member of a group that has its partitions.
PRELUDE = """
import ctypes, logging, os, signal, socket, sys, time
from thinconsumer import Consumer
from thinconsumer.consumer import keep_alive

keep_alive.PERIOD_S, keep_alive.REST = {period}, 1
steps = []
step, tick = keep_alive._step, keep_alive._keeper._tick
keep_alive._step = lambda core: (steps.append(time.monotonic()), step(core))
consumer = Consumer(
    "t", bootstrap_servers=sys.argv[1], group_id=sys.argv[2], session_timeout_ms=30_000, heartbeat_interval_ms=100,
    auto_offset_reset="earliest",
)
while not consumer.assignment():
    consumer.poll(100)
group = consumer.group_metadata()
"""
#: What each program ends with: the member is still the same, and its records come.
CODA = """
assert signal.getsignal(signal.SIGALRM) is not keep_alive._keeper._timer._handler
assert consumer.poll(0) is not None and consumer.group_metadata() == group, (group, consumer.group_metadata())
consumer.close()
print("steps", len(steps))
"""


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(nodes=1, topics={"t": 1}) as found:
        found.produce("t", [b"x"] * 100)
        yield found


@pytest.fixture
def run(broker, request, tmp_path):
    """Return a function that runs a program, and returns what it prints and its return code."""

    def run_one(program, period=0.001, coda=CODA):
        source = PRELUDE.format(period=period) + textwrap.dedent(program) + coda
        command = [sys.executable, "-c", source, broker.bootstrap_servers, request.node.name]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
        return ended.stdout, ended.stderr, ended.returncode

    return run_one


def checked(ended, steps=1):
    """Return what a program has printed that has ended well, with at least so many steps by the timer."""
    output, errors, code = ended
    assert code == 0, errors
    assert int(re.search(r"steps (\d+)", output)[1]) >= steps, output
    return output


def test_computing_and_sleeping(run):
    output = checked(run("""
        with consumer.keep_alive():
            end, count = time.monotonic() + 0.5, 0
            while time.monotonic() < end:
                count += 1
            before = len(steps)
            began = time.monotonic()
            time.sleep(0.5)
            assert 0.5 <= time.monotonic() - began
        assert 0 < before < len(steps)
    """), 10)  # fmt: skip
    assert output


def test_an_alarm_of_the_program_comes_at_its_time_and_its_handler_may_raise(run):
    checked(run("""
        def handler(number, frame):
            raise TimeoutError(time.monotonic() - began)

        with consumer.keep_alive():
            time.sleep(0.3)
        signal.signal(signal.SIGALRM, handler)
        for length in (0.3, 0.6):
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.4)
            try:
                with consumer.keep_alive():
                    time.sleep(length)
                time.sleep(0.3)
            except TimeoutError as error:
                assert 0.39 < error.args[0], error
            else:
                raise AssertionError("no alarm")
        assert signal.getsignal(signal.SIGALRM) is handler and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    """))  # fmt: skip


def test_an_alarm_without_a_handler_ends_the_process(run):
    _, _, code = run("""
        signal.alarm(1)
        with consumer.keep_alive():
            time.sleep(10)
    """)
    assert code == -signal.SIGALRM


def test_a_c_library_that_blocks_in_read(run):
    """One that returns at EINTR tells the program so; Python's own functions repeat the call."""
    checked(run("""
        reader, writer = os.pipe()
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(1)
        with consumer.keep_alive():
            assert libc.read(reader, buffer, 1) == -1 and ctypes.get_errno() == 4, "EINTR"
            before = len(steps)
            child = os.fork()
            if child == 0:
                time.sleep(0.3)
                os.write(writer, b"x")
                os._exit(0)
            assert os.read(reader, 1) == b"x"
            assert os.waitpid(child, 0) == (child, 0)
        assert len(steps) > before
    """, period=0.01))  # fmt: skip


def test_imports_and_log_files(run, tmp_path):
    """Modules are imported with locks held, and a logging handler is entered again by a line from a signal handler."""
    for number in range(120):
        (tmp_path / f"some_module_{number}.py").write_text("import logging\nx = [n for n in range(2000)]\n")
    checked(run("""
        import importlib, threading
        sys.path.insert(0, ".")
        logging.basicConfig(filename="log", level=logging.DEBUG)
        log = logging.getLogger("program")
        end = threading.Event()

        def other():
            while not end.is_set():
                log.info("other")
                time.sleep(0.0005)

        thread = threading.Thread(target=other)
        thread.start()
        with consumer.keep_alive():
            for connection in list(consumer._shell.driver._connections.values()):
                socket.socket(fileno=os.dup(connection._fd)).shutdown(socket.SHUT_RDWR)
            time.sleep(0.5)
            for number in range(120):
                importlib.import_module(f"some_module_{number}")
                for _ in range(20):
                    log.info("line %d", number)
        end.set()
        thread.join()
        lines = open("log").read().splitlines()
        assert sum(line.startswith("INFO:program:line") for line in lines) == 2400
        assert all(line.startswith(("INFO:", "DEBUG:", "WARNING:")) for line in lines)
        assert any(":thinconsumer." in line for line in lines), "held, and written at the end"
    """))  # fmt: skip


def test_a_step_imports_nothing(run):
    """Also when connections are made again; the audit hook sees each module that is not loaded yet."""
    checked(run("""
        imported = []

        def hook(event, args):
            frame = sys._getframe() if event == "import" else None
            while frame is not None:
                if frame.f_code is keep_alive._step.__code__:
                    imported.append(args[0])
                    return
                frame = frame.f_back

        sys.addaudithook(hook)
        with consumer.keep_alive():
            time.sleep(0.3)
            for connection in list(consumer._shell.driver._connections.values()):
                socket.socket(fileno=os.dup(connection._fd)).shutdown(socket.SHUT_RDWR)
            time.sleep(0.7)
            made = consumer.metrics()["consumer-metrics"]["connection-creation-total"]
        assert not imported, imported
        assert made > 3, "connections were made again"
    """, period=0.01), 5)  # fmt: skip


def test_processes_that_are_forked_in_a_block(run):
    checked(run("""
        import concurrent.futures, multiprocessing
        context = multiprocessing.get_context("fork")
        with consumer.keep_alive():
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                assert sum(pool.map(abs, range(-300, 0))) == 45150
            import subprocess
            assert subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3)"]).returncode == 0
    """, period=0.005))  # fmt: skip


def test_a_block_that_is_never_left_does_not_end_the_process(run):
    _, errors, code = run(
        """
        def generator():
            with consumer.keep_alive():
                yield

        kept = generator()
        next(kept)
        sys.modules["somewhere"] = kept
        del kept  # the end of the process closes the generator
        print("steps 1")
        """,
        coda="",
    )
    assert code == 0 and "SIGALRM" not in errors, errors


def test_garbage_collection_may_end_blocks_at_any_time(run):
    """Also in the signal handler: the timer, set again after its handler was put back, would end the process."""
    checked(run("""
        import gc

        class Cycle:
            pass

        def generator():
            with consumer.keep_alive():
                yield

        def step_and_collect(core):
            step(core)
            gc.collect()

        counting = keep_alive._step
        for each in (step_and_collect, counting):
            keep_alive._step = each
            gc.set_threshold(5, 2, 2)
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                cycle = Cycle()
                cycle.self, cycle.generator = cycle, generator()
                next(cycle.generator)
                del cycle
                for _ in range(2000):
                    pass
        gc.collect()
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    """), steps=0)  # fmt: skip


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_block_in_the_thread_of_an_event_loop(run, loop):
    """It works, unless the loop handles signals: then ticks could make it lose others."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    output = checked(run(f"""
        import asyncio, {loop}
        from thinconsumer import IllegalStateError

        async def main():
            with consumer.keep_alive():
                await asyncio.gather(asyncio.sleep(0.3), asyncio.to_thread(time.sleep, 0.2))
                time.sleep(0.3)
            print("worked")
            heard = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.set)
            try:
                with consumer.keep_alive():
                    pass
            except IllegalStateError as error:
                print(error)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(heard.wait(), 10)

        try:
            {loop}.run(main())
        except IllegalStateError as error:
            assert {loop == "uvloop"}
            print(error, "steps 1")
    """, period=0.01), 0)  # fmt: skip
    assert "an event loop of this thread handles signals" in output
    assert "worked" in output or loop == "uvloop"
