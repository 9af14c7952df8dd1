"""Pictures on terminals and elsewhere."""

import io

import pytest

from thinconsumer_testing.cli import picture
from thinconsumer_testing.cli.picture import Picture


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def screen(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    stream = Terminal()
    return Picture(stream, now=lambda: clock[0]), stream


def test_a_terminal_gets_the_picture_in_place(screen, clock):
    drawn, stream = screen
    drawn.update(lambda: ["one", "two"])
    drawn.update(lambda: ["not", "due"])
    clock[0] += picture.REDRAW_S
    drawn.update(lambda: ["three", "four", "five"])
    drawn.say("stays")
    drawn.update(lambda: ["six"])
    assert stream.getvalue() == "one\ntwo\n\x1b[2A\x1b[Jthree\nfour\nfive\n\x1b[3A\x1b[Jstays\nsix\n"


def test_a_picture_that_the_terminal_would_wrap_or_scroll_is_not_drawn(screen, clock):
    drawn, stream = screen
    drawn.update(lambda: ["x" * 20])
    clock[0] += 1
    drawn.update(lambda: ["x"] * 5)
    assert stream.getvalue() == ""


def test_without_a_terminal_only_lines_that_stay_are_printed():
    stream = io.StringIO()
    drawn = Picture(stream)
    drawn.update(lambda: ["one"])
    drawn.say("two", "three")
    drawn.say()
    assert stream.getvalue() == "two\nthree\n"


@pytest.mark.parametrize(
    ("done", "left", "bar"),
    [(0, 0, ""), (10, 0, "█"), (0, 1, "░"), (99, 1, "█████████░"), (100, 0, "██████████"), (50, 50, "█████░░░░░")],
)
def test_what_is_left_is_never_invisible(done, left, bar):
    assert Picture(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).bar(done, left, 0.1) == bar


@pytest.mark.parametrize(("encoding", "bar"), [("ascii", "##.."), ("cp437", "██░░"), ("utf-8", "██░░")])
def test_a_bar_has_characters_of_the_encoding(encoding, bar):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert Picture(stream).bar(2, 2, 1) == bar
