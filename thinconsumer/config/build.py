"""Checks the given options and returns every option's value; one error names all problems."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import KafkaConfigurationError
from . import rules, security_rules
from .kinds import did_you_mean
from .unsupported import ALIASES, LIBRDKAFKA_NAMES, find_unsupported

if TYPE_CHECKING:
    from .declare import Option

Options = Mapping[str, "Option"]


#: This package's name of options that have another name in librdkafka, for hints in errors.
_OTHER_NAMES = {**LIBRDKAFKA_NAMES, **{name.replace(".", "_"): ours for name, ours in ALIASES.items()}}


class ConfigurationWarning(UserWarning):
    """An option was accepted, but has no effect, or not the effect that its name suggests."""


def dotted(name: str) -> str:
    """Return an option's name as in Kafka's documentation."""
    return name.replace("_", ".")


def from_options(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option's checked value; ``given`` has Python names and typed values."""
    return _build(options, given, text_allowed=False)


def from_dotted_names(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option's checked value; ``given`` has dotted names and values that may be text."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise KafkaConfigurationError(
            f"the configuration (a {type(given).__name__}) must be a mapping with str names such as 'group.id'"
        )
    return _build(options, given, text_allowed=True)


def _build(options: Options, given: Mapping[str, Any], text_allowed: bool) -> dict[str, Any]:
    problems: list[str] = []
    notes: list[str] = []
    values = {name: option.default for name, option in options.items()}
    spelt_as: dict[str, str] = {}  # The caller's spelling of each given option.

    def spell(name: str) -> str:
        return spelt_as.get(name) or (dotted(name) if text_allowed else name)

    for spelt, value in given.items():
        name = spelt.replace(".", "_") if text_allowed else spelt
        if text_allowed and spelt in ALIASES:
            name = ALIASES[spelt]
        elif name not in options or spelt != (dotted(name) if text_allowed else name):
            _not_an_option(spelt, name, value, options, text_allowed, problems, notes)
            continue
        if name in spelt_as:
            problems.append(f"{spelt_as[name]} and {spelt} are the same option: give one of them")
            continue
        spelt_as[name] = spelt
        try:
            values[name] = _parse(options[name], value, text_allowed)
        except ValueError as error:
            problems.append(f"{spelt}={options[name].kind.show(value)}: {error}")
    if not problems:
        # With an invalid option ``values`` holds its default instead, so the rules between options would compare values
        # that the user did not give. They are therefore only checked if every single option is valid.
        _take_jaas(options, values, spelt_as, spell, problems, notes)
    if not problems:
        values = security_rules.derive_host_name_check(rules.derive_defaults(values, spelt_as), spelt_as)
        servers = given.get(spelt_as.get("bootstrap_servers", ""))
        problems = rules.broken_rules(values, spelt_as, spell)
        problems += security_rules.broken_security_rules(values, spelt_as, servers, spell)
    if problems:
        raise KafkaConfigurationError(_sentence(problems))
    needs_group = [name for name, option in options.items() if option.needs_group]
    notes += rules.warnings_for(values, spelt_as, needs_group, spell)
    notes += security_rules.security_warnings(values, spelt_as, spell)
    for note in notes:
        warnings.warn(note, ConfigurationWarning, stacklevel=_levels_to_the_caller())
    return values


def _take_jaas(
    options: Options,
    values: dict[str, Any],
    given: Collection[str],
    spell: Callable[[str], str],
    problems: list[str],
    notes: list[str],
) -> None:
    """Set the options that a given ``sasl_jaas_config`` contains; they must not be given with another value, too."""
    text = values["sasl_jaas_config"]
    if text is None:
        return
    from .jaas import login_of, parse_jaas  # on demand, since it takes milliseconds

    name = spell("sasl_jaas_config")
    login = login_of(parse_jaas(text))
    if values["sasl_mechanism"] is None and len(login.mechanisms) == 1:
        values["sasl_mechanism"] = login.mechanisms[0]
    if values["sasl_mechanism"] not in (*login.mechanisms, None):
        problems.append(
            f"{spell('sasl_mechanism')} is {values['sasl_mechanism']!r}, but {name} has the login module "
            f"{login.module}, which is for {' and '.join(login.mechanisms)}"
        )
    for option, value in login.values.items():
        try:
            parsed = options[option].kind.parse(value)
        except ValueError as error:
            problems.append(f"{name}: its value for {spell(option)}: {error}")
            continue
        if option in given and values[option] not in (parsed, options[option].default):
            problems.append(f"{spell(option)} is not the same as in {name}: give it in one place")
        values[option] = parsed
    if login.ignored:
        notes.append(
            f"{name}: options of {login.module} without effect: {login.ignored}; known are {', '.join(login.known)}"
        )


def _parse(option: Option, value: Any, text_allowed: bool) -> Any:
    if value is None and option.default is None:
        return None
    if text_allowed and isinstance(value, str):
        value = option.kind.from_text(value)
    return option.kind.parse(value)


def _not_an_option(
    spelt: str, name: str, value: object, options: Options, text_allowed: bool, problems: list[str], notes: list[str]
) -> None:
    """Report a given name that is no option: as an error in ``problems``, or as a warning in ``notes``.

    The report does not contain the value, which may be a secret. Unsupported options are only reported if their value
    asks for behaviour that thinconsumer does not have.
    """
    plain = name.replace(".", "_")
    row = find_unsupported(plain)
    if row is not None:
        if not row.is_harmless(value):
            (problems if row.refused else notes).append(
                f"{spelt} {'is refused' if row.refused else 'has no effect'}: {row.reason}"
            )
        return
    spell = dotted if text_allowed else str
    hint = did_you_mean(spelt, [*map(spell, options), *(ALIASES if text_allowed else ())])
    if plain in _OTHER_NAMES or plain in options:
        hint = f"; did you mean {spell(_OTHER_NAMES.get(plain, plain))!r}?"
    elif "." in spelt and not text_allowed:
        hint = did_you_mean(plain, options)
    if "." in spelt and not text_allowed:
        hint += " (dotted names go to from_config)"
    problems.append(f"unknown option {spelt!r}{hint}")


def _sentence(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  - ".join([f"{len(problems)} options are wrong:", *problems])


def _levels_to_the_caller() -> int:
    """Return the ``stacklevel`` with which ``warnings.warn`` in the calling function names the user's line of code.

    Python shows a warning once for each line that it names. If all warnings named a line of this package, only the
    first of several consumers in a process would get one.
    """
    package = __name__.split(".")[0]
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        frame = frame.f_back
        level += 1
    return level
