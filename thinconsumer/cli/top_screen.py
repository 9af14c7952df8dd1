"""The view of ``top`` on a terminal, drawn in place by rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .output import cell
from .top import MEMBER_HEADS, PARTITION_HEADS, headline, member_rows, partition_row, trouble
from .watch import GroupWatch

#: Columns of text; all others are numbers, and aligned to the right.
_TEXTS = frozenset({"topic", "client", "host", "instance", "assignment"})


@contextmanager
def screen(*, in_place: bool, console: Console | None = None) -> Iterator[Callable[[Mapping[str, GroupWatch]], None]]:
    """Give a function that draws a round: over the last one with ``in_place``, else below it."""
    console = console or Console()
    if not in_place:
        yield lambda watches: console.print(drawn(watches, None))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda watches: live.update(drawn(watches, console.height), refresh=True)


def drawn(watches: Mapping[str, GroupWatch], height: int | None) -> Group:
    """Return the view, with as many partitions as fit into ``height`` lines."""
    parts: list[Any] = []
    share = None if height is None else height // max(1, len(watches))
    for watch in watches.values():
        parts.append(Text(headline(watch), style="bold"))
        if problem := trouble(watch):
            parts.append(Text(problem, style="red" if watch.failing else "yellow"))
        members, views = member_rows(watch), watch.views()
        # Six lines are no rows: the headline, the error, the two heads, and the lines about rows that are left out.
        room = None if share is None else max(2, share - 6)
        shown_members = members if room is None else members[: room // 3 or 1]
        shown_views = views if room is None else views[: max(1, room - len(shown_members))]
        if members:
            parts.append(_table(MEMBER_HEADS, shown_members, len(members)))
        if views:
            parts.append(_table(PARTITION_HEADS, [partition_row(one) for one in shown_views], len(views)))
    return Group(*parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> Table:
    caption = f"and {count - len(rows):,} more" if count > len(rows) else None
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for head in heads:
        justify, width = ("left", None) if head in _TEXTS else ("right", len(head))
        table.add_column(Text(head.upper(), "dim"), justify=justify, min_width=width, no_wrap=True, overflow="ellipsis")
    lag = heads.index("lag")
    for row in rows:
        table.add_row(*map(Text, map(cell, row)), style="" if row[lag] else "green" if row[lag] == 0 else "dim")
    return table
