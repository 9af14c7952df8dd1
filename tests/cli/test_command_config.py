"""Properties files, as Kafka's own tools read them."""

import argparse

import pytest

from thinconsumer.cli.parsing import FILE_BYTES_MAX, command_config, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("security.protocol=SASL_SSL", {"security.protocol": "SASL_SSL"}),
        ("a = b\nc:d\ne f\n  g  =  h  ", {"a": "b", "c": "d", "e": "f", "g": "h  "}),
        ("# a=b\n ! c=d\n\ne=#f", {"e": "#f"}),
        ("a=b;\\\n    c;\\\n    d\ne=f", {"a": "b;c;d", "e": "f"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (r'a="x\=y" \t\u00e9\!', {"a": '"x=y" \té!'}),
        (r"a\=b=c", {"a=b": "c"}),
        ("a\r\nb=\rc=1", {"a": "", "b": "", "c": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_properties_are_parsed_as_java_parses_them(text, found):
    assert parse_properties(text) == found


@pytest.mark.parametrize("text", ["a=1\n=secret", "a=1\nb=\\u12x secret"])
def test_errors_name_the_line_and_not_its_content(text):
    with pytest.raises(ValueError, match="line 2") as caught:
        parse_properties(text)
    assert "secret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for wrong, why in (("missing", "No such file"), (".", "directory")):
        with pytest.raises(argparse.ArgumentTypeError, match=why):
            command_config(str(tmp_path / wrong))
    file = tmp_path / "client.properties"
    file.write_bytes(b"a=\xff")
    with pytest.raises(argparse.ArgumentTypeError, match=r"client\.properties is not UTF-8"):
        command_config(str(file))
    file.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(argparse.ArgumentTypeError, match="larger than"):
        command_config(str(file))
    file.write_bytes(b"=1")
    with pytest.raises(argparse.ArgumentTypeError, match=r"client\.properties: line 1"):
        command_config(str(file))
