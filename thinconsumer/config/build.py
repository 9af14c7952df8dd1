"""From what the user wrote to checked values: names, types, bounds, rules; every problem said at once.

Knows the steps, and no option by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import KafkaConfigurationError
from . import rules
from .kinds import did_you_mean, shown
from .unsupported import CALLED_ELSEWHERE, find_unsupported

if TYPE_CHECKING:
    from .options import Option

Options = Mapping[str, "Option"]


class ConfigurationWarning(UserWarning):
    """An option was accepted and will not do what it seems to."""


def dotted(name: str) -> str:
    """Return an option's name as Kafka's documentation spells it."""
    return name.replace("_", ".")


def from_options(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option's checked value, from Python names and typed values."""
    return _build(options, given, {name: name for name in given}, _python_name, text_allowed=False)


def from_dotted_names(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option's checked value, from dotted names and values that may be text."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise KafkaConfigurationError("the configuration must be a mapping from names such as 'bootstrap.servers'")
    by_name = {name: name.replace(".", "_") for name in given}
    return _build(options, given, by_name, dotted, text_allowed=True)


def _python_name(name: str) -> str:
    return name


def _build(
    options: Options, given: Mapping[str, Any], names: Mapping[str, str], say: Callable[[str], str], text_allowed: bool
) -> dict[str, Any]:
    """``names`` maps each name as the user spelt it to the option's; ``say`` does the reverse for any option."""
    problems: list[str] = []
    notes: list[str] = []
    values = {name: option.default for name, option in options.items()}
    parsed: list[str] = []
    for spelt, value in given.items():
        name = names[spelt]
        if name not in options or spelt != say(name):
            _not_an_option(spelt, name, value, options, say, problems, notes)
            continue
        try:
            values[name] = _parse(options[name], value, text_allowed)
            parsed.append(name)
        except ValueError as error:
            problems.append(f"{spelt}={shown(value)}: {error}")
    if not problems:
        # Only now: a rule would compare what was given with defaults that stand in for what could not be read.
        values = rules.settle(values, parsed)
        problems = rules.broken_rules(values, parsed, say)
        needs_group = [name for name, option in options.items() if option.needs_group]
        notes += rules.warnings_for(values, parsed, needs_group, say)
    if problems:
        raise KafkaConfigurationError(_sentence(problems))
    for note in notes:
        warnings.warn(note, ConfigurationWarning, stacklevel=_levels_to_the_caller())
    return values


def _parse(option: Option, value: Any, text_allowed: bool) -> Any:
    if value is None and option.default is None:
        return None
    if text_allowed and isinstance(value, str):
        value = option.kind.from_text(value)
    return option.kind.parse(value)


def _not_an_option(
    spelt: str,
    name: str,
    value: object,
    options: Options,
    say: Callable[[str], str],
    problems: list[str],
    notes: list[str],
) -> None:
    """Note a name that we do not have. Its value is not shown: it may be a secret, also under a misspelt name."""
    plain = name.replace(".", "_")
    row = find_unsupported(plain)
    if row is not None:
        if not row.is_harmless(value):
            (problems if row.refused else notes).append(
                f"{spelt} {'is refused' if row.refused else 'has no effect'}: {row.reason}"
            )
        return
    hint = did_you_mean(spelt, map(say, options))
    if plain in CALLED_ELSEWHERE or plain in options:
        hint = f"; did you mean {say(CALLED_ELSEWHERE.get(plain, plain))!r}?"
    elif "." in spelt and say is _python_name:
        hint = did_you_mean(plain, options)
    if "." in spelt and say is _python_name:
        hint += " (dotted names go to from_config)"
    problems.append(f"unknown option {spelt!r}{hint}")


def _sentence(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  - ".join([f"{len(problems)} options are wrong:", *problems])


def _levels_to_the_caller() -> int:
    """Return the stack level, as seen from who asks, of the first frame outside this package.

    A fixed number would show the warning at a line of ours, and then once per process rather than once per caller.
    """
    package = __name__.split(".")[0]
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        frame = frame.f_back
        level += 1
    return level
