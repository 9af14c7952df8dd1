"""``python -m thinconsumer``: see :mod:`thinconsumer.cli`."""

import sys

if __name__ == "__main__":
    try:
        from .cli import main

        code = main()
    except KeyboardInterrupt:  # before it was there to take it
        code = 130
    sys.exit(code)
