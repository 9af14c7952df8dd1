"""Read ``--command-config FILE``: client options in a properties file, as Kafka's own tools take them.

The format is that of ``java.util.Properties``: ``name=value``, ``name: value`` or ``name value`` per line, comments
that begin with ``#`` or ``!``, a backslash at the end of a line that continues it, and escapes such as ``\\t``.
"""

import argparse
import re
from pathlib import Path

#: Maximum size of the file. PEM text makes such files large, but not this large.
FILE_BYTES_MAX = 1024 * 1024

_NAME = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def command_config(path: str) -> dict[str, str]:
    """Return the options in a properties file; the type of the argument ``--command-config``."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise argparse.ArgumentTypeError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        return parse_properties(data.decode())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{path} is not UTF-8 text") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by name; for a name that occurs twice, the last value.

    Raises:
        ValueError: an escape is malformed. The message has the line's number and not its content, which may be secret.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _NAME.match(line)
        if match is None:
            raise ValueError(f"line {number} has no name before its value")
        try:
            found[_unescape(match[1])] = _unescape(line[match.end() :])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are no comments, each with its number, with continued lines joined."""
    lines: list[tuple[int, str]] = []
    is_continued = False
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        stripped = line.lstrip(" \t\f")
        if is_continued:
            first, before = lines.pop()
            lines.append((first, before + stripped))
        elif not stripped or stripped[0] in "#!":
            continue
        else:
            lines.append((number, stripped))
        first, joined = lines.pop()
        backslashes = len(joined) - len(joined.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        lines.append((first, joined[:-1] if is_continued else joined))
    return lines


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ValueError("\\u needs four hexadecimal digits")
        return chr(int(code[1:], 16))

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
