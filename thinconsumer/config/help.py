"""The consumer's options in words: for ``help(Consumer)``, and for docs/options.md."""

from .declare import Option, as_passed
from .options import OPTIONS


class OptionsHelp:
    """A ``__doc__`` with all options appended. The text is wrapped when it is read: at import this would take 2 ms."""

    def __init__(self, doc: str | None) -> None:
        self._doc = doc

    def __get__(self, instance: object, owner: type) -> str:
        import inspect
        import textwrap

        lines = [
            textwrap.fill(
                f"{name} ({option.kind.describe()}; default {default_of(name, option)}): {meaning_of(option)}",
                120,
                initial_indent=" " * 4,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for name, option in OPTIONS.items()
        ]
        return "\n".join([inspect.cleandoc(self._doc or ""), "", "Options:", *lines])


def meaning_of(option: Option) -> str:
    return f"{option.doc} Needs `group_id`." if option.needs_group else option.doc


def default_of(name: str, option: Option) -> str:
    """Return the default as Python code."""
    if name == "client_id":
        return "thinconsumer-<version>"
    return "float('inf')" if option.default == float("inf") else repr(as_passed(option.default))
