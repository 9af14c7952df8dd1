"""Checks the given options and returns every option's value; one error names all invalid options."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from ..errors import KafkaConfigurationError
from . import rules, security_rules
from .declare import Option
from .kinds import did_you_mean
from .unsupported import ALIASES, FACTORS, OLDER_NAMES, find_unsupported, translated

#: The aliases with underscores, mapped to this package's names; for hints in errors.
_OTHER_NAMES = {name.replace(".", "_"): ours for name, ours in ALIASES.items()}
#: How similar a misspelt name has to be to an option's name for that to be suggested before any other.
_SURELY_MISSPELT = 0.8


class ConfigurationWarning(UserWarning):
    """An option was accepted, but is a security risk, has no effect, or not the effect that its name suggests."""


def dotted(name: str) -> str:
    """Return an option's name as in Kafka's documentation."""
    return name.replace("_", ".")


def from_options(
    options: Mapping[str, Option], given: Mapping[str, Any], *, text_allowed: bool = False
) -> dict[str, Any]:
    """Return every option's checked value. ``given`` has Python names and typed values; with ``text_allowed``, it has
    dotted names, and values that may be text.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise KafkaConfigurationError(
            f"the configuration (a {type(given).__name__}) must be a mapping with str names such as 'group.id'"
        )
    return _Checked(options, text_allowed).take(given)


class _Checked:
    """The options of one client while they are checked."""

    def __init__(self, options: Mapping[str, Option], text_allowed: bool) -> None:
        self.options = options
        self.text_allowed = text_allowed
        self.values = {name: option.default for name, option in options.items()}
        self.spelt_as: dict[str, str] = {}  #: The caller's spelling of each given option.
        self.problems: list[str] = []  #: Errors.
        self.notes: list[str] = []  #: Warnings.

    def spell(self, name: str) -> str:
        return self.spelt_as.get(name) or (dotted(name) if self.text_allowed else name)

    def take(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values, after one warning for each note; or raise one error for the problems found."""
        for spelt, value in given.items():
            self._take_one(spelt, value)
        values, spell, spelt_as, problems = self.values, self.spell, self.spelt_as, self.problems
        if not problems and values["sasl_jaas_config"] is not None:
            self._take_jaas()
        if not problems:  # otherwise the rules would judge defaults in place of the invalid values
            values = security_rules.derive_host_name_check(rules.derive_defaults(values, spelt_as), spelt_as)
            servers = given.get(spelt_as.get("bootstrap_servers", ""))
            problems = rules.broken_rules(values, spelt_as, spell)
            problems += security_rules.broken_security_rules(values, spelt_as, servers, spell)
        if len(problems) > 1:
            raise KafkaConfigurationError("\n  - ".join([f"{len(problems)} options are wrong:", *problems]))
        if problems:
            raise KafkaConfigurationError(problems[0])
        needs_group = [name for name, option in self.options.items() if option.needs_group]
        self.notes += rules.warnings_for(values, spelt_as, needs_group, spell)
        self.notes += security_rules.security_warnings(values, spelt_as, spell)
        for note in self.notes:
            warnings.warn(note, ConfigurationWarning, stacklevel=_levels_to_the_caller())
        return values

    def _take_one(self, spelt: str, value: Any) -> None:
        name = spelt.replace(".", "_") if self.text_allowed else spelt
        if self.text_allowed and ALIASES.get(spelt) in self.options:
            name = ALIASES[spelt]
        elif spelt != (dotted(name) if self.text_allowed else name) or OLDER_NAMES.get(name, name) not in self.options:
            self._not_an_option(spelt, name, value)
            return
        name = OLDER_NAMES.get(name, name)
        option = self.options[name]
        if value is None and option.default is None:
            return
        if name in self.spelt_as:
            self.problems.append(f"{self.spelt_as[name]} and {spelt} are the same option: give one of them")
            return
        # Errors about two options show the value in this package's unit.
        self.spelt_as[name] = dotted(name) if spelt in FACTORS else spelt
        ours = value
        try:
            if self.text_allowed:
                ours = translated(spelt, value)
                ours = option.kind.from_text(ours) if isinstance(ours, str) else ours
            if ours is not None or option.default is not None:
                self.values[name] = option.kind.parse(ours)
        except ValueError as error:
            unit = f", as {dotted(name)}={option.kind.show(ours)}" if spelt in FACTORS else ""
            self.problems.append(f"{spelt}={option.kind.show(value)}{unit}: {error}")

    def _take_jaas(self) -> None:
        """Set the options that ``sasl_jaas_config`` contains, and the mechanism if its login module has only one.

        Report each option that is also given with another value (except its default).
        """
        from .jaas import login_of, parse_jaas  # on demand, since the import takes milliseconds

        options, values, spell, name = self.options, self.values, self.spell, self.spell("sasl_jaas_config")
        login = login_of(parse_jaas(values["sasl_jaas_config"]))
        mechanisms = login.module.mechanisms
        if values["sasl_mechanism"] is None and len(mechanisms) == 1:
            values["sasl_mechanism"] = mechanisms[0]
        if values["sasl_mechanism"] not in (*mechanisms, None):
            self.problems.append(
                f"{spell('sasl_mechanism')} is {values['sasl_mechanism']!r}, but {name} has the login module "
                f"{login.name}, which is for {' and '.join(mechanisms)}"
            )
        for option, value in login.values.items():
            try:
                parsed = options[option].kind.parse(value)
            except ValueError as error:
                self.problems.append(f"{name}: its value for {spell(option)}: {error}")
                continue
            if option in self.spelt_as and values[option] not in (parsed, options[option].default):
                self.problems.append(f"{spell(option)} is not the same as in {name}: give it in one place")
            values[option] = parsed
        if login.ignored:
            known = ", ".join(login.module.options)
            self.notes.append(f"{name}: options of {login.name} without effect: {login.ignored}; known are {known}")

    def _not_an_option(self, spelt: str, name: str, value: object) -> None:
        """Report a given name that is no option, as an error or a warning; not if its value is harmless.

        The report does not contain the value, which may be a secret.
        """
        plain = name.replace(".", "_")
        row = find_unsupported(plain)
        if row is None:
            self.problems.append(f"unknown option {spelt!r}{self._nearest(spelt, plain)}")
        elif not row.is_harmless(value):
            reports, verdict = (self.problems, "is refused") if row.refused else (self.notes, "has no effect")
            reports.append(f"{spelt} {verdict}: {self._in_spelling(row.reason)}")

    def _nearest(self, spelt: str, plain: str) -> str:
        """Return a hint for an unknown name: the option with a similar name, else with a similar meaning, if any."""
        from .other_clients import EXPLAINED, NEAREST  # on demand: only errors need it

        spell = dotted if self.text_allowed else str
        wrong_call = " (dotted names go to from_config)" if "." in spelt and not self.text_allowed else ""
        ours = _OTHER_NAMES.get(plain, plain)
        if ours in self.options:
            return f"; did you mean {spell(ours)!r}?{wrong_call}"
        word = spelt if self.text_allowed else plain
        known = [*map(spell, self.options), *(ALIASES if self.text_allowed else ())]
        hint = did_you_mean(word, known, _SURELY_MISSPELT)
        meant = next((NEAREST[part] for part in plain.split("_") if part in NEAREST), "")
        if not hint and meant in EXPLAINED:
            hint = f"; {self._in_spelling(EXPLAINED[meant].reason)}"
        elif not hint and meant in self.options:
            hint = f"; did you mean {spell(meant)!r}?"
        return (hint or did_you_mean(word, known)) + wrong_call

    def _in_spelling(self, reason: str) -> str:
        """Return a sentence with the options in it, which are in backquotes, in the caller's spelling."""
        return re.sub(r"`(\w+)`", lambda found: dotted(found[1]) if self.text_allowed else found[1], reason)


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
