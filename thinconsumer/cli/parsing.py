"""What the commands' options have in common: argparse that says one helpful line, and words turned into values.

Argparse's own errors come with the whole usage and know of no near misses, and abbreviated options would break when a
command gains another option.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

PROGRAM = "python -m thinconsumer"

#: A server that is not there should be known soon; programs wait longer by default, since they start beside brokers.
BOOTSTRAP_TIMEOUT_MS = 5_000
#: How long a question to the cluster may take.
API_TIMEOUT_MS = 15_000


class UsageError(Exception):
    """The command line makes no sense; nothing was done."""


class Failure(Exception):
    """A command could not do what it was to do: one sentence with what, where and what next."""


class Parser(argparse.ArgumentParser):
    """See the module. :meth:`parse` raises; only ``--help`` ends the program."""

    def __init__(self, *, prog: str, description: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        #: What this command can do, if that is more than one thing.
        self.actions: dict[str, Parser] = {}
        self.add_argument("--debug", action="store_true", help="log what happens, and show where an error came from")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the options.

        Raises:
            UsageError: One is unknown, missing or wrong.
        """
        if self.actions and not set(words[:1]) & {"-h", "--help"}:
            return self._parse_action(words)
        options, rest = self.parse_known_args(list(words))
        for word in rest:
            name = word.partition("=")[0]
            if name.startswith("-"):
                self.error(f"no option {name}{did_you_mean(name, self._option_string_actions)}")
            self.error(f"{word!r} is too much")
        return options

    def _parse_action(self, words: Sequence[str]) -> argparse.Namespace:
        known = ", ".join(self.actions)
        if not words:
            self.error(f"what to do? It knows {known}")
        name = words[0]
        if name not in self.actions:
            self.error(f"no action {name!r}{did_you_mean(name, self.actions)} (it knows {known})")
        options = self.actions[name].parse(words[1:])
        options.action = name
        return options

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print together with the usage."""
        raise UsageError(f"{self.prog}: {message}; '{self.prog} --help' says more")


def actions(parser: Parser) -> Callable[[str, str], Parser]:
    """Return a function that gives a command a further action, by its name and what it does, as a parser of its own."""
    parser.actions = {}

    def add(name: str, words: str) -> Parser:
        parser.actions[name] = Parser(prog=f"{parser.prog} {name}", description=words[0].upper() + words[1:] + ".")
        rows = "\n".join(f"  {name:<10}{action.description}" for name, action in parser.actions.items())
        parser.usage = f"{parser.prog} ACTION [OPTIONS]"
        parser.epilog = f"actions, which explain themselves with --help:\n{rows}"
        return parser.actions[name]

    return add


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean ...?"`` or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


class OneOf:
    """An argument type: one of some words, with a hint for those who nearly wrote one."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text not in self.words:
            known = ", ".join(self.words)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {known}{did_you_mean(text, self.words)}")
        return text


class PartitionsOf(NamedTuple):
    """A topic and which of its partitions; None for all."""

    topic: str
    numbers: tuple[int, ...] | None


def topic_and_partitions(text: str) -> PartitionsOf:
    """Read ``orders``, ``orders:0`` or ``orders:0,3-5``."""
    topic, colon, list_ = text.partition(":")
    if not topic:
        raise argparse.ArgumentTypeError(f"{text!r} names no topic")
    if not colon:
        return PartitionsOf(topic, None)
    numbers: set[int] = set()
    for part in list_.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r}: partitions are written TOPIC:0,3-5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise argparse.ArgumentTypeError(f"{text!r}: {part} goes down, and is no partition at all")
        numbers |= set(range(first, last + 1))
    return PartitionsOf(topic, tuple(sorted(numbers)))


def topic_and_count(text: str) -> tuple[str, int]:
    """Read ``orders`` (one partition) or ``orders:6``."""
    topic, colon, count = text.partition(":")
    if not topic or (colon and not (count.isdecimal() and int(count) > 0)):
        raise argparse.ArgumentTypeError(f"{text!r}: write TOPIC or TOPIC:PARTITIONS, such as orders:6")
    return topic, int(count) if colon else 1


def distinct(topics: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Return them if each is named once.

    Raises:
        UsageError: One is named again, and nobody knows with which number of partitions it is meant.
    """
    names = [name for name, _ in topics]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is named more than once")
    return topics


def name_and_value(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


class Start(NamedTuple):
    """Where to begin to read: ``earliest``, ``latest``, ``offset``, ``last`` (N before the end), ``time`` (ms)."""

    kind: str
    number: int = 0


def start(text: str) -> Start:
    """Read ``earliest``, ``latest``, an offset, ``-N`` for the last N, or a date and time."""
    if text in ("earliest", "latest"):
        return Start(text)
    if re.fullmatch(r"-?\d{1,18}", text):
        return Start("last", -int(text)) if text.startswith("-") else Start("offset", int(text))
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"Z$", "+00:00", text))
        seconds = moment.timestamp()
    except (ValueError, OverflowError, OSError):  # or there is such a time, but not with this machine's clock
        hint = did_you_mean(text, ("earliest", "latest"))
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither earliest nor latest, an offset, -N, nor a time such as 2026-01-31T12:00:00Z{hint}"
        ) from None
    return Start("time", max(0, round(seconds * 1000)))  # without a zone: that of this machine


def add_cluster(parser: Parser) -> None:
    """Add what every command that talks to a cluster takes."""
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        default="localhost:9092",
        help="any broker of the cluster, or several with commas between (default: %(default)s)",
    )


def add_properties(parser: Parser, of_what: str) -> None:
    """Add ``--property``."""
    parser.add_argument(
        "--property",
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help=f"an option of the {of_what}, by Kafka's name or Python's: fetch.min.bytes=1 (repeat it for more)",
    )


def client_config(options: argparse.Namespace, **own: Any) -> dict[str, Any]:
    """Return dotted names and values for a client: a command's own, then what the user said with ``--property``."""
    config: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap_server,
        "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
        "default_api_timeout_ms": API_TIMEOUT_MS,
        **own,
    }
    said: Mapping[str, str] = dict(getattr(options, "property", ()))
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    return {**dotted, **{name.replace("_", "."): value for name, value in said.items()}}
