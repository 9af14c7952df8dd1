"""Shared by the commands: a parser with one-line errors, argument types, and common options.

``--command-config FILE`` has client options in a properties file, as Kafka's own tools take them: in the format of
``java.util.Properties``.

The parser differs from argparse's: errors suggest similar names and do not print the usage, and options cannot be
abbreviated, since an abbreviation becomes ambiguous when a command gets a new option.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from ..config import OPTIONS, Option
from ..config.kinds import did_you_mean
from ..config.values import parse_duration_ms

#: How the user has started the command: as the installed script, or as a module.
PROGRAM = "thinconsumer" if Path(*sys.argv[:1]).stem == "thinconsumer" else "python -m thinconsumer"
CLUSTER_ADVICE = f"Is --bootstrap-server right? '{PROGRAM} broker' starts a cluster to try things with"

V = TypeVar("V")

LOCAL = "localhost:9092"
#: Shorter than the defaults of clients, since a user waits for the error.
BOOTSTRAP_TIMEOUT_MS = 5_000
API_TIMEOUT_MS = 15_000


class UsageError(Exception):
    """The command line is wrong. The command has done nothing."""


class CommandError(Exception):
    """A command failed. The message says what failed, and where."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises errors of one line; only ``--help`` ends the program."""

    def __init__(self, *, prog: str, description: str | None = None) -> None:
        super().__init__(
            prog=prog, description=description, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.actions: dict[str, Parser] = {}  #: Parsers by action, such as ``list``.
        self.add_argument("--debug", action="store_true", help="log debug messages, and show the traceback of an error")

    def parse(self, words: Sequence[str], options: argparse.Namespace | None = None) -> argparse.Namespace:
        """Return the parsed options, in ``options`` if given; raise UsageError if one is unknown, missing or wrong."""
        if self.actions and not set(words[:1]) & {"-h", "--help"}:
            return self._parse_action(words, options)
        parsed, rest = self.parse_known_args(list(words), options or argparse.Namespace())
        for word in rest:
            name = word.partition("=")[0]
            if name.startswith("-"):
                self.error(f"no option {name}{did_you_mean(name, self._option_string_actions)}")
            self.error(f"unexpected argument {word!r}")
        return parsed

    def _parse_action(self, words: Sequence[str], options: argparse.Namespace | None) -> argparse.Namespace:
        known = ", ".join(self.actions)
        if not words:
            self.error(f"an action is missing: {known}")
        name = words[0]
        if name not in self.actions:
            self.error(f"no action {name!r}{did_you_mean(name, self.actions)} (actions: {known})")
        return self.actions[name].parse(words[1:], options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; '{self.prog} --help' shows the options")


def add_action(
    parser: Parser, run: Callable[[argparse.Namespace], int], words: str, *, has_rows: bool = False
) -> Parser:
    """Add an action, named after its function (``list`` for ``_list``); return its parser. ``has_rows`` adds --json."""
    name = run.__name__.strip("_").replace("_", "-")
    action = parser.actions[name] = Parser(prog=f"{parser.prog} {name}", description=words)
    action.set_defaults(run=run, prog=action.prog)
    add_cluster(action)
    if has_rows:
        action.add_argument("--json", action="store_true", help="print a JSON object per row")
    rows = "\n".join(f"  {name:<16}{action.description}" for name, action in parser.actions.items())
    parser.usage = f"{parser.prog} ACTION [OPTIONS]"
    parser.epilog = f"actions (ACTION --help shows the options of each):\n{rows}"
    return action


def one_of(*words: str) -> Callable[[str], str]:
    """Return an argument type for one of several words. The error suggests a similar word."""

    def parse(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}{did_you_mean(text, words)}")
        return text

    return parse


class PartitionsOf(NamedTuple):
    """A topic and the numbers of some of its partitions; None: all of its partitions."""

    topic: str
    numbers: tuple[int, ...] | None


def topic_and_partitions(text: str) -> PartitionsOf:
    """Parse ``orders``, ``orders:0`` or ``orders:0,3-5``."""
    topic, colon, list_ = text.partition(":")
    if not topic:
        raise argparse.ArgumentTypeError(f"{text!r} names no topic")
    if not colon:
        return PartitionsOf(topic, None)
    numbers: set[int] = set()
    for part in list_.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r}: write partitions as TOPIC:0,3-5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise argparse.ArgumentTypeError(f"{text!r}: the range {part} ends before it begins")
        numbers |= set(range(first, last + 1))
    return PartitionsOf(topic, tuple(sorted(numbers)))


def topic_and_count(text: str, *, needs_count: bool = False) -> tuple[str, int]:
    """Parse ``orders:6``, or ``orders`` as one partition; with ``needs_count``, ``orders`` is an error."""
    topic, colon, count = text.partition(":")
    if needs_count and not colon:
        raise argparse.ArgumentTypeError(f"{text!r}: write TOPIC:PARTITIONS, such as {text}:6")
    if not topic or (colon and not (count.isdecimal() and int(count) > 0)):
        raise argparse.ArgumentTypeError(f"{text!r}: write TOPIC or TOPIC:PARTITIONS, such as orders:6")
    return topic, int(count) if colon else 1


def require_distinct(topics: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Return the topics; raise UsageError if two have the same name."""
    for name, times in Counter(name for name, _ in topics).items():
        if times > 1:
            raise UsageError(f"{name} is named more than once")
    return topics


def name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


class Start(NamedTuple):
    """Which offset to choose in a partition: ``earliest``, ``latest``, ``offset``, ``last`` (N before the end) or
    ``time`` (the first from then on, in ms). For ``groups reset`` also ``current``, the committed one, or ``shift``, N
    after that.
    """

    kind: str
    number: int = 0


def start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return Start(text)
    if re.fullmatch(r"-?\d{1,18}", text):
        return Start("last", -int(text)) if text.startswith("-") else Start("offset", int(text))
    for parse in (ago, moment):
        with suppress(argparse.ArgumentTypeError):
            return parse(text)
    hint = did_you_mean(text, ("earliest", "latest"))
    raise argparse.ArgumentTypeError(
        f"{text!r} is not earliest, latest, an offset, -N, a time such as 2026-01-31T12:00:00Z, or 1h30m for a time"
        f" before now{hint}"
    )


def moment(text: str) -> Start:
    """Parse a date, or a date and time; without a zone it is local time."""
    try:
        # fromisoformat() takes any character before the time, and would read the zone of 2026-01-31+02:00 as a time.
        if not re.fullmatch(r"\d{4}-\d\d-\d\d([T ].+)?", text, re.ASCII):
            raise ValueError
        seconds = datetime.datetime.fromisoformat(re.sub(r"Z$", "+00:00", text)).timestamp()
    except (ValueError, OverflowError, OSError):  # the last two for dates outside the platform's range
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z") from None
    return Start("time", max(0, round(seconds * 1000)))


def ago(text: str, now: Callable[[], float] = time.time) -> Start:
    """Return the time that is a duration before now; parse ``1h30m``, or ``PT1H30M`` as Kafka's tools take it."""
    days, rest = re.findall(r"(?is)^(\d+d)?(.*)", text)[0]
    try:
        duration = parse_duration_ms(text if text[:1] in "+Pp" else f"P{days}" + f"T{rest}" * bool(rest))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 1h30m, 2d or PT1H30M") from None
    return Start("time", max(0, round(now() * 1000) - duration))


def add_cluster(parser: Parser) -> None:
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"one or more brokers of the cluster, separated by commas (default: {LOCAL})",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=command_config,
        default={},
        help="a properties file with options of the client, such as security.protocol=SASL_SSL",
    )


def add_settings(parser: Parser, option: str, description: str) -> None:
    """Add an option that takes NAME=VALUE and may be repeated."""
    parser.add_argument(
        option,
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help=f"{description} (may be repeated)",
    )


def add_client(parser: Parser, client: str) -> None:
    add_settings(parser, "--property", f"an option of the {client}, by its Kafka or Python name: fetch.min.bytes=1")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: if that is a terminal and standard output is not)",
    )


def servers(options: argparse.Namespace) -> str:
    """Return the bootstrap servers: of the command line, else of ``--command-config``, else :data:`LOCAL`."""
    named: str | None = options.bootstrap_server
    return named or options.command_config.get("bootstrap.servers", LOCAL)


def client_config(options: argparse.Namespace, known: Mapping[str, Option] = OPTIONS, **own: Any) -> dict[str, Any]:
    """Return a client's configuration by dotted name: ``--command-config``, overridden by what the command sets
    (servers, timeouts and ``own``), and that by ``--property``.

    ``known`` are the client's options. Other clients' options in the file are left out: one file serves all commands.
    """
    config: dict[str, Any] = {
        **_by_dots(options.command_config),
        "bootstrap.servers": servers(options),
        "bootstrap.timeout.ms": BOOTSTRAP_TIMEOUT_MS,
        "default.api.timeout.ms": API_TIMEOUT_MS,
    }
    config = without_foreign(config | _by_dots(own), known)
    return config | _by_dots(dict(getattr(options, "property", ())))


def without_foreign(config: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """Return the configuration without options that only other clients have. Unknown names stay, and cause an error."""
    from ..produce import ProducerSettings  # on demand: most commands write nothing

    foreign = {*OPTIONS, *ProducerSettings.options()} - set(known)
    return {name: value for name, value in config.items() if name.replace(".", "_") not in foreign}


def _by_dots(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


#: Maximum size of a file that an option names.
FILE_BYTES_MAX = 1024 * 1024

_NAME = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def command_config(path: str) -> dict[str, str]:
    """Return the options in a properties file; argparse's type of ``--command-config``."""
    return from_file(path, parse_properties)


def from_file(path: str, parse: Callable[[str], V]) -> V:
    """Return what ``parse`` makes of a text file; raise argparse's error for an argument if it raises ValueError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise argparse.ArgumentTypeError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        return parse(data.decode("utf-8-sig"))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{path} is not UTF-8 text") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by name; for a name that occurs twice, the last value.

    Raises:
        ValueError: a line has no name, or an escape is malformed. The message has the line's number and not its
            content, which may be secret.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _NAME.match(line)
        if match is None:
            raise ValueError(f"line {number} has no name before its value")
        try:
            found[_unescape(match[1])] = _unescape(line[match.end() :])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are neither blank nor comments, with continued lines joined, each with its first number."""
    lines: list[tuple[int, str]] = []
    is_continued = False
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        stripped = line.lstrip(" \t\f")
        if not is_continued and (not stripped or stripped[0] in "#!"):
            continue
        first, before = lines.pop() if is_continued else (number, "")
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        lines.append((first, before + (stripped[:-1] if is_continued else stripped)))
    return lines


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ValueError("\\u needs four hexadecimal digits")
        return chr(int(code[1:], 16))

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
