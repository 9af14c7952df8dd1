"""The command line: ``thinconsumer`` or ``python -m thinconsumer``. Each command is a module, imported on demand.

Commands parse options and format output, and use the library for the rest. Data, ``--help`` and ``--version`` are
written to standard output; messages, errors and progress (except that of ``demo``) are written to standard error.
"""

from .run import main

__all__ = ["main"]
