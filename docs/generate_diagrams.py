"""Draw docs/diagrams/*.svg: ``python docs/generate_diagrams.py``. State machines come from the tables in the code.

A test compares the committed pictures with what this makes. They are narrow enough for a phone, and follow a dark
theme.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).parent))
import generate_states

from thinconsumer.group.classic.states import TRANSITIONS, ClassicMemberEvent, ClassicMemberState

FOLDER = Path(__file__).with_name("diagrams")
STYLE = """\
text { font: 12px sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
.box { fill: #f6f8fa; stroke: #57606a }
.line { fill: none; stroke: #57606a } .head { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9da7b1 }
.box { fill: #1c2128; stroke: #9da7b1 }
.line { stroke: #9da7b1 } .head { fill: #9da7b1 } }"""


def svg(title: str, width: float, height: float, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f"<title>{escape(title)}</title>\n<style>{STYLE}</style>"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', head, *parts, "</svg>\n"])


def text(x: float, y: float, words: str, small: bool = False, anchor: str = "start") -> str:
    kind = ' class="small"' if small else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def arrow(path: str, x: float, y: float, turn: int) -> str:
    """Return a line whose head is at a point; ``turn`` is its direction: 0 right, 90 down, 180 left."""
    head = f'<path class="head" d="M0 0L-8 -4V4Z" transform="translate({x:g} {y:g}) rotate({turn})"/>'
    return f'<path class="line" d="{path}"/>{head}'


# State machines. The states are a column, in the order of their class. A line down the column is an event that leads to
# the next state; the others run beside it. An event that leads to one state from many is drawn at its end only.
BOX, PORT, GAP, LANE, MANY, LETTER = 160, 18, 34, 12, 4, 5.9


class Machine:
    """One picture: states, and the events between them."""

    def __init__(self, states: type[enum.Enum], moves: Mapping[Any, Mapping[Any, Any]]) -> None:
        self.names = [state.value for state in states]
        found = [(state.value, event.value, to.value) for state, on in moves.items() for event, to in on.items()]
        counts = {(event, to): sum((e, t) == (event, to) for _, e, t in found) for _, event, to in found}
        self.many = {key: f"{key[0]}, from {count} states" for key, count in counts.items() if count >= MANY}
        self.labels: dict[tuple[str, str], list[str]] = {}  #: the events from one state to another
        for state, event, to in found:
            if (event, to) not in self.many:
                self.labels.setdefault((state, to), []).append(event)
        places = {name: place for place, name in enumerate(self.names)}
        beside = [pair for pair in self.labels if places[pair[1]] - places[pair[0]] not in (0, 1)]
        self.beside = sorted(beside, key=lambda pair: abs(places[pair[1]] - places[pair[0]]))
        widths = [len(", ".join(self.labels[pair])) for pair in self.beside]
        widths += [len(label) + 5 for label in self.many.values()] + [len("again: ")]
        self.lanes = BOX + 16 + LETTER * max(widths)  #: where the lines beside the column begin

    def draw(self, title: str) -> str:
        """Return the picture."""
        parts, ports, bottom = list[str](), dict[tuple[str, object], float](), 10.0
        for place, name in enumerate(self.names):
            top = bottom
            ends: list[tuple[str, str]] = [pair for pair in self.beside if pair[0] == name]
            ends += [pair for pair in self.beside if pair[1] == name] + [key for key in self.many if key[1] == name]
            again = [f"again: {event}" for event in self.labels.get((name, name), [])]
            height = max(34.0, PORT * len(ends) + 16, 26 + 14 * len(again))
            for number, end in enumerate(ends):
                ports[name, end] = top + height / 2 + PORT * (number - (len(ends) - 1) / 2)
            parts.append(f'<rect class="box" x="1" y="{top:g}" width="{BOX}" height="{height:g}" rx="6"/>')
            line = top + height / 2 + 4 - 7 * len(again)
            parts.append(text(BOX / 2, line, name, anchor="middle"))
            parts += [text(BOX / 2, line + 14 * n, words, True, "middle") for n, words in enumerate(again, 1)]
            bottom = top + height + GAP
            after = self.names[place + 1] if place + 1 < len(self.names) else ""
            if events := self.labels.get((name, after)):
                parts.append(arrow(f"M{BOX / 2:g} {top + height:g}V{bottom - 6:g}", BOX / 2, bottom, 90))
                parts.append(text(BOX / 2 + 8, bottom - GAP / 2 + 4, ", ".join(events), True))
        for key, label in self.many.items():
            y = ports[key[1], key]
            parts.append(arrow(f"M{BOX + 30} {y:g}H{BOX + 6}", BOX + 1, y, 180))
            parts.append(text(BOX + 35, y + 4, label, True))
        beside, width = self._beside(ports)
        return svg(title, width, bottom - GAP + 2, [*parts, *beside])

    def _beside(self, ports: dict[tuple[str, object], float]) -> tuple[list[str], float]:
        """Return the lines beside the column, and the width of all. Lines that share a height get two lanes."""
        parts, lanes = [], list[list[tuple[float, float]]]()
        for pair in self.beside:
            start, end = ports[pair[0], pair], ports[pair[1], pair]
            low, high = sorted((start, end))
            lane = next((n for n, taken in enumerate(lanes) if all(high < a or b < low for a, b in taken)), len(lanes))
            lanes += [[]] if lane == len(lanes) else []
            lanes[lane].append((low, high))
            x = self.lanes + LANE * lane
            parts += [arrow(f"M{BOX + 1} {start:g}H{x:g}V{end:g}H{BOX + 6}", BOX + 1, end, 180)]
            parts += [text(BOX + 8, start - 4, ", ".join(self.labels[pair]), True)]
        return parts, self.lanes + LANE * len(lanes)


# Sequences: what happens between three columns, one line after the other.
COLUMNS = (60, 215, 385)
Step = tuple[int, int, str]


def sequence(title: str, heads: tuple[str, str, str], steps: list[Step]) -> str:
    """Return a picture of messages: from a column, to a column, the words. From a column to itself is work there."""
    parts, y = [], 46.0
    for start, end, words in steps:
        y += 30
        if start == end:
            wide = 6.8 * len(words) + 20
            place = f'x="{COLUMNS[end] - wide / 2:g}" y="{y - 15:g}"'
            parts.append(f'<rect class="box" {place} width="{wide:g}" height="22" rx="6"/>')
            parts.append(text(COLUMNS[end], y, words, True, "middle"))
        else:
            turn, sign = (0, -1) if start < end else (180, 1)
            parts.append(arrow(f"M{COLUMNS[start]} {y:g}H{COLUMNS[end] + 5 * sign}", COLUMNS[end], y, turn))
            parts.append(text((COLUMNS[start] + COLUMNS[end]) / 2, y - 5, words, True, "middle"))
    height = y + 24
    top = [text(x, 18, head, anchor="middle") for x, head in zip(COLUMNS, heads)]
    top += [f'<path class="line" stroke-dasharray="3 4" d="M{x} 28V{height:g}"/>' for x in COLUMNS]
    return svg(title, 440, height, [*top, *parts])


POLL: list[Step] = [
    (0, 1, "poll(timeout_ms)"),
    (1, 1, "positions move past the last records"),
    (1, 2, "Fetch, heartbeat, commit"),
    (1, 1, "nothing buffered: wait"),
    (2, 1, "Fetch response"),
    (1, 2, "the next Fetch"),
    (1, 0, "listener, if it is due"),
    (1, 1, "check CRCs, decompress, decode"),
    (1, 0, "records"),
    (0, 0, "your code"),
    (0, 1, "poll(timeout_ms)"),
]
#: A rebalance: the event that leads to the next state, and what is seen of it.
REBALANCE: list[tuple[str, list[Step]]] = [
    ("rejoin", [(2, 1, "REBALANCE_IN_PROGRESS")]),
    ("begin", []),
    ("prepared", [(1, 0, "on_partitions_revoked"), (1, 2, "OffsetCommit")]),
    ("joined", [(1, 2, "JoinGroup"), (2, 1, "members, if it leads")]),
    ("synced", [(1, 2, "SyncGroup"), (2, 1, "assignment")]),
    ("revoked", [(1, 0, "on_partitions_revoked")]),
    ("assigned", [(1, 0, "on_partitions_assigned")]),
]


def rebalance() -> list[Step]:
    """Return the steps of a rebalance, with the states that the table leads through."""
    state, steps = ClassicMemberState.STABLE, [(1, 1, ClassicMemberState.STABLE.value)]
    for event, seen in REBALANCE:
        state = TRANSITIONS[state][ClassicMemberEvent(event)]
        steps += [*seen, (1, 1, state.value)]
    return steps


def pictures() -> dict[str, str]:
    """Return each picture by the name of its file."""
    found = {
        generate_states.picture(title): Machine(states, moves).draw(f"States: {title}")
        for title, _, states, moves in generate_states.MACHINES
    }
    found["poll.svg"] = sequence("One poll", ("your program", "consumer", "brokers"), POLL)
    found["rebalance.svg"] = sequence("One rebalance", ("your listener", "member", "coordinator"), rebalance())
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
