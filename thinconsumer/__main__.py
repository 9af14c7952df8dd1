"""``python -m thinconsumer``, and the script ``thinconsumer``: see :mod:`thinconsumer.cli`."""

import sys


def run() -> int:
    """Run the command that the arguments name; return the exit code."""
    try:
        from .cli import main

        return main()
    except KeyboardInterrupt:  # raised by the import, before main() can handle it
        return 130


if __name__ == "__main__":
    sys.exit(run())
