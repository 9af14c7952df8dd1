"""The command line: ``python -m thinconsumer``. Each command is a module, imported on demand.

Commands parse options and format output, and use the library for the rest. Only data and ``--help`` are written to
standard output; messages, progress and errors are written to standard error.
"""

from .run import main

__all__ = ["main"]
