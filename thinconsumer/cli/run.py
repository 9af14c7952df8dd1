"""From the words of a command line to an exit code: which command, and how each way of ending looks.

====  ====================================================================
code  meaning
====  ====================================================================
0     done
1     it failed: one line on standard error says what, where, and what next
2     it was called wrongly, and nothing was done
130   Ctrl-C
141   whoever read the output (``head``) has seen enough
====  ====================================================================
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from .._version import __version__
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
from .parsing import PROGRAM, Failure, Parser, UsageError, did_you_mean

#: Each is a module here with ``describe(parser)`` and ``run(options)``.
COMMANDS: Mapping[str, str] = {
    "demo": "see it work: a cluster, a producer, a consumer and a crash, all on this machine",
    "consume": "read topics, as lines of text or of JSON",
    "produce": "write lines to a topic",
    "topics": "list, describe, create, delete and expand topics",
    "groups": "list, describe and delete consumer groups, and see their lag",
    "broker": "run a Kafka cluster for tests and trials, in memory or in a folder",
}
OK, FAILED, MISUSED, INTERRUPTED, UNHEARD = 0, 1, 2, 130, 141

#: What to do about it, where the error itself does not know that it met a command line. The first that fits.
NEXT: Sequence[tuple[type[KafkaError], str]] = (
    (NoBrokersAvailable, f"Is --bootstrap-server right? '{PROGRAM} broker' starts a cluster to try things with"),
    (UnknownTopicOrPartitionError, f"'{PROGRAM} topics list' shows what there is"),
    (OffsetOutOfRangeError, "Choose another place with --from"),
    (UnsupportedCodecError, "Install it, or go on behind it with --from"),
    (RecordError, "Go on behind it with --from"),
    (KafkaTimeoutError, "Try again, or look at the brokers' logs"),
)
#: The same for a member of a group, which goes on where the group has committed, whatever --from says.
NEXT_IN_GROUP: Sequence[tuple[type[KafkaError], str]] = (
    (UnsupportedCodecError, "Install it, or have the group go on behind it: Consumer.commit() an offset behind it"),
    (RecordError, "Have the group go on behind it: Consumer.commit() an offset behind it"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_debugging = "--debug" in words
    _replace_closed_streams()
    _set_up_logging(is_debugging)
    try:
        try:
            code = _run(words)
            sys.stdout.flush()
        except Exception as error:
            if _is_of_an_interrupt(error):
                raise KeyboardInterrupt from error
            if is_debugging or isinstance(error, (UsageError, BrokenPipeError)):
                raise
            code = _failed(error, words)
            if isinstance(error, OSError) and not isinstance(error, KafkaError):
                _drop_output()  # what could not be written would be tried once more, and make the code another one
    except UsageError as error:
        _say(str(error))
        code = MISUSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = UNHEARD
    return code


def _is_of_an_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is behind it: Python wraps what comes up while it makes a class, in an import for one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _replace_closed_streams() -> None:
    """Let nothing be read or written where the shell has closed a stream (``>&-``): Python has None there then.

    Without that the first socket would get the number of the closed one, and what is printed would be sent to a broker.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - for as long as we are here
            setattr(sys, name, stream)
            atexit.register(stream.close)


def _drop_output() -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more when it ends, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overview() -> str:
    """Return what ``--help`` without a command says."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {words}" for name, words in COMMANDS.items())
    return (
        f"usage: {PROGRAM} COMMAND [OPTIONS]\n\n{rows}\n\n"
        f"'{PROGRAM} COMMAND --help' says more. thinconsumer {__version__}\n"
    )


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        (sys.stdout if words else sys.stderr).write(overview())
        return OK if words else MISUSED
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"thinconsumer {__version__}\n")
        return OK
    name = words[0]
    if name not in COMMANDS:
        raise UsageError(f"{PROGRAM}: no command {name!r}{did_you_mean(name, COMMANDS)} (it has {', '.join(COMMANDS)})")
    command: ModuleType = importlib.import_module(f".{name}", __package__)
    parser = Parser(prog=f"{PROGRAM} {name}", description=command.__doc__)
    command.describe(parser)
    options = parser.parse(words[1:])
    try:
        return int(command.run(options))
    except (KafkaConfigurationError, UsageError) as error:
        raise UsageError(f"{parser.prog}: {error}") from error


def _failed(error: Exception, command: Sequence[str]) -> int:
    words = " ".join(str(error).split())
    if not isinstance(error, (KafkaError, Failure, OSError)):
        words = f"{error!r}, which is a bug of ours: please report it, with what --debug shows"
    in_group = any(word.partition("=")[0] == "--group" for word in command)
    rows = (*NEXT_IN_GROUP, *NEXT) if in_group else NEXT
    advice = next((text for kind, text in rows if isinstance(error, kind)), "")
    if isinstance(error, BrokerResponseError) and not advice:
        advice = "It may work later: try again" if error.retriable else ""
    _say(f"error: {words}{'. ' + advice if advice else ''}")
    return FAILED


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody listens any more


def _set_up_logging(is_debugging: bool) -> None:
    log = logging.getLogger("thinconsumer")
    if is_debugging:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
    elif not log.handlers:
        # Without one, Python prints every warning: among them all that will be said again, and better, as the error.
        log.addHandler(logging.NullHandler())
