"""Run the consumer again with a trace, and print where it does something else."""

from __future__ import annotations

import argparse
import sys

from .._version import __version__
from ..replay import TraceError, read_trace, replay
from .parsing import CommandError, Parser


def describe(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace that a RecordingConsumer has written")
    parser.add_argument("--calls", action="store_true", help="print the public calls, and what polls find")


def run(options: argparse.Namespace) -> int:
    try:
        if options.calls:
            _print_calls(options.file)
        done = replay(options.file)
    except (TraceError, OSError) as error:
        raise CommandError(str(error)) from error
    words = f"{done.events} events, {done.calls} calls, {done.requests} requests, {done.records} records"
    if done.divergence is None:
        sys.stdout.write(f"the same as in the trace: {words}\n")
        return 0
    sys.stdout.write(f"the same up to {words}; then {done.divergence}\n")
    if done.recorded_by != __version__:
        sys.stderr.write(f"the trace is of version {done.recorded_by}, this is {__version__}\n")
    return 1


def _print_calls(path: str) -> None:
    for place, (event, _) in enumerate(read_trace(path)):
        if isinstance(event, list) and event[0] in ("call", "found", "bad"):
            sys.stdout.write(" ".join(map(str, [place, *event])) + "\n")
