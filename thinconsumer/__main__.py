"""``python -m thinconsumer``: see :mod:`thinconsumer.cli`."""

import sys

if __name__ == "__main__":
    try:
        from .cli import main

        code = main()
    except KeyboardInterrupt:  # raised by the import, before main() can handle it
        code = 130
    sys.exit(code)
