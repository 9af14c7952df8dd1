"""The command line: ``python -m thinconsumer``. One module per command, imported when it is asked for.

Owns words, exit codes and what goes to which stream; everything that is done is done by the rooms that users' programs
use too. Data goes to standard output and nothing else does; what is said to people goes to standard error.
"""

from .run import main

__all__ = ["main"]
