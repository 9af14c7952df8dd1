"""Write docs/options.md from the declarations in thinconsumer.config: ``python docs/generate_options.py``.

A test compares the committed page with what this makes, so the page cannot fall behind.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from thinconsumer.config import OPTIONS, UNSUPPORTED, ConsumerConfig, HostPort, OffsetResetPolicy, Option, dotted

PAGE = Path(__file__).with_name("options.md")

HEAD = """\
# Options

<!-- Made by docs/generate_options.py from the declarations in thinconsumer/config/options.py. Do not edit. -->

Pass options by these names to `Consumer(...)`, or by the dotted names of Kafka's documentation to
`Consumer.from_config({"bootstrap.servers": ...})`, where a value may also be text: `"500"`, `"true"`, `"a:9092,b"`.
Every duration is in milliseconds. All options are checked when the consumer is built, before anything is connected; a
`KafkaConfigurationError` names everything that is wrong at once. An option that is accepted but will not do what it
seems to gives a `ConfigurationWarning`.

How the defaults differ from kafka-python's is in [migrating](migrating.md).
"""

TABLE = """
| Option | Type | Default | Meaning |
|---|---|---|---|
"""

NOT_KAFKAS = """
## Names that are not Kafka's own

The dotted name of every option is its name with dots for underscores. Kafka's own documentation does not know these:

"""

UNSUPPORTED_HEAD = """
## Options of other clients

Known, and not had: refused where going on without them would change what is read, how safely, or whether your own code
runs; otherwise accepted with a warning. A value that asks for what happens anyway passes in silence. Other names that
begin with `ssl_`, `sasl_` or `share_` are refused too.

| Option | What happens | Why |
|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for section, options in groupby(OPTIONS.items(), key=lambda item: item[1].section):
        parts.append(f"\n## {section}\n{TABLE}")
        parts.extend(_row(name, option) for name, option in options)
    parts.append(NOT_KAFKAS)
    for origin in ("kafka-python", "thinconsumer"):
        names = ", ".join(f"`{dotted(name)}`" for name, option in OPTIONS.items() if option.origin == origin)
        parts.append(f"- from {origin}: {names}\n")
    parts.append(UNSUPPORTED_HEAD)
    for name, row in sorted(UNSUPPORTED.items()):
        parts.append(f"| `{name}` | {'refused' if row.refused else 'accepted with a warning'} | {row.reason} |\n")
    return "".join(parts)


def _row(name: str, option: Option) -> str:
    needs = " Needs `group_id`." if option.needs_group else ""
    cells = (f"`{name}`", option.kind.describe(), f"`{_default(name, option.default)}`", option.doc + needs)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _default(name: str, value: Any) -> str:
    if name == "client_id":
        return "thinconsumer-<version>"
    if isinstance(value, OffsetResetPolicy):
        return repr(str(value))
    if isinstance(value, tuple) and isinstance(value[0], HostPort):
        return repr(",".join(map(str, value)))
    return "float('inf')" if value == float("inf") else repr(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(ConsumerConfig.__slots__)} options")
