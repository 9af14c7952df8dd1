"""Run the consumer again with a trace, print what has happened, and where it does something else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .._version import __version__
from ..replay import TraceError
from ..replay.page import page
from ..replay.telling import Condition, Telling, condition, line_of, tell
from .parsing import CommandError, Parser

#: The kinds of happenings that --calls leaves.
_OF_CALLS = ("call", "returned", "user", "record error", "divergence")


def describe(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace that a RecordingConsumer has written")
    parser.add_argument("--calls", action="store_true", help="print only the public calls, and what they return")
    parser.add_argument(
        "--until",
        metavar="CONDITION",
        type=_condition,
        help="stop there and print the state of the client: rebalance, assigned, revoked, error, the number of an"
        " event, TOPIC-PARTITION:OFFSET, or a request such as JoinGroup",
    )
    parser.add_argument("--html", metavar="PAGE", help="write a page that shows all of it, and print only the end")


def _condition(text: str) -> Condition:
    try:
        return condition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    try:
        told = tell(options.file, options.until)
        if options.html is not None:
            Path(options.html).write_text(page(told.story), encoding="utf-8")
    except (TraceError, OSError) as error:
        raise CommandError(str(error)) from error
    if options.html is None:
        lines = (one for one in told.story.happenings if not options.calls or one.kind in _OF_CALLS)
        sys.stdout.writelines(f"{line_of(one)}\n" for one in lines)
    sys.stdout.writelines(f"{line}\n" for line in told.state)
    return 0 if told.state else _compare(told, is_bounded=options.until is not None)


def _compare(told: Telling, *, is_bounded: bool) -> int:
    """Print how much was the same; return the exit code."""
    done = told.replayed
    assert done is not None, "it was not stopped"
    words = f"{done.events} events, {done.calls} calls, {done.requests} requests, {done.records} records"
    if done.divergence is None:
        sys.stdout.write(f"the same as in the trace: {words}\n")
        if is_bounded:
            sys.stderr.write("the condition of --until was never true\n")
        return 1 if is_bounded else 0
    sys.stdout.write(f"the same up to {words}; then {done.divergence}\n")
    if done.recorded_by != __version__:
        sys.stderr.write(f"the trace is of version {done.recorded_by}, this is {__version__}\n")
    return 1
