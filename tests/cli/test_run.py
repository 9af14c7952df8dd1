"""Exit codes and one-line errors of the command line."""

import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

import thinconsumer
from thinconsumer import CorruptRecordError, TopicPartition
from thinconsumer.cli import main
from thinconsumer.cli.run import COMMANDS

ROOT = Path(__file__).parents[2]
UNREACHABLE = ("--bootstrap-server", "127.0.0.1:1", "--property", "bootstrap.timeout.ms=50")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_the_overview_names_every_command(capsys, words):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert all(f"  {name}" in out for name in COMMANDS)
    assert err == ""


def test_without_a_command_the_overview_goes_to_standard_error(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage" in err


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"thinconsumer {thinconsumer.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(capsys, name):
    with pytest.raises(SystemExit) as ending:
        main([name, "--help"])
    assert ending.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: python -m thinconsumer {name}")
    assert "--debug" in out


@pytest.mark.parametrize(
    ("started_as", "name"),
    [("/usr/bin/thinconsumer", "thinconsumer"), ("thinconsumer.exe", "thinconsumer"), ("-c", "python -m thinconsumer")],
)
def test_usage_names_the_command_as_it_was_started(started_as, name):
    """As the script that installers make of the entry point, which is called as here."""
    entry = re.search(r'^thinconsumer = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    code = f"import sys; from {entry[1]} import {entry[2]}; sys.argv[:1] = [{started_as!r}]; sys.exit({entry[2]}())"
    for words, start in ((["--help"], "usage: "), (["groups", "lst"], "")):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert (done.stdout + done.stderr).startswith(f"{start}{name} ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["consum"], "no command 'consum'; did you mean 'consume'?"),
        (["zzz"], "no command 'zzz' (commands: demo,"),
        (["consume", "orders", "--untilend"], "did you mean '--until-end'?"),
        (["consume", "orders", "--property", "fetch.min.byte=1"], "did you mean 'fetch.min.bytes'?"),
        (["consume", "orders", "--property", "fetch.min.bytes=many"], "fetch.min.bytes"),
        (["consume", "orders", "--bootstrap-server", "a:b:c"], "bootstrap.servers"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(fail, words, said):
    code, err = fail(*words)
    assert code == 2 and said in err


def test_a_failure_exits_with_1_and_one_line_with_advice(fail):
    code, err = fail("consume", "orders", *UNREACHABLE)
    assert code == 1 and err.startswith("error: no broker could be reached")
    assert "127.0.0.1:1: connection refused" in err
    assert "Is --bootstrap-server right?" in err


def test_debug_shows_the_traceback(commands):
    code, out, err = commands.run("consume", "orders", *UNREACHABLE, "--debug")
    assert code == 1
    assert out == ""
    assert "Traceback" in err
    assert "NoBrokersAvailable" in err


def test_ctrl_c_exits_with_130_at_once_and_silently(commands):
    """Also while connecting to the first broker."""
    # Ctrl-C between two statements of the standard library may leave a file open, about which Python warns.
    child = commands.start(
        "consume", "orders", "--progress", "--bootstrap-server", "127.0.0.1:1", warnings="ignore::ResourceWarning"
    )
    assert "connecting" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = child.communicate(timeout=50)
    assert child.returncode == 130
    assert time.monotonic() - started < 4  # bootstrap_timeout_ms is 5000
    assert (out, err) == ("", "")


def test_a_wrapped_ctrl_c_exits_with_130(capsys, monkeypatch):
    """Python wraps an interrupt in RuntimeError while it creates a class, during an import for example."""

    def run(options):
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    command = types.ModuleType("thinconsumer.cli.topics")
    command.describe, command.run = lambda parser: None, run
    monkeypatch.setitem(sys.modules, command.__name__, command)
    assert main(["topics"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_closed_pipe_exits_with_141_and_silently(commands):
    """``head`` closes the pipe before everything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    child = commands.start("--help", stdout=writing)
    os.close(writing)
    _, err = child.communicate(timeout=50)
    assert child.returncode == 141
    assert err == ""


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_is_replaced_by_the_null_device(commands, closed):
    """``>&-``: the stream is None in Python, and the next socket would get its descriptor."""
    code = (
        f"import os, sys; os.close({closed}); sys.argv[0] = '-m'; "
        "os.execv(sys.executable, [sys.executable, '-W', 'error', '-m', 'thinconsumer', *sys.argv[1:]])"
    )
    words = ["consume", "orders", "--bootstrap-server", "127.0.0.1:1", "--property", "bootstrap.timeout.ms=50"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=commands.folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: no broker could be reached") == (closed != 2)
    assert done.stderr.count("\n") == (closed != 2)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["consume", "orders"], "Skip the record with --from"),
        (["consume", "orders", "--group", "billing"], "Skip the record: Consumer.commit() an offset"),
        (["consume", "orders", "--group=billing"], "Skip the record: Consumer.commit() an offset"),
    ],
)
def test_the_advice_for_a_corrupt_record_depends_on_the_group(monkeypatch, capsys, words, advice):
    """A group starts at its committed offset, so that --from would not skip the record."""

    def run(options):
        raise CorruptRecordError("corrupt batch", TopicPartition("orders", 0), 7, 8)

    monkeypatch.setattr("thinconsumer.cli.consume.run", run)
    assert main(words) == 1
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize("name", ["demo", "broker"])
@pytest.mark.usefixtures("without_testing")
def test_a_command_of_thinconsumer_testing_names_what_installs_it(fail, name):
    code, err = fail(name)
    assert code == 2 and err.endswith("pip install thinconsumer-testing\n")
