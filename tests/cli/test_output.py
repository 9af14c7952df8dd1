"""Output of records, tables and progress."""

import io
import json

import pytest

from thinconsumer import ConsumerRecord
from thinconsumer.cli import output
from thinconsumer.cli.output import ProgressLine


def record(key=b"k", value=b"v", headers=()):
    return ConsumerRecord("orders", 2, 0, 17, 1_700_000_000_000, 0, key, value, headers)


@pytest.mark.parametrize(
    ("data", "said"), [(None, None), (b"", ""), ("käse".encode(), "käse"), (b"\xff\x00", {"base64": "/wA="})]
)
def test_bytes_are_converted_to_json_and_back(data, said):
    assert output.bytes_as_json(data) == said
    assert output.bytes_from_json(json.loads(json.dumps(said))) == data


def test_other_json_values_become_their_text():
    assert output.bytes_from_json({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'.encode()
    assert output.bytes_from_json(5) == b"5"
    assert output.bytes_from_json({"base64": 5}) == b'{"base64":5}'
    with pytest.raises(ValueError):
        output.bytes_from_json({"base64": "?"})


def test_a_record_as_text():
    assert output.record_as_text(record(), None) == b"v\n"
    assert output.record_as_text(record(), b"\t") == b"k\tv\n"
    assert output.record_as_text(record(None, None), b": ") == b"null: null\n"


@pytest.mark.parametrize(
    ("text", "line", "pretty"),
    [
        (' {"a" : [1.10, {}, [ ] ],\n"b\\" {":null} ', '{"a":[1.10,{},[]],"b\\" {":null}', None),
        ("12345678901234567890.10", "12345678901234567890.10", "12345678901234567890.10"),
        ('"a, b: [c]"', '"a, b: [c]"', '"a, b: [c]"'),
        ('[{"a":1},{}]', '[{"a":1},{}]', '[\n  {\n    "a": 1\n  },\n  {}\n]'),
    ],
)
def test_only_the_white_space_of_json_changes(text, line, pretty):
    assert output.layout_json(text, is_pretty=False) == line
    indented = output.layout_json(text, is_pretty=True)
    assert json.loads(indented) == json.loads(text)
    assert pretty is None or indented == pretty


def test_deep_nesting_is_indented_only_at_first():
    """A value of N bytes that is nested as deeply would print N * N bytes."""
    text = "[" * 400 + "1" + "]" * 400
    indented = output.layout_json(text, is_pretty=True)
    assert json.loads(indented) == json.loads(text)
    assert len(indented) < 4000
    lines = indented.splitlines()
    assert lines[31:33] == [" " * 62 + "[", " " * 64 + "[" * 368 + "1" + "]" * 368]
    assert lines[33] == " " * 62 + "]"


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"a", b"{", b"{} {}", b"NaN", b"[-Infinity]", b"[" * 200_000, b"\xef\xbb\xbf{}", b"'a'"]
)
def test_values_that_are_not_json_are_counted(value):
    values = output.JsonValues(is_pretty=False)
    assert [values.text(one) for one in (value, b" 1 ", None, value)] == [None, "1", "null", None]
    assert values.not_json == 2


def test_a_json_value_in_a_json_record_and_in_text():
    assert json.loads(output.record_as_json(record(), '{"a":1}'))["value"] == {"a": 1}
    assert json.loads(output.record_as_json(record()))["value"] == "v"
    assert output.record_as_text(record(), b"=", '{"a":1}') == b'k={"a":1}\n'


class RawFile:
    """A file that writes at most five bytes at a time, as raw files may."""

    def __init__(self):
        self.buffer = self
        self.taken = b""

    def write(self, data):
        self.taken += bytes(data[:5])
        return min(5, len(data))

    def flush(self):
        self.taken += b"|"


def test_partial_writes_are_completed(monkeypatch):
    bare = RawFile()
    monkeypatch.setattr("sys.stdout", bare)
    output.write_lines(iter([b"one\n", b"", b"two\n", b"three\n"]))
    assert bare.taken == b"one\ntwo\nthree\n|"


def test_a_table_is_aligned_with_numbers_to_the_right(capsys):
    output.print_rows(["topic", "lag_now"], [("a", 5), ("longer", 12345)], False)
    assert capsys.readouterr().out == "TOPIC   LAG NOW\na             5\nlonger    12345\n"
    output.print_rows(["topic", "isr"], [("a", [1, 2]), ("b", None)], False)
    assert capsys.readouterr().out == "TOPIC  ISR\na      1,2\nb      -\n"
    output.print_rows(["topic"], [], False)
    assert capsys.readouterr().out == ""


def test_rows_as_json_are_one_line_each(capsys):
    output.print_rows(["topic", "isr"], [("a", [1]), ("b", [])], True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"topic": "a", "isr": [1]},
        {"topic": "b", "isr": []},
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_off_without_a_terminal():
    stream = io.StringIO()
    progress = ProgressLine(stream=stream)
    progress.update(lambda: pytest.fail("the text of progress that is off was made"))
    progress.say("done")
    assert stream.getvalue() == ""


def test_requested_progress_is_one_line_a_second():
    stream, now = io.StringIO(), [0.0]
    progress = ProgressLine(True, stream=stream, now=lambda: now[0])
    for moment in (0.0, 0.5, 1.0, 1.9, 2.0):
        now[0] = moment
        progress.update(lambda: f"at {now[0]}")
    progress.say("done")
    assert stream.getvalue() == "at 0.0\nat 1.0\nat 2.0\ndone\n"


def test_progress_on_a_terminal_is_overwritten():
    stream, now = Terminal(), [0.0]
    progress = ProgressLine(stream=stream, now=lambda: now[0])
    assert progress.is_wanted  # pytest's standard output is not a terminal
    progress.update(lambda: "one")
    now[0] = 0.2
    progress.update(lambda: "two")
    progress.say("done", "and so on")
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Kdone\nand so on\n"
