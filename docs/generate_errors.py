"""Write docs/errors.md from the tables of error codes and of failures: ``python docs/generate_errors.py``.

A test compares the committed page with what this makes, so the page cannot fall behind. The text above
the mark is written by hand.
"""

from __future__ import annotations

from pathlib import Path

from thinconsumer.failures.policy import EXCEPTIONS, JUDGED, Action, Rule
from thinconsumer.wire.error_codes import BY_CODE

PAGE = Path(__file__).with_name("errors.md")

MARK = "<!-- Made by docs/generate_errors.py from the tables in the code, from here on. Do not edit. -->"


def default_rows() -> list[str]:
    """Return how each API treats a code without a rule of its own."""
    lines = ["| API | about | a final code |", "|---|---|---|"]
    return lines + [f"| {api} | {scope.value} | {rule.final.text} |" for (api, scope), rule in JUDGED.items()]


def exception_rows() -> list[str]:
    """Return the rules that differ from the general table; APIs with the same rule share a row."""
    apis: dict[tuple[str, Rule], list[str]] = {}
    for (api, scope), rules in EXCEPTIONS.items():
        for code, rule in rules.items():
            apis.setdefault((code.name, rule), []).append(f"{api} ({scope.value})")
    lines = ["| code | in responses of | the client | reports | reason |", "|---|---|---|---|---|"]
    for (name, rule), where in apis.items():
        lines.append(
            f"| `{name}` | {', '.join(where)} | {rule.action.text} | {rule.action.told.value} | {rule.reason} |"
        )
    return lines


def code_rows() -> list[str]:
    """Return the general table."""
    lines = ["| number | code | by default | means |", "|---|---|---|---|"]
    for row in BY_CODE.values():
        if row.code:
            action = Action.REFRESH_METADATA if row.refresh_metadata else Action.RETRY
            what = action.name.replace("_", " ").lower() if row.retriable else "raise"
            lines.append(f"| {row.code} | `{row.name}` | {what} | {row.text} |")
    return lines


def page() -> str:
    """Return the whole page; what stands above the mark is written by hand."""
    parts = [
        PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n",
        *default_rows(),
        "\n### Rules of one API\n",
        *exception_rows(),
        "\n### All codes\n",
        *code_rows(),
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
