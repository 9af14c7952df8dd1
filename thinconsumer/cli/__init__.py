"""The command line: ``python -m thinconsumer``. Each command is a module, imported on demand.

Commands parse options and format output; they use the library's public parts for the rest. Only data goes to standard
output; messages, progress and errors go to standard error.
"""

from .run import main

__all__ = ["main"]
