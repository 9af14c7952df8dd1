"""Run one command and return its exit code.

====  ==========================================================================
code  meaning
====  ==========================================================================
0     success
1     failure: standard error says what failed, and where
2     wrong usage; nothing was done
130   Ctrl-C
141   the reader of standard output (such as ``head``) closed the pipe
143   SIGTERM: ``consume`` in a group and ``mirror`` commit and leave the group first.
      Other commands end at once, by the signal. ``broker`` closes, and returns 0
====  ==========================================================================
"""

import argparse
import atexit
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from .._version import __version__
from ..config.kinds import did_you_mean
from ..errors import (
    BrokerResponseError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    OffsetOutOfRangeError,
    RecordError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
)
from ..support.imports import TESTING, import_testing
from .parsing import CLUSTER_ADVICE, PROGRAM, CommandError, Parser, UsageError

#: The help text of each command. A command is a module of this package or of ``thinconsumer_testing.cli``. Its
#: ``describe(parser)`` adds the options; its ``run(options)``, or the function of an action, returns the exit code.
COMMANDS: Mapping[str, str] = {
    "demo": "show a cluster, a producer, a consumer and a broker crash, all on this machine",
    "consume": "read topics, as lines of text or JSON",
    "produce": "write lines to a topic",
    "mirror": "copy topics to another cluster, batch by batch",
    "topics": "list, describe, create, delete, expand and shrink topics",
    "groups": "list, describe, reset and delete consumer groups, and show their lag",
    "top": "show groups live: members, lag, rates, time to catch up",
    "migrate": "print what to change in programs for kafka-python, confluent-kafka or aiokafka",
    "replay": "run the consumer again with a trace of it",
    "broker": "run a Kafka cluster for tests and trials, in memory or in a folder",
}
#: The commands that the distribution thinconsumer-testing installs.
OF_TESTING = frozenset(("demo", "broker"))
OK, FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141

#: Advice to print by error type; the first match counts.
ADVICE: Sequence[tuple[type[KafkaError], str]] = (
    (NoBrokersAvailable, CLUSTER_ADVICE),
    (UnknownTopicOrPartitionError, f"'{PROGRAM} topics list' shows the existing topics"),
    (OffsetOutOfRangeError, "Choose another start with --from"),
    (UnsupportedCodecError, "Install it, or skip the record with --from"),
    (RecordError, "Skip the record with --from"),
    (KafkaTimeoutError, "Try again, or look at the brokers' logs"),
)
#: Other advice for group members: where the group has committed an offset, --from has no effect.
GROUP_ADVICE: Sequence[tuple[type[KafkaError], str]] = (
    (UnsupportedCodecError, "Install it, or skip the record: Consumer.commit() an offset behind it for the group"),
    (RecordError, "Skip the record: Consumer.commit() an offset behind it for the group"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace(debug="--debug" in words)
    _replace_closed_streams()
    _set_up_logging(options.debug)
    try:
        try:
            code = _run(words, options)
            sys.stdout.flush()
        except Exception as error:
            if _is_from_interrupt(error):
                raise KeyboardInterrupt from error
            if options.debug or isinstance(error, (UsageError, BrokenPipeError)):
                raise
            code = _report_failure(error, in_group=getattr(options, "group", None) is not None)
            if isinstance(error, OSError) and not isinstance(error, KafkaError):
                _drop_output()
    except UsageError as error:
        _print_error(str(error))
        code = MISUSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = PIPE_CLOSED
    return code


def _is_from_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused the error: Python wraps a KeyboardInterrupt that occurs while it creates a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _replace_closed_streams() -> None:
    """Open the null device for each standard stream that the shell has closed (``>&-``), which is None in Python.

    Otherwise the first socket would get the closed descriptor, and printed text would be sent to a broker.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - open until the program ends
            setattr(sys, name, stream)
            atexit.register(stream.close)


def _drop_output() -> None:
    """Discard buffered output: otherwise Python may fail to flush it at exit, and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overview() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {words}" for name, words in COMMANDS.items())
    return (
        f"usage: {PROGRAM} COMMAND [OPTIONS]\n\n{rows}\n\n"
        f"'{PROGRAM} COMMAND --help' shows its options. thinconsumer {__version__}\n"
    )


def _run(words: list[str], options: argparse.Namespace) -> int:
    """Run the command that ``words`` name. Its options are put into ``options``, where :func:`main` finds them."""
    if not words or words[0] in ("-h", "--help", "help"):
        (sys.stdout if words else sys.stderr).write(overview())
        return OK if words else MISUSED
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"thinconsumer {__version__}\n")
        return OK
    name, known = words[0], ", ".join(COMMANDS)
    if name not in COMMANDS:
        raise UsageError(f"{PROGRAM}: no command {name!r}{did_you_mean(name, COMMANDS)} (commands: {known})")
    command = _command(name)
    parser = Parser(prog=f"{PROGRAM} {name}", description=command.__doc__)
    command.describe(parser)
    parser.parse(words[1:], options)
    try:
        run = options.run if parser.actions else command.run
        return int(run(options))
    except (KafkaConfigurationError, UsageError) as error:
        raise UsageError(f"{options.prog if parser.actions else parser.prog}: {error}") from error


def _command(name: str) -> ModuleType:
    """Return the module of a command; raise UsageError if its distribution is not installed."""
    if name not in OF_TESTING:
        return importlib.import_module(f".{name}", __package__)
    try:
        command: ModuleType = import_testing(f"{TESTING}.cli.{name}")
    except ImportError as error:
        if error.name != TESTING:
            raise
        raise UsageError(f"{PROGRAM} {name}: {error}") from None
    return command


def _report_failure(error: Exception, *, in_group: bool) -> int:
    text = " ".join(str(error).split())
    if not isinstance(error, (KafkaError, CommandError, OSError)):
        text = f"{error!r}: this is a bug in thinconsumer; please report it with the output of --debug"
    rows = (*GROUP_ADVICE, *ADVICE) if in_group else ADVICE
    advice = next((words for kind, words in rows if isinstance(error, kind)), "")
    if isinstance(error, BrokerResponseError) and not advice:
        advice = "Try again later" if error.retriable else ""
    _print_error(f"error: {text}{'. ' + advice if advice else ''}")
    return FAILED


def _print_error(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # standard error is closed, so the error cannot be printed


def _set_up_logging(is_debugging: bool) -> None:
    if is_debugging:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
        return
    for log in map(logging.getLogger, ("thinconsumer", TESTING)):
        # Without a handler, Python would print all warnings on standard error, in addition to the final error.
        if not log.handlers:
            log.addHandler(logging.NullHandler())
